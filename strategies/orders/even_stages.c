#include "strategies/orders/orders.h"

enum status order_even_stages(const char *order, uint32_t stages, struct error *error)
{
    if (stages % 2 == 0) {
        return STATUS_OK;
    }
    if (stages == 1) {
        return error_set(error, STATUS_BAD_INPUT, "1 stage: %s needs an even number; the nearest is 2", order);
    }
    return error_set(error, STATUS_BAD_INPUT, "%u stages: %s needs an even number; the nearest are %u and %u", stages,
                     order, stages - 1, stages + 1);
}
