/* A scenario file ("memwall.scenario/1"): model, machine, software, training and parallelism. README.md (a first scenario) shows one, memwall list parameters prints every key.
 *
 * Loading checks everything and says what, where, and what is allowed; absent keys take documented defaults; unknown keys are errors with the nearest known name. */
#ifndef MEMWALL_PLAN_SCENARIO_H
#define MEMWALL_PLAN_SCENARIO_H

#include "hw_models/cluster.h"
#include "hw_models/machine.h"
#include "hw_models/software.h"
#include "sim/model/model.h"
#include "sim/plan/plan.h"

/* Must stay where it is: the cluster points into the machine. */
struct scenario {
    char name[256];
    struct model model;
    struct machine machine;
    struct software software;
    struct cluster cluster;
    struct plan plan;
    char notes[1024];   /* what is allowed but may not be meant, a line each; for standard error */
    struct arena arena; /* owns the plan's arrays */
};

/* From an already edited document (see json_set for --set). On error nothing stays allocated. */
enum status scenario_from_json(struct scenario *scenario, const struct json *root, struct error *error);
/* From a file, applying `sets` ("parallel.tensor=4") first. */
enum status scenario_load(struct scenario *scenario, const char *file, const char *const *sets, uint32_t set_count,
                          struct error *error);
/* The same from text; `file` names it in messages. */
enum status scenario_parse(struct scenario *scenario, const char *text, const char *file, const char *const *sets,
                           uint32_t set_count, struct error *error);
void scenario_free(struct scenario *scenario);
/* One set ("parallel.tensor=4") on a scenario's document; short forms are expanded first ("machine.year=2" on a machine's name). */
enum status scenario_set(struct json_document *document, const char *set, struct error *error);

/* One key of the format: for --help and docs. */
struct scenario_key {
    const char *path, *type, *fallback, *help;
};
const struct scenario_key *scenario_keys(uint32_t *count);

#endif
