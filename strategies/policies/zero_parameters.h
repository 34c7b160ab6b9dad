/* The parameters that all ZeRO offload policies take, first in their tables, and the checks that are the same for all. */
#ifndef MEMWALL_STRATEGIES_ZERO_PARAMETERS_H
#define MEMWALL_STRATEGIES_ZERO_PARAMETERS_H

#include "sim/plan/policy.h"
#include "strategies/policies/zero_offload_state.h"

enum zero_shared_parameter {
    ZERO_PRESET,
    ZERO_BUCKET_ELEMENTS,
    ZERO_OVERLAP_GRADIENTS,
    ZERO_GRADIENT_BYTES,
    ZERO_CPU_RATIO,
    ZERO_PINNED_STATES,
    ZERO_ROUND_PINNED,
    ZERO_INITIALISE_BYTES,
    ZERO_CHECKPOINTS_ON_HOST,
    ZERO_SHARED_COUNT
};

enum { ZERO_PRESET_PAPER, ZERO_PRESET_CODE };
extern const char *const ZERO_PRESET_WORDS[]; /* paper, code */
extern const char *const ZERO_ROUND_WORDS[];  /* preset, none, power_of_two */

#define ZERO_SHARED_PARAMETERS                                                                                         \
    { .name = "preset",                                                                                                \
      .type = PARAMETER_WORD,                                                                                          \
      .unit = "",                                                                                                      \
      .fallback = ZERO_PRESET_CODE,                                                                                    \
      .words = ZERO_PRESET_WORDS,                                                                                      \
      .help = "where the papers and DeepSpeed's code differ: bytes of a gradient on its way, host passes, rounding" }, \
        { .name = "bucket_elements",                                                                                   \
          .type = PARAMETER_INT,                                                                                       \
          .unit = "parameters",                                                                                        \
          .minimum = 1,                                                                                                \
          .maximum = 1e12,                                                                                             \
          .fallback = 5e8,                                                                                             \
          .help =                                                                                                      \
              "one device: gradients leave when so many are ready; several: buckets are the software's bucket_MB" },   \
        { .name = "overlap_gradients",                                                                                 \
          .type = PARAMETER_BOOL,                                                                                      \
          .unit = "",                                                                                                  \
          .fallback = 1,                                                                                               \
          .help = "the backward pass goes on while a bucket of gradients leaves" },                                    \
        { .name = "gradient_bytes",                                                                                    \
          .type = PARAMETER_INT,                                                                                       \
          .unit = "bytes",                                                                                             \
          .minimum = 0,                                                                                                \
          .maximum = 4,                                                                                                \
          .fallback = 0,                                                                                               \
          .help =                                                                                                      \
              "2 or 4: of a parameter's gradient on its way down and in host memory; 0: the preset's (paper 2, code "  \
              "4)" },                                                                                                  \
        { .name = "cpu_ratio",                                                                                         \
          .type = PARAMETER_REAL,                                                                                      \
          .unit = "",                                                                                                  \
          .minimum = 0,                                                                                                \
          .maximum = 1,                                                                                                \
          .fallback = 1,                                                                                               \
          .help =                                                                                                      \
              "Twin-Flow: layers that hold at most this part of the parameters are updated on the host, the others "   \
              "on the device at the same time" },                                                                      \
        { .name = "pinned_states",                                                                                     \
          .type = PARAMETER_BOOL,                                                                                      \
          .unit = "",                                                                                                  \
          .fallback = 0,                                                                                               \
          .help = "page-lock the optimizer states too (gradients and staging always are)" },                           \
        { .name = "round_pinned",                                                                                      \
          .type = PARAMETER_WORD,                                                                                      \
          .unit = "",                                                                                                  \
          .fallback = 0,                                                                                               \
          .words = ZERO_ROUND_WORDS,                                                                                   \
          .help = "page-locked blocks take powers of two, as PyTorch allocates them; preset: only in `code`" },        \
        { .name = "initialise_bytes",                                                                                  \
          .type = PARAMETER_REAL,                                                                                      \
          .unit = "bytes",                                                                                             \
          .minimum = 0,                                                                                                \
          .maximum = 16,                                                                                               \
          .fallback = 0,                                                                                               \
          .help =                                                                                                      \
              "of a parameter of the whole model in each rank's own copy while it starts: 0 with zero.Init, 4 for "    \
              "a model that every rank first builds in fp32, 6 while that becomes 16-bit beside it" },                 \
    {                                                                                                                  \
        .name = "checkpoints_on_host", .type = PARAMETER_BOOL, .unit = "", .fallback = 0,                              \
        .help = "saved activations of layers wait for their backward in host memory (cpu_checkpointing)"               \
    }

/* `values`: those of the policy, the shared ones first. States in host memory, weights on the device. */
struct zero_options zero_shared_options(const double *values);
/* Refuses what none of them combines with. */
enum status zero_check_shared(const struct lower_request *request, const char *policy, struct error *error);

#endif
