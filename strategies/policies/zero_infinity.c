/* The policies `zero3-offload` and `zero-infinity` (Rajbhandari et al., SC 2021): ZeRO-3 whose weights, gradients and optimizer states live in host memory or on drives. Weights are fetched
 * ahead of each pass, gradients leave in buckets, Adam runs on the host in sub-groups. Of ZeRO-Infinity's memory-centric tiling nothing is here: layers are whole. */
#include "sim/base/check.h"
#include "strategies/policies/policies.h"
#include "strategies/policies/zero_offload_state.h"
#include "strategies/policies/zero_parameters.h"

enum {
    PARAMETERS_ON = ZERO_SHARED_COUNT,
    OPTIMIZER_ON,
    PREFETCH_ELEMENTS,
    PERSISTENCE_THRESHOLD,
    MAX_LIVE,
    MAX_REUSE,
    SUB_GROUP,
    DRIVE_BUFFERS,
    DRIVE_BUFFER_ELEMENTS,
    PIPELINE_READ,
    PIPELINE_WRITE,
    PINNED_WEIGHTS,
    PINNED_GRADIENTS,
    INITIALISED_ON_DEVICE
};

static const char *const TIER_WORDS[] = { "device", "host", "nvme", NULL };
static const char *const STATE_TIER_WORDS[] = { "host", "nvme", NULL };
enum { TIER_DEVICE, TIER_HOST, TIER_NVME };
enum { STATE_TIER_HOST, STATE_TIER_NVME };

#define COUNT_PARAMETER(name_, least, most, fallback_, unit_, help_)                                                   \
    {                                                                                                                  \
        .name = (name_), .type = PARAMETER_INT, .unit = (unit_), .minimum = (least), .maximum = (most),                \
        .fallback = (fallback_), .help = (help_)                                                                       \
    }
#define FLAG_PARAMETER(name_, fallback_, help_)                                                                        \
    {                                                                                                                  \
        .name = (name_), .type = PARAMETER_BOOL, .unit = "", .fallback = (fallback_), .help = (help_)                  \
    }
/* One table; the two policies differ in where things live unless told otherwise. Defaults: DeepSpeed zero/config.py, swap_tensor (facts C.8). */
#define TABLE(tier, state_tier)                                                                                        \
    ZERO_SHARED_PARAMETERS,                                                                                            \
        { .name = "parameters_on",                                                                                     \
          .type = PARAMETER_WORD,                                                                                      \
          .unit = "",                                                                                                  \
          .fallback = (tier),                                                                                          \
          .words = TIER_WORDS,                                                                                         \
          .help = "where 16-bit weights live between passes: their share on the device, in host memory, on drives" },  \
        { .name = "optimizer_on",                                                                                      \
          .type = PARAMETER_WORD,                                                                                      \
          .unit = "",                                                                                                  \
          .fallback = (state_tier),                                                                                    \
          .words = STATE_TIER_WORDS,                                                                                   \
          .help = "where optimizer states and gradients live: in host memory, on drives" },                            \
        COUNT_PARAMETER("prefetch_elements", 0, 1e12, 5e7, "parameters",                                               \
                        "weights are fetched this far ahead, but at least the next layer's; 0: none"),                 \
        COUNT_PARAMETER("persistence_threshold", 0, 1e12, 1e5, "parameters",                                           \
                        "norms and biases smaller than this stay on every device"),                                    \
        COUNT_PARAMETER("max_live_parameters", 1, 1e15, 1e9, "parameters",                                             \
                        "fetched weights on the device at most, beside the layer that runs"),                          \
        COUNT_PARAMETER("max_reuse_distance", 0, 1e15, 1e9, "parameters",                                              \
                        "weights used again within so many fetched parameters are kept"),                              \
        COUNT_PARAMETER("sub_group_elements", 1, 1e15, 1e9, "parameters", "Adam updates so many at a time"),           \
        COUNT_PARAMETER("buffer_count", 1, ZERO_STAGES_MAX, 5, "", "pinned staging buffers for weights from drives"),  \
        COUNT_PARAMETER("buffer_elements", 1, 1e12, 1e8, "parameters", "size of each"),                                \
        FLAG_PARAMETER("pipeline_read", 0, "drives: the next sub-group is read beside Adam"),                          \
        FLAG_PARAMETER("pipeline_write", 0, "drives: the last sub-group is written beside Adam"),                      \
        FLAG_PARAMETER("pinned_weights", 1,                                                                            \
                       "page-lock weights in host memory; false: copies of pageable memory, DeepSpeed's default "      \
                       "(offload_param.pin_memory)"),                                                                  \
        FLAG_PARAMETER("pinned_gradients", 1,                                                                          \
                       "page-lock gradients in host memory; false: copies to pageable memory, which hold the "         \
                       "backward up, DeepSpeed's default (offload_optimizer.pin_memory)"),                             \
        FLAG_PARAMETER("initialised_on_device", 0,                                                                     \
                       "each rank's 16-bit share of the model is made on its device and moves from there, as "         \
                       "zero.Init does that is not told remote_device or a configuration")

static const struct parameter OFFLOAD_PARAMETERS[] = { TABLE(TIER_HOST, STATE_TIER_HOST) };
static const struct parameter INFINITY_PARAMETERS[] = { TABLE(TIER_NVME, STATE_TIER_NVME) };
enum { PARAMETER_COUNT = sizeof OFFLOAD_PARAMETERS / sizeof OFFLOAD_PARAMETERS[0] };

static struct zero_options options_of(const double *values)
{
    static const enum space_kind tiers[] = { SPACE_DEVICE, SPACE_PINNED, SPACE_STORAGE };
    struct zero_options options = zero_shared_options(values);
    options.weights = tiers[(int)values[PARAMETERS_ON]];
    if (options.weights == SPACE_PINNED && values[PINNED_WEIGHTS] < 0.5) {
        options.weights = SPACE_HOST;
    }
    if (values[PINNED_GRADIENTS] < 0.5) {
        options.gradients = SPACE_HOST;
        options.overlap_gradients = false; /* the host thread is in such a copy until it ends, and issues no backward */
    }
    options.states = (int)values[OPTIMIZER_ON] == STATE_TIER_NVME ? SPACE_STORAGE : options.states;
    options.tile_elements = options.scratch_elements = values[SUB_GROUP];
    /* fp16_partition.data.copy_(fp32_partition.data) by sub-group (DeepSpeed, stage3.py): PyTorch casts into pages of its own on the side of the source (aten, native/cuda/Copy.cu) */
    options.casts_in_pages = options.code && options.weights == SPACE_DEVICE;
    options.prefetch_elements = values[PREFETCH_ELEMENTS];
    options.persistent_elements = values[PERSISTENCE_THRESHOLD];
    options.live_elements = values[MAX_LIVE];
    options.reuse_elements = values[MAX_REUSE];
    options.weight_stages = (uint32_t)values[DRIVE_BUFFERS];
    options.weight_stage_elements = values[DRIVE_BUFFER_ELEMENTS];
    options.pipeline_read = values[PIPELINE_READ] > 0.5;
    options.pipeline_write = values[PIPELINE_WRITE] > 0.5;
    options.initialised_on_device = values[INITIALISED_ON_DEVICE] > 0.5;
    return options;
}

static struct zero_options options(const struct lowering *lowering)
{
    return options_of(lower_input(lowering)->plan->policy_parameters.value);
}

static enum status check(const struct lower_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    const struct zero_options o = options_of(plan->policy_parameters.value);
    const char *policy = request->policy->name;
    TRY(zero_check_shared(request, policy, error));
    if (plan->zero_stage != 3) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.parallel.zero_stage",
                        "%s fetches weights for each pass, which is ZeRO-3: set zero_stage 3 (found %lld), or take the "
                        "policy zero-offload, which keeps weights on the device",
                        policy, (long long)plan->zero_stage);
    }
    if (o.cpu_ratio < 1 && o.weights != SPACE_DEVICE) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.memory_policy.cpu_ratio",
                        "a device cannot update weights that do not live there: set parameters_on to device, or "
                        "cpu_ratio to 1");
    }
    if ((o.weights == SPACE_STORAGE || o.states == SPACE_STORAGE) && request->cluster->drives == 0) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.memory_policy",
                        "machine \"%s\" has no drives: set parameters_on and optimizer_on to host, or give the machine "
                        "a part of kind nvme",
                        request->cluster->machine->name);
    }
    return STATUS_OK;
}

static enum space_kind place(struct lowering *lowering, const struct lower_layer *layer, enum buffer_class buffer_class)
{
    const struct zero_options o = options(lowering);
    return zero_place(lowering, &o, layer, buffer_class);
}

static void begin_rank(struct lowering *lowering)
{
    const struct zero_options o = options(lowering);
    zero_begin_rank(lowering, &o);
}

static void before_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    zero_gradients_before_pass(lowering, pass);
    if (!pass->skipped) {
        zero_fetch_before_pass(lowering, pass);
        zero_checkpoint_before_pass(lowering, pass);
    }
}

static void after_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    if (!pass->skipped) {
        zero_fetch_after_pass(lowering, pass);
        zero_checkpoint_after_pass(lowering, pass);
    }
    zero_gradients_after_pass(lowering, pass);
}

const struct memory_policy policy_zero3_offload = {
    .abi = MEMORY_POLICY_ABI,
    .name = "zero3-offload",
    .summary = "ZeRO-3 Offload: weights in host memory, fetched ahead of each pass; gradients down; Adam on the host",
    .paper = "Rajbhandari et al., ZeRO-Infinity, SC 2021; DeepSpeed ZeRO-3 Offload",
    .parameters = OFFLOAD_PARAMETERS,
    .parameter_count = PARAMETER_COUNT,
    .check = check,
    .begin_rank = begin_rank,
    .place = place,
    .before_pass = before_pass,
    .after_pass = after_pass,
    .gradient_ready = zero_gradient_ready,
    .optimizer = zero_update,
    .skips_layers = true,
};

const struct memory_policy policy_zero_infinity = {
    .abi = MEMORY_POLICY_ABI,
    .name = "zero-infinity",
    .summary = "ZeRO-Infinity: weights, gradients and optimizer states on drives, through pinned buffers",
    .paper = "Rajbhandari et al., ZeRO-Infinity, SC 2021",
    .parameters = INFINITY_PARAMETERS,
    .parameter_count = PARAMETER_COUNT,
    .check = check,
    .begin_rank = begin_rank,
    .place = place,
    .before_pass = before_pass,
    .after_pass = after_pass,
    .gradient_ready = zero_gradient_ready,
    .optimizer = zero_update,
    .skips_layers = true,
};
