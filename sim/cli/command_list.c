/* memwall list: what the library holds, for people and (--json) for programs. */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/json.h"
#include "sim/cli/cli.h"
#include "sim/cli/list_topics.h"
#include "sim/model/ladder.h"
#include "sim/model/model.h"
#include "sim/plan/scenario.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_list = {
    .name = "list",
    .usage = "[models|ladders|machines|software|orders|policies|planners|scenarios|parameters] [--json]",
    .summary = "list models, machines, software stacks, strategies, scenario keys",
    .help = "  models      the model library: shapes, exact parameter counts\n"
            "  ladders     models that grow step by step, for memwall fit --models\n"
            "  machines    the machine library: GPUs, links, prices, and where each number comes from (--json)\n"
            "  software    software stacks: host costs, kernels, bytes per parameter\n"
            "  orders      pipeline orders and their parameters\n"
            "  policies    memory policies and their parameters\n"
            "  planners    planners of memwall plan and their parameters (--variant NAME=VALUE)\n"
            "  scenarios   scenario files in ./scenarios (else those installed), or in the folder named after it\n"
            "  parameters  every key of a scenario with its type and default\n",
    .positional_min = 0,
    .positional_max = 2,
    .run = run,
};

void list_head(struct text_table *table, uint32_t count, uint32_t right, const char *const *names)
{
    table->column_count = count;
    table->right = right;
    for (uint32_t i = 0; i < count; i++) {
        text_table_cell(table, "%s", names[i]);
    }
}

/* ---- models ---- */

static void model_json(struct json_writer *w, const struct model *m)
{
    jw_object(w, NULL);
    jw_string(w, "name", m->name);
    jw_string(w, "family", model_family_word(m->family));
    jw_int(w, "layers", m->layers);
    jw_int(w, "hidden", m->hidden);
    jw_int(w, "heads", m->heads);
    jw_int(w, "kv_heads", m->kv_heads);
    jw_int(w, "head_size", m->head_size);
    jw_int(w, "ffn", m->ffn);
    jw_int(w, "vocab", m->vocab);
    jw_int(w, "max_sequence", m->max_sequence);
    jw_string(w, "norm", model_norm_word(m->norm));
    jw_string(w, "activation", model_activation_word(m->activation));
    jw_string(w, "positions", model_positions_word(m->positions));
    jw_bool(w, "tied_head", m->tied_head);
    jw_bool(w, "causal", m->causal);
    jw_int(w, "parameters", model_parameters(m));
    if (model_is_uniform(m)) {
        jw_int(w, "layer_parameters", model_layer_parameters(m));
    } else {
        jw_null(w, "layer_parameters"); /* they differ */
    }
    if (m->published_parameters > 0) {
        jw_real(w, "published_parameters", m->published_parameters);
    } else {
        jw_null(w, "published_parameters");
    }
    jw_string(w, "source", m->source);
    jw_end(w);
}

static enum status list_models(struct lister *l)
{
    static const char *const names[] = { "name", "family", "layers",       "hidden",     "heads", "kv_heads",
                                         "ffn",  "vocab",  "max_sequence", "parameters", "source" };
    if (l->table != NULL) {
        list_head(l->table, 11, 0x3fcu, names);
        l->table->last_width = 72;
    }
    for (uint32_t i = 0; i < model_library_count(); i++) {
        struct model m;
        model_library_get(i, &m);
        if (l->json != NULL) {
            model_json(l->json, &m);
            continue;
        }
        const int64_t numbers[] = { m.layers, m.hidden, m.heads, m.kv_heads, m.ffn, m.vocab, m.max_sequence };
        text_table_cell(l->table, "%s", m.name);
        text_table_cell(l->table, "%s", model_family_word(m.family));
        for (uint32_t k = 0; k < 7; k++) {
            text_table_cell(l->table, "%" PRId64, numbers[k]);
        }
        text_table_cell(l->table, "%" PRId64, model_parameters(&m));
        text_table_cell(l->table, "%s", m.source);
    }
    return STATUS_OK;
}

/* ---- ladders ---- */

static enum status list_ladders(struct lister *l)
{
    static const char *const names[] = { "name", "models", "source" };
    if (l->table != NULL) {
        list_head(l->table, 3, 0, names);
        l->table->last_width = 72;
    }
    for (uint32_t i = 0; i < model_ladder_count(); i++) {
        const struct model_ladder *ladder = model_ladder_get(i);
        if (l->json != NULL) {
            jw_object(l->json, NULL);
            jw_string(l->json, "name", ladder->name);
            jw_array(l->json, "models");
        } else {
            text_table_cell(l->table, "%s", ladder->name);
            text_table_cell(l->table, "%u: %s to %s", ladder->count, ladder->models[0],
                            ladder->models[ladder->count - 1]);
            text_table_cell(l->table, "%s", ladder->source);
        }
        for (uint32_t m = 0; l->json != NULL && m < ladder->count; m++) {
            jw_string(l->json, NULL, ladder->models[m]);
        }
        if (l->json != NULL) {
            jw_end(l->json);
            jw_string(l->json, "source", ladder->source);
            jw_end(l->json);
        }
    }
    return STATUS_OK;
}

/* ---- scenarios ---- */

static int is_json_name(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

/* One scenario file: a file that does not load is listed with its complaint, so that one bad file hides no other. */
static void scenario_row(struct lister *l, const char *path)
{
    struct scenario *scenario = calloc(1, sizeof *scenario);
    struct error error = { 0 };
    char text[ERROR_MESSAGE_BYTES + ERROR_FILE_BYTES + ERROR_PATH_BYTES];
    if (scenario == NULL) {
        return;
    }
    bool ok = scenario_load(scenario, path, NULL, 0, &error) == STATUS_OK;
    const char *name = ok ? scenario->name : error_text(&error, text, sizeof text);
    if (l->json != NULL) {
        jw_object(l->json, NULL);
        jw_string(l->json, "file", path);
        jw_bool(l->json, "valid", ok);
        jw_string(l->json, ok ? "name" : "complaint", name);
        if (ok) {
            jw_string(l->json, "model", scenario->model.name);
            jw_string(l->json, "machine", scenario->machine.name);
            jw_string(l->json, "software", scenario->software.name);
            jw_uint(l->json, "gpus", scenario->cluster.gpus);
        }
        jw_end(l->json);
    } else {
        text_table_cell(l->table, "%s", path);
        text_table_cell(l->table, "%u", ok ? scenario->cluster.gpus : 0);
        text_table_cell(l->table, "%s", ok ? scenario->model.name : "-");
        text_table_cell(l->table, "%s", ok ? scenario->machine.name : "-");
        text_table_cell(l->table, "%s", name);
    }
    if (ok) {
        scenario_free(scenario);
    }
    free(scenario);
}

static enum status list_scenarios(struct lister *l)
{
    static const char *const names[] = { "file", "GPUs", "model", "machine", "name" };
    struct dirent **entries = NULL;
    int count = scandir(l->folder, &entries, is_json_name, alphasort);
    if (count < 0) {
        return error_at(l->error, STATUS_NOT_FOUND, l->folder, NULL,
                        "no such folder; give another: memwall list scenarios FOLDER");
    }
    if (l->table != NULL) {
        list_head(l->table, 5, 0x2u, names);
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", l->folder, entries[i]->d_name);
        scenario_row(l, path);
        free(entries[i]);
    }
    free(entries);
    return STATUS_OK;
}

static enum status list_parameters(struct lister *l)
{
    static const char *const names[] = { "key", "type", "default", "what it is" };
    uint32_t count;
    const struct scenario_key *keys = scenario_keys(&count);
    if (l->table != NULL) {
        list_head(l->table, 4, 0, names);
        l->table->last_width = 90;
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *const texts[] = { keys[i].path, keys[i].type, keys[i].fallback, keys[i].help };
        static const char *const json_names[] = { "key", "type", "default", "help" };
        if (l->json != NULL) {
            jw_object(l->json, NULL);
        }
        for (uint32_t k = 0; k < 4; k++) {
            if (l->json != NULL) {
                jw_string(l->json, json_names[k], texts[k]);
            } else {
                text_table_cell(l->table, "%s", texts[k]);
            }
        }
        if (l->json != NULL) {
            jw_end(l->json);
        }
    }
    return STATUS_OK;
}

/* ---- the command ---- */

static const struct topic {
    const char *name, *what;
    enum status (*list)(struct lister *lister);
} TOPICS[] = {
    { "models", "the model library", list_models },
    { "ladders", "models that grow step by step, for memwall fit --models", list_ladders },
    { "machines", "the machine library", list_machines },
    { "software", "software stacks", list_software },
    { "orders", "pipeline orders", list_orders },
    { "policies", "memory policies", list_policies },
    { "planners", "planners of memwall plan", list_planners },
    { "scenarios", "scenario files in ./scenarios", list_scenarios },
    { "parameters", "keys of a scenario", list_parameters },
};
enum { TOPIC_COUNT = sizeof TOPICS / sizeof TOPICS[0] };

static enum status print_json(const struct topic *only, const char *folder, struct strbuf *out, struct error *error)
{
    struct json_writer w = { .out = out };
    struct lister lister = { .json = &w, .folder = folder, .error = error };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.list/1");
    for (int i = 0; i < TOPIC_COUNT; i++) {
        if (only != NULL && only != &TOPICS[i]) {
            continue;
        }
        jw_array(&w, TOPICS[i].name);
        enum status status = TOPICS[i].list(&lister);
        if (status != STATUS_OK && (only != NULL || status != STATUS_NOT_FOUND)) {
            return status; /* without a topic, an absent ./scenarios is an empty list */
        }
        jw_end(&w);
    }
    jw_end(&w);
    strbuf_char(out, '\n');
    return STATUS_OK;
}

static enum status print_text(const struct topic *topic, const char *folder, struct strbuf *out, struct error *error)
{
    struct text_table table = { 0 };
    struct lister lister = { .table = &table, .folder = folder, .error = error };
    enum status status = STATUS_OK;
    if (topic == NULL) {
        table.column_count = 2;
        strbuf_append(out, "memwall list TOPIC [--json]; topics:\n");
        for (int i = 0; i < TOPIC_COUNT; i++) {
            text_table_cell(&table, "%s", TOPICS[i].name);
            text_table_cell(&table, "%s", TOPICS[i].what);
        }
    } else {
        status = topic->list(&lister);
    }
    if (status == STATUS_OK) {
        text_table_print(&table, topic == NULL ? 2 : 0, topic != NULL, out);
    }
    text_table_free(&table);
    return status;
}

static enum status find_topic(const char *name, const struct topic **topic, struct error *error)
{
    const char *names[TOPIC_COUNT];
    char all[128] = "";
    for (int i = 0; i < TOPIC_COUNT; i++) {
        names[i] = TOPICS[i].name;
        if (strcmp(name, names[i]) == 0) {
            *topic = &TOPICS[i];
            return STATUS_OK;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const char *near = nearest_word(name, names, TOPIC_COUNT);
    return error_set(error, STATUS_NOT_FOUND, "unknown topic \"%.100s\"%s%s%s; topics: %s", name,
                     near != NULL ? ", did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "", all);
}

/* ./scenarios, or where there is none those that were installed with this program (bin beside share). */
static const char *usual_folder(char installed[PATH_MAX])
{
    static const char here[] = "scenarios", beside[] = "/share/memwall/scenarios";
    ssize_t length = readlink("/proc/self/exe", installed, PATH_MAX - sizeof beside);
    installed[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(installed, '/');
        *(slash != NULL ? slash : installed) = '\0';
    }
    memcpy(installed + strlen(installed), beside, sizeof beside);
    return access(here, F_OK) != 0 && access(installed, R_OK) == 0 ? installed : here;
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    char installed[PATH_MAX];
    if (!cli_parse(&command_list, argc, argv, &flags, NULL, 0, &code)) {
        return code;
    }
    struct error error = { 0 };
    struct strbuf out = { 0 };
    const struct topic *topic = NULL;
    const char *folder = flags.positional_count > 1 ? flags.positionals[1] : usual_folder(installed);
    enum status status = flags.positional_count > 0 ? find_topic(flags.positionals[0], &topic, &error) : STATUS_OK;
    if (status == STATUS_OK && flags.positional_count > 1 && topic->list != list_scenarios) {
        status = error_set(&error, STATUS_BAD_INPUT, "only \"list scenarios\" takes a folder, found \"%.100s\"",
                           flags.positionals[1]);
    }
    if (status == STATUS_OK) {
        status = flags.json ? print_json(topic, folder, &out, &error) : print_text(topic, folder, &out, &error);
    }
    if (status != STATUS_OK) {
        strbuf_free(&out);
        return cli_complain(&error);
    }
    return cli_answer(&flags, "list", &out, EXIT_DONE);
}
