/* The picture of a plan's balance: stages against the time of a micro-batch and against memory, before and after balancing. As SVG text, without any program's help.
 *
 * Panels stand under each other with one scale for time and one for memory, so that bars compare across them; the budget is a line. */
#ifndef MEMWALL_PLOTS_BALANCE_PICTURE_H
#define MEMWALL_PLOTS_BALANCE_PICTURE_H

#include <stdint.h>

#include "sim/base/status.h"
#include "sim/base/strbuf.h"

struct balance_stage {
    double time_s, memory_bytes;
    int64_t layers;
};

struct balance_panel {
    const char *title;
    const struct balance_stage *stages; /* [count] */
    uint32_t count;
    double alpha_t, alpha_m; /* 1 - max/sum over stages */
    double step_s;
};

enum { BALANCE_PANELS_MAX = 8, BALANCE_STAGES_MAX = 1024 };

/* Appends one SVG document. STATUS_LIMIT: more stages than a picture can show. */
enum status balance_picture_svg(const struct balance_panel *panels, uint32_t count, double budget_bytes,
                                struct strbuf *out, struct error *error);

#endif
