/* Closed forms of hidden reductions. */
#include "strategies/planners/hippie_hiding.h"

#include <math.h>

double hiding_exposed_s(const struct hiding *h, enum gradient_barrier barrier)
{
    double slack_s = barrier == BARRIER_AFTER  ? h->backward_s
                     : barrier == BARRIER_NONE ? h->forward_s + h->backward_s
                                               : 0;
    double exposed_s = 0;
    for (uint32_t s = 0; s < h->stages; s++) {
        exposed_s = fmax(exposed_s, h->reduce_s[s] - s * slack_s);
    }
    return exposed_s;
}

double hiding_iteration_s(const struct hiding *h, enum gradient_barrier barrier)
{
    double passes = (double)h->micro_batches + h->stages - 1;
    return passes * (h->forward_s + h->backward_s) + hiding_exposed_s(h, barrier);
}

double hiding_bucketed_s(double reduce_s, double backward_s, uint32_t layers)
{
    return fmax(reduce_s / layers, reduce_s - backward_s * (layers - 1.0) / layers);
}
