/* The optimizer on the host: Adam over fp32 parameters, moments and gradients, 28 bytes of memory traffic a parameter, by several threads that belong to one queue. */
#ifndef MEMWALL_EXEC_HOST_OPTIMIZER_H
#define MEMWALL_EXEC_HOST_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "validate/exec_host/host_meeting.h"

enum { HOST_ADAM_BYTES = 16 /* p, m, v, g of a parameter */ };

struct host_adam_factors {
    float rate, beta1, beta2, epsilon;
};

/* p -= rate * m / (sqrt(v) + epsilon) with m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2: bias corrections are in `rate`. */
void host_adam(const struct host_adam_factors *factors, float *p, float *m, float *v, const float *g, uint64_t count);

struct host_adam_pool; /* `threads` workers, the caller among them */

/* STATUS_EXECUTION when a thread cannot be made. `cancel` must outlive the pool. */
enum status host_adam_pool_new(struct host_adam_pool **pool, uint32_t threads, const struct host_cancel *cancel,
                               struct error *error);
void host_adam_pool_free(struct host_adam_pool *pool); /* joins; NULL is fine */

/* One step over `parameters` that lie in blocks of `block` (p, m, v, g, `block` floats each, one after the other), `blocks` of them in a row at `data`; when there are fewer
 * than asked for, they are walked again from the front. False when cancelled. */
struct host_adam_state {
    float *data;
    uint64_t block, blocks;
};
bool host_adam_run(struct host_adam_pool *pool, const struct host_adam_state *state, uint64_t parameters);

#endif
