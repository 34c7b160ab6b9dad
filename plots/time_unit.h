/* The unit of a time axis. */
#ifndef MEMWALL_PLOTS_TIME_UNIT_H
#define MEMWALL_PLOTS_TIME_UNIT_H

/* A unit for times up to `longest_s`: factor from seconds, and its name. */
struct time_unit {
    double per_s;
    const char *name; /* "s", "ms", "us" */
};
struct time_unit plot_time_unit(double longest_s);

#endif
