/* Traffic of links over time in a step, read back from the table traffic.csv (csv.h): for the pictures of a report. */
#ifndef MEMWALL_REPORT_HTML_STEP_TRAFFIC_H
#define MEMWALL_REPORT_HTML_STEP_TRAFFIC_H

#include "sim/report/link_series.h"

struct traffic_link {
    const char *name, *kind; /* "gpu 0 > nvswitch 0", "nvlink" */
    double capacity_bytes_per_s;
    struct link_series series; /* `resource` says nothing here */
};

struct step_traffic {
    struct traffic_link *links; /* [link_count], in the order of the table: by bytes, falling */
    uint32_t link_count;
    int64_t *times_ps; /* of all links, one after the other */
    double *bytes_per_s;
};

/* The text is changed, and names borrow from it. STATUS_BAD_INPUT names file and line. On error nothing stays allocated. */
enum status step_traffic_read(struct step_traffic *traffic, char *text, const char *file, struct error *error);
void step_traffic_free(struct step_traffic *traffic);

#endif
