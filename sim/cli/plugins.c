#include "sim/cli/plugins.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/hash.h"
#include "sim/base/strbuf.h"
#include "sim/sweep/sweep_database.h"
#include "strategies/plugin/plugin_add.h"

enum { PLUGIN_BYTES_MAX = 64 << 20, DIGEST_DIGITS = 12, VERSION_BYTES = 256 };

static char results_version[VERSION_BYTES];

const char *plugins_results_version(void)
{
    return results_version[0] != '\0' ? results_version : sweep_results_version;
}

/* One more plug-in decides results: by the bytes of its file. */
static enum status add_to_version(const char *file, const char *bytes, size_t length, struct error *error)
{
    struct hash hash = hash_start();
    char digits[HASH_TEXT_BYTES];
    hash_bytes(&hash, bytes, length);
    char longer[VERSION_BYTES];
    int written =
        snprintf(longer, sizeof longer, "%s+%.*s", plugins_results_version(), DIGEST_DIGITS, hash_text(&hash, digits));
    if (written >= (int)sizeof longer) {
        return error_at(error, STATUS_LIMIT, file, NULL, "too many plug-ins in one run");
    }
    memcpy(results_version, longer, (size_t)written + 1);
    return STATUS_OK;
}

/* The loader maps what the headers promise; of a file that was cut it would be killed by the first touch. */
static enum status check_whole(const char *file, const char *bytes, size_t length, struct error *error)
{
    Elf64_Ehdr head;
    bool is_elf = length >= sizeof head && memcmp(bytes, ELFMAG, SELFMAG) == 0 && bytes[EI_CLASS] == ELFCLASS64;
    if (!is_elf) {
        return STATUS_OK; /* the loader says what it is not */
    }
    memcpy(&head, bytes, sizeof head);
    bool whole = head.e_shoff <= length && (uint64_t)head.e_shnum * head.e_shentsize <= length - head.e_shoff &&
                 head.e_phoff <= length && (uint64_t)head.e_phnum * sizeof(Elf64_Phdr) <= length - head.e_phoff;
    for (uint32_t i = 0; whole && i < head.e_phnum; i++) {
        Elf64_Phdr part;
        memcpy(&part, bytes + head.e_phoff + i * sizeof part, sizeof part);
        whole = part.p_type != PT_LOAD || (part.p_offset <= length && part.p_filesz <= length - part.p_offset);
    }
    return whole ? STATUS_OK
                 : error_at(error, STATUS_BAD_INPUT, file, NULL,
                            "is cut short: a shared object whose headers promise more than its %zu bytes", length);
}

enum status plugins_open(const char *file, struct error *error)
{
    char *bytes;
    size_t length;
    TRY(file_read(file, PLUGIN_BYTES_MAX, &bytes, &length, error));
    enum status status = check_whole(file, bytes, length, error);
    if (status == STATUS_OK) {
        status = add_to_version(file, bytes, length, error);
    }
    free(bytes);
    TRY(status);
    char path[4096]; /* dlopen looks a bare name up elsewhere */
    if (snprintf(path, sizeof path, "%s%s", strchr(file, '/') == NULL ? "./" : "", file) >= (int)sizeof path) {
        return error_at(error, STATUS_BAD_INPUT, file, NULL, "the path is too long");
    }
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        const char *why = dlerror();
        return error_at(error, STATUS_BAD_INPUT, file, NULL,
                        "cannot be loaded as a shared object: %.400s. cc -std=c17 -shared -fPIC $(pkg-config --cflags "
                        "memwall) makes one; strategies/plugin/exports.list says which functions it may call",
                        why != NULL ? why : "no reason given");
    }
    const struct memwall_plugin *plugin = dlsym(object, MEMWALL_PLUGIN_SYMBOL);
    if (plugin == NULL) {
        return error_at(error, STATUS_BAD_INPUT, file, NULL,
                        "is no plug-in: it exports no `const struct memwall_plugin " MEMWALL_PLUGIN_SYMBOL "`");
    }
    return plugin_add(plugin, file, error);
}
