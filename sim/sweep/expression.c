/* Evaluation. */
#include "sim/sweep/expression.h"

#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/sweep/expression_internal.h"

static const char *kind_word(enum value_kind kind)
{
    switch (kind) {
    case VALUE_NULL: return "null";
    case VALUE_BOOL: return "true or false";
    case VALUE_NUMBER: return "a number";
    case VALUE_TEXT: return "a text";
    case VALUE_MISSING: return "nothing";
    case VALUE_JSON: break;
    }
    return "a list or object";
}

const char *expression_op_word(enum expression_op op)
{
    static const char *const words[] = { "value", "name", "or",    "and",  "not",  "==",  "!=", "<",      "<=",  ">",
                                         ">=",    "in",   "+",     "-",    "*",    "/",   "%",  "-",      "min", "max",
                                         "floor", "ceil", "round", "sqrt", "log2", "pow", "if", "divides" };
    return words[op];
}

bool expression_value_equal(const struct expression_value *a, const struct expression_value *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    switch (a->kind) {
    case VALUE_NULL:
    case VALUE_MISSING: return true;
    case VALUE_BOOL: return a->boolean == b->boolean;
    case VALUE_NUMBER: return a->number == b->number;
    case VALUE_TEXT:
    case VALUE_JSON: break;
    }
    return strcmp(a->text, b->text) == 0;
}

void expression_value_print(const struct expression_value *value, struct strbuf *out)
{
    char number[32];
    switch (value->kind) {
    case VALUE_NULL:
    case VALUE_MISSING: strbuf_append(out, "null"); break;
    case VALUE_BOOL: strbuf_append(out, value->boolean ? "true" : "false"); break;
    case VALUE_NUMBER: strbuf_append(out, text_real(value->number, number, sizeof number)); break;
    case VALUE_TEXT: strbuf_json_string(out, value->text); break;
    case VALUE_JSON: strbuf_append(out, value->text); break;
    }
}

struct evaluation {
    const struct expression *expression;
    const struct expression_value *values;
    struct error *error;
};

static enum status evaluate(const struct evaluation *e, const struct expression_node *node,
                            struct expression_value *value);

static enum status number_of(const struct evaluation *e, const struct expression_node *node, enum expression_op op,
                             double *number)
{
    struct expression_value value = { 0 };
    TRY(evaluate(e, node, &value));
    if (value.kind != VALUE_NUMBER) {
        return error_set(e->error, STATUS_BAD_INPUT, "\"%.200s\": %s wants a number, found %s", e->expression->source,
                         expression_op_word(op), kind_word(value.kind));
    }
    *number = value.number;
    return STATUS_OK;
}

static enum status truth_of(const struct evaluation *e, const struct expression_node *node, enum expression_op op,
                            bool *holds)
{
    struct expression_value value = { 0 };
    TRY(evaluate(e, node, &value));
    if (value.kind != VALUE_BOOL) {
        return error_set(e->error, STATUS_BAD_INPUT, "\"%.200s\": %s wants true or false, found %s",
                         e->expression->source, expression_op_word(op), kind_word(value.kind));
    }
    *holds = value.boolean;
    return STATUS_OK;
}

static struct expression_value truth(bool holds)
{
    return (struct expression_value){ .kind = VALUE_BOOL, .boolean = holds };
}

/* Of one or two numbers. */
static double arithmetic(enum expression_op op, double a, double b)
{
    switch ((int)op) {
    case OP_ADD: return a + b;
    case OP_SUBTRACT: return a - b;
    case OP_MULTIPLY: return a * b;
    case OP_DIVIDE: return a / b;
    case OP_REMAINDER: return fmod(a, b);
    case OP_NEGATE: return -a;
    case OP_FLOOR: return floor(a);
    case OP_CEIL: return ceil(a);
    case OP_ROUND: return round(a) /* halves away from zero */;
    case OP_SQRT: return sqrt(a);
    case OP_LOG2: return log2(a);
    case OP_POW: return pow(a, b);
    case OP_MIN: return a < b ? a : b;
    default: return a > b ? a : b; /* OP_MAX */
    }
}

static enum status compute(const struct evaluation *e, const struct expression_node *node,
                           struct expression_value *value)
{
    double result = 0;
    TRY(number_of(e, node->first, node->op, &result));
    if (node->first->next == NULL && node->op != OP_MIN && node->op != OP_MAX) {
        result = arithmetic(node->op, result, 0);
    }
    for (const struct expression_node *at = node->first->next; at != NULL; at = at->next) {
        double other = 0;
        TRY(number_of(e, at, node->op, &other));
        result = arithmetic(node->op, result, other);
    }
    if (!isfinite(result)) {
        return error_set(e->error, STATUS_BAD_INPUT, "\"%.200s\": %s gives no finite number", e->expression->source,
                         expression_op_word(node->op));
    }
    *value = (struct expression_value){ .kind = VALUE_NUMBER, .number = result };
    return STATUS_OK;
}

static enum status compare(const struct evaluation *e, const struct expression_node *node,
                           struct expression_value *value)
{
    double a = 0, b = 0;
    TRY(number_of(e, node->first, node->op, &a));
    TRY(number_of(e, node->first->next, node->op, &b));
    bool holds = false;
    switch ((int)node->op) {
    case OP_LESS: holds = a < b; break;
    case OP_LESS_EQUAL: holds = a <= b; break;
    case OP_GREATER: holds = a > b; break;
    case OP_GREATER_EQUAL: holds = a >= b; break;
    default: holds = a != 0 && fmod(b, a) == 0; break; /* OP_DIVIDES */
    }
    *value = truth(holds);
    return STATUS_OK;
}

static enum status evaluate_in(const struct evaluation *e, const struct expression_node *node,
                               struct expression_value *value)
{
    struct expression_value wanted = { 0 }, item = { 0 };
    bool found = false;
    TRY(evaluate(e, node->first, &wanted));
    for (const struct expression_node *at = node->first->next; at != NULL && !found; at = at->next) {
        TRY(evaluate(e, at, &item));
        found = expression_value_equal(&wanted, &item);
    }
    *value = truth(found);
    return STATUS_OK;
}

static enum status evaluate_logic(const struct evaluation *e, const struct expression_node *node,
                                  struct expression_value *value)
{
    bool a = false;
    TRY(truth_of(e, node->first, node->op, &a));
    if (node->op == OP_NOT) {
        *value = truth(!a);
    } else if (node->op == OP_IF) {
        return evaluate(e, a ? node->first->next : node->first->next->next, value);
    } else if (a == (node->op == OP_OR)) {
        *value = truth(a);
    } else {
        TRY(truth_of(e, node->first->next, node->op, &a));
        *value = truth(a);
    }
    return STATUS_OK;
}

static enum status no_value(const struct evaluation *e)
{
    return error_set(e->error, STATUS_BAD_INPUT, "\"%.200s\": a linked value that it needs has none here",
                     e->expression->source);
}

static enum status evaluate(const struct evaluation *e, const struct expression_node *node,
                            struct expression_value *value)
{
    struct expression_value a = { 0 }, b = { 0 };
    switch (node->op) {
    case OP_VALUE: *value = node->value; return STATUS_OK;
    case OP_NAME: *value = e->values[node->name]; return value->kind != VALUE_MISSING ? STATUS_OK : no_value(e);
    case OP_OR:
    case OP_AND:
    case OP_NOT:
    case OP_IF: return evaluate_logic(e, node, value);
    case OP_EQUAL:
    case OP_UNEQUAL:
        TRY(evaluate(e, node->first, &a));
        TRY(evaluate(e, node->first->next, &b));
        *value = truth(expression_value_equal(&a, &b) == (node->op == OP_EQUAL));
        return STATUS_OK;
    case OP_IN: return evaluate_in(e, node, value);
    case OP_LESS:
    case OP_LESS_EQUAL:
    case OP_GREATER:
    case OP_GREATER_EQUAL:
    case OP_DIVIDES: return compare(e, node, value);
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_DIVIDE:
    case OP_REMAINDER:
    case OP_NEGATE:
    case OP_MIN:
    case OP_MAX:
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND:
    case OP_SQRT:
    case OP_LOG2:
    case OP_POW: break;
    }
    return compute(e, node, value);
}

enum status expression_evaluate(const struct expression *expression, const struct expression_value *values,
                                struct expression_value *value, struct error *error)
{
    const struct evaluation e = { .expression = expression, .values = values, .error = error };
    return evaluate(&e, expression->root, value);
}

enum status expression_test(const struct expression *expression, const struct expression_value *values, bool *holds,
                            struct error *error)
{
    struct expression_value value = { 0 };
    TRY(expression_evaluate(expression, values, &value, error));
    if (value.kind != VALUE_BOOL) {
        return error_set(error, STATUS_BAD_INPUT, "\"%.200s\": a condition must be true or false, this is %s",
                         expression->source, kind_word(value.kind));
    }
    *holds = value.boolean;
    return STATUS_OK;
}

void expression_free(struct expression *expression)
{
    arena_free(&expression->arena);
    *expression = (struct expression){ 0 };
}
