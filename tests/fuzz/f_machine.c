/* Machine and software loaders against mutated library files: every input ends in a loaded machine or in a message, never a crash, a hang or a leak
 * (run under the sanitizers). A machine that loads keeps the promises of machine.h. argv[1] seeds; the number of inputs is fixed, argv[2] changes it. */
#include "hw_models/cluster.h"
#include "hw_models/machine.h"
#include "hw_models/software.h"

#include "tests/fuzz/fuzz.h"

enum { TEXT_MAX = 1 << 16 };

static uint64_t fuzz_state;
static uint64_t fuzz_accepted, fuzz_refused;

/* A machine as a calibration of this computer writes it: what no library file has. */
static const char CALIBRATED[] =
    "{\"name\":\"mine\",\"gpu_count\":4,\"gpu\":{\"model\":\"thread\",\"architecture\":\"host\",\"on_host\":true,"
    "\"sm_count\":1,\"clock_MHz\":1000,\"l2_MB\":1,\"memory_GiB\":1,\"hbm_peak_GBps\":16,\"hbm_GBps\":10,"
    "\"peak_TFLOPS\":{\"fp32\":1}},\"host\":{\"pageable_GBps\":2.5,\"adam_Gparameters_per_s_core\":0.1},"
    "\"nccl\":{\"bus_GBps\":2,\"latency_us\":100,\"sms\":0,\"channels\":1},"
    "\"parts\":[{\"id\":\"cpu[0-1]\",\"kind\":\"cpu_socket\",\"cores\":2},"
    "{\"id\":\"dram[0-1]\",\"kind\":\"host_dram\",\"capacity_GiB\":8},{\"id\":\"gpu[0-3]\",\"kind\":\"gpu\"}],"
    "\"links\":[{\"kind\":\"ddr\",\"a\":\"cpu[0-1]\",\"b\":\"dram[0-1]\",\"GBps\":16},"
    "{\"kind\":\"socket\",\"a\":\"cpu0\",\"b\":\"cpu1\",\"GBps\":8},"
    "{\"kind\":\"pcie\",\"a\":\"cpu[0-1]\",\"b\":\"gpu[0-3]\",\"GBps\":5,\"back_GBps\":4,\"latency_us\":10}],"
    "\"kernel_model\":{\"class_efficiency\":{\"norm\":0.5}},"
    "\"standard_errors\":{\"gpu.hbm_GBps\":0.2,\"links.pcie.GBps\":0.1,\"links.0.GBps\":1,\"gpu.peak_TFLOPS.fp32\":0."
    "01,"
    "\"kernel_model.class_efficiency.norm\":0.02},"
    "\"residuals\":[{\"what\":\"copy h2d\",\"source\":\"a run\",\"points\":9,\"left_out\":2,\"mean_error\":0.01,"
    "\"worst_error\":0.05,\"left_out_mean_error\":0.02},{\"what\":\"norm\",\"source\":\"\",\"points\":3,"
    "\"mean_error\":0,\"worst_error\":0,\"left_out_mean_error\":null}],"
    "\"provenance\":[{\"source\":\"a run\",\"fields\":[\"gpu\",\"links.pcie.GBps\"]}]}";

static const char *const WORDS[] = { "0",
                                     "-1",
                                     "1e300",
                                     "1e-300",
                                     "9007199254740993",
                                     "null",
                                     "true",
                                     "[]",
                                     "{}",
                                     "\"\"",
                                     "\"gpu0\"",
                                     "\"gpu[0-3]\"",
                                     "\"base\"",
                                     "\"toy-2gpu\"",
                                     "[0-9]",
                                     "[3-1]",
                                     "\"all\"",
                                     "\"nvlink\"",
                                     "1e9",
                                     "0.5",
                                     ",",
                                     ":",
                                     "NaN",
                                     "\\u0000",
                                     "\"lanes\":",
                                     "4096",
                                     "65536",
                                     "\xff",
                                     "[[1,1],[2,2]]",
                                     "\"on_host\":true,",
                                     "\"standard_errors\":{\"gpu.sm_count\":1},",
                                     "\"residuals\":[]," };

static size_t mutate(char *text, size_t length, const char *other, size_t other_length)
{
    size_t at = test_below(&fuzz_state, length + 1), size = 1 + test_below(&fuzz_state, 24);
    switch (test_below(&fuzz_state, 7)) {
    case 0: /* flip a byte */
        if (at < length) {
            text[at] = (char)(text[at] ^ (1 << test_below(&fuzz_state, 8)));
        }
        return length;
    case 1: /* cut */
        size = at + size > length ? length - at : size;
        memmove(text + at, text + at + size, length - at - size);
        return length - size;
    case 2: { /* insert a word */
        const char *word = WORDS[test_below(&fuzz_state, sizeof WORDS / sizeof WORDS[0])];
        size = strlen(word);
        if (length + size < TEXT_MAX) {
            memmove(text + at + size, text + at, length - at);
            memcpy(text + at, word, size);
            length += size;
        }
        return length;
    }
    case 3: /* replace a number by a word */
        for (size_t i = at; i < length; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                const char *word = WORDS[test_below(&fuzz_state, sizeof WORDS / sizeof WORDS[0])];
                size_t end = i, word_length = strlen(word);
                while (end < length && strchr("0123456789.eE+-", text[end]) != NULL && text[end] != '\0') {
                    end++;
                }
                if (length - (end - i) + word_length < TEXT_MAX) {
                    memmove(text + i + word_length, text + end, length - end);
                    memcpy(text + i, word, word_length);
                    length = length - (end - i) + word_length;
                }
                break;
            }
        }
        return length;
    case 4: /* splice from another file */
        size = 1 + test_below(&fuzz_state, 200);
        if (other_length > size && length + size < TEXT_MAX) {
            memmove(text + at + size, text + at, length - at);
            memcpy(text + at, other + test_below(&fuzz_state, other_length - size), size);
            length += size;
        }
        return length;
    case 5: /* a digit becomes another */
        for (size_t i = at; i < length; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                text[i] = (char)('0' + test_below(&fuzz_state, 10));
                break;
            }
        }
        return length;
    default: /* double a stretch */
        size = 1 + test_below(&fuzz_state, 300);
        if (at + size < length && length + size < TEXT_MAX) {
            memmove(text + at + size, text + at, length - at);
            length += size;
        }
        return length;
    }
}

static void check_machine(const struct machine *machine)
{
    EXPECT(machine->gpu_count >= 1 && machine->gpu_count == machine_part_kind_count(machine, PART_GPU));
    EXPECT(machine->gpu.usable_bytes > 0.0 && machine->gpu.usable_bytes <= machine->gpu.memory_bytes);
    EXPECT(machine->gpu.hbm_bytes_per_s > 0.0 && machine->gpu.peak_flops[DTYPE_FP32] > 0.0);
    EXPECT(machine->part_count <= MACHINE_PARTS_MAX && machine->link_count <= MACHINE_LINKS_MAX);
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        EXPECT(link->a < machine->part_count && link->b < machine->part_count && link->a != link->b);
        EXPECT(link->bytes_per_s > 0.0 && link->bytes_per_s <= link->peak_bytes_per_s && isfinite(link->latency_s));
        EXPECT(link->both_bytes_per_s >= link->bytes_per_s && link->lanes >= 1);
    }
    for (uint32_t i = 0; i < machine->curve_count; i++) {
        EXPECT(machine->curves[i].ranks >= 2 && curve_at(&machine->curves[i].curve, 1e6) > 0.0);
    }
}

/* Where it came from and how sure it is; devices on the host have their way to every other. */
static void check_lists(const struct machine *machine)
{
    for (uint32_t i = 0; i < machine->standard_error_count; i++) {
        const char *field = machine->standard_errors[i].field;
        double value = machine->standard_errors[i].value;
        EXPECT(field[0] != '\0' && isfinite(value) && value >= 0.0);
        EXPECT(machine_standard_error_of(machine, field) <= value &&
               machine_standard_error_of(machine, field) >= value);
    }
    for (uint32_t i = 0; i < machine->residual_count; i++) {
        const struct machine_residual *line = &machine->residuals[i];
        EXPECT(line->what[0] != '\0' && line->mean_error >= 0.0 && line->worst_error >= line->mean_error);
        EXPECT(isnan(line->left_out_mean_error) || (line->left_out > 0 && line->left_out_mean_error >= 0.0));
    }
    struct cluster cluster;
    if (machine->gpu.on_host && cluster_build(&cluster, machine, 1, 0, NULL) == STATUS_OK) {
        struct route route;
        struct endpoint first = { ENDPOINT_GPU, 0 }, last = { ENDPOINT_GPU, cluster.gpus - 1 };
        if (cluster_route(&cluster, first, last, false, &route, NULL) == STATUS_OK) {
            EXPECT(route.rate_cap_bytes_per_s > 0.0 && isfinite(route.rate_cap_bytes_per_s));
        }
        cluster_free(&cluster);
    }
}

/* One mutated input through both loaders' text path. */
static void run_one(const char *text, size_t length, bool is_machine)
{
    struct json_document *document;
    struct json root;
    struct error error = { 0 };
    enum status status = json_parse(&document, text, length, "fuzz.json", &error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        if (is_machine) {
            struct machine machine;
            status = machine_from_json(&machine, &root, &error);
            if (status == STATUS_OK) {
                check_machine(&machine);
                check_lists(&machine);
                machine_free(&machine);
            }
        } else {
            struct software software;
            status = software_from_json(&software, &root, &error);
            EXPECT(status != STATUS_OK || (software.weight_bytes > 0.0 && isfinite(software_state_bytes(&software))));
        }
        json_free(document);
    }
    EXPECT(status == STATUS_OK || error.message[0] != '\0');
    fuzz_accepted += status == STATUS_OK;
    fuzz_refused += status != STATUS_OK;
}

static void fuzz_round(uint64_t seed_number)
{
    static char text[TEXT_MAX + 1];
    fuzz_state = seed_number;
    bool is_machine = test_below(&fuzz_state, 4) != 0;
    uint32_t count = is_machine ? machine_library_count() : software_library_count();
    size_t length, other_length;
    const char *(*library_text)(uint32_t, size_t *) = is_machine ? machine_library_text : software_library_text;
    const char *seed = library_text((uint32_t)test_below(&fuzz_state, count), &length);
    if (is_machine && test_below(&fuzz_state, 4) == 0) {
        seed = CALIBRATED;
        length = sizeof CALIBRATED - 1;
    }
    const char *other = library_text((uint32_t)test_below(&fuzz_state, count), &other_length);
    if (length > TEXT_MAX) {
        return;
    }
    memcpy(text, seed, length);
    for (uint64_t k = 1 + test_below(&fuzz_state, 4); k > 0; k--) {
        length = mutate(text, length, other, other_length);
    }
    text[length] = '\0';
    run_one(text, length, is_machine);
    if (test_failures > 0) {
        printf("input: %.*s\n", (int)(length > 2000 ? 2000 : length), text);
    }
}

int main(int argc, char **argv)
{
    int result = fuzz_run(fuzz_round, argc, argv);
    printf("%llu accepted, %llu refused\n", (unsigned long long)fuzz_accepted, (unsigned long long)fuzz_refused);
    return result;
}
