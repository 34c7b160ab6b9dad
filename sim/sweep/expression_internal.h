/* The tree of an expression: for sim/sweep/expression*.c alone. */
#ifndef MEMWALL_SWEEP_EXPRESSION_INTERNAL_H
#define MEMWALL_SWEEP_EXPRESSION_INTERNAL_H

#include "sim/sweep/expression.h"

enum expression_op {
    OP_VALUE,
    OP_NAME,
    OP_OR,
    OP_AND,
    OP_NOT,
    OP_EQUAL,
    OP_UNEQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_GREATER,
    OP_GREATER_EQUAL,
    OP_IN, /* the first argument among the others */
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_REMAINDER,
    OP_NEGATE,
    OP_MIN,
    OP_MAX,
    OP_FLOOR,
    OP_CEIL,
    OP_ROUND,
    OP_SQRT,
    OP_LOG2,
    OP_POW,
    OP_IF,
    OP_DIVIDES /* divides(a, b): b is a whole multiple of a */
};

struct expression_node {
    enum expression_op op;
    uint32_t name;                 /* OP_NAME */
    struct expression_value value; /* OP_VALUE */
    struct expression_node *first; /* arguments, chained by `next` */
    struct expression_node *next;
};

const char *expression_op_word(enum expression_op op);

#endif
