/* The picture of bare pipelines that lectures draw: stages against time, one box a pass, and beneath it what each stage keeps. As SVG text, without any program's help.
 *
 * Several pipelines stand under each other on one time axis. Forward, backward and weight-gradient passes differ in colour (Okabe and Ito's, told apart in grey print too), chunks of a device in
 * shade; boxes carry the micro-batch number where it fits. */
#ifndef MEMWALL_PLOTS_PIPELINE_PICTURE_H
#define MEMWALL_PLOTS_PIPELINE_PICTURE_H

#include "sim/plan/bare_pipeline.h"

struct pipeline_panel {
    const struct bare_pipeline_request *request;
    const struct schedule *schedule;
    const struct timeline *timeline;
    const struct bare_pipeline_result *result;
};

enum { PIPELINE_BOXES_MAX = 100000, PIPELINE_PICTURE_STAGES_MAX = 256 };

/* Appends one SVG document. STATUS_LIMIT when there are more passes or stages than a picture can show. */
enum status pipeline_picture_svg(const struct pipeline_panel *panels, uint32_t count, struct strbuf *out,
                                 struct error *error);

#endif
