#include "validate/calibrate/points.h"

#include <stdlib.h>

void points_free(struct points *points)
{
    free(points->items);
    *points = (struct points){ 0 };
}
