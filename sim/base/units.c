#include "sim/base/units.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "sim/base/check.h"

struct unit {
    const char *name;
    double size; /* in the smallest unit of its table */
};

int64_t ps_from_s(double seconds)
{
    CHECK(seconds >= 0.0);
    double ps = seconds * (double)PS_PER_S;
    if (ps >= 0x1p63) {
        return TIME_NEVER_PS;
    }
    /* Up, but 0.29 s must not become one picosecond more because its product's last bit was rounded up. */
    double whole = floor(ps);
    return ps - whole <= ps * DBL_EPSILON ? (int64_t)whole : (int64_t)whole + 1;
}

int64_t ps_nearest_s(double seconds)
{
    CHECK(seconds >= 0.0);
    double ps = nearbyint(seconds * (double)PS_PER_S);
    return ps >= 0x1p63 ? TIME_NEVER_PS : (int64_t)ps;
}

/* Three significant digits in the largest unit of which there is at least one in `like`. */
static const char *text_in_unit_of(double value, double like, const struct unit *units, size_t count, char *buffer,
                                   size_t size)
{
    double magnitude = fabs(like);
    size_t at = 0;
    /* 999.6 us reads 1.00 ms, so the step up is at what would round to one unit. */
    while (at + 1 < count && magnitude >= units[at + 1].size * 0.9995) {
        at++;
    }
    double scaled = value / units[at].size;
    double shown = fabs(scaled);
    /* Five bytes are "5 B", five minutes "5.00 min": only the smallest unit of a table, of size 1, is not divided. */
    bool whole = at == 0 && units[0].size <= 1.0 && fabs(scaled - nearbyint(scaled)) < 1e-9;
    int decimals = whole || shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
    (void)snprintf(buffer, size, "%.*f %s", decimals, scaled, units[at].name);
    return buffer;
}

static const char *text_in_units(double value, const struct unit *units, size_t count, char *buffer, size_t size)
{
    return text_in_unit_of(value, value, units, count, buffer, size);
}

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

const char *text_time_ps(int64_t ps, char *buffer, size_t size)
{
    static const struct unit short_units[] = {
        { "ps", 1.0 }, { "ns", 1e3 }, { "us", 1e6 }, { "ms", 1e9 }, { "s", 1e12 }
    };
    static const struct unit minutes[] = { { "min", 60e12 } }, hours[] = { { "h", 3600e12 } },
                             days[] = { { "d", 86400e12 } };
    double magnitude_ps = fabs((double)ps);
    if (ps == TIME_NEVER_PS) {
        (void)snprintf(buffer, size, "never");
        return buffer;
    }
    if (ps == 0) {
        (void)snprintf(buffer, size, "0 s");
        return buffer;
    }
    /* A long unit from two of it on: 90 s reads better than 1.50 min. */
    if (magnitude_ps >= 2 * 86400e12) {
        return text_in_units((double)ps, days, 1, buffer, size);
    }
    if (magnitude_ps >= 2 * 3600e12) {
        return text_in_units((double)ps, hours, 1, buffer, size);
    }
    if (magnitude_ps >= 2 * 60e12) {
        return text_in_units((double)ps, minutes, 1, buffer, size);
    }
    return text_in_units((double)ps, short_units, COUNT(short_units), buffer, size);
}

const char *text_bytes_as(double bytes, double largest, char *buffer, size_t size)
{
    static const struct unit units[] = { { "B", 1.0 },      { "KiB", 0x1p10 }, { "MiB", 0x1p20 },
                                         { "GiB", 0x1p30 }, { "TiB", 0x1p40 }, { "PiB", 0x1p50 } };
    return text_in_unit_of(bytes, largest, units, COUNT(units), buffer, size);
}

const char *text_bytes(double bytes, char *buffer, size_t size)
{
    return text_bytes_as(bytes, bytes, buffer, size);
}

const char *text_bytes_per_s(double bytes_per_s, char *buffer, size_t size)
{
    static const struct unit units[] = { { "B/s", 1.0 },  { "kB/s", 1e3 },  { "MB/s", 1e6 },
                                         { "GB/s", 1e9 }, { "TB/s", 1e12 }, { "PB/s", 1e15 } };
    return text_in_units(bytes_per_s, units, COUNT(units), buffer, size);
}

const char *text_flops_per_s(double flops_per_s, char *buffer, size_t size)
{
    static const struct unit units[] = { { "FLOP/s", 1.0 },  { "kFLOP/s", 1e3 },  { "MFLOP/s", 1e6 },
                                         { "GFLOP/s", 1e9 }, { "TFLOP/s", 1e12 }, { "PFLOP/s", 1e15 },
                                         { "EFLOP/s", 1e18 } };
    return text_in_units(flops_per_s, units, COUNT(units), buffer, size);
}

const char *text_number(double value, int digits, char *buffer, size_t size)
{
    bool long_whole = fabs(value) >= pow(10, digits) && fabs(value) < 1e15;
    (void)(long_whole ? snprintf(buffer, size, "%.0f", value) : snprintf(buffer, size, "%.*g", digits, value));
    return buffer;
}
