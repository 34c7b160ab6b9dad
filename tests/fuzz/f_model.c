/* Fuzz the model loaders: valid descriptions mutated byte by byte and value by value. Whatever loads must pass its
 * own check, count without overflow, and build layer graphs or refuse
 * them; nothing may crash (run under ASan and UBSan).
 */
#include "sim/model/layer.h"
#include "sim/model/model.h"
#include "tests/fuzz/fuzz.h"

static const char *const seeds[] = {
    "{\"family\":\"gpt\",\"layers\":24,\"hidden\":1024,\"heads\":16,\"ffn\":4096,\"vocab\":50257,\"max_sequence\":1024,"
    "\"dropout\":0.1,\"norm\":\"rms_norm\",\"activation\":\"relu\",\"positions\":\"rotary\"}",
    "{\"family\":\"llama\",\"layers\":2,\"hidden\":4096,\"heads\":32,\"kv_heads\":8,\"ffn\":14336,\"vocab\":1282,"
    "\"max_sequence\":8192,\"tied_head\":true,\"qkv_bias\":true,\"head_size\":128}",
    "{\"family\":\"bert\",\"layers\":12,\"hidden\":768,\"heads\":12,\"vocab\":30522,\"max_sequence\":512,\"pooler\":"
    "true,"
    "\"mlm_head\":false,\"classes\":3,\"segment_types\":2}",
    "{\"family\":\"vit\",\"layers\":12,\"hidden\":768,\"heads\":12,\"image_size\":224,\"patch_size\":16,\"channels\":3,"
    "\"classes\":10}",
    "{\"base\":\"gpt3-175b\",\"layers\":4,\"parallel_residual\":true}",
    "\"llama-3-8b\"",
    "{\"model_type\":\"gpt2\",\"n_layer\":12,\"n_embd\":768,\"n_head\":12,\"vocab_size\":50257,\"n_positions\":1024,"
    "\"n_inner\":null}",
    "{\"model_type\":\"bert\",\"architectures\":[\"BertForMaskedLM\"],\"num_hidden_layers\":2,\"hidden_size\":64,"
    "\"num_attention_heads\":4,\"intermediate_size\":99,\"vocab_size\":30,\"hidden_act\":\"gelu\"}",
    "{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"qwen2\",\"num_hidden_layers\":2,\"hidden_size\":64,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":30,\"tie_word_"
    "embeddings\":true}}",
    "{\"model_type\":\"opt\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,\"ffn_dim\":96,"
    "\"vocab_size\":30,"
    "\"do_layer_norm_before\":true,\"word_embed_proj_dim\":64,\"dropout\":0.1}",
    "{\"architectures\":[\"GPTNeoXForCausalLM\"],\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,"
    "\"intermediate_size\":96,\"vocab_size\":30}",
    "{\"model_type\":\"vit\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,\"image_size\":32,"
    "\"patch_size\":8,"
    "\"id2label\":{\"0\":\"a\",\"1\":\"b\"}}",
};
enum { SEED_COUNT = sizeof seeds / sizeof seeds[0], TEXT_MAX = 2048 };

static const char *const tokens[] = { "0",          "-1",          "1",        "1e300",      "9223372036854775808",
                                      "0.5",        "null",        "true",     "false",      "\"\"",
                                      "{}",         "[]",          "16777216", "1048576",    "65536",
                                      "3",          "NaN",         "\"gelu\"", "\"silu\"",   "10000",
                                      "\"rotary\"", "\"learned\"", "\"none\"", "\"swiglu\"", "\"bert\"" };

/* Replace the value after a random colon by a random token. */
static void mutate_value(char *text, uint64_t *random)
{
    size_t length = strlen(text), colons = 0;
    for (size_t i = 0; i < length; i++) {
        colons += text[i] == ':';
    }
    if (colons == 0) {
        return;
    }
    size_t pick = test_below(random, colons), at = 0;
    for (; at < length; at++) {
        if (text[at] == ':' && pick-- == 0) {
            break;
        }
    }
    size_t end = at + 1;
    while (end < length && text[end] != ',' && text[end] != '}') {
        end++;
    }
    const char *token = tokens[test_below(random, sizeof tokens / sizeof tokens[0])];
    size_t token_length = strlen(token), rest = length - end;
    if (at + 1 + token_length + rest + 1 <= TEXT_MAX) {
        memmove(text + at + 1 + token_length, text + end, rest + 1);
        memcpy(text + at + 1, token, token_length);
    }
}

static void mutate_bytes(char *text, uint64_t *random)
{
    size_t length = strlen(text);
    if (length < 2) {
        return;
    }
    size_t at = test_below(random, length);
    switch (test_below(random, 4)) {
    case 0: text[at] = (char)(1 + test_below(random, 255)); break;
    case 1: memmove(text + at, text + at + 1, length - at); break;
    case 2: text[at] = '\0'; break;
    default: text[at] = "{}[]\":,0123456789.eE-"[test_below(random, 21)]; break;
    }
}

static void try_layers(const struct model *model, uint64_t *random)
{
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        struct arena arena = { 0 };
        int64_t tensor = (int64_t)1 << test_below(random, 4);
        struct layer_shape shape = { .micro_batch = (int64_t)(1 + test_below(random, 4)),
                                     .sequence = model->max_sequence,
                                     .tensor = tensor,
                                     .sequence_parallel = test_below(random, 2) == 1,
                                     .context = 1,
                                     .dtype = (enum dtype)test_below(random, DTYPE_COUNT),
                                     .padded_vocab =
                                         model_padded_vocab(model, tensor, 128 * (int64_t)test_below(random, 2)),
                                     .flash_attention = test_below(random, 2) == 1,
                                     .fused_kernels = test_below(random, 2) == 1,
                                     .separate_backward_weight = test_below(random, 2) == 1,
                                     .selective_ops = test_below(random, 2) == 1,
                                     .loss = (enum loss_kind)test_below(random, LOSS_COUNT),
                                     .gradient_bytes = (int64_t)test_below(random, 5) };
        struct layer_graph graph;
        struct error error = { 0 };
        if (layer_graph_build(&graph, model, (enum layer_kind)kind, &shape, &arena, &error) != STATUS_OK) {
            EXPECT(error.message[0] != '\0');
        } else {
            EXPECT(graph.saved_bytes_full <= graph.saved_bytes_selective);
            EXPECT(graph.forward_count <= graph.op_count);
            EXPECT(graph.parameters >= 0 && graph.replicated_parameters <= graph.parameters);
            for (uint32_t i = 0; i < graph.op_count; i++) {
                const struct kernel *k = &graph.ops[i].kernel;
                EXPECT(k->launches >= 1 && k->flops >= 0 && k->bytes_read >= 0 && k->bytes_written >= 0);
                EXPECT(graph.ops[i].collective != LAYER_NO_COLLECTIVE ||
                       (k->m >= 1 && k->n >= 1 && k->k >= 1 && k->batch >= 1));
            }
        }
        arena_free(&arena);
    }
}

static void try_text(const char *text, uint64_t *random)
{
    struct json_document *document = NULL;
    struct json root;
    struct model model;
    struct error error = { 0 };
    if (json_parse(&document, text, strlen(text), "fuzz.json", &error) != STATUS_OK) {
        return;
    }
    json_root(document, &root);
    bool loaded = model_from_json(&model, &root, &error) == STATUS_OK;
    if (loaded) {
        EXPECT(model_check(&model, &error) == STATUS_OK);
        EXPECT(model_parameters(&model) > 0);
        EXPECT(model_step_flops(&model, 1, (double)model.max_sequence) > 0);
        try_layers(&model, random);
    } else if (error.message[0] == '\0') {
        TEST_FAIL_("no message for %s", text);
    }
    json_free(document);
}

static void round_of(uint64_t seed)
{
    uint64_t random = seed;
    for (unsigned i = 0; i < 50; i++) {
        char text[TEXT_MAX];
        snprintf(text, sizeof text, "%s", seeds[test_below(&random, SEED_COUNT)]);
        for (uint64_t n = test_below(&random, 4); n > 0; n--) {
            if (test_below(&random, 3) == 0) {
                mutate_bytes(text, &random);
            } else {
                mutate_value(text, &random);
            }
        }
        try_text(text, &random);
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
