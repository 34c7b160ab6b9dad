/* Fuzz the readers of Galvatron's files: valid texts with bytes changed. What is read must be written and read back to the same text; nothing may crash (run under ASan and UBSan). */
#include "strategies/planners/galvatron_exchange.h"
#include "tests/fuzz/fuzz.h"

static const char *const seeds[] = {
    "{\"pp_deg\":2,\"tp_sizes_enc\":\"2,2,1,4\",\"tp_consecutive_flags\":\"1,0,1,1\",\"dp_types_enc\":\"0,1,0,1\","
    "\"use_sp\":\"0,1,0,0\",\"checkpoint\":\"0,1,0,0\",\"global_bsz\":16,\"chunks\":2,\"pp_division\":\"1,3\","
    "\"pipeline_type\":\"pipedream_flush\",\"default_dp_type\":\"zero2\",\"vtp\":2,\"vsp\":1,\"embed_sdp\":0}",
    "{\"1_8_1\":0.2153,\"1_4_0\":0.22,\"pp_deg_2\":0.49,\"allreduce_size_4_consec_0\":155.8,\"pp_size_8\":109.4,"
    "\"overlap_coe\":1.3,\"allreduce_size_8_16MB_time\":0.29}",
    "{\"layernum[2,2]_bsz1_seq[512,512]\":11.6,\"layertype_0_bsz1_seq512\":1.28,\"layertype_other_bsz1_seq[512,512]\":"
    "4.3,\"fwd_time_hidden_1024\":{\"encoder\":1.4,\"decoder\":2.7}}",
    "{\"1_1_8_sp\":{\"layernum[1,1]_bsz8_seq[512,512]_rank0_ms\":434.7,\"layernum[1,1]_bsz8_seq[512,512]_rank0_act\":"
    "163.5,\"layernum[1,1]_bsz8_seq[512,512]_rank0_act_peak\":418.2},\"layertype_0_sp\":{\"512\":{\"parameter_size\":"
    "48.0,\"tp_activation_per_bsz_dict\":{\"1\":20.5,\"checkpoint\":1}}},\"other_memory_pp_off_sp\":{\"512\":{"
    "\"model_states\":{\"1\":5},\"activation\":{\"1\":6}}}}",
};
enum { SEED_COUNT = sizeof seeds / sizeof seeds[0], TEXT_MAX = 1024 };

/* Into a profile and into a machine: whatever the keys, an answer or a message. */
static void take_over(const struct galvatron_file *file)
{
    struct scenario scenario = { .model = { .hidden = 1280, .layers = 2 }, .plan = { .sequence_length = 512 } };
    const struct machine base = { .gpu_count = 8 };
    struct galvatron_model_profile model = { .kind_count = 1 };
    struct error error = { 0 };
    struct strbuf out = { 0 };
    if (file->kind != GALVATRON_FILE_HARDWARE && galvatron_model_add(file, &scenario, &model, &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
    }
    error.message[0] = '\0';
    if (galvatron_machine_from_files(file, 1, &base, &out, &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
    }
    strbuf_free(&out);
}

/* Writes what `text` holds; false: refused. */
static bool rewrite(const char *text, struct strbuf *out)
{
    struct json_document *document = NULL;
    struct json root;
    struct arena arena = { 0 };
    struct error error = { 0 };
    struct galvatron_file file;
    struct galvatron_plan_file plan;
    bool fine = false;
    if (json_parse(&document, text, strlen(text), "fuzz.json", &error) == STATUS_OK) {
        json_root(document, &root);
        if (galvatron_file_read(&file, &root, &arena, &error) == STATUS_OK) {
            struct galvatron_hardware_profile hardware = { .gpus = 16 };
            (void)galvatron_hardware_add(&file, &hardware, &error);
            take_over(&file);
            galvatron_file_write(&file, out);
            fine = true;
        } else {
            EXPECT(error.message[0] != '\0');
            if (galvatron_plan_file_read(&plan, &root, 8, 0, &arena, &error) == STATUS_OK) {
                galvatron_plan_file_write(&plan, out);
                fine = true;
            } else {
                EXPECT(error.message[0] != '\0');
            }
        }
    }
    json_free(document);
    arena_free(&arena);
    return fine;
}

static void round_of(uint64_t seed)
{
    uint64_t random = seed;
    for (unsigned i = 0; i < 200; i++) {
        char text[TEXT_MAX];
        snprintf(text, sizeof text, "%s", seeds[test_below(&random, SEED_COUNT)]);
        for (uint64_t n = test_below(&random, 3); n > 0; n--) {
            size_t length = strlen(text), at = test_below(&random, length);
            if (test_below(&random, 3) == 0) {
                memmove(text + at, text + at + 1, length - at);
            } else {
                text[at] = "{}[]\":,_0123456789.eE-cs"[test_below(&random, 24)];
            }
            if (text[0] == '\0') {
                break;
            }
        }
        struct strbuf once = { 0 }, twice = { 0 };
        if (rewrite(text, &once)) {
            EXPECT(rewrite(once.text, &twice));
            EXPECT_TEXT(twice.text, once.text);
        }
        strbuf_free(&once);
        strbuf_free(&twice);
        if (test_failures > 0) {
            printf("text: %s\n", text);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
