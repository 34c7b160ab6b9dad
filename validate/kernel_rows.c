#include "validate/kernel_rows.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"

static const size_t FILE_BYTES_MAX = 16u << 20;

static double field(const char *key, const char *name)
{
    const char *at = strstr(key, name);
    return at == NULL ? 0 : strtod(at + strlen(name), NULL);
}

/* "b=1, m=4096, k=5120, n=1536, layout=TN, accumulate=False, out_dtype=bf16" */
static struct kernel gemm_of_key(const char *key, enum dtype dtype)
{
    double b = field(key, "b="), m = field(key, " m="), n = field(key, " n="), k = field(key, " k=");
    bool wide = strstr(key, "out_dtype=fp32") != NULL, accumulate = strstr(key, "accumulate=True") != NULL;
    double output = b * m * n * (wide ? 4 : 2);
    return (struct kernel){
        .kernel_class = KERNEL_GEMM,
        .dtype = (uint8_t)dtype,
        .layout = strstr(key, "layout=TN")   ? GEMM_TN
                  : strstr(key, "layout=NT") ? GEMM_NT
                                             : GEMM_NN,
        .flags = accumulate ? KERNEL_FLAG_ACCUMULATE : 0,
        .launches = 1,
        .batch = (uint64_t)b,
        .m = (uint64_t)m,
        .n = (uint64_t)n,
        .k = (uint64_t)k,
        .flops = 2 * b * m * n * k,
        .bytes_read = b * k * (m + n) * dtype_bytes(dtype) + (accumulate ? output : 0),
        .bytes_written = output,
    };
}

/* "batch=1, seq_len=4096, head_num=64, kv_head_num=8, qk_head_dim=128, v_head_dim=128, qkv_contiguous=True": causal, though its rates count
 * the whole score matrix (A100 rows reach 1.19 of the peak otherwise). */
static struct kernel attention_of_key(const char *key, enum kernel_class kernel_class, enum dtype dtype)
{
    double batch = field(key, "batch="), s = field(key, "seq_len="), heads = field(key, " head_num=");
    double pairs = field(key, "kv_head_num="), head = (field(key, "qk_head_dim=") + field(key, "v_head_dim=")) / 2;
    bool forward = kernel_class == KERNEL_ATTENTION_FORWARD;
    double query = batch * heads * s * head * dtype_bytes(dtype),
           key_value = 2 * batch * pairs * s * head * dtype_bytes(dtype);
    return (struct kernel){
        .kernel_class = (uint8_t)kernel_class,
        .dtype = (uint8_t)dtype,
        .flags = KERNEL_FLAG_CAUSAL,
        .launches = forward ? 1 : 3,
        .batch = (uint64_t)(batch * heads),
        .m = (uint64_t)s,
        .n = (uint64_t)s,
        .k = (uint64_t)head,
        .flops = (forward ? 4 : 10) * batch * heads * s * s * head, /* whole matrix: what the table's rates divide */
        .bytes_read = (forward ? 1 : 3) * query + key_value,
        .bytes_written = forward ? query : query + key_value,
    };
}

static const double USUAL_SHARE = 0.5; /* of the peak that products are taken to reach */

/* Vocabularies of the models measured, before each is padded to a multiple of 128 for each of up to 8 parts. */
static const double VOCABULARIES[] = { 128256, 102400, 129280 };
enum { PARTS_MAX = 8, VOCABULARY_PADDING = 128, SORTED_LEAST = 16 };

/* Whether a product has a language model head as its weight. */
static bool is_head(const struct kernel *kernel)
{
    double width = (double)(kernel->layout == GEMM_TN ? kernel->n : kernel->layout == GEMM_NN ? kernel->k : kernel->m);
    for (size_t v = 0; v < sizeof VOCABULARIES / sizeof VOCABULARIES[0]; v++) {
        for (int parts = 1; parts <= PARTS_MAX; parts *= 2) {
            if (fabs(width * parts - VOCABULARIES[v]) <= VOCABULARY_PADDING * parts) {
                return true;
            }
        }
    }
    return false;
}

/* Rows from `row` on that stand in the order of their names: shapes that were missing, measured in one go. 0 when fewer than SORTED_LEAST do. */
static size_t sorted_rows(const struct kernel_row *rows, size_t row, size_t count)
{
    size_t end = row + 1;
    while (end < count && strcmp(rows[end - 1].key, rows[end].key) < 0) {
        end++;
    }
    return end - row >= SORTED_LEAST ? end - row : 0;
}

/* The load before each row is that of the rows since the board rested: since the last head of a configuration, or the beginning of a sorted run. */
static void find_loads(struct kernel_row *rows, size_t count, double peak_flops)
{
    double before_s = 0;
    bool was_head = false;
    for (size_t i = 0, sorted = 0; i < count; i++) {
        bool head = is_head(&rows[i].kernel), was_sorted = sorted > 0;
        sorted = sorted > 1 ? sorted - 1 : sorted_rows(rows, i, count);
        bool begins = was_sorted != (sorted > 0) || (sorted == 0 && was_head && !head);
        before_s = begins ? 0 : before_s;
        double launch_s = rows[i].kernel.flops / (USUAL_SHARE * peak_flops);
        rows[i].load = (struct kernel_load){ before_s + KERNEL_ROWS_WARM_LAUNCHES * launch_s,
                                             before_s + KERNEL_ROWS_LAUNCHES * launch_s };
        before_s = rows[i].load.to_s;
        was_head = head;
    }
}

static void add_row(struct kernel_row *rows, size_t max, size_t *count, const char *key, const struct kernel *kernel,
                    double seconds)
{
    if (*count < max) {
        struct kernel_row *row = &rows[(*count)++];
        *row = (struct kernel_row){ .kernel = *kernel, .measured_s = seconds };
        snprintf(row->key, sizeof row->key, "%s", key);
    }
}

/* system,op,peak_tflops,"key",efficiency */
enum status kernel_rows_measured(const char *path, const char *system, enum kernel_class kernel_class, enum dtype dtype,
                                 double launch_gap_s, struct kernel_row *rows, size_t max, size_t *count,
                                 struct error *error)
{
    const char *op = kernel_class == KERNEL_GEMM                ? "matmul"
                     : kernel_class == KERNEL_ATTENTION_FORWARD ? "sdp_fwd"
                                                                : "sdp_bwd";
    char *text, prefix[64];
    size_t length, first = *count;
    unsigned line_number = 0;
    double peak = 0;
    TRY(file_read(path, FILE_BYTES_MAX, &text, &length, error));
    int prefix_length = snprintf(prefix, sizeof prefix, "%s,%s,", system, op);
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        line_number++;
        if (strncmp(line, prefix, (size_t)prefix_length) != 0) {
            continue;
        }
        char *open = strchr(line, '"'), *close = strrchr(line, '"');
        peak = 1e12 * strtod(line + prefix_length, NULL);
        double efficiency = close > open ? strtod(close + 2, NULL) : 0;
        if (!(peak > 0) || !(efficiency > 0)) {
            free(text);
            return error_set(error, STATUS_BAD_INPUT, "%s:%u: not a row of a quoted shape and an efficiency", path,
                             line_number);
        }
        *close = '\0';
        struct kernel kernel = kernel_class == KERNEL_GEMM ? gemm_of_key(open + 1, dtype)
                                                           : attention_of_key(open + 1, kernel_class, dtype);
        add_row(rows, max, count, open + 1, &kernel, kernel.flops / (efficiency * peak) - launch_gap_s);
    }
    free(text);
    if (kernel_class == KERNEL_GEMM && *count > first) {
        find_loads(rows + first, *count - first, peak);
    }
    return STATUS_OK;
}
