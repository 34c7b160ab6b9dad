/* How threads of different kinds share a core of a machine whose devices are threads (machine.gpu.on_host).
 *
 * The system's scheduler lets a thread run for a slice before the next has its turn. Those that copy, send or reduce ask for the shortest slice there is (validate/exec_host/host_driver.c), those
 * that compute for none: who asks and was asleep goes first as soon as it is woken, for the length of its slice, and the kernel beside it waits; from then on both have half of the core.
 *
 * A work of W seconds that has the core to itself for the slice s, and half of it afterwards, lasts s + 2 (W - s): as at the rate r = W / (2 W - s), which against a thread of
 * weight 1 is that of the weight r / (1 - r) = W / (W - s). Works within one slice are alone: of the greatest weight, which leaves the other thread a twentieth
 * (our rule: a rate of 0 would be no fluid's, and waking takes a few of the slice's 100 us). */
#ifndef MEMWALL_ENGINE_THREAD_SLICES_H
#define MEMWALL_ENGINE_THREAD_SLICES_H

/* The shortest slice that Linux grants (sched_setattr, since 6.12). */
#define THREAD_SLICE_S 100e-6

static const double THREAD_WEIGHT_MOST = 20;

/* Of a thread that asked for short slices, against one that did not. */
static inline double thread_slices_weight(double work_s)
{
    return work_s * (1 - 1 / THREAD_WEIGHT_MOST) > THREAD_SLICE_S ? work_s / (work_s - THREAD_SLICE_S)
                                                                  : THREAD_WEIGHT_MOST;
}

#endif
