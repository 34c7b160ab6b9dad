/* Makes the lessons: pictures and README.md from the rows of their sweeps. usage: lessons_make LESSONS ROWS OUT NAME...
 *
 * LESSONS holds NAME.lesson.json, ROWS holds NAME.json (memwall sweep --json); NAME.svg and README.md go to OUT. traces/lessons/lessons.sh calls it. Exit 1 with what is wrong. */
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "tests/lessons/lesson.h"

static const char HEAD[] =
    "# Lessons on the memory wall\n\n"
    "Small what-ifs for a lecture or an evening: each is a sweep over real models and machines, one picture, one "
    "paragraph. Pictures and\n"
    "paragraphs are made from the sweep's rows by `traces/lessons/lessons.sh --update`; a test runs the sweeps again, "
    "reads every number of\n"
    "the text a second way, and fails when one, or a claim that the words rest on, no longer holds. All figures are of "
    "one simulated training step;\n"
    "GB are 1e9 bytes, tokens/s are those of the whole machine unless it says otherwise.\n\n"
    "Change one: edit `NAME.sweep.json` (axes and base) or `NAME.lesson.json` (words, figures, picture; the keys are "
    "explained in\n"
    "`tests/lessons/lesson.h`), then run the script. Ask one: `memwall sweep traces/lessons/01-activations.sweep.json "
    "--db mine.db`, then\n"
    "`memwall sweep --db mine.db --where \"...\" --csv`; one point alone: `memwall run` with `--set`.\n\n";

struct page {
    struct strbuf index, body;
};

static enum status add_lesson(struct page *page, const char *const *folders, const char *name, struct error *error)
{
    struct lesson lesson;
    struct strbuf picture = { 0 }, text = { 0 };
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.json", folders[1], name);
    TRY(lesson_load(&lesson, name, folders[0], path, error));
    enum status status = lesson_text(&lesson, &text, error);
    if (status == STATUS_OK) {
        status = lesson_picture(&lesson, &picture, error);
    }
    if (status == STATUS_OK) {
        snprintf(path, sizeof path, "%s/%s.svg", folders[2], name);
        status = file_write(path, picture.text, picture.length, error);
    }
    if (status == STATUS_OK) {
        strbuf_printf(&page->index, "1. [%s](#%s)\n", lesson.title, name);
        strbuf_printf(&page->body, "<a id=\"%s\"></a>\n## %s\n\n![%s](%s.svg)\n\n%s\n*For the class:* %s\n\n", name,
                      lesson.title, lesson.title, name, text.text, lesson.question);
        strbuf_printf(&page->body, "Sweep: [%s.sweep.json](%s.sweep.json), %u points.\n\n", name, name,
                      lesson.rows.count);
    }
    strbuf_free(&text);
    strbuf_free(&picture);
    lesson_free(&lesson);
    return status;
}

int main(int argc, char **argv)
{
    struct page page = { 0 };
    struct strbuf out = { 0 };
    struct error error = { 0 };
    enum status status = STATUS_OK;
    char text[ERROR_MESSAGE_BYTES + ERROR_FILE_BYTES + ERROR_PATH_BYTES];
    if (argc < 5) {
        fprintf(stderr, "usage: lessons_make LESSONS ROWS OUT NAME...\n");
        return 1;
    }
    for (int i = 4; i < argc && status == STATUS_OK; i++) {
        status = add_lesson(&page, (const char *const *)&argv[1], argv[i], &error);
    }
    if (status == STATUS_OK) {
        char path[1024];
        snprintf(path, sizeof path, "%s/README.md", argv[3]);
        strbuf_printf(&out, "%s%s\n%s", HEAD, page.index.text, page.body.text);
        out.length -= 1; /* one empty line too many at the end */
        status = file_write(path, out.text, out.length, &error);
    }
    if (status != STATUS_OK) {
        fprintf(stderr, "lessons: %s\n", error_text(&error, text, sizeof text));
    }
    strbuf_free(&page.index);
    strbuf_free(&page.body);
    strbuf_free(&out);
    return status == STATUS_OK ? 0 : 1;
}
