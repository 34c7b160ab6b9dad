/* Colours of all pictures, and what each kind of thing is called and coloured in them: phases, causes of time, classes of memory.
 *
 * Okabe and Ito's palette, chosen so that neighbours differ in grey print as well. On dark ground some have a lighter twin. */
#ifndef MEMWALL_PLOTS_PALETTE_H
#define MEMWALL_PLOTS_PALETTE_H

#include <stdbool.h>

#include "sim/ir/schedule.h"
#include "sim/report/result.h"

/* Okabe and Ito's palette, by how dark it prints. */
#define PLOT_YELLOW     "#F0E442"
#define PLOT_SKY        "#56B4E9"
#define PLOT_ORANGE     "#E69F00"
#define PLOT_PURPLE     "#CC79A7"
#define PLOT_GREEN      "#009E73"
#define PLOT_VERMILLION "#D55E00"
#define PLOT_BLUE       "#0072B2"
#define PLOT_BLACK      "#000000"
#define PLOT_PALE       "#E4E4E4"
#define PLOT_GREY       "#8C8C8C"
#define PLOT_SLATE      "#505050"

/* Every colour above: on light ground, on dark ground. */
#define PALETTE_TABLE(X)                                                                                               \
    X(PLOT_YELLOW, PLOT_YELLOW)                                                                                        \
    X(PLOT_SKY, "#8CD0F5")                                                                                             \
    X(PLOT_ORANGE, PLOT_ORANGE)                                                                                        \
    X(PLOT_PURPLE, "#DB97BE")                                                                                          \
    X(PLOT_GREEN, "#1FB58B")                                                                                           \
    X(PLOT_VERMILLION, "#F07A28")                                                                                      \
    X(PLOT_BLUE, "#3D97D8")                                                                                            \
    X(PLOT_BLACK, "#F4F4F4")                                                                                           \
    X(PLOT_PALE, "#4A515B")                                                                                            \
    X(PLOT_GREY, "#8C8C8C")                                                                                            \
    X(PLOT_SLATE, "#B4BAC4")

struct palette_look {
    const char *title, *colour; /* one of PALETTE_TABLE */
    bool white_text;            /* readable on it, on light ground */
};

const struct palette_look *palette_phase(enum op_phase phase);
const struct palette_look *palette_time(enum time_class time_class);
const struct palette_look *palette_memory(enum buffer_class buffer_class);
/* The classes of memory from bottom to top: what lasts, then what comes and goes. index < BUFFER_CLASS_COUNT. */
enum buffer_class palette_memory_order(uint32_t index);

#endif
