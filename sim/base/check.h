/* Assertions, in three tiers. All go through check_failed(), the one place for a breakpoint.
 *
 *   CHECK(expr)        argument checks and cheap invariants: kept in release builds
 *   CHECK_DEBUG(expr)  costly invariants: only when MEMWALL_DEBUG_CHECKS is defined (sanitizer builds); always compiled
 *   TRY(call)          returns the status of `call` unless it is STATUS_OK
 *   TRY_OR_FAIL(call)  sets the local `status` and jumps to the function's one `fail:` label */
#ifndef MEMWALL_BASE_CHECK_H
#define MEMWALL_BASE_CHECK_H

#include "sim/base/status.h"

_Noreturn void check_failed(const char *expression, const char *file, int line);

#define CHECK(expression) ((expression) ? (void)0 : check_failed(#expression, __FILE__, __LINE__))

#ifdef MEMWALL_DEBUG_CHECKS
#define CHECK_DEBUG(expression) CHECK(expression)
#else
#define CHECK_DEBUG(expression) ((void)sizeof(!(expression)))
#endif

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum status try_status_ = (call);                                                                              \
        if (try_status_ != STATUS_OK) {                                                                                \
            return try_status_;                                                                                        \
        }                                                                                                              \
    } while (0)

#define TRY_OR_FAIL(call)                                                                                              \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != STATUS_OK) {                                                                                     \
            goto fail;                                                                                                 \
        }                                                                                                              \
    } while (0)

#endif
