/* The small language of sweeps: linked values and conditions, such as "gpus / (tensor * pipeline)" or "tensor <= 8 and order != 'gpipe'".
 *
 *   values      numbers (double), 'text' or "text", true, false, null
 *   operators   or | and | not | == != < <= > >= | + - | * / % | unary - | ( )      lowest first; "in": x in (1, 2, 4)
 *   functions   min(a, b, ...) max(a, b, ...) floor(x) ceil(x) round(x) sqrt(x) log2(x) pow(a, b) if(condition, a, b) divides(a, b)
 *   names       letters, digits, _ and dots: an axis, or a key of the base scenario
 *
 * + - * / % < <= > >= want numbers; == != compare any two values, of unlike kinds as unequal; and, or, not, if want true or false, and stop as soon as the answer is known.
 * % has the sign of the dividend. What is not finite (1 / 0) is an error, not a value. Knows no time, allocates nothing when evaluated, always ends: depth and size are limited.
 *
 *     struct expression e; struct expression_value v;
 *     TRY(expression_parse(&e, "data * 2", find, context, error));
 *     TRY(expression_evaluate(&e, values, &v, error));
 *     expression_free(&e); */
#ifndef MEMWALL_SWEEP_EXPRESSION_H
#define MEMWALL_SWEEP_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/status.h"
#include "sim/base/strbuf.h"

enum { EXPRESSION_BYTES_MAX = 4096, EXPRESSION_DEPTH_MAX = 64, EXPRESSION_NAMES_MAX = 64 };

/* VALUE_MISSING: a name that could not be computed; an expression that comes to need it cannot be either. */
enum value_kind { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_TEXT, VALUE_JSON, VALUE_MISSING };

/* `text`: of VALUE_TEXT, and the compact JSON of VALUE_JSON (objects and lists: only == and != take them); borrowed. */
struct expression_value {
    enum value_kind kind;
    bool boolean;
    double number;
    const char *text;
};

struct expression_node;

struct expression {
    const char *source; /* a copy */
    struct expression_node *root;
    uint32_t names[EXPRESSION_NAMES_MAX]; /* what find() returned for the names that occur, each once */
    uint32_t name_count;
    struct arena arena;
};

/* The number of a name, by which evaluation looks into `values`; an error says what names there are. */
typedef enum status expression_find(void *context, const char *name, uint32_t *index, struct error *error);

/* STATUS_BAD_INPUT with the place ("column 7") and what was expected there. On error nothing stays allocated. */
enum status expression_parse(struct expression *expression, const char *text, expression_find *find, void *context,
                             struct error *error);
/* Texts in *value live as long as the expression and `values`. */
enum status expression_evaluate(const struct expression *expression, const struct expression_value *values,
                                struct expression_value *value, struct error *error);
/* The same where the answer must be true or false. */
enum status expression_test(const struct expression *expression, const struct expression_value *values, bool *holds,
                            struct error *error);
void expression_free(struct expression *expression);

bool expression_value_equal(const struct expression_value *a, const struct expression_value *b);
/* As JSON: 4, "text", true, null (also where it is missing). */
void expression_value_print(const struct expression_value *value, struct strbuf *out);

#endif
