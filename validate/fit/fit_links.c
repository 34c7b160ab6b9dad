/* Copies and storage: rates and latencies of links, pageable copies, the DRAM under a machine of threads, drives.
 *
 * A link's rate is that of one copy alone. The fitted latency of a way is divided equally among its links: two where a switch stands between (PCIe switches, NVSwitch). When both
 * directions run, the sum of both is the link's own limit. Copies of several devices at once need no constant: they share the links that the topology gives them, but on a
 * machine of threads they show what the DRAM bears. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "validate/fit/fit_internal.h"

enum { ENTRIES_MAX = 64 };
static const double BEYOND_PEAK = 1.1; /* of a link's data sheet */
static const double FASTER_LARGER =
    0.5; /* four times the bytes in less than this part of the time: no copy does that */
/* Copies go round 32 MiB of buffers: smaller ones come from the last-level cache again. Kernels find theirs cold whatever their size (validate/exec_host/host_operands.h). */
static const double UNCACHED_COPY_BYTES = 32 * MIB, TELLING_KERNEL_BYTES = 4 * MIB;
static const double COPY_DRAM_BYTES = 2; /* of one byte that a thread copies: read and written */

struct copy_key {
    enum copy_way way;
    bool pageable;
};

static bool is_copy(const struct point *point, const void *key)
{
    const struct copy_key *of = key;
    return point->kind == POINT_COPY && point->way == of->way && point->pageable == of->pageable && point->at_once == 1;
}

static double copy_bytes(const struct point *point)
{
    return point->bytes * (point->way == COPY_BOTH ? 2 : 1);
}

/* ---- what the draft says of its links ---- */

struct link_entries {
    uint32_t indices[ENTRIES_MAX], count;
    double lanes_least, lanes_greatest;
};

/* "gpu" of "gpu[0-7]" or "gpu12". */
static size_t stem_of(const char *id)
{
    return strcspn(id, "[0123456789");
}

static bool is_outside(const struct json *root, const char *id)
{
    struct json parts, part;
    if (json_array_optional(root, "parts", &parts, NULL) != STATUS_OK || parts.node == NULL) {
        return false;
    }
    for (size_t i = 0; i < json_count(&parts); i++) {
        const char *name = "", *kind = "";
        json_item(&parts, i, &part);
        if (json_type(&part) == JSON_OBJECT && json_string(&part, "id", &name, NULL) == STATUS_OK &&
            json_string(&part, "kind", &kind, NULL) == STATUS_OK && stem_of(name) == stem_of(id) &&
            strncmp(name, id, stem_of(id)) == 0) {
            return strcmp(kind, "nic") == 0 || strcmp(kind, "nvme") == 0;
        }
    }
    return false;
}

/* The entries of a kind under the draft's own "links" that lead to GPUs. */
static enum status find_entries(const struct fitter *fitter, const char *kind, struct link_entries *entries)
{
    struct json_document *document = NULL;
    struct json root, links, entry;
    *entries = (struct link_entries){ .lanes_least = INFINITY };
    TRY(fit_open_draft(fitter, &document));
    json_root(document, &root);
    bool has = json_array_optional(&root, "links", &links, NULL) == STATUS_OK && links.node != NULL;
    for (size_t i = 0; has && i < json_count(&links) && entries->count < ENTRIES_MAX; i++) {
        const char *word = "", *a = "", *b = "";
        double lanes = 1;
        json_item(&links, i, &entry);
        if (json_type(&entry) != JSON_OBJECT || json_string(&entry, "kind", &word, NULL) != STATUS_OK ||
            strcmp(word, kind) != 0) {
            continue;
        }
        (void)json_string_or(&entry, "a", "", &a, NULL);
        (void)json_string_or(&entry, "b", "", &b, NULL);
        (void)json_real_or(&entry, "lanes", 0, 1e6, 1, &lanes, NULL);
        if (!is_outside(&root, a) && !is_outside(&root, b)) {
            entries->indices[entries->count++] = (uint32_t)i;
            entries->lanes_least = fmin(entries->lanes_least, lanes);
            entries->lanes_greatest = fmax(entries->lanes_greatest, lanes);
        }
    }
    json_free(document);
    return STATUS_OK;
}

/* How many drives the draft's parts give; at least 1. */
static enum status count_drives(const struct fitter *fitter, double *drives)
{
    struct json_document *document = NULL;
    struct json root, parts, part;
    *drives = 0;
    TRY(fit_open_draft(fitter, &document));
    json_root(document, &root);
    bool has = json_array_optional(&root, "parts", &parts, NULL) == STATUS_OK && parts.node != NULL;
    for (size_t i = 0; has && i < json_count(&parts); i++) {
        const char *kind = "", *id = "";
        unsigned first = 0, last = 0;
        json_item(&parts, i, &part);
        if (json_type(&part) == JSON_OBJECT && json_string(&part, "kind", &kind, NULL) == STATUS_OK &&
            json_string(&part, "id", &id, NULL) == STATUS_OK && strcmp(kind, "nvme") == 0) {
            bool group = sscanf(id + strcspn(id, "["), "[%u-%u]", &first, &last) == 2 && last >= first;
            *drives += group ? last - first + 1.0 : 1.0;
        }
    }
    *drives = fmax(1, *drives);
    json_free(document);
    return STATUS_OK;
}

static void settle_entries(struct fitter *fitter, const struct link_entries *entries, const char *key, double value,
                           double standard_error, const struct fit_set *set)
{
    char path[64];
    for (uint32_t i = 0; i < entries->count; i++) {
        (void)snprintf(path, sizeof path, "links.%u.%s", entries->indices[i], key);
        fit_settle(fitter, path, value, standard_error, set);
    }
}

static double entry_get(const struct fitter *fitter, const struct link_entries *entries, const char *key)
{
    char path[64];
    if (entries->count == 0) {
        return 0;
    }
    (void)snprintf(path, sizeof path, "links.%u.%s", entries->indices[entries->count - 1], key);
    return draft_get(fitter->draft, path, 0);
}

/* ---- one way ---- */

static enum status check_way(const struct fitter *fitter, const struct fit_set *set, double peak)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct point *point = set->items[i];
        double rate = copy_bytes(point) / point->seconds;
        if (peak > 0 && rate > BEYOND_PEAK * peak) {
            return fit_refuse(fitter, point, "%.4g GB/s, beyond 1.1 of the link's peak of %.4g GB/s", 1e-9 * rate,
                              1e-9 * peak);
        }
        for (uint32_t k = 0; k < set->count; k++) {
            const struct point *smaller = set->items[k];
            if (smaller->bytes * 4 <= point->bytes && smaller->from == point->from && smaller->to == point->to &&
                strcmp(smaller->source, point->source) == 0 && point->seconds < FASTER_LARGER * smaller->seconds) {
                char name[160];
                return fit_refuse(fitter, point, "less than half the time of the %.4g s of %s", smaller->seconds,
                                  point_text(smaller, name, sizeof name));
            }
        }
    }
    return STATUS_OK;
}

static enum status report_way(struct fitter *fitter, const char *what, const struct fit_set *set,
                              const struct fit_line_constants *constants, double (*amount)(const struct point *))
{
    struct fit_tally tally = { 0 };
    for (uint32_t i = 0; i < set->count; i++) {
        fit_tally_add(&tally, set, i, constants->latency_s + amount(set->items[i]) / constants->rate);
    }
    return tally.points > 0 ? fit_tally_close(fitter, what, set, &tally) : STATUS_OK;
}

/* Chooses, checks, fits and reports one way. *count 0: no such points. */
static enum status one_way(struct fitter *fitter, struct copy_key key, double peak, double latency_s,
                           struct fit_set *set, struct fit_line_constants *constants)
{
    char what[FIT_WHAT_BYTES];
    TRY(fit_select(fitter, is_copy, &key, set));
    fit_set_prefer_sure(set);
    if (set->count == 0) {
        return STATUS_OK;
    }
    (void)snprintf(what, sizeof what, "copy %s%s", copy_way_word(key.way), key.pageable ? " pageable" : "");
    enum status status = check_way(fitter, set, fitter->on_host ? 0 : peak);
    if (status == STATUS_OK) {
        status = fit_way(fitter, set, copy_bytes, latency_s, constants);
    }
    if (status == STATUS_OK) {
        status = report_way(fitter, what, set, constants, copy_bytes);
    }
    if (status != STATUS_OK) {
        fit_set_free(set);
    }
    return status;
}

/* ---- host copies ---- */

struct host_links {
    struct link_entries entries;
    double hops, latency_s, peak;
    double rates[2], rate_errors[2]; /* h2d, d2h: fitted, or the draft's (errors 0) */
};

static enum status find_host_links(struct fitter *fitter, struct host_links *links)
{
    TRY(find_entries(fitter, "pcie", &links->entries));
    if (links->entries.count == 0) {
        TRY(find_entries(fitter, "c2c", &links->entries));
    }
    links->hops = draft_has(fitter->draft, "parts.pcie_switch") && links->entries.count > 1 ? 2 : 1;
    links->latency_s = 1e-6 * entry_get(fitter, &links->entries, "latency_us") * links->hops;
    links->peak = 1e9 * entry_get(fitter, &links->entries, "peak_GBps");
    links->rates[0] = 1e9 * entry_get(fitter, &links->entries, "GBps");
    double back = 1e9 * entry_get(fitter, &links->entries, "back_GBps");
    links->rates[1] = back > 0 ? back : links->rates[0];
    return STATUS_OK;
}

static enum status fit_one_direction(struct fitter *fitter, struct host_links *links, enum copy_way way)
{
    struct fit_line_constants constants = { 0 };
    struct fit_set set;
    TRY(one_way(fitter, (struct copy_key){ way, false }, links->peak, links->latency_s, &set, &constants));
    if (set.count == 0) {
        fit_missing(fitter, "copies %s: none: links to the host", copy_way_word(way));
        return STATUS_OK;
    }
    if (links->entries.count == 0) {
        fit_missing(fitter, "copies %s: the draft has no links of its own to set", copy_way_word(way));
    }
    links->rates[way == COPY_D2H] = constants.rate;
    links->rate_errors[way == COPY_D2H] = constants.rate_error;
    if (way == COPY_H2D &&
        !(entry_get(fitter, &links->entries, "back_GBps") > 0)) { /* a machine's way back is then the same */
        links->rates[1] = constants.rate;
        links->rate_errors[1] = constants.rate_error;
    }
    settle_entries(fitter, &links->entries, way == COPY_H2D ? "GBps" : "back_GBps", 1e-9 * constants.rate,
                   1e-9 * constants.rate_error, &set);
    if (way == COPY_H2D && constants.latency_known) {
        links->latency_s = constants.latency_s;
        settle_entries(fitter, &links->entries, "latency_us", 1e6 * constants.latency_s / links->hops,
                       1e6 * constants.latency_error_s / links->hops, &set);
    }
    fit_set_free(&set);
    return STATUS_OK;
}

/* Both ways carry at most the sum of each, and at least what the faster carries alone. A little within: numbers are rounded to five digits or more, each by itself, and none may come out beyond. */
static const double WITHIN = 2e-5;
static const double SURE_ERRORS = 3; /* so many standard errors apart, two rates differ */

/* The rate of both ways; what the standard errors cannot tell from the nearest possible rate is that one. */
static enum status both_ways_rate(const struct fitter *fitter, const struct host_links *links,
                                  const struct fit_set *set, const struct fit_line_constants *constants, double *rate)
{
    double most = (1 - WITHIN) * (links->rates[0] + links->rates[1]);
    int faster = links->rates[1] > links->rates[0];
    double least = (1 + WITHIN) * links->rates[faster];
    *rate = most > 0 ? fmin(most, fmax(least, constants->rate)) : constants->rate;
    double sure = SURE_ERRORS * hypot(constants->rate_error, links->rate_errors[faster]);
    if (constants->rate >= links->rates[faster] - sure) {
        return STATUS_OK;
    }
    const struct point *largest = set->items[0];
    for (uint32_t i = 1; i < set->count; i++) {
        largest = set->items[i]->bytes > largest->bytes ? set->items[i] : largest;
    }
    return fit_refuse(
        fitter, largest,
        "copies both ways carry %.4g GB/s together, less than %s alone with %.4g GB/s, and no link does: "
        "one of the two was disturbed. Measure both again on a quiet computer, or leave out the %u points "
        "of both ways (both_GBps is then kept)",
        1e-9 * constants->rate, copy_way_word(faster ? COPY_D2H : COPY_H2D), 1e-9 * links->rates[faster], set->count);
}

/* No copies both ways: what the draft says of them stands, as far as the numbers it has for one way now allow. */
static void keep_both_directions(struct fitter *fitter, const struct host_links *links)
{
    double said = entry_get(fitter, &links->entries, "both_GBps"), there = entry_get(fitter, &links->entries, "GBps");
    double back = entry_get(fitter, &links->entries, "back_GBps");
    back = back > 0 ? back : there;
    bool stands = !(said > 0) || (said >= fmax(there, back) && said <= there + back);
    fit_missing(fitter, "copies both ways at once: none: the links' both_GBps%s",
                stands ? "" : ", which only came as near as one way alone allows");
    double nearest = said > there + back ? (1 - WITHIN) * (there + back) : (1 + WITHIN) * fmax(there, back);
    for (uint32_t i = 0; !stands && i < links->entries.count; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "links.%u.both_GBps", links->entries.indices[i]);
        draft_number(fitter->draft, path, nearest, 0, "between the rates of one way and their sum", true);
    }
}

static enum status fit_both_directions(struct fitter *fitter, struct host_links *links)
{
    struct fit_line_constants constants = { 0 };
    struct fit_set set;
    double rate;
    TRY(one_way(fitter, (struct copy_key){ COPY_BOTH, false }, 2 * links->peak, links->latency_s, &set, &constants));
    if (set.count == 0) {
        keep_both_directions(fitter, links);
        return STATUS_OK;
    }
    enum status status = both_ways_rate(fitter, links, &set, &constants, &rate);
    if (status == STATUS_OK) {
        settle_entries(fitter, &links->entries, "both_GBps", 1e-9 * rate, 1e-9 * constants.rate_error, &set);
    }
    fit_set_free(&set);
    return status;
}

static enum status fit_pageable(struct fitter *fitter, const struct host_links *links)
{
    struct fit_line_constants ways[2] = { 0 };
    struct fit_set sets[2];
    double sum = 0, errors = 0;
    uint32_t found = 0;
    for (int w = 0; w < 2; w++) {
        enum status status = one_way(fitter, (struct copy_key){ w == 0 ? COPY_H2D : COPY_D2H, true }, links->peak,
                                     links->latency_s, &sets[w], &ways[w]);
        if (status != STATUS_OK) {
            if (w == 1) {
                fit_set_free(&sets[0]);
            }
            return status;
        }
        if (sets[w].count > 0) {
            sum += 1 / ways[w].rate;
            errors += pow(ways[w].rate_error / ways[w].rate, 2);
            found++;
        }
    }
    if (found > 0) { /* one constant for both ways: their harmonic mean */
        double rate = found / sum;
        fit_settle(fitter, "host.pageable_GBps", 1e-9 * rate, 1e-9 * rate * sqrt(errors) / found,
                   &sets[sets[0].count > 0 ? 0 : 1]);
    } else {
        fit_missing(fitter, "pageable copies: none: host.pageable_GBps");
    }
    fit_set_free(&sets[0]);
    fit_set_free(&sets[1]);
    return STATUS_OK;
}

/* ---- the DRAM under threads ---- */

static bool loads_dram(const struct point *point, const void *key)
{
    (void)key;
    double bytes = point->kind == POINT_COPY     ? point->bytes
                   : point->kind == POINT_KERNEL ? point->kernel.bytes_read + point->kernel.bytes_written
                                                 : 0;
    bool stream = point->kind != POINT_KERNEL || (point->kernel.kernel_class != KERNEL_GEMM &&
                                                  point->kernel.kernel_class != KERNEL_ATTENTION_FORWARD &&
                                                  point->kernel.kernel_class != KERNEL_ATTENTION_BACKWARD);
    return stream && bytes >= (point->kind == POINT_COPY ? UNCACHED_COPY_BYTES : TELLING_KERNEL_BYTES) &&
           point->way != COPY_PEER;
}

/* What the DRAM was seen to carry under several threads: the middle of the best quarter of such points, none of them cached, and no less than one thread draws. Of more threads than cores
 * so many count as there are cores. */
static enum status fit_dram(struct fitter *fitter)
{
    struct fit_set set;
    TRY(fit_select(fitter, loads_dram, NULL, &set));
    double *rates = malloc((set.count + 1) * sizeof *rates);
    if (rates == NULL) {
        fit_set_free(&set);
        return error_set(fitter->error, STATUS_NO_MEMORY, "out of memory fitting %u points", set.count);
    }
    uint32_t several = 0;
    for (uint32_t i = 0; i < set.count; i++) {
        const struct point *point = set.items[i];
        double threads = point->at_once * (point->way == COPY_BOTH && point->kind == POINT_COPY ? 2.0 : 1.0);
        double bytes = point->kind == POINT_COPY ? COPY_DRAM_BYTES * point->bytes
                                                 : point->kernel.bytes_read + point->kernel.bytes_written;
        threads = fitter->cores > 0 ? fmin(threads, fitter->cores) : threads;
        if (threads > 1) {
            rates[several++] = threads * bytes / point->seconds;
        }
    }
    if (several == 0) {
        fit_missing(fitter, "copies or memory-bound kernels of several devices at once: none: links.ddr.GBps");
    } else {
        (void)fit_median(rates, several); /* in order now */
        uint32_t best = several - (several + 3) / 4;
        double rate = fmax(fit_median(rates + best, several - best), fitter->gpu.hbm_bytes_per_s);
        fit_settle(fitter, "links.ddr.GBps", 1e-9 * rate, 0, &set);
    }
    free(rates);
    fit_set_free(&set);
    return STATUS_OK;
}

/* ---- peers ---- */

/* On a machine of threads a pair's copies follow the send_recv curve (fit_collectives); elsewhere they are the links' own. */
static enum status fit_peers(struct fitter *fitter)
{
    struct link_entries entries;
    struct fit_line_constants constants = { 0 };
    struct fit_set set;
    TRY(find_entries(fitter, "nvlink", &entries));
    if (entries.count == 0) {
        TRY(find_entries(fitter, "xgmi", &entries));
    }
    double hops = draft_has(fitter->draft, "parts.nvswitch") ? 2 : 1;
    double latency_s = 1e-6 * entry_get(fitter, &entries, "latency_us") * hops;
    double peak = 1e9 * entry_get(fitter, &entries, "peak_GBps");
    TRY(one_way(fitter, (struct copy_key){ COPY_PEER, false }, peak, latency_s, &set, &constants));
    if (set.count == 0) {
        fit_missing(fitter, "copies between devices: none: links between them");
    } else if (entries.count == 0 || entries.lanes_least < entries.lanes_greatest) {
        fit_missing(fitter, "copies between devices: %s",
                    entries.count == 0 ? "the draft has no links between devices of its own to set"
                                       : "the draft's links between devices differ in width: kept");
    } else {
        settle_entries(fitter, &entries, "GBps", 1e-9 * constants.rate, 1e-9 * constants.rate_error, &set);
        if (constants.latency_known) {
            settle_entries(fitter, &entries, "latency_us", 1e6 * constants.latency_s / hops,
                           1e6 * constants.latency_error_s / hops, &set);
        }
    }
    fit_set_free(&set);
    return STATUS_OK;
}

enum status fit_copies(struct fitter *fitter)
{
    struct host_links links = { 0 };
    TRY(find_host_links(fitter, &links));
    TRY(fit_one_direction(fitter, &links, COPY_H2D));
    TRY(fit_one_direction(fitter, &links, COPY_D2H));
    if (!fitter->on_host) { /* two copies of a device on the host are two threads: no link between them */
        TRY(fit_both_directions(fitter, &links));
    }
    TRY(fit_pageable(fitter, &links));
    return fitter->on_host ? fit_dram(fitter) : fit_peers(fitter);
}

/* ---- storage ---- */

static bool is_storage(const struct point *point, const void *key)
{
    return point->kind == POINT_STORAGE && point->way == *(const enum copy_way *)key;
}

static double storage_bytes(const struct point *point)
{
    return point->bytes;
}

enum status fit_storage(struct fitter *fitter)
{
    double drives;
    TRY(count_drives(fitter, &drives));
    for (int w = 0; w < 2; w++) {
        enum copy_way way = w == 0 ? COPY_READ : COPY_WRITE;
        struct fit_line_constants constants;
        struct fit_set set;
        char what[FIT_WHAT_BYTES], path[64];
        (void)snprintf(what, sizeof what, "storage %s", copy_way_word(way));
        (void)snprintf(path, sizeof path, "parts.nvme.%s_GBps", copy_way_word(way));
        TRY(fit_select(fitter, is_storage, &way, &set));
        fit_set_prefer_sure(&set);
        if (set.count == 0 || !draft_has(fitter->draft, "parts.nvme")) {
            fit_missing(fitter, "%s: %s: %s", what, set.count == 0 ? "no points" : "the draft has no drive", path);
            fit_set_free(&set);
            continue;
        }
        enum status status = fit_way(fitter, &set, storage_bytes, 0, &constants);
        if (status == STATUS_OK) {
            status = report_way(fitter, what, &set, &constants, storage_bytes);
        }
        if (status == STATUS_OK) { /* drives are striped: each carries its share */
            fit_settle(fitter, path, 1e-9 * constants.rate / drives, 1e-9 * constants.rate_error / drives, &set);
        }
        fit_set_free(&set);
        TRY(status);
    }
    return STATUS_OK;
}
