/* The pipeline orders that are linked in; strategies/registry.c lists them. One file each in this folder. */
#ifndef MEMWALL_STRATEGIES_ORDERS_H
#define MEMWALL_STRATEGIES_ORDERS_H

#include "sim/plan/order.h"

extern const struct pipeline_order order_gpipe, order_1f1b, order_dapple_pb, order_interleaved, order_zb_h1,
    order_zb_h2, order_zb_v, order_v_half, order_v_min, order_chimera, order_dualpipe, order_pipedream,
    order_pipedream_2bw, order_lsps_a, order_lsps_b, order_lsps_c;

/* Shared by the one-forward-one-backward family: `warm_up` forwards, then pairs (F, B) while forwards remain, then the remaining backwards. */
uint32_t order_one_f_one_b(uint32_t micro_batches, uint32_t warm_up, struct order_step *steps);

/* STATUS_BAD_INPUT with the nearest that would work when `stages` is odd, for orders that pair devices. */
enum status order_even_stages(const char *order, uint32_t stages, struct error *error);

#endif
