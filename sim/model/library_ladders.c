/* The ladders of the model library. */
#include <ctype.h>
#include <stdbool.h>

#include "sim/base/check.h"
#include "sim/model/ladder.h"

/* GPT2small is left out: its sequence is 128, all others' 1024. */
static const char *const patrickstar[] = {
    "gpt2_1b",    "gpt2_2b",    "gpt2_4b",    "gpt3_6b",    "gpt3_8b",    "gpt3_10b",
    "gpt3_11b",   "gpt3_12b",   "gpt3_13b",   "gpt3_15b",   "gpt3_18b",   "gpt_ds_20b",
    "gpt_ds_30b", "gpt_ds_40b", "gpt_ds_50b", "gpt_ds_60b", "gpt_ds_68b", "gpt_175b",
};

static const char *const sc21[] = {
    "gpt3-1.7b",  "gpt3-3.6b",   "gpt3-7.5b",   "gpt3-18.4b",  "gpt3-39.1b",
    "gpt3-76.1b", "gpt3-145.6b", "gpt3-310.1b", "gpt3-529.6b", "gpt3-1t",
};

static const struct model_ladder ladders[] = {
    { "patrickstar-ladder", "PatrickStar examples/model_builder.py: the models of its figures", patrickstar,
      sizeof patrickstar / sizeof patrickstar[0] },
    { "sc21-ladder", "Narayanan et al. 2021 (SC21), table 1", sc21, sizeof sc21 / sizeof sc21[0] },
};

enum { LADDER_COUNT = sizeof ladders / sizeof ladders[0] };

uint32_t model_ladder_count(void)
{
    return LADDER_COUNT;
}

const struct model_ladder *model_ladder_get(uint32_t index)
{
    CHECK(index < LADDER_COUNT);
    return &ladders[index];
}

static int folded(char c)
{
    return c == '_' ? '-' : tolower((unsigned char)c);
}

static bool same_name(const char *a, const char *b)
{
    while (*a != '\0' && folded(*a) == folded(*b)) {
        a++;
        b++;
    }
    return folded(*a) == folded(*b);
}

const struct model_ladder *model_ladder_find(const char *name)
{
    for (uint32_t i = 0; i < LADDER_COUNT; i++) {
        if (same_name(name, ladders[i].name)) {
            return &ladders[i];
        }
    }
    return NULL;
}
