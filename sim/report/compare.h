/* Two results side by side: what each figure of B is as a multiple of A's.
 *
 * A side is a result document ("memwall.result/1"), from a file or printed a moment ago: what is compared is what is printed. Figures that a result does not have are NAN: of a step that got stuck,
 * or was measured where no rate can be told.
 *
 *     TRY(compare_read(&comparison.a, &root_a, error));
 *     TRY(compare_read(&comparison.b, &root_b, error));
 *     compare_text(&comparison, &out);
 *
 * A side borrows its texts from the document, which must outlive it. */
#ifndef MEMWALL_REPORT_COMPARE_H
#define MEMWALL_REPORT_COMPARE_H

#include "hw_models/machine.h"
#include "sim/base/json.h"
#include "sim/base/strbuf.h"
#include "sim/report/result.h"

enum figure_unit { UNIT_TIME_S, UNIT_BYTES, UNIT_RATE, UNIT_TFLOPS, UNIT_SHARE, UNIT_COUNT };

/* The figures at the top of a result: JSON key, unit, text for people. */
#define RATE_TABLE(X)                                                                                                  \
    X(RATE_STEP_TIME, "step_time_s", UNIT_TIME_S, "step time")                                                         \
    X(RATE_SAMPLES, "samples_per_s", UNIT_RATE, "samples/s")                                                           \
    X(RATE_TOKENS, "tokens_per_s", UNIT_RATE, "tokens/s")                                                              \
    X(RATE_TOKENS_PER_GPU, "tokens_per_s_per_gpu", UNIT_RATE, "tokens/s a GPU")                                        \
    X(RATE_MODEL_TFLOPS, "model_tflops_per_gpu", UNIT_TFLOPS, "model TFLOP/s a GPU")                                   \
    X(RATE_HARDWARE_TFLOPS, "hardware_tflops_per_gpu", UNIT_TFLOPS, "executed TFLOP/s a GPU")                          \
    X(RATE_MFU, "mfu", UNIT_SHARE, "MFU")                                                                              \
    X(RATE_HFU, "hfu", UNIT_SHARE, "HFU")

enum compared_rate {
#define X(name, key, unit, text) name,
    RATE_TABLE(X)
#undef X
        RATE_COUNT
};

/* Kinds of links: those of machine.h, then these. */
enum { LINKS_DRAM = LINK_KIND_COUNT, LINKS_STORAGE, LINKS_OTHER, LINKS_COUNT };

/* The space of a kind that is used most of its capacity. */
struct compared_space {
    bool present;
    const char *name;
    double capacity_bytes; /* NAN: unlimited */
    double peak_bytes, peak_reserved_bytes, by_class[BUFFER_CLASS_COUNT];
};

struct compared_bound {
    const char *what;
    double share;
};

enum { COMPARED_BOUNDS = 3 };

struct compare_side {
    const char *name, *executor, *schedule_hash, *reason; /* reason: NULL when it fits */
    const char *machine, *plan;                           /* NULL: the result does not say */
    bool fits;
    bool complete; /* the step came to its end: rates and times hold */
    double gpus;
    double rates[RATE_COUNT];
    struct compared_space spaces[SPACE_KIND_COUNT];
    double exposed_s[TIME_CLASS_COUNT], hidden_s[TIME_CLASS_COUNT]; /* mean of the ranks */
    double traffic_bytes[LINKS_COUNT]; /* over all links of the kind: a copy counts on each that it crosses */
    double link_use[LINKS_COUNT];      /* of the busiest of them: the share of what it could have moved */
    struct compared_bound bounds[COMPARED_BOUNDS];
    uint32_t bound_count;
};

struct comparison {
    struct compare_side a, b;
};

/* Errors: not a result, or one that lacks what every result holds. Keys that this version does not know are left alone. */
enum status compare_read(struct compare_side *side, const struct json *result, struct error *error);

/* One figure of both. */
struct compared_figure {
    const char *outer, *inner; /* sections: "memory" and "device"; NULL: none */
    const char *key;           /* in JSON */
    const char *text;          /* for people */
    enum figure_unit unit;
    double a, b; /* NAN: absent */
};

/* b / a; NAN when one is absent or a is 0. */
double compare_ratio(const struct compared_figure *figure);
/* Calls `visit` for each figure that one of both has and that is not 0 in both, section after section. */
void compare_visit(const struct comparison *comparison,
                   void (*visit)(void *context, const struct compared_figure *figure), void *context);

/* "B is 1.23 times as fast as A and takes 0.81 of its memory ..."; no newline. */
void compare_statement(const struct comparison *comparison, struct strbuf *out);
/* What a reader must know before he compares, a line each; may be nothing. */
void compare_notes(const struct comparison *comparison, struct strbuf *out);

/* At most 110 columns wide, unless names are longer. */
void compare_text(const struct comparison *comparison, struct strbuf *out);
/* "memwall.compare/1": `a` and `b` as they were read, and `ratio`. */
void compare_json(const struct comparison *comparison, const struct json *a, const struct json *b, struct strbuf *out);

#endif
