/* Charts: where marks stand against plain arithmetic, looks, escapes, limits, the same bytes twice. */
#include "plots/chart.h"
#include "plots/svg.h"
#include "tests/test.h"

static const struct chart_point RISING[] = { { 1, 10, true }, { 2, 20, true }, { 4, 40, false } };

static void draw(const struct chart *chart, struct strbuf *out)
{
    struct error error = { 0 };
    EXPECT_INT(chart_svg(chart, out, &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
}

static void test_ticks(void)
{
    uint64_t state = test_seed;
    EXPECT_REAL(chart_tick_step(100, 5), 20, 0);
    EXPECT_REAL(chart_tick_step(12, 5), 2.5, 0);
    EXPECT_REAL(chart_tick_step(0.3, 5), 0.1, 1e-12);
    for (int i = 0; i < 1000; i++) {
        double most = pow(10, (double)test_below(&state, 24000) / 1000 - 12), step = chart_tick_step(most, 5);
        double digits = step / pow(10, floor(log10(step * (1 + 1e-9))));
        EXPECT(most / step <= 5 * (1 + 1e-9) && most / step >= 2 * (1 - 1e-9));
        EXPECT(fabs(digits - 1) < 1e-9 || fabs(digits - 2) < 1e-9 || fabs(digits - 2.5) < 1e-9 ||
               fabs(digits - 5) < 1e-9);
    }
}

/* Without halves: 1, 2, 5 alone, and none of them that is smaller would do. */
static void test_steps(void)
{
    uint64_t state = test_seed;
    EXPECT_REAL(svg_tick_step(0.1 + 0.2, false), 0.5, 0);
    EXPECT_REAL(svg_tick_step(2, false), 2, 0);
    EXPECT_REAL(svg_tick_step(2.1, false), 5, 0);
    EXPECT_REAL(svg_tick_step(2.1, true), 2.5, 0);
    for (int i = 0; i < 1000; i++) {
        double least = pow(10, (double)test_below(&state, 24000) / 1000 - 12), step = svg_tick_step(least, false);
        double digits = step / pow(10, floor(log10(step * (1 + 1e-9))));
        EXPECT(step >= least * (1 - 1e-9) && step <= 2.5 * least * (1 + 1e-9));
        EXPECT(fabs(digits - 1) < 1e-9 || fabs(digits - 2) < 1e-9 || fabs(digits - 5) < 1e-9);
    }
}

static uint32_t count(const char *text, const char *part)
{
    uint32_t n = 0;
    for (; (text = strstr(text, part)) != NULL; text++) {
        n++;
    }
    return n;
}

/* Equal steps for doublings; the axis begins at 0; what does not fit is hollow. */
static void test_lines(void)
{
    const struct chart_series series[] = { { "one & two <x>\x01", RISING, 3 } };
    const struct chart_limit limit = { 30, "usable" };
    const struct chart_panel panel = {
        .title = "GB", .series = series, .series_count = 1, .limits = &limit, .limit_count = 1
    };
    const struct chart chart = {
        .title = "t", .x_label = "x", .scale = CHART_LOG2, .panels = &panel, .panel_count = 1
    };
    struct strbuf out = { 0 }, again = { 0 };
    double x[3] = { 0 }, y[3] = { 0 }, low = 0;
    draw(&chart, &out);
    draw(&chart, &again);
    EXPECT_TEXT(out.text, again.text);
    EXPECT_PART(out.text, "one &amp; two &lt;x&gt;\xef\xbf\xbd<"); /* a control character is none of XML */
    EXPECT_PART(out.text, ">usable<");
    EXPECT_PART(out.text, "hollow: does not fit");
    EXPECT_INT(count(out.text, "fill=\"#ffffff\" stroke=\"#0072B2\""), 2); /* the point and the legend */
    const char *path = strstr(out.text, "fill=\"none\""), *axis = strstr(out.text, "stroke=\"#444444\"");
    path = path != NULL ? strstr(path, " d=\"M") : NULL;
    EXPECT(path != NULL && axis != NULL);
    if (path != NULL && axis != NULL) {
        EXPECT_INT(sscanf(path, " d=\"M%lf %lfL%lf %lfL%lf %lf", &x[0], &y[0], &x[1], &y[1], &x[2], &y[2]), 6);
        while (axis > out.text && strncmp(axis, "y1=\"", 4) != 0) {
            axis--;
        }
        EXPECT_INT(sscanf(axis, "y1=\"%lf\"", &low), 1);
        EXPECT(fabs((x[1] - x[0]) - (x[2] - x[1])) < 0.15);
        EXPECT(fabs((low - y[1]) - 2 * (low - y[0])) < 0.25);
        EXPECT(fabs((low - y[2]) - 4 * (low - y[0])) < 0.35);
    }
    strbuf_free(&out);
    strbuf_free(&again);
}

/* Layers stand on each other; their names come once, though two panels have them. */
static void test_stack(void)
{
    static const struct chart_point a[] = { { 0, 1, true }, { 1, 2, true } }, b[] = { { 0, 3, true }, { 1, 4, true } };
    static const char *const words[] = { "first", "second" };
    const struct chart_series series[] = { { "lower", a, 2 }, { "upper", b, 2 } };
    const struct chart_panel panels[] = { { .title = "p", .kind = CHART_STACK, .series = series, .series_count = 2 },
                                          { .title = "q", .kind = CHART_BARS, .series = series, .series_count = 2 } };
    const struct chart chart = { .title = "t",
                                 .x_label = "x",
                                 .scale = CHART_WORDS,
                                 .words = words,
                                 .word_count = 2,
                                 .panels = panels,
                                 .panel_count = 2 };
    struct strbuf out = { 0 };
    double y[2] = { 0 }, height[2] = { 0 };
    draw(&chart, &out);
    EXPECT_INT(count(out.text, ">lower<"), 1);
    EXPECT_INT(count(out.text, ">second<"), 2);
    EXPECT_PART(out.text, ">6<"); /* the sum of the second bar */
    const char *lower = strstr(out.text, "stroke=\"#ffffff\" stroke-width=\"0.8\"");
    EXPECT(lower != NULL);
    for (int i = 0; i < 2 && lower != NULL; i++) {
        const char *box =
            i == 0 ? strstr(out.text, "fill=\"#0072B2\" stroke") : strstr(out.text, "fill=\"#E69F00\" stroke");
        while (box > out.text && strncmp(box, " y=\"", 4) != 0) {
            box--;
        }
        EXPECT_INT(sscanf(box, " y=\"%lf\"", &y[i]), 1);
        EXPECT_INT(sscanf(strstr(box, "height=\""), "height=\"%lf\"", &height[i]), 1);
    }
    EXPECT(fabs(y[1] + height[1] - y[0]) < 0.15);
    EXPECT(fabs(height[1] - 3 * height[0]) < 0.25);
    strbuf_free(&out);
}

/* The y of the first element that has `part`; NAN: none. */
static double y_beside(const char *svg, const char *part, const char *attribute)
{
    const char *at = strstr(svg, part);
    while (at != NULL && at > svg && *at != '<') {
        at--;
    }
    at = at != NULL ? strstr(at, attribute) : NULL;
    return at != NULL ? strtod(at + strlen(attribute), NULL) : NAN;
}

/* A number that a limit's line would cross stands above that line, and above the next where that one would cross it then; others stay at their bar. */
static void test_numbers_clear_of_limits(void)
{
    static const struct chart_point points[] = { { 0, 29.5, true }, { 1, 10, true } };
    static const char *const words[] = { "first", "second" };
    const struct chart_series series[] = { { "a", points, 2 } };
    const struct chart_limit limits[] = { { 31, "upper" }, { 30, "lower" } };
    struct strbuf out = { 0 };
    for (uint32_t count = 0; count <= 2; count++) {
        const struct chart_panel panel = { .title = "GB",
                                           .kind = CHART_BARS,
                                           .series = series,
                                           .series_count = 1,
                                           .limits = limits + (count == 1),
                                           .limit_count = count };
        const struct chart chart = { .title = "t",
                                     .x_label = "x",
                                     .scale = CHART_WORDS,
                                     .words = words,
                                     .word_count = 2,
                                     .panels = &panel,
                                     .panel_count = 1 };
        out.length = 0;
        draw(&chart, &out);
        double bar = y_beside(out.text, "fill=\"#0072B2\" stroke", " y=\""),
               number = y_beside(out.text, ">29.5</text>", " y=\"");
        double line = y_beside(out.text, "stroke-dasharray=\"6 4\"", " y1=\"");
        double other = y_beside(out.text, ">10</text>", " y=\"");
        EXPECT(number < bar);
        EXPECT(count == 0 ? number == bar - 4 : fabs(number - (line - 4)) < 0.11); /* to a tenth of a pixel */
        EXPECT(other > number + 50);
    }
    strbuf_free(&out);
}

static void test_refused(void)
{
    struct chart_series series[CHART_SERIES_MAX + 1] = { 0 };
    struct strbuf out = { 0 };
    struct error error = { 0 };
    for (int i = 0; i <= CHART_SERIES_MAX; i++) {
        series[i] = (struct chart_series){ "s", RISING, 3 };
    }
    struct chart_panel panel = { .title = "many", .series = series, .series_count = CHART_SERIES_MAX + 1 };
    struct chart chart = { .title = "t", .x_label = "x", .panels = &panel, .panel_count = 1 };
    EXPECT_INT(chart_svg(&chart, &out, &error), STATUS_LIMIT);
    EXPECT_PART(error.message, "\"many\" has 8");
    panel.series_count = 1;
    series[0].count = CHART_POINTS_MAX + 1;
    EXPECT_INT(chart_svg(&chart, &out, &error), STATUS_LIMIT);
    chart.panel_count = CHART_PANELS_MAX + 1;
    EXPECT_INT(chart_svg(&chart, &out, &error), STATUS_LIMIT);
    EXPECT_INT(out.length, 0);
    chart.panel_count = 1;
    panel.series_count = 0; /* an empty chart is one */
    EXPECT_INT(chart_svg(&chart, &out, &error), STATUS_OK);
    strbuf_free(&out);
}

TEST_MAIN(TEST(test_ticks), TEST(test_steps), TEST(test_lines), TEST(test_stack), TEST(test_numbers_clear_of_limits),
          TEST(test_refused))
