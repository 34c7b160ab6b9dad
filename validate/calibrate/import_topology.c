/* nvidia-smi topo -m. Columns: GPUs, then NICs (by name, mlx5_0, in older drivers; NICn with a legend below in newer ones), then CPU Affinity, NUMA Affinity and
 * GPU NUMA ID as far as the driver knows them. One row for each GPU and NIC; the table is symmetric. */
#include "validate/calibrate/import_topology.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

static bool is_device(struct import_word word, const char *kind, uint64_t number)
{
    uint64_t found;
    size_t length = strlen(kind);
    struct import_word rest = { word.at + length, word.length - length };
    return word.length > length && memcmp(word.at, kind, length) == 0 && import_whole(rest, &found) && found == number;
}

bool import_topology_mark(const char *line)
{
    struct import_word words[2];
    uint32_t count = import_words(line, words, 2);
    return count >= 1 && is_device(words[0], "GPU", 0) &&
           (count == 1 || is_device(words[1], "GPU", 1) || is_device(words[1], "NIC", 0) ||
            strncmp(words[1].at, "mlx", 3) == 0 || strstr(line, "CPU Affinity") != NULL);
}

static bool read_way(struct import_word word, uint8_t *way)
{
    static const struct {
        const char *word;
        uint8_t way;
    } ways[] = { { "X", TOPOLOGY_SELF },  { "SYS", TOPOLOGY_SYS }, { "SOC", TOPOLOGY_SYS }, { "NODE", TOPOLOGY_NODE },
                 { "PHB", TOPOLOGY_PHB }, { "PXB", TOPOLOGY_PXB }, { "PIX", TOPOLOGY_PIX }, { "PSB", TOPOLOGY_PIX } };
    uint64_t links;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (import_is(word, ways[i].word)) {
            *way = ways[i].way;
            return true;
        }
    }
    struct import_word rest = { word.at + 2, word.length - 2 };
    if (word.length > 2 && memcmp(word.at, "NV", 2) == 0 && import_whole(rest, &links) && links >= 1 &&
        links <= TOPOLOGY_NVLINKS_MAX) {
        *way = (uint8_t)(TOPOLOGY_NV + links);
        return true;
    }
    return false;
}

static enum status read_columns(struct import_source *source, uint32_t line, const struct import_word *words,
                                uint32_t count, struct topology *topology, struct error *error)
{
    uint32_t devices = 0;
    while (devices < count && !import_is(words[devices], "CPU")) {
        devices++;
    }
    if (devices > TOPOLOGY_DEVICES_MAX) {
        return import_error(source, line, error, "%u devices; at most %d are read", devices, TOPOLOGY_DEVICES_MAX);
    }
    while (topology->gpus < devices && is_device(words[topology->gpus], "GPU", topology->gpus)) {
        topology->gpus++;
    }
    topology->count = devices;
    /* "CPU Affinity", "NUMA Affinity", "GPU NUMA ID": two, two and three words */
    topology->affinities = count >= devices + 7 ? 3 : count >= devices + 4 ? 2 : count > devices;
    topology->devices = calloc(devices + 1u, sizeof *topology->devices);
    topology->ways = calloc(devices + 1u, devices + 1u);
    if (topology->devices == NULL || topology->ways == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: %u devices", devices);
    }
    for (uint32_t i = 0; i < devices; i++) {
        if (words[i].length >= TOPOLOGY_NAME_BYTES || (i >= topology->gpus && strncmp(words[i].at, "GPU", 3) == 0)) {
            return import_error(source, line, error,
                                "column %u is no device in order: expected GPU0 GPU1 ..., then NICs", i + 1);
        }
        memcpy(topology->devices[i].name, words[i].at, words[i].length);
    }
    return STATUS_OK;
}

static void copy_word(char *out, size_t size, struct import_word word)
{
    if (word.length < size && !import_is(word, "N/A")) {
        memcpy(out, word.at, word.length);
        out[word.length] = '\0';
    }
}

/* A column without a value leaves no word: of too few, a plain number is a NUMA node, for no CPU nearby is allowed to the job (seen under Slurm). */
static void read_affinities(struct topology_device *device, const struct import_word *words, uint32_t count,
                            uint32_t columns)
{
    uint64_t node;
    uint32_t numa = count > 0 && count < columns && import_whole(words[0], &node) ? 0 : 1;
    if (numa == 1 && count > 0) {
        copy_word(device->cpus, sizeof device->cpus, words[0]);
    }
    if (count > numa) {
        copy_word(device->numa, sizeof device->numa, words[numa]);
    }
}

static enum status read_row(struct import_source *source, uint32_t line, uint32_t row, const struct import_word *words,
                            uint32_t count, struct topology *topology, struct error *error)
{
    struct topology_device *device = &topology->devices[row];
    char shown[IMPORT_QUOTE_BYTES];
    if (!import_is(words[0], device->name)) {
        return import_error(source, line, error, "expected the row of %s, found \"%s\"", device->name,
                            import_quote(words[0].at, words[0].length, shown));
    }
    if (count < topology->count + 1) {
        return import_error(source, line, error, "the row of %s has %u values for %u devices: cut short", device->name,
                            count - 1, topology->count);
    }
    for (uint32_t c = 0; c < topology->count; c++) {
        uint8_t way;
        if (!read_way(words[c + 1], &way)) {
            return import_error(
                source, line, error, "%s to %s: \"%s\"; expected X, SYS, NODE, PHB, PXB, PIX or NV and a number",
                device->name, topology->devices[c].name, import_quote(words[c + 1].at, words[c + 1].length, shown));
        }
        bool both_gpus = row < topology->gpus && c < topology->gpus;
        if ((way == TOPOLOGY_SELF) != (row == c) || (way > TOPOLOGY_NV && !both_gpus)) {
            return import_error(source, line, error, "%s to %s cannot be \"%s\"", device->name,
                                topology->devices[c].name, import_quote(words[c + 1].at, words[c + 1].length, shown));
        }
        if (c < row && way != topology->ways[(size_t)c * topology->count + row]) {
            return import_error(source, line, error, "%s to %s is not what %s to %s is: the table must be symmetric",
                                device->name, topology->devices[c].name, topology->devices[c].name, device->name);
        }
        topology->ways[(size_t)row * topology->count + c] = way;
    }
    uint32_t values = topology->count + 1;
    read_affinities(device, words + values, count - values, topology->affinities);
    return STATUS_OK;
}

/* "GPU 0: NVIDIA A100-SXM4-80GB (UUID: ...)" of nvidia-smi -L beside the table. */
static void read_name(struct topology *topology, const char *text)
{
    const char *start = strstr(text, "GPU 0: "), *end = strstr(text, " (UUID");
    if (start != NULL && end != NULL && end > start + 7 && topology->gpu_name[0] == '\0') {
        (void)snprintf(topology->gpu_name, sizeof topology->gpu_name, "%.*s", (int)(end - start - 7), start + 7);
    }
}

static enum status read_table(struct import_source *source, struct topology *topology, struct error *error)
{
    struct import_word words[IMPORT_WORDS_MAX];
    uint32_t rows = 0, header = 0;
    for (uint32_t i = 0; i < source->count; i++) {
        uint32_t count = import_words(source->lines[i], words, IMPORT_WORDS_MAX);
        if (header == 0 && import_topology_mark(source->lines[i])) {
            header = i + 1;
            TRY(read_columns(source, header, words, count, topology, error));
        } else if (header != 0 && rows < topology->count && count > 0) {
            TRY(read_row(source, i + 1, rows, words, count, topology, error));
            rows++;
        } else if (header != 0 && import_topology_mark(source->lines[i])) {
            import_note(source, "line %u: another table (of another server?) is not read: give it in a file of its own",
                        i + 1);
        } else if (count > 0) {
            read_name(topology, source->lines[i]);
        }
    }
    if (header == 0) {
        return import_error(source, source->count, error, "no columns GPU0 GPU1 ...");
    }
    if (rows < topology->count) {
        return import_error(source, source->count, error, "the table ends before the row of %s: cut short",
                            topology->devices[rows].name);
    }
    return STATUS_OK;
}

enum status import_topology(struct import_source *source, struct error *error)
{
    struct topology topology = { 0 };
    enum status status = read_table(source, &topology, error);
    if (status == STATUS_OK) {
        import_gpu_name(source, topology.gpu_name, strlen(topology.gpu_name));
        status = topology_build(source, &topology, error);
    }
    free(topology.devices);
    free(topology.ways);
    return status;
}
