/* run --from-deepspeed: a DeepSpeed configuration, a model and a machine in place of a scenario file. */
#ifndef MEMWALL_CLI_FROM_DEEPSPEED_H
#define MEMWALL_CLI_FROM_DEEPSPEED_H

#include "sim/cli/cli.h"
#include "sim/plan/deepspeed_config.h"

struct deepspeed_input {
    const char *config, *model, *machine, *gpus; /* texts of --from-deepspeed, --model, --machine, --gpus; NULL */
    struct deepspeed_reading reading;
};

enum { DEEPSPEED_FLAG_COUNT = 4 };
void deepspeed_input_flags(struct deepspeed_input *input, struct cli_flag flags[DEEPSPEED_FLAG_COUNT]);

/* Whether the flags ask for it; refuses halves of it, and neither it nor a scenario file. Makes flags->scenario; standard error says which keys have no effect, unless quiet. */
enum status deepspeed_input_read(struct deepspeed_input *input, struct cli_flags *flags, struct error *error);
/* "ignored_keys" at the end of the result's JSON document. */
void deepspeed_input_add_ignored(const struct deepspeed_input *input, struct strbuf *out);
void deepspeed_input_free(struct deepspeed_input *input);

#endif
