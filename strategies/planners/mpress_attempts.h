/* Ways through the search of the planner `mpress`, each on its own, side by side; and the answer from them. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_MPRESS_ATTEMPTS_H
#define MEMWALL_STRATEGIES_PLANNERS_MPRESS_ATTEMPTS_H

#include "strategies/planners/mpress_internal.h"

enum { MPRESS_ATTEMPTS_MAX = 32 };

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
    uint32_t count, first;             /* those from `first` on are under way */
    struct mpress_crew crew;           /* of those under way */
    const struct mpress_kept *tighter; /* what was found for the next smaller budget of the request; NULL: nothing */
};

/* The best of a budget, for the larger ones. */
struct mpress_kept {
    bool any;
    char name[64];
    struct mpress_choices choices;
    struct mpress_view view;
};

/* The plan of a tighter budget, starts, refinements, device swap on and off the mapping. `search` has its case profiled. When its request's progress says stop, what is under way ends and nothing more begins. */
enum status mpress_run_attempts(struct mpress_search *search, struct error *error);
/* Its starts alone: where one of them fits, mpress_run_attempts finds a plan at this budget too. */
enum status mpress_run_starts(struct mpress_search *search, struct error *error);
/* The attempt where no start fits: all that moves leaves its device, which tells what would be enough. */
enum status mpress_run_all_away(struct mpress_search *search, struct error *error);
/* Where everything fits as it is: that, and the plan of a tighter budget. */
enum status mpress_run_resident(struct mpress_search *search, struct error *error);
/* Of a class, or of all (CLASS_COUNT). NULL: there is none. */
const struct mpress_attempt *mpress_best_attempt(const struct mpress_search *search, enum start_class class);

void mpress_attempts_free(struct mpress_search *search);

/* mpress_smallest.c: more than `at_least` if need be: a budget at which the search finds a plan, as the printed figures say it (planner_enough_gib). 0: none is known, as host memory is too small or
 * the user has enough. */
enum status mpress_smallest_budget(const struct mpress_search *search, double at_least, double *bytes,
                                   struct error *error);

/* mpress_answer.c */
enum status mpress_fill_result(const struct mpress_search *search, struct planner_result *result, struct error *error);

#endif
