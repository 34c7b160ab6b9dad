#include "plots/time_unit.h"

struct time_unit plot_time_unit(double longest_s)
{
    return longest_s >= 1      ? (struct time_unit){ 1, "s" }
           : longest_s >= 1e-3 ? (struct time_unit){ 1e3, "ms" }
                               : (struct time_unit){ 1e6, "us" };
}
