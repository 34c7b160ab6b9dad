/* The kernels worth measuring: those of the layers of a few models, as the model graph lists them; those of an optimizer; sums of buffers. */
#include <math.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/base/check.h"
#include "sim/model/layer.h"
#include "validate/calibrate/measure_internal.h"

/* A model's layer on one device. Levels: of its products in the first dtype; others and streams follow. */
struct layer_sample {
    enum model_family family;
    int64_t hidden, heads, ffn, vocab, sequence, micro_batch;
    bool fused, flash;
    enum measure_level level;
};

/* For threads of a host: what a step of seconds is made of. The order is that of telling. */
static const struct layer_sample HOST_SAMPLES[] = {
    { MODEL_GPT, 256, 4, 1024, 4096, 128, 2, true, false, LEVEL_CORE },
    { MODEL_LLAMA, 512, 8, 1408, 8192, 128, 1, true, true, LEVEL_CORE },
    { MODEL_GPT, 128, 2, 512, 2048, 64, 4, false, true, LEVEL_CORE },
    { MODEL_BERT, 384, 6, 1536, 8192, 128, 4, false, false, LEVEL_MORE },
    { MODEL_GPT, 768, 12, 3072, 16384, 256, 1, true, true, LEVEL_MORE },
    { MODEL_LLAMA, 1024, 16, 2816, 8192, 512, 1, false, true, LEVEL_MORE },
    { MODEL_GPT, 1024, 16, 4096, 32768, 512, 2, true, false, LEVEL_ALL },
    { MODEL_LLAMA, 2048, 16, 5632, 32000, 1024, 1, true, true, LEVEL_ALL },
    { MODEL_BERT, 4096, 32, 16384, 0, 512, 2, true, true, LEVEL_ALL },
};

/* For GPUs. */
static const struct layer_sample GPU_SAMPLES[] = {
    { MODEL_GPT, 2048, 16, 8192, 51200, 2048, 1, true, false, LEVEL_CORE },
    { MODEL_LLAMA, 4096, 32, 11008, 32000, 4096, 1, true, true, LEVEL_CORE },
    { MODEL_GPT, 512, 8, 2048, 8192, 512, 1, false, true, LEVEL_CORE },
    { MODEL_BERT, 1024, 16, 4096, 30592, 512, 8, false, false, LEVEL_MORE },
    { MODEL_GPT, 1600, 25, 6400, 50304, 1024, 2, true, true, LEVEL_MORE },
    { MODEL_LLAMA, 8192, 64, 28672, 32000, 2048, 1, true, true, LEVEL_MORE },
    { MODEL_GPT, 768, 12, 3072, 50304, 1024, 8, true, true, LEVEL_MORE },
    { MODEL_LLAMA, 1024, 16, 2816, 32000, 1024, 1, false, true, LEVEL_ALL },
    { MODEL_GPT, 12288, 96, 49152, 51200, 2048, 1, true, false, LEVEL_ALL },
    { MODEL_BERT, 4096, 32, 16384, 0, 512, 16, true, true, LEVEL_ALL },
};

static void describe(const struct layer_sample *sample, struct model *model)
{
    *model = (struct model){ 0 };
    model_family_defaults(model, sample->family);
    (void)snprintf(model->name, sizeof model->name, "sample");
    model->layers = 1;
    model->hidden = sample->hidden;
    model->heads = model->kv_heads = sample->heads;
    model->head_size = sample->hidden / sample->heads;
    model->ffn = sample->ffn;
    model->vocab = sample->vocab > 0 ? sample->vocab : 2048;
    model->max_sequence = sample->sequence;
    if (model->positions == MODEL_LEARNED_POSITIONS) {
        model->position_rows = sample->sequence;
    }
}

/* Streams are told apart by class, launches, and traffic to a factor of two: nearer ones say the same. */
static bool near(const struct kernel *a, const struct kernel *b)
{
    double x = a->bytes_read + a->bytes_written, y = b->bytes_read + b->bytes_written;
    return a->kernel_class == b->kernel_class && a->dtype == b->dtype && a->launches == b->launches && x < 2 * y &&
           y < 2 * x;
}

static bool is_stream(const struct kernel *k)
{
    return k->kernel_class != KERNEL_GEMM && k->kernel_class != KERNEL_ATTENTION_FORWARD &&
           k->kernel_class != KERNEL_ATTENTION_BACKWARD;
}

static bool has_near(const struct wanted_list *list, const struct kernel *kernel)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct point *p = &list->items[i].point;
        if (p->kind == POINT_KERNEL && p->at_once == 1 && near(&p->kernel, kernel)) {
            return true;
        }
    }
    return false;
}

static enum status want_kernel(const struct measure_options *options, struct wanted_list *list,
                               enum measure_level level, const struct kernel *kernel, uint32_t at_once,
                               struct error *error)
{
    const struct point point = { .kind = POINT_KERNEL, .kernel = *kernel, .at_once = at_once };
    if (kernel->bytes_read + kernel->bytes_written > (double)options->device_bytes / 2) {
        return STATUS_OK; /* would not fit */
    }
    return want(list, level, &point, error);
}

static enum status want_layer(const struct measure_options *options, struct wanted_list *list,
                              const struct layer_sample *sample, enum dtype dtype, bool first_dtype,
                              struct arena *arena, struct error *error)
{
    struct model model;
    describe(sample, &model);
    TRY(model_check(&model, error));
    const struct layer_shape shape = { .micro_batch = sample->micro_batch,
                                       .sequence = sample->sequence,
                                       .tensor = 1,
                                       .context = 1,
                                       .dtype = dtype,
                                       .padded_vocab = model.vocab,
                                       .flash_attention = sample->flash,
                                       .fused_kernels = sample->fused,
                                       .gradient_bytes = sample->fused ? 4 : 0 };
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        struct layer_graph graph;
        if (kind != LAYER_TRANSFORMER && sample->vocab == 0) {
            continue;
        }
        TRY(layer_graph_build(&graph, &model, (enum layer_kind)kind, &shape, arena, error));
        for (uint32_t i = 0; i < graph.op_count; i++) {
            const struct kernel *kernel = &graph.ops[i].kernel;
            bool stream = is_stream(kernel);
            if (graph.ops[i].collective != LAYER_NO_COLLECTIVE || (stream && has_near(list, kernel))) {
                continue;
            }
            bool later = sample->level == LEVEL_CORE && !first_dtype && stream;
            TRY(want_kernel(options, list, later ? LEVEL_MORE : sample->level, kernel, 1, error));
        }
    }
    return STATUS_OK;
}

static enum status want_optimizer(const struct measure_options *options, struct wanted_list *list, struct error *error)
{
    static const double PARAMETERS[] = { 1e6, 1e7, 1e5, 1e8 };
    for (uint32_t i = 0; i < sizeof PARAMETERS / sizeof PARAMETERS[0]; i++) {
        double p = PARAMETERS[i];
        enum measure_level level = i < 2 ? LEVEL_CORE : i == 2 || !options->on_host ? LEVEL_MORE : LEVEL_ALL;
        struct kernel clear = kernel_of_traffic(KERNEL_ELEMENTWISE, 0, 4 * p, 1);
        struct kernel norm = kernel_of_traffic(KERNEL_OPTIMIZER, 4 * p, 0, 1);
        /* master and moments, an fp32 gradient in, a 16-bit or 32-bit weight out */
        struct kernel adam = kernel_of_traffic(KERNEL_OPTIMIZER, 16 * p, 14 * p, 1), wide = adam;
        adam.flops = wide.flops = 14 * p;
        wide.bytes_written = 16 * p;
        TRY(want_kernel(options, list, level, &adam, 1, error));
        TRY(want_kernel(options, list, level, &clear, 1, error));
        TRY(want_kernel(options, list, level, &norm, 1, error));
        TRY(want_kernel(options, list, level + 1u < MEASURE_LEVELS ? level + 1u : level, &wide, 1, error));
    }
    return STATUS_OK;
}

/* A stream of rows in fp32: `reads` inputs and one output. */
static struct kernel stream_kernel(enum kernel_class kernel_class, double reads, double rows, double columns)
{
    struct kernel kernel = kernel_of_traffic(kernel_class, reads * 4 * rows * columns, 4 * rows * columns, 1);
    kernel.m = (uint64_t)rows;
    kernel.n = (uint64_t)columns;
    return kernel;
}

/* From the shortest kernel to what fills the memory's pipes: the fits of floors and of the memory itself lean on these. */
static enum status want_ladder(const struct measure_options *options, struct wanted_list *list, struct error *error)
{
    static const struct {
        double rows;
        enum measure_level level;
    } RUNGS[] = { { 16384, LEVEL_CORE }, { 1024, LEVEL_CORE }, { 64, LEVEL_CORE }, { 1, LEVEL_CORE },
                  { 4096, LEVEL_MORE },  { 256, LEVEL_MORE },  { 8, LEVEL_MORE },  { 65536, LEVEL_ALL } };
    for (size_t i = 0; i < sizeof RUNGS / sizeof RUNGS[0]; i++) {
        struct kernel copy = stream_kernel(KERNEL_ELEMENTWISE, 1, RUNGS[i].rows, 1024);
        struct kernel sum = stream_kernel(KERNEL_REDUCE, 2, RUNGS[i].rows, 1024);
        struct kernel norm = stream_kernel(KERNEL_NORM, 1, RUNGS[i].rows, 1024);
        struct kernel softmax = stream_kernel(KERNEL_SOFTMAX, 1, RUNGS[i].rows, 1024);
        TRY(want_kernel(options, list, RUNGS[i].level, &copy, 1, error));
        TRY(want_kernel(options, list, RUNGS[i].level, &sum, 1, error));
        if (i == 0 || i == 2) {
            TRY(want_kernel(options, list, LEVEL_CORE, &norm, 1, error));
            TRY(want_kernel(options, list, LEVEL_CORE, &softmax, 1, error));
        }
    }
    return STATUS_OK;
}

/* What all ranks of a step do at the same moment, at its end and at its start: the optimizer's passes and the clearing of gradients. */
static bool is_in_step(const struct kernel *kernel)
{
    return kernel->kernel_class == KERNEL_OPTIMIZER || (is_stream(kernel) && !(kernel->bytes_read > 0));
}

/* Devices that are threads of one host disturb each other: the same kernels on several at once. */
static enum status want_together(const struct measure_options *options, struct wanted_list *list, struct error *error)
{
    uint32_t most = options->cores < options->devices ? options->cores : options->devices;
    size_t alone = list->count;
    unsigned streams = 0, products = 0;
    for (size_t i = 0; i < alone && most >= 2; i++) {
        const struct kernel kernel = list->items[i].point.kernel;
        enum measure_level level = list->items[i].level;
        unsigned *taken = is_stream(&kernel) ? &streams : &products;
        if (list->items[i].point.kind != POINT_KERNEL || kernel.dtype != DTYPE_FP32 || level > LEVEL_MORE ||
            (is_stream(&kernel) && kernel.bytes_read + kernel.bytes_written < 2e6)) {
            continue;
        }
        if (!is_in_step(&kernel)) {
            if (*taken == 12) {
                continue;
            }
            level = (*taken)++ < 6 ? LEVEL_CORE : LEVEL_MORE;
        }
        TRY(want_kernel(options, list, level, &kernel, most, error));
    }
    return STATUS_OK;
}

bool measures_dtype(const struct measure_options *options, enum dtype dtype)
{
    uint32_t wanted = options->dtypes != 0 ? options->dtypes : 1u << DTYPE_FP32 | 1u << DTYPE_FP16 | 1u << DTYPE_BF16;
    return (wanted >> dtype & 1) != 0;
}

enum status want_kernels(const struct measure_options *options, struct wanted_list *list, struct error *error)
{
    const struct layer_sample *samples = options->on_host ? HOST_SAMPLES : GPU_SAMPLES;
    size_t count =
        options->on_host ? sizeof HOST_SAMPLES / sizeof HOST_SAMPLES[0] : sizeof GPU_SAMPLES / sizeof GPU_SAMPLES[0];
    struct arena arena = { 0 };
    enum status status = want_ladder(options, list, error);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        bool first = true;
        for (int dtype = 0; dtype < DTYPE_COUNT && status == STATUS_OK; dtype++) {
            if (measures_dtype(options, (enum dtype)dtype)) {
                status = want_layer(options, list, &samples[i], (enum dtype)dtype, first, &arena, error);
                first = false;
            }
        }
    }
    if (status == STATUS_OK) {
        status = want_optimizer(options, list, error);
    }
    if (status == STATUS_OK && options->on_host) {
        status = want_together(options, list, error);
    }
    arena_free(&arena);
    return status;
}
