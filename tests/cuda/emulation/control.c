/* What tests see of the emulation: options, failures on order, what is left. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulation/emulation_internal.h"

enum { FUNCTIONS_MAX = 96, PRODUCTS_MAX = 4096 };

struct emulation emulation = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static struct {
    const char *name;
    uint32_t calls;
} functions[FUNCTIONS_MAX];
static uint32_t function_count;
static const char *failing;
static uint32_t failing_in;
static int failing_error;

void emulation_lock(void)
{
    (void)pthread_mutex_lock(&emulation.lock);
}

void emulation_unlock(void)
{
    (void)pthread_mutex_unlock(&emulation.lock);
}

void emulation_products_reset(void);

void emulation_reset(const struct emulation_options *options)
{
    emulation_lock();
    emulation.options = *options;
    emulation.left.misuses = 0;
    emulation.misuse[0] = '\0';
    emulation.peak = 0;
    emulation.corrupt_copy = emulation.corrupt_sum = emulation.hang_collective = 0;
    emulation.async_error = 0;
    function_count = 0;
    failing = NULL;
    emulation_unlock();
    emulation_products_reset();
}

int emulation_enter(const char *function)
{
    int error = 0;
    emulation_lock();
    uint32_t i = 0;
    while (i < function_count && strcmp(functions[i].name, function) != 0) {
        i++;
    }
    if (i == function_count) {
        if (function_count == FUNCTIONS_MAX) {
            abort();
        }
        functions[function_count].name = function;
        functions[function_count++].calls = 0;
    }
    functions[i].calls++;
    if (failing != NULL && strcmp(failing, function) == 0 && --failing_in == 0) {
        error = failing_error;
        failing = NULL;
    }
    emulation_unlock();
    return error;
}

void emulation_fail(const char *function, uint32_t nth, int error)
{
    emulation_lock();
    failing = function;
    failing_in = nth;
    failing_error = error;
    emulation_unlock();
}

uint32_t emulation_calls(const char *function)
{
    uint32_t calls = 0;
    emulation_lock();
    for (uint32_t i = 0; i < function_count; i++) {
        calls += strcmp(functions[i].name, function) == 0 ? functions[i].calls : 0;
    }
    emulation_unlock();
    return calls;
}

uint32_t emulation_function_count(void)
{
    return function_count;
}

const char *emulation_function(uint32_t index)
{
    return functions[index].name;
}

void emulation_corrupt_copy(uint32_t nth)
{
    emulation_lock();
    emulation.corrupt_copy = nth;
    emulation_unlock();
}

void emulation_corrupt_sum(uint32_t nth)
{
    emulation_lock();
    emulation.corrupt_sum = nth;
    emulation_unlock();
}

void emulation_hang_collective(uint32_t nth)
{
    emulation_lock();
    emulation.hang_collective = nth;
    emulation_unlock();
}

void emulation_async_error(int result)
{
    emulation_lock();
    emulation.async_error = result;
    emulation_unlock();
}

bool emulation_due(uint32_t *counter)
{
    emulation_lock();
    bool due = *counter == 1;
    *counter -= *counter > 0;
    emulation_unlock();
    return due;
}

int emulation_misuse(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    emulation_lock();
    if (emulation.left.misuses++ == 0) {
        (void)vsnprintf(emulation.misuse, sizeof emulation.misuse, format, arguments);
    }
    emulation_unlock();
    va_end(arguments);
    return error;
}

struct emulation_left emulation_left(void)
{
    emulation_lock();
    struct emulation_left left = emulation.left;
    emulation_unlock();
    return left;
}

const char *emulation_first_misuse(void)
{
    return emulation.misuse;
}

uint64_t emulation_peak_device_bytes(void)
{
    emulation_lock();
    uint64_t peak = emulation.peak;
    emulation_unlock();
    return peak;
}

/* -- products -- */

static struct emulation_product products[PRODUCTS_MAX];
static uint32_t product_count;

void emulation_products_reset(void)
{
    emulation_lock();
    product_count = 0;
    emulation_unlock();
}

void emulation_note_product(const struct emulation_product *product);

void emulation_note_product(const struct emulation_product *product)
{
    emulation_lock();
    if (product_count < PRODUCTS_MAX) {
        products[product_count] = *product;
    }
    product_count++;
    emulation_unlock();
}

uint32_t emulation_product_count(void)
{
    emulation_lock();
    uint32_t count = product_count;
    emulation_unlock();
    return count;
}

struct emulation_product emulation_product_at(uint32_t index)
{
    emulation_lock();
    struct emulation_product product = products[index < PRODUCTS_MAX ? index : PRODUCTS_MAX - 1];
    emulation_unlock();
    return product;
}
