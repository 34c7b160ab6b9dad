/* Units: the only place where one unit becomes another, and where quantities become text.
 *
 * Time is int64_t picoseconds (106 days fit). Bytes are uint64_t. Rates are double. GB is 1e9 bytes, GiB 2^30. */
#ifndef MEMWALL_BASE_UNITS_H
#define MEMWALL_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#define PS_PER_S      1000000000000LL
#define PS_PER_US     1000000LL
#define TIME_NEVER_PS INT64_MAX
#define GIB           1073741824.0
#define MIB           1048576.0

/* Seconds to picoseconds, rounded up: an activity never ends before its work is done; but what lies above a whole
 * picosecond by no more than its own last bit counts as whole. Negative or NaN asserts; too
 * large saturates to TIME_NEVER_PS. */
int64_t ps_from_s(double seconds);
/* Rounded to the nearest picosecond: for quantities that are added up, so that their roundings cancel. Same limits. */
int64_t ps_nearest_s(double seconds);
static inline double s_from_ps(int64_t ps)
{
    return (double)ps / (double)PS_PER_S;
}

/* Text with a fitting unit, three significant digits: "13.7 s", "412 us", "61.2 GiB", "25.5 GB/s", "1.41 TFLOP/s".
 * Returns `buffer`. */
const char *text_time_ps(int64_t ps, char *buffer, size_t size);
const char *text_bytes(double bytes, char *buffer, size_t size);
/* In the unit that text_bytes gives `largest`, for columns that are compared: 0.72 GiB beside 61.2 GiB. */
const char *text_bytes_as(double bytes, double largest, char *buffer, size_t size);
const char *text_bytes_per_s(double bytes_per_s, char *buffer, size_t size);
const char *text_flops_per_s(double flops_per_s, char *buffer, size_t size);

/* A number without a unit in `digits` significant digits; from 10^digits to 10^15 whole, never as a power of ten: "4.682", "169934". Returns `buffer`. */
const char *text_number(double value, int digits, char *buffer, size_t size);

#endif
