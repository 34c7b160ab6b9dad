/* Reading expressions: recursive descent, one function for all binary levels. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json.h"
#include "sim/sweep/expression_internal.h"

enum { WORD_BYTES = 128, LEVEL_COUNT = 5 };

struct parser {
    struct expression *expression;
    const char *text, *at;
    unsigned depth;
    expression_find *find;
    void *context;
    struct error *error;
};

static const struct {
    const char *word;
    enum expression_op op;
    int least, most; /* arguments */
} FUNCTIONS[] = {
    { "min", OP_MIN, 1, 64 },        { "max", OP_MAX, 1, 64 },    { "floor", OP_FLOOR, 1, 1 },
    { "ceil", OP_CEIL, 1, 1 },       { "round", OP_ROUND, 1, 1 }, { "sqrt", OP_SQRT, 1, 1 },
    { "log2", OP_LOG2, 1, 1 },       { "pow", OP_POW, 2, 2 },     { "if", OP_IF, 3, 3 },
    { "divides", OP_DIVIDES, 2, 2 },
};
enum { FUNCTION_COUNT = sizeof FUNCTIONS / sizeof FUNCTIONS[0] };

/* Binary operators by level, lowest first; longer spellings before their beginnings. */
static const struct {
    const char *word;
    int level;
    enum expression_op op;
} BINARY[] = {
    { "or", 0, OP_OR },      { "||", 0, OP_OR },      { "and", 1, OP_AND },       { "&&", 1, OP_AND },
    { "==", 2, OP_EQUAL },   { "!=", 2, OP_UNEQUAL }, { "<=", 2, OP_LESS_EQUAL }, { ">=", 2, OP_GREATER_EQUAL },
    { "<", 2, OP_LESS },     { ">", 2, OP_GREATER },  { "in", 2, OP_IN },         { "+", 3, OP_ADD },
    { "-", 3, OP_SUBTRACT }, { "*", 4, OP_MULTIPLY }, { "/", 4, OP_DIVIDE },      { "%", 4, OP_REMAINDER },
};

static enum status parse_level(struct parser *p, int level, struct expression_node **node);

static void skip_blanks(struct parser *p)
{
    p->at += strspn(p->at, " \t\r\n");
}

__attribute__((format(printf, 2, 3))) static enum status complain(const struct parser *p, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return error_set(p->error, STATUS_BAD_INPUT, "\"%.200s\": column %zu: %s", p->text, (size_t)(p->at - p->text) + 1,
                     what);
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* Takes `word` when it stands here (whole, when it is made of letters). */
static bool take(struct parser *p, const char *word)
{
    skip_blanks(p);
    size_t length = strlen(word);
    if (strncmp(p->at, word, length) != 0 || (isalpha((unsigned char)word[0]) && is_word_char(p->at[length]))) {
        return false;
    }
    p->at += length;
    return true;
}

static enum status new_node(struct parser *p, enum expression_op op, struct expression_node **node)
{
    *node = arena_array(&p->expression->arena, struct expression_node, 1);
    if (*node == NULL) {
        (void)error_set(p->error, STATUS_NO_MEMORY, "out of memory reading an expression");
        return STATUS_NO_MEMORY;
    }
    (*node)->op = op;
    return STATUS_OK;
}

static enum status parse_number(struct parser *p, struct expression_node **node)
{
    char *end;
    double number = strtod(p->at, &end);
    if (!isfinite(number) || strpbrk(p->at, "xX") == p->at + 1 || is_word_char(*end)) {
        return complain(p, "not a number");
    }
    TRY(new_node(p, OP_VALUE, node));
    (*node)->value = (struct expression_value){ .kind = VALUE_NUMBER, .number = number };
    p->at = end;
    return STATUS_OK;
}

static enum status parse_text(struct parser *p, struct expression_node **node)
{
    char quote = *p->at;
    const char *end = strchr(p->at + 1, quote);
    if (end == NULL) {
        return complain(p, "a text without its closing %c", quote);
    }
    TRY(new_node(p, OP_VALUE, node));
    char *text = arena_text_n(&p->expression->arena, p->at + 1, (size_t)(end - p->at - 1));
    if (text == NULL) {
        return error_set(p->error, STATUS_NO_MEMORY, "out of memory reading an expression");
    }
    (*node)->value = (struct expression_value){ .kind = VALUE_TEXT, .text = text };
    p->at = end + 1;
    return STATUS_OK;
}

/* "a, b, c)" appended to the arguments of `node`, which may have one already. */
static enum status parse_arguments(struct parser *p, struct expression_node *node, int *count)
{
    struct expression_node **tail = &node->first;
    while (*tail != NULL) {
        tail = &(*tail)->next;
    }
    *count = 0;
    do {
        TRY(parse_level(p, 0, tail));
        CHECK(*tail != NULL);
        tail = &(*tail)->next;
        ++*count;
    } while (take(p, ","));
    return take(p, ")") ? STATUS_OK : complain(p, "expected , or )");
}

static enum status parse_call(struct parser *p, const char *word, const char *begin, struct expression_node **node)
{
    const char *known[FUNCTION_COUNT];
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        known[i] = FUNCTIONS[i].word;
        if (strcmp(word, FUNCTIONS[i].word) != 0) {
            continue;
        }
        int count;
        TRY(new_node(p, FUNCTIONS[i].op, node));
        TRY(parse_arguments(p, *node, &count));
        if (count < FUNCTIONS[i].least || count > FUNCTIONS[i].most) {
            p->at = begin;
            return complain(p, "%s takes %d to %d arguments, found %d", word, FUNCTIONS[i].least, FUNCTIONS[i].most,
                            count);
        }
        return STATUS_OK;
    }
    const char *near = nearest_word(word, known, FUNCTION_COUNT);
    p->at = begin;
    return complain(p,
                    "there is no function %.64s%s%s; functions: min, max, floor, ceil, round, sqrt, log2, pow, if, "
                    "divides",
                    word, near != NULL ? ", did you mean " : "", near != NULL ? near : "");
}

static enum status parse_name(struct parser *p, const char *word, struct expression_node **node)
{
    struct expression *e = p->expression;
    uint32_t index;
    struct error own = { 0 };
    enum status status = p->find(p->context, word, &index, &own);
    if (status != STATUS_OK) {
        return complain(p, "%.220s", own.message);
    }
    TRY(new_node(p, OP_NAME, node));
    (*node)->name = index;
    for (uint32_t i = 0; i < e->name_count; i++) {
        if (e->names[i] == index) {
            return STATUS_OK;
        }
    }
    if (e->name_count == EXPRESSION_NAMES_MAX) {
        return complain(p, "more than %d different names", EXPRESSION_NAMES_MAX);
    }
    e->names[e->name_count++] = index;
    return STATUS_OK;
}

static enum status parse_word(struct parser *p, struct expression_node **node)
{
    char word[WORD_BYTES];
    const char *begin = p->at;
    size_t length = 0;
    while (is_word_char(p->at[length])) {
        length++;
    }
    if (length >= sizeof word) {
        return complain(p, "a name of %zu characters: at most %d are allowed", length, WORD_BYTES - 1);
    }
    memcpy(word, p->at, length);
    word[length] = '\0';
    bool is_true = strcmp(word, "true") == 0;
    if (is_true || strcmp(word, "false") == 0 || strcmp(word, "null") == 0) {
        p->at += length;
        TRY(new_node(p, OP_VALUE, node));
        (*node)->value.kind = word[0] == 'n' ? VALUE_NULL : VALUE_BOOL;
        (*node)->value.boolean = is_true;
        return STATUS_OK;
    }
    p->at += length;
    if (take(p, "(")) {
        return parse_call(p, word, begin, node);
    }
    p->at = begin;
    TRY(parse_name(p, word, node));
    p->at = begin + length;
    return STATUS_OK;
}

static enum status parse_primary(struct parser *p, struct expression_node **node)
{
    skip_blanks(p);
    if (isdigit((unsigned char)*p->at) || (*p->at == '.' && isdigit((unsigned char)p->at[1]))) {
        return parse_number(p, node);
    }
    if (*p->at == '\'' || *p->at == '"') {
        return parse_text(p, node);
    }
    if (take(p, "(")) {
        TRY(parse_level(p, 0, node));
        return take(p, ")") ? STATUS_OK : complain(p, "expected )");
    }
    if (isalpha((unsigned char)*p->at) || *p->at == '_') {
        return parse_word(p, node);
    }
    return complain(p, *p->at == '\0' ? "the expression ends where a value is expected"
                                      : "expected a number, a 'text', a name or (");
}

static enum status parse_prefix(struct parser *p, enum expression_op op, int level, struct expression_node **node)
{
    TRY(new_node(p, op, node));
    return parse_level(p, level, &(*node)->first);
}

static enum status parse_binary(struct parser *p, int level, struct expression_node **node)
{
    TRY(parse_level(p, level + 1, node));
    for (;;) {
        size_t i = 0;
        while (i < sizeof BINARY / sizeof BINARY[0] && (BINARY[i].level != level || !take(p, BINARY[i].word))) {
            i++;
        }
        if (i == sizeof BINARY / sizeof BINARY[0]) {
            return STATUS_OK;
        }
        struct expression_node *whole;
        int count;
        TRY(new_node(p, BINARY[i].op, &whole));
        whole->first = *node;
        *node = whole;
        if (BINARY[i].op != OP_IN) {
            TRY(parse_level(p, level + 1, &whole->first->next));
        } else if (!take(p, "(")) {
            return complain(p, "expected ( and a list after in");
        } else {
            TRY(parse_arguments(p, whole, &count));
        }
        if (level == 2 && (take(p, "==") || take(p, "<") || take(p, ">") || take(p, "!="))) {
            return complain(p, "comparisons do not chain: write a < b and b < c");
        }
    }
}

/* Levels 0 to 4: binary; "not" binds looser than comparisons; 5: unary minus and primaries. */
static enum status parse_level(struct parser *p, int level, struct expression_node **node)
{
    if (p->depth >= EXPRESSION_DEPTH_MAX * (LEVEL_COUNT + 2)) {
        return complain(p, "nested deeper than %d levels", EXPRESSION_DEPTH_MAX);
    }
    p->depth++;
    enum status status;
    if (level == 2 && take(p, "not")) {
        status = parse_prefix(p, OP_NOT, 2, node);
    } else if (level < LEVEL_COUNT) {
        status = parse_binary(p, level, node);
    } else if (take(p, "-")) {
        status = parse_prefix(p, OP_NEGATE, LEVEL_COUNT, node);
    } else {
        status = parse_primary(p, node);
    }
    p->depth--;
    return status;
}

enum status expression_parse(struct expression *expression, const char *text, expression_find *find, void *context,
                             struct error *error)
{
    *expression = (struct expression){ 0 };
    struct parser p = {
        .expression = expression, .text = text, .at = text, .find = find, .context = context, .error = error
    };
    if (strlen(text) > EXPRESSION_BYTES_MAX) {
        return error_set(error, STATUS_LIMIT, "an expression of %zu bytes: at most %d are allowed", strlen(text),
                         EXPRESSION_BYTES_MAX);
    }
    expression->source = arena_text(&expression->arena, text);
    enum status status = expression->source != NULL ? parse_level(&p, 0, &expression->root)
                                                    : error_set(error, STATUS_NO_MEMORY, "out of memory");
    skip_blanks(&p);
    if (status == STATUS_OK && *p.at != '\0') {
        status = complain(&p, "expected an operator or the end");
    }
    if (status != STATUS_OK) {
        expression_free(expression);
    }
    return status;
}
