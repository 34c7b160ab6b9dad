#include "sim/cli/from_deepspeed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw_models/machine.h"
#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/plan/plan.h"

/* ds_config.json is a page of text. */
#define CONFIG_BYTES_MAX ((size_t)4 << 20)

void deepspeed_input_flags(struct deepspeed_input *input, struct cli_flag flags[DEEPSPEED_FLAG_COUNT])
{
    const struct cli_flag all[DEEPSPEED_FLAG_COUNT] = {
        { "from-deepspeed", "FILE", "a DeepSpeed configuration (ds_config.json) instead of a scenario",
          &input->config },
        { "model", "NAME", "with --from-deepspeed: a library model or a config.json", &input->model },
        { "machine", "NAME", "with --from-deepspeed: a library machine or a file", &input->machine },
        { "gpus", "N", "with --from-deepspeed: GPUs in use (default all of the machine)", &input->gpus },
    };
    memcpy(flags, all, sizeof all);
}

/* The last --set of this key as a count, else `fallback`. What else it may be, the scenario's reader judges. */
static int64_t set_count_of(const struct cli_flags *flags, const char *key, int64_t fallback)
{
    size_t length = strlen(key);
    for (uint32_t i = flags->set_count; i-- > 0;) {
        if (strncmp(flags->sets[i], key, length) == 0 && flags->sets[i][length] == '=') {
            char *end;
            double value = strtod(flags->sets[i] + length + 1, &end);
            bool count = *end == '\0' && value >= 1 && value <= (double)PLAN_DEGREE_MAX && floor(value) >= value;
            return count ? (int64_t)value : fallback;
        }
    }
    return fallback;
}

static enum status read_gpus(const struct deepspeed_input *input, const struct cli_flags *flags, int64_t *gpus,
                             struct error *error)
{
    double count = 0;
    if (input->gpus != NULL) {
        char *end;
        count = strtod(input->gpus, &end);
        if (*end != '\0' || end == input->gpus || !(count >= 1 && count <= (double)PLAN_DEGREE_MAX) ||
            floor(count) < count) {
            return error_at(error, STATUS_BAD_INPUT, "--gpus", NULL, "expected a count of 1 to %lld, found \"%.64s\"",
                            (long long)PLAN_DEGREE_MAX, input->gpus);
        }
        *gpus = (int64_t)count;
        return STATUS_OK;
    }
    struct machine machine;
    TRY(machine_load(&machine, input->machine, error));
    *gpus = (int64_t)machine.gpu_count * set_count_of(flags, "nodes", 1);
    machine_free(&machine);
    *gpus = set_count_of(flags, "gpus", *gpus);
    return STATUS_OK;
}

static enum status check_flags(const struct deepspeed_input *input, const struct cli_flags *flags, struct error *error)
{
    if (input->config == NULL && (input->model != NULL || input->machine != NULL || input->gpus != NULL)) {
        return error_at(error, STATUS_BAD_INPUT,
                        input->model != NULL     ? "--model"
                        : input->machine != NULL ? "--machine"
                                                 : "--gpus",
                        NULL, "belongs to --from-deepspeed FILE; of a scenario use --set");
    }
    if (input->config == NULL && flags->positional_count == 0) {
        return error_at(error, STATUS_BAD_INPUT, "run", NULL,
                        "an argument is missing: SCENARIO.json, or --from-deepspeed FILE --model NAME --machine NAME");
    }
    if (input->config != NULL && flags->positional_count > 0) {
        return error_at(error, STATUS_BAD_INPUT, "--from-deepspeed", NULL,
                        "takes the place of a scenario, found \"%.128s\" too", flags->positionals[0]);
    }
    if (input->config != NULL && (input->model == NULL || input->machine == NULL)) {
        return error_at(error, STATUS_BAD_INPUT, "--from-deepspeed", NULL, "needs %s too: the file does not say it",
                        input->model == NULL ? "--model NAME" : "--machine NAME");
    }
    return STATUS_OK;
}

static void tell_ignored(const struct deepspeed_input *input)
{
    const struct deepspeed_ignored_list *list = &input->reading.ignored;
    for (size_t i = 0; i < list->count; i++) {
        fprintf(stderr, "memwall: %s: %s: %s\n", input->config, list->items[i].path, list->items[i].reason);
    }
}

enum status deepspeed_input_read(struct deepspeed_input *input, struct cli_flags *flags, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    TRY(check_flags(input, flags, error));
    if (input->config == NULL) {
        return STATUS_OK;
    }
    struct deepspeed_request request = { .model = input->model, .machine = input->machine };
    TRY(read_gpus(input, flags, &request.gpus, error));
    request.model_parallel = set_count_of(flags, "parallel.tensor", 1) * set_count_of(flags, "parallel.pipeline", 1);
    TRY(json_load(&document, input->config, CONFIG_BYTES_MAX, error));
    json_root(document, &root);
    enum status status = deepspeed_read(&input->reading, &root, &request, error);
    json_free(document);
    if (status == STATUS_OK) {
        flags->positionals[flags->positional_count++] = input->config;
        flags->scenario = input->reading.scenario.text;
        if (!flags->quiet) {
            tell_ignored(input);
        }
    }
    return status;
}

void deepspeed_input_add_ignored(const struct deepspeed_input *input, struct strbuf *out)
{
    static const char end[] = "\n}\n";
    size_t length = strlen(end);
    struct strbuf list = { 0 };
    struct json_writer w = { .out = &list };
    if (input->config == NULL || out->failed) {
        return;
    }
    CHECK(out->length > length && strcmp(out->text + out->length - length, end) == 0);
    jw_object(&w, NULL);
    jw_array(&w, "ignored_keys");
    for (size_t i = 0; i < input->reading.ignored.count; i++) {
        jw_object(&w, NULL);
        jw_string(&w, "key", input->reading.ignored.items[i].path);
        jw_string(&w, "reason", input->reading.ignored.items[i].reason);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    if (list.failed) {
        out->failed = true;
    } else { /* the one member of its object, in place of the document's end */
        out->length -= length;
        strbuf_printf(out, ",%s\n", list.text + 1);
    }
    strbuf_free(&list);
}

void deepspeed_input_free(struct deepspeed_input *input)
{
    deepspeed_reading_free(&input->reading);
}
