#include "plots/svg.h"

#include <math.h>
#include <stddef.h>

#include "sim/base/xml_text.h"

void svg_text(struct strbuf *out, double x, double y, const char *anchor, const char *more, const char *words)
{
    strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more);
    xml_escape(out, words);
    strbuf_append(out, "</text>\n");
}

double svg_tick_step(double least, bool halves)
{
    static const double STEPS[] = { 1, 2, 2.5, 5 };
    double decade = pow(10, floor(log10(least)));
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        if ((halves || i != 2) && STEPS[i] * decade >= least * (1 - 1e-9)) { /* 0.1 + 0.2 is 0.3 and a rounding */
            return STEPS[i] * decade;
        }
    }
    return 10 * decade;
}
