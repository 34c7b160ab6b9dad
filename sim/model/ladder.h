/* Ladders: models of the library that grow step by step, as a paper's authors tried them. `memwall fit --models NAME` climbs one.
 *
 *     const struct model_ladder *ladder = model_ladder_find("patrickstar-ladder");
 *     model_library_find(ladder->models[0], &model);      // the smallest
 *
 * Names and rows are static: nothing to free. Parameter counts rise from row to row. */
#ifndef MEMWALL_MODEL_LADDER_H
#define MEMWALL_MODEL_LADDER_H

#include <stdint.h>

struct model_ladder {
    const char *name;
    const char *source;
    const char *const *models; /* names of the library */
    uint32_t count;
};

uint32_t model_ladder_count(void);
const struct model_ladder *model_ladder_get(uint32_t index); /* index < count */
/* By name, as model_library_find compares names; NULL when there is none. */
const struct model_ladder *model_ladder_find(const char *name);

#endif
