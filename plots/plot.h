/* Pictures of a result, made by gnuplot: for people, in print too.
 *
 *   timeline   what each rank computes when: one row a rank, whole step and, when it is crowded, its beginning enlarged
 *   memory     bytes by class over time on the fullest device, with its capacity; the totals of all devices beside it
 *   links      use of the busiest links over time
 *   breakdown  where the step of each rank goes: exposed times, which sum to the step
 *   chunks     where a policy's chunks are: one row a chunk of each list, on the first device or its host (of schedules that have buffers named "... chunk N")
 *
 * Written into FOLDER: plots/NAME.dat and plots/NAME.gp (data and script: re-run with `gnuplot plots/NAME.gp` from FOLDER), NAME.svg and NAME.png. Colours are Okabe and Ito's, chosen
 * so that neighbours differ in grey print as well. What a picture cannot show at its size is merged first, so that an SVG stays small. */
#ifndef MEMWALL_PLOTS_PLOT_H
#define MEMWALL_PLOTS_PLOT_H

#include "sim/report/csv.h"
#include "sim/report/link_series.h"
#include "sim/report/result.h"

struct plot_input {
    const struct result *result;
    const struct result_input *input;
    const struct memory_series *memory; /* [memory_count] spaces in use */
    uint32_t memory_count;
    const struct link_series *links; /* [link_count], one of each kind first: see link_series.h */
    uint32_t link_count;
    const char *folder; /* exists */
    char *note;         /* what a person should know and is no error; NULL: dropped */
    size_t note_bytes;
};

enum { PLOT_COUNT = 5 };

/* Pictures being drawn by gnuplot beside us. */
struct plots {
    const struct plot_input *input; /* borrowed until plots_finish */
    const char *names[PLOT_COUNT];
    int children[PLOT_COUNT]; /* process ids */
    uint32_t count;
};

/* Writes scripts and data and starts gnuplot on them. Errors: files that cannot be written, out of memory; nothing runs then. A missing gnuplot is a note. */
enum status plots_start(struct plots *plots, const struct plot_input *input, struct error *error);
/* Waits for the pictures and gives them their names. A failing gnuplot is a note. Needed once after a plots_start that succeeded. */
void plots_finish(struct plots *plots);

#endif
