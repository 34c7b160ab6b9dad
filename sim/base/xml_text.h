/* Text within XML: HTML pages, SVG pictures. */
#ifndef MEMWALL_BASE_XML_TEXT_H
#define MEMWALL_BASE_XML_TEXT_H

#include "sim/base/strbuf.h"

/* For elements and attributes in double quotes. What is no UTF-8, and characters that XML has not, become U+FFFD. */
void xml_escape(struct strbuf *out, const char *text);

#endif
