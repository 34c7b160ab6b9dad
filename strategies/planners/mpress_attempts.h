/* Ways through the search of the planner `mpress`, each on its own, side by side; and the answer from them. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_MPRESS_ATTEMPTS_H
#define MEMWALL_STRATEGIES_PLANNERS_MPRESS_ATTEMPTS_H

#include "strategies/planners/mpress_internal.h"

enum { MPRESS_ATTEMPTS_MAX = 24 };

/* The best start of each class is refined: so a search that may use more includes what one that may use less finds. */
enum start_class { CLASS_RECOMPUTE, CLASS_HOST, CLASS_BOTH, CLASS_DEVICES, CLASS_COUNT };

/* A way through the search, on its own. */
struct mpress_attempt {
    const char *name;
    enum start_class class;
    uint32_t mechanisms, emulations; /* changes that a refinement tries */
    struct mpress_case c;            /* a copy of the profile's */
    struct arena arena;
    struct mpress_choices choices;
    struct mpress_view view;
    enum status status;
    struct error error;
};

struct mpress_search {
    const struct planner_request *request;
    struct planner_answer *answer;
    struct mpress_case c;
    struct mpress_attempt attempts[MPRESS_ATTEMPTS_MAX];
    uint32_t count, first; /* those from `first` on are under way */
    uint32_t allowed;
    struct mpress_crew crew; /* of those under way */
};

/* Starts, refinements, device swap on and off the mapping. `search` has its case profiled. When its request's progress says stop, what is under way ends and nothing more begins. */
enum status mpress_run_attempts(struct mpress_search *search, struct error *error);
/* The one attempt where no choice fits: all that moves leaves its device, which tells what would be enough. */
enum status mpress_run_hopeless(struct mpress_search *search, struct error *error);
/* The one attempt where everything fits as it is. */
enum status mpress_run_resident(struct mpress_search *search, struct error *error);
/* Of a class, or of all (CLASS_COUNT). NULL: there is none. */
const struct mpress_attempt *mpress_best_attempt(const struct mpress_search *search, enum start_class class);

/* mpress_answer.c */
enum status mpress_fill_result(const struct mpress_search *search, struct planner_result *result, struct error *error);

#endif
