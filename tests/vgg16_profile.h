/* The VGG16 profile that PipeDream ships: batch 128, one GPU; times in ms, outputs and parameters in bytes. Figures read from msr-fiddle/pipedream,
 * profiler/image_classification/profiles/vgg16/graph.txt, in chain order, the input node left out (its optimizer drops it) and nodes without time, output of their own and parameters merged
 * into their neighbours (a size query, a view, dropouts: all are 0 ms). */
#ifndef MEMWALL_TESTS_VGG16_PROFILE_H
#define MEMWALL_TESTS_VGG16_PROFILE_H

#include "strategies/planners/pipeline_profile.h"

/* clang-format off */
static const double VGG16_ROWS[][4] = {
    { 22.307, 24.613, 1644167168, 7168 },     { 4.446, 5.553, 1644167168, 0 },   { 46.201, 113.330, 1644167168, 147712 },
    { 4.455, 5.311, 1644167168, 0 },          { 3.795, 5.579, 411041792, 0 },    { 15.155, 39.648, 822083584, 295424 },
    { 2.359, 2.738, 822083584, 0 },           { 22.062, 53.379, 822083584, 590336 }, { 2.513, 2.620, 822083584, 0 },
    { 2.211, 2.788, 205520896, 0 },           { 10.814, 18.335, 411041792, 1180672 }, { 1.377, 1.380, 411041792, 0 },
    { 17.458, 27.023, 411041792, 2360320 },   { 1.640, 1.463, 411041792, 0 },    { 14.245, 33.888, 411041792, 2360320 },
    { 1.549, 1.321, 411041792, 0 },           { 1.169, 1.513, 102760448, 0 },    { 9.249, 14.574, 205520896, 4720640 },
    { 1.026, 0.696, 205520896, 0 },           { 15.359, 21.900, 205520896, 9439232 }, { 0.848, 0.679, 205520896, 0 },
    { 11.775, 28.670, 205520896, 9439232 },   { 0.881, 0.642, 205520896, 0 },    { 0.802, 0.781, 51380224, 0 },
    { 5.608, 7.381, 51380224, 9439232 },      { 0.784, 0.266, 51380224, 0 },     { 4.070, 7.396, 51380224, 9439232 },
    { 0.463, 0.190, 51380224, 0 },            { 4.042, 8.648, 51380224, 9439232 }, { 0.455, 0.175, 51380224, 0 },
    { 0.553, 0.234, 12845056, 0 },            { 2.475, 4.575, 2097152, 411058176 }, { 0.377, 0.030, 2097152, 0 },
    { 0.709, 0.734, 2097152, 67125248 },      { 0.277, 0.032, 2097152, 0 },      { 0.393, 0.548, 512000, 16388000 },
};
/* clang-format on */

enum { VGG16_LAYERS = sizeof VGG16_ROWS / sizeof VGG16_ROWS[0] };

/* `layers` has room for VGG16_LAYERS. */
static inline struct pipeline_profile vgg16_profile(struct profile_layer *layers)
{
    for (int i = 0; i < VGG16_LAYERS; i++) {
        const double *row = VGG16_ROWS[i];
        layers[i] = (struct profile_layer){ "", row[0] * 1e-3, row[1] * 1e-3, row[2], row[2], row[3] };
    }
    return (struct pipeline_profile){ "VGG16", layers, VGG16_LAYERS };
}

#endif
