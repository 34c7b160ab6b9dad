#include "sim/report/html/step_page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/html/step_page_internal.h"

const char *page_time(double seconds, char text[PAGE_TEXT_BYTES])
{
    return text_time_ps(seconds >= 0 && seconds < 9e6 ? ps_nearest_s(seconds) : TIME_NEVER_PS, text, PAGE_TEXT_BYTES);
}

const char *page_bytes(double bytes, char text[PAGE_TEXT_BYTES])
{
    return text_bytes(bytes, text, PAGE_TEXT_BYTES);
}

const char *page_bytes_as(double bytes, double largest, char text[PAGE_TEXT_BYTES])
{
    return text_bytes_as(bytes, largest, text, PAGE_TEXT_BYTES);
}

const char *page_rate(double bytes_per_s, char text[PAGE_TEXT_BYTES])
{
    return text_bytes_per_s(bytes_per_s, text, PAGE_TEXT_BYTES);
}

const char *page_share(double share, char text[PAGE_TEXT_BYTES])
{
    return step_share_text(share, text, PAGE_TEXT_BYTES);
}

void page_command(const char *const *words, uint32_t count, struct strbuf *out)
{
    for (uint32_t i = 0; i < count; i++) {
        strbuf_append(out, i > 0 ? " " : "");
        bool plain = words[i][0] != '\0' &&
                     words[i][strspn(words[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                               "_-+=./:,@%")] == '\0';
        strbuf_append(out, plain ? "" : "'");
        for (const char *c = words[i]; *c != '\0'; c++) {
            if (*c == '\'') {
                strbuf_append(out, "'\\''");
            } else {
                strbuf_char(out, *c);
            }
        }
        strbuf_append(out, plain ? "" : "'");
    }
}

enum part { ANSWER, TIMELINE, MEMORY, LINKS, CAUSES, BINDS, COST, CERTAINTY, SOURCES, REPEAT, PART_COUNT };

static const struct page_link PARTS[PART_COUNT] = {
    [ANSWER] = { "answer", "The answer" },
    [TIMELINE] = { "timeline", "The step over time" },
    [MEMORY] = { "memory", "Memory" },
    [LINKS] = { "links", "Link traffic" },
    [CAUSES] = { "causes", "Where the step goes" },
    [BINDS] = { "binds", "What binds" },
    [COST] = { "cost", "Cost" },
    [CERTAINTY] = { "certainty", "How sure it is, and failures" },
    [SOURCES] = { "assumptions", "Assumptions and their sources" },
    [REPEAT] = { "repeat", "How to repeat it" },
};

/* Whether the source has anything to say of this. */
static bool is_there(const struct step_source *source, enum part part)
{
    const struct step_result *r = &source->result;
    switch (part) {
    case TIMELINE: return source->has_series && source->series.op_count > 0 && source->series.end_ps > 0;
    case MEMORY: return r->space_count > 0;
    case LINKS: return r->link_count > 0;
    case CAUSES: return r->stage_count > 0 && r->step_time_s > 0;
    case BINDS: return r->bound_count > 0 || r->sensitivity_count > 0 || r->causes.count > 0;
    case COST: return r->money.count > 0;
    case CERTAINTY: return r->uncertainty.count > 0 || r->failures.count > 0;
    case ANSWER:
    case SOURCES:
    case REPEAT:
    case PART_COUNT: break;
    }
    return true;
}

static enum status print_part(struct html *h, const struct step_source *source, enum part part, const char *version,
                              const char *command, struct error *error)
{
    switch (part) {
    case ANSWER: step_answer(h, source); break;
    case TIMELINE: return step_timeline(h, source, error);
    case MEMORY: step_memory(h, source); break;
    case LINKS: step_links(h, source); break;
    case CAUSES: step_causes(h, source); break;
    case BINDS: step_binds(h, source); break;
    case COST: step_cost(h, source); break;
    case CERTAINTY: step_certainty(h, source); break;
    case SOURCES: step_sources(h, source); break;
    case REPEAT: step_repeat(h, source, version, command); break;
    case PART_COUNT: break;
    }
    return STATUS_OK;
}

enum status step_page_print(const struct step_source *source, const char *version, const char *command,
                            struct strbuf *out, struct error *error)
{
    struct html h = { .out = out };
    struct page_link links[PART_COUNT + 1];
    char number[64];
    struct strbuf subtitle = { 0 };
    const struct step_result *r = &source->result;
    uint32_t count = 0;
    for (int p = 0; p < PART_COUNT; p++) {
        if (is_there(source, (enum part)p)) {
            links[count++] = PARTS[p];
        }
    }
    links[count] = (struct page_link){ 0 };
    strbuf_printf(&subtitle, "One training step on %s GPU%s%s%s, %s by the %s executor of memwall%s%s",
                  step_number_text(r->gpus, number, sizeof number), r->gpus > 1 ? "s" : "",
                  r->machine[0] != '\0' ? " of " : "", r->machine,
                  strcmp(r->executor, "sim") == 0 ? "simulated" : "measured", r->executor,
                  r->plan[0] != '\0' ? ". " : "", r->plan);
    page_begin(&h, r->name[0] != '\0' ? r->name : "A training step", subtitle.text != NULL ? subtitle.text : "", links);
    out->failed = out->failed || subtitle.failed;
    strbuf_free(&subtitle);
    for (int p = 0; p < PART_COUNT; p++) {
        if (is_there(source, (enum part)p)) {
            page_section(&h, &PARTS[p]);
            TRY(print_part(&h, source, (enum part)p, version, command, error));
            page_section_end(&h);
        }
    }
    page_end(&h, version);
    return out->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory for the report") : STATUS_OK;
}
