/* What ranks say to each other: for sim/sweep/sweep_run.c and sweep_serve.c alone. All ranks are the same program on the same kind of machine: records travel as they are. */
#ifndef MEMWALL_SWEEP_SWEEP_MESSAGE_H
#define MEMWALL_SWEEP_SWEEP_MESSAGE_H

#include <stdint.h>

#include "sim/sweep/sweep_row.h"

/* Tasks that a rank is sent for each of its threads: what it does while rank 0 writes the database. Towards the end it is two, so that no rank ends long after the others. */
enum { TASKS_IN_STORE = 16, TASKS_AT_THE_END = 2 };

enum message_kind {
    MESSAGE_HELLO, /* to rank 0; id: threads there */
    MESSAGE_TASK,  /* from rank 0; text: the scenario */
    MESSAGE_ROW,   /* to rank 0; row */
    MESSAGE_STOP,  /* from rank 0 */
    MESSAGE_BYE    /* to rank 0: the answer to STOP */
};

struct message {
    enum message_kind kind;
    uint64_t id;
    struct sweep_row row; /* ROW; TASK: the text follows from here */
};

#endif
