#include "sim/report/html/page.h"

#include <math.h>
#include <stdio.h>

/* No < and & in it: it stands in XML. */
static const char STYLE[] =
    ":root{color-scheme:light "
    "dark;--ground:#fff;--ink:#1b1e23;--soft:#545c67;--line:#d5dae1;--card:#f4f6f9;--mark:#0b5cad;"
    "--bad:#a8320b;--good:#0a6b45}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--ground:#12161b;--ink:#e9ecf0;--soft:#a9b2bd;--line:#3a434e;"
    "--card:#1c232b;--mark:#79b8ff;--bad:#ff9d7a;--good:#5fd0a2}}\n"
    "html{font:clamp(15px,13px + .35vw,26px)/1.5 system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;"
    "background:var(--ground);color:var(--ink)}\n"
    "body{margin:0 auto;padding:1rem clamp(.7rem,3vw,3rem);max-width:96rem}\n"
    "h1{font-size:1.9rem;line-height:1.2;margin:.3em 0}h2{font-size:1.4rem;border-bottom:2px solid var(--line);"
    "padding-bottom:.2em;margin-top:2em}h3{font-size:1.1rem;margin-top:1.6em}\n"
    "p,li,dd{max-width:72ch}a{color:var(--mark)}.soft,figcaption,.card small{color:var(--soft)}\n"
    ".skip{position:absolute;left:-99rem;background:var(--ground);padding:.5rem;z-index:1}.skip:focus{left:.5rem;top:."
    "5rem}\n"
    ":focus-visible{outline:3px solid var(--mark);outline-offset:2px}\n"
    "nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;padding:0}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,12rem),1fr));gap:.8rem;padding:0;margin:"
    "1.2rem 0}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.7rem "
    ".9rem;list-style:none}\n"
    ".card b{display:block;font-size:clamp(1.15rem,4.8vw,1.65rem);line-height:1.25;overflow-wrap:anywhere}.card "
    "small{display:block}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}.verdict{font-size:1.2rem}\n"
    /* the shade at the right is there while more is hidden that way */
    ".scroll{overflow-x:auto;max-width:100%;scrollbar-width:thin;background:linear-gradient(to "
    "left,var(--ground) 1.2rem,transparent) right/4rem 100% no-repeat local,linear-gradient(to "
    "left,var(--line),transparent) right/1.1rem 100% no-repeat}table{border-collapse:collapse;margin:1rem "
    "0;font-size:.92rem;line-height:1.4;font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;font-weight:600;padding-bottom:.3rem;max-width:90vw}th,td{text-align:left;vertical-align:"
    "top;"
    "padding:.25rem .8rem .25rem 0;max-width:min(30rem,75vw);border-bottom:1px solid var(--line)}tbody "
    "th{font-weight:400;position:sticky;left:0;background:var(--ground)}"
    "@media screen and (max-width:40em){tbody th,tbody th.s{min-width:4.5rem;max-width:45vw;white-space:normal}}"
    "thead "
    "th{color:var(--soft);font-weight:600;vertical-align:bottom}.r{text-align:right}.s{white-space:nowrap}.n{text-"
    "align:right;white-space:"
    "nowrap}thead .n{white-space:normal}\n"
    ".bar{min-width:min(11rem,30vw)}.bar svg{width:100%;height:.9rem;display:block;background:var(--card)}\n"
    "figure{margin:1.2rem "
    "0}figcaption{max-width:72ch}svg.wide{display:block;width:100%;min-width:50rem;max-width:90rem;height:auto}\n"
    "svg text{fill:var(--ink);font-family:inherit}svg text.soft{fill:var(--soft)}svg .grid{stroke:var(--line)}"
    "svg .axis{stroke:var(--soft)}svg .limit{stroke:var(--bad);stroke-dasharray:7 5;stroke-width:2}"
    "svg .outline{fill:none;stroke:var(--ink);stroke-width:1}svg .front{fill:none;stroke:var(--bad);stroke-width:2}"
    "svg text.on-dark{fill:#fff;paint-order:stroke;stroke:#0008;stroke-width:2px}svg text.on-light{fill:#000}svg "
    ".cross{stroke:var(--bad);stroke-width:1.5}"
    "svg .dots{fill:none;stroke:var(--soft);stroke-width:5;stroke-linecap:round}svg "
    ".best{stroke:var(--bad);stroke-width:8}"
    "svg .label{font-size:12px}svg .faint{fill-opacity:.6}svg .fainter{fill-opacity:.32}\n"
    ".small{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,10rem),1fr));gap:.5rem 1.2rem}"
    ".small figure{margin:.3rem 0}.small svg{width:100%;height:auto;display:block}\n"
    ".legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:.6rem 0;max-width:none}"
    ".legend i{display:inline-block;width:1em;height:1em;margin-right:.4em;vertical-align:-.12em;border:1px solid "
    "var(--soft)}\n"
    "details{margin:.8rem 0}summary{cursor:pointer;color:var(--mark)}pre{background:var(--card);border:1px solid "
    "var(--line);"
    "padding:.7rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere;font:.85rem/1.4 ui-monospace,'DejaVu "
    "Sans Mono',monospace}\n"
    "dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.2rem 1rem}dt{color:var(--soft)}"
    "dd{margin:0;overflow-wrap:anywhere}code{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:.9em}\n"
    "footer{margin-top:3rem;border-top:1px solid var(--line)}\n"
    "@media (min-width:112em){body{max-width:126rem;display:grid;grid-template-columns:13rem "
    "minmax(0,1fr);column-gap:2.5rem}"
    "header,footer{grid-column:1/-1}nav{position:sticky;top:1rem;align-self:start}nav ul{flex-direction:column}}\n"
    "@media "
    "print{@page{margin:13mm}html{font-size:10pt}body{max-width:none;padding:0;display:block}nav,.skip{display:"
    "none}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}figure,.card,tr,h2,h3,caption,pre{break-inside:avoid}"
    "h2,h3,caption{break-after:avoid}.scroll{overflow:visible;background:none}tbody "
    "th{position:static}svg.wide{min-width:0}table{font-size:.75em;width:auto}table.many{font-size:.6em}."
    "bar{min-width:4rem}"
    ".n,.s{white-space:normal}th,td{padding-right:.6em;overflow-wrap:break-word}"
    "details::details-content{content-visibility:visible;block-size:auto}summary{color:var(--ink)}}\n";

/* No < and & in it either. */
static const char SCRIPT[] =
    "addEventListener('beforeprint',function(){document.querySelectorAll('details').forEach(function(d){d.open=true})})"
    ";\n"
    "document.querySelectorAll('svg[data-unit]').forEach(function(s){\n"
    "var ns='http://www.w3.org/2000/svg',d=s.dataset,l=+d.left,w=+d.width,a=+d.from,b=+d.to,t=a,\n"
    "c=document.createElementNS(ns,'line'),x=document.createElementNS(ns,'text');\n"
    "function show(v){t=Math.min(b,Math.max(a,v));var "
    "p=l+w*(t-a)/(b-a);c.setAttribute('x1',p);c.setAttribute('x2',p);\n"
    "x.setAttribute('x',Math.min(l+w-60,p+4));x.textContent=t.toPrecision(5)+' "
    "'+d.unit;c.style.display=x.style.display=''}\n"
    "function hide(){c.style.display=x.style.display='none'}\n"
    "c.setAttribute('class','cross');c.setAttribute('y1',d.top);c.setAttribute('y2',d.bottom);x.setAttribute('y',+d."
    "top-3);\n"
    "s.appendChild(c);s.appendChild(x);hide();s.setAttribute('tabindex','0');\n"
    "s.addEventListener('pointermove',function(e){var m=s.getScreenCTM();\n"
    "var p=(e.clientX-m.e)/m.a;if(p>=l){if(l+w>=p){show(a+(b-a)*(p-l)/w);return}}hide()});\n"
    "s.addEventListener('pointerleave',hide);s.addEventListener('blur',hide);\n"
    "s.addEventListener('keydown',function(e){var k={ArrowLeft:-1,ArrowRight:1,PageDown:10,PageUp:-10}[e.key];\n"
    "if(k){show(t+k*(b-a)/200);e.preventDefault()}})});\n";

const char *page_colour(const char *colour, char name[PAGE_COLOUR_BYTES])
{
    snprintf(name, PAGE_COLOUR_BYTES, "k%.6s", colour + 1);
    return name;
}

static void put_colours(struct html *h)
{
    static const char *const colours[][2] = {
#define X(light, dark) { light, dark },
        PALETTE_TABLE(X)
#undef X
    };
    char name[PAGE_COLOUR_BYTES];
    struct strbuf text = { 0 };
    for (int dark = 0; dark < 2; dark++) {
        strbuf_append(&text, dark ? "@media screen and (prefers-color-scheme:dark){" : "");
        for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++) {
            strbuf_printf(&text, ".%s{fill:%s;background:%s}", page_colour(colours[i][0], name), colours[i][dark],
                          colours[i][dark]);
        }
        strbuf_append(&text, dark ? "svg text.on-dark,svg text.on-light{fill:#000;stroke:none}}\n" : "\n");
    }
    html_raw(h, text.text != NULL ? text.text : "");
    h->out->failed = h->out->failed || text.failed;
    strbuf_free(&text);
}

static void put_meta(struct html *h, const char *name, const char *content)
{
    html_open(h, "meta");
    html_attr(h, "name", name);
    html_attr(h, "content", content);
    html_close(h, "meta");
}

static void put_link(struct html *h, const char *id, const char *title, const char *class_name)
{
    html_open(h, "a");
    html_attr_printf(h, "href", "#%s", id);
    if (class_name != NULL) {
        html_attr(h, "class", class_name);
    }
    html_text(h, title);
    html_close(h, "a");
}

static void put_navigation(struct html *h, const struct page_link *links)
{
    html_open(h, "nav");
    html_attr(h, "aria-label", "Sections");
    html_open(h, "ul");
    for (uint32_t i = 0; links[i].title != NULL; i++) {
        html_open(h, "li");
        put_link(h, links[i].id, links[i].title, NULL);
        html_close(h, "li");
    }
    html_close(h, "ul");
    html_close(h, "nav");
}

void page_begin(struct html *h, const char *title, const char *subtitle, const struct page_link *links)
{
    html_raw(h, "<!DOCTYPE html>\n");
    html_open(h, "html");
    html_attr(h, "xmlns", "http://www.w3.org/1999/xhtml");
    html_attr(h, "lang", "en");
    html_open(h, "head");
    html_open(h, "meta");
    html_attr(h, "charset", "utf-8");
    html_close(h, "meta");
    put_meta(h, "viewport", "width=device-width,initial-scale=1");
    put_meta(h, "generator", "memwall");
    html_leaf(h, "title", NULL, title);
    html_open(h, "style");
    html_text(h, "\n");
    html_raw(h, STYLE);
    put_colours(h);
    html_close(h, "style");
    html_close(h, "head");
    html_open(h, "body");
    put_link(h, "content", "Skip to the content", "skip");
    html_open(h, "header");
    html_leaf(h, "h1", NULL, title);
    html_leaf(h, "p", "soft", subtitle);
    html_close(h, "header");
    put_navigation(h, links);
    html_open(h, "main");
    html_attr(h, "id", "content");
    html_attr(h, "tabindex", "-1");
}

void page_section(struct html *h, const struct page_link *link)
{
    html_open(h, "section");
    html_attr(h, "id", link->id);
    html_attr_printf(h, "aria-labelledby", "h-%s", link->id);
    html_open(h, "h2");
    html_attr_printf(h, "id", "h-%s", link->id);
    html_text(h, link->title);
    html_close(h, "h2");
}

void page_section_end(struct html *h)
{
    html_close(h, "section");
}

void page_end(struct html *h, const char *version)
{
    html_close(h, "main");
    html_open(h, "footer");
    html_open(h, "p");
    html_printf(h,
                "Made by memwall %s. 1 GiB is 2^30 bytes, 1 GB/s 10^9 bytes a second. Figures are rounded to three "
                "figures, from 1,000 on to whole numbers; the page carries "
                "their exact values in data elements.",
                version);
    html_close(h, "p");
    html_close(h, "footer");
    html_open(h, "script");
    html_text(h, "");
    html_raw(h, SCRIPT);
    html_close(h, "script");
    html_close(h, "body");
    html_close(h, "html");
    html_raw(h, "\n");
    html_finish(h);
}

void page_details(struct html *h, const char *summary)
{
    page_details_named(h, NULL, summary);
}

void page_details_named(struct html *h, const char *id, const char *summary)
{
    html_open(h, "details");
    if (id != NULL) {
        html_attr(h, "id", id);
    }
    html_leaf(h, "summary", NULL, summary);
}

void page_card(struct html *h, const char *what, double value, const char *text, const char *below)
{
    html_open(h, "li");
    html_attr(h, "class", "card");
    html_text(h, what);
    html_open(h, "b");
    if (isnan(value)) {
        html_text(h, text);
    } else {
        html_data(h, value, text);
    }
    html_close(h, "b");
    if (below != NULL) {
        html_leaf(h, "small", NULL, below);
    }
    html_close(h, "li");
}

void page_legend(struct html *h, const struct palette_look *const *looks, uint32_t count)
{
    char name[PAGE_COLOUR_BYTES];
    html_open(h, "ul");
    html_attr(h, "class", "legend");
    html_attr(h, "aria-label", "Colours");
    for (uint32_t i = 0; i < count; i++) {
        html_open(h, "li");
        html_open(h, "i");
        html_attr(h, "class", page_colour(looks[i]->colour, name));
        html_text(h, "");
        html_close(h, "i");
        html_text(h, looks[i]->title);
        html_close(h, "li");
    }
    html_close(h, "ul");
}
