/* Galvatron's own files: profiled hardware, computation and memory profiles (raw and processed), searched plans (layouts of Hetu-Galvatron and of the first version).
 *
 * A profile is a tree of keys that hold numbers in their names ("layernum[2,2]_bsz8_seq[512,512]_rank0_act"). The readers parse every key by one table of patterns, so that nothing is passed over: an unknown
 * key, a value outside the range of its unit, a measured triple with a part missing is STATUS_BAD_INPUT with the JSON path. The writers give back the same keys in the same order: plans byte for byte as the
 * program writes them, profiles value for value.
 *
 *     struct arena arena = { 0 }; struct galvatron_file file;
 *     TRY(galvatron_file_load(&file, "allreduce_bandwidth_1nodes_8gpus_per_node.json", &arena, error));
 *     galvatron_hardware_add(&file, &hardware, error); */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_FILES_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_FILES_H

#include "sim/base/arena.h"
#include "sim/base/json.h"
#include "sim/base/strbuf.h"
#include "strategies/planners/galvatron_profile.h"

enum { GALVATRON_KEY_NUMBERS = 20, GALVATRON_ENTRIES_MAX = 8192 };

enum galvatron_file_kind {
    GALVATRON_FILE_HARDWARE,
    GALVATRON_FILE_COMPUTATION,
    GALVATRON_FILE_MEMORY,
    GALVATRON_FILE_KIND_COUNT
};
const char *galvatron_file_kind_word(enum galvatron_file_kind kind); /* "hardware", "computation", "memory" */

/* One key, in the file's order (preorder). A list in a key is its length, then its members. */
struct galvatron_entry {
    const char *
        pattern; /* "layernum@_bsz#": '#' a number, '@' a list in brackets; static: equal patterns are equal pointers */
    const char *unit; /* "ms", "MiB", "GB/s", "ms/MiB"; NULL: a group */
    uint32_t depth;   /* 0 at the root */
    uint32_t number_count, numbers[GALVATRON_KEY_NUMBERS];
    double value;
};

struct galvatron_file {
    enum galvatron_file_kind kind;
    struct galvatron_entry *entries;
    uint32_t entry_count;
};

/* Everything lives in `arena`. The kind is told by the first key. */
enum status galvatron_file_load(struct galvatron_file *file, const char *path, struct arena *arena,
                                struct error *error);
enum status galvatron_file_read(struct galvatron_file *file, const struct json *root, struct arena *arena,
                                struct error *error);
/* Galvatron's layout: four spaces a level, no newline at the end. */
void galvatron_file_write(const struct galvatron_file *file, struct strbuf *out);
/* The value of a pattern (its text) with these numbers, from entry `first` on, as long as entries are at `depth` or deeper; NAN: not there. */
double galvatron_file_value(const struct galvatron_file *file, uint32_t first, uint32_t depth, const char *pattern,
                            const uint32_t *numbers, uint32_t number_count);

/* Put what a hardware file says into a profile (several files make up one): bandwidths in GB/s become ms per MiB as Galvatron takes them, 1 / (GB/s). hardware->gpus must be set: degrees beyond it are refused. */
enum status galvatron_hardware_add(const struct galvatron_file *file, struct galvatron_hardware_profile *hardware,
                                   struct error *error);

/* ---- searched plans ---- */

enum { GALVATRON_PLAN_KEYS = 14, GALVATRON_PLAN_LAYERS_MAX = 10000 };

struct galvatron_plan_file {
    uint32_t gpus; /* not in the file: told by the caller; data = gpus / (pipeline * tensor) */
    uint32_t pipeline, layer_count, global_batch, chunks;
    struct galvatron_strategy *layers; /* [layer_count]; recompute from "checkpoint", sharded from "dp_types_enc" */
    bool *tensor_consecutive;          /* [layer_count] as written: a strategy has it only where it is a choice */
    bool *ulysses; /* [layer_count] "use_sp": the tensor degree is one of Ulysses sequence parallelism; NULL: absent */
    uint32_t *division;       /* [pipeline] layers of each stage; even (rest to the last) when absent */
    bool one_f_one_b;         /* "pipeline_type": pipedream_flush, or gpipe (also when absent: first version) */
    const char *default_data; /* "ddp", "zero2", "zero3" of layers that are not sharded; "ddp" when absent */
    uint32_t vocab_tensor;    /* "vtp"; 1 when absent */
    bool vocab_ulysses, embed_sharded; /* "vsp", "embed_sdp" */
    uint8_t keys[GALVATRON_PLAN_KEYS]; /* the file's keys in its order */
    uint32_t key_count;
};

/* `gpus`: of the machine, a power of two. `layers` 0: any; else a plan of another length is for another model. */
enum status galvatron_plan_file_load(struct galvatron_plan_file *plan, const char *path, uint32_t gpus, uint32_t layers,
                                     struct arena *arena, struct error *error);
enum status galvatron_plan_file_read(struct galvatron_plan_file *plan, const struct json *root, uint32_t gpus,
                                     uint32_t layers, struct arena *arena, struct error *error);
void galvatron_plan_file_write(const struct galvatron_plan_file *plan, struct strbuf *out);
/* "pp_deg" for plan->keys[i]. */
const char *galvatron_plan_key_word(uint8_t key);
/* Gives `plan` the keys of today's Galvatron, in its order: for plans that come from elsewhere. */
void galvatron_plan_file_all_keys(struct galvatron_plan_file *plan);

#endif
