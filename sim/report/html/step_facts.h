/* Studies of a result that a report shows as they are, whatever members they have: money, failures, uncertainty.
 *
 *     "money": { "servers": 8, "owned": { "hardware_usd": 549911 }, "prices": { "system_usd": { "value": 250000 } } }
 *     step_facts_named(facts, "", "servers")                    8, unit ""
 *     step_facts_named(facts, "owned", "hardware")              549911, unit "usd"
 *     step_facts_named(facts, "prices, system usd", "value")    250000, unit "usd": members within have their member's unit */
#ifndef MEMWALL_REPORT_HTML_STEP_FACTS_H
#define MEMWALL_REPORT_HTML_STEP_FACTS_H

#include "sim/base/arena.h"
#include "sim/base/json.h"

enum { STEP_FACTS_MAX = 400, STEP_FACT_DEPTH_MAX = 5 };

/* A member of a study. */
struct step_fact {
    const char *group; /* words of the members it is in, "" at the top */
    const char *name;  /* words of its key, without the unit */
    const char *unit;  /* the key's last words where they are a unit ("s", "bytes_per_s", "usd"), else "" */
    const char *text;  /* of texts and booleans, else NULL */
    double value;
};
struct step_facts {
    struct step_fact *items; /* count 0: the result has no such member */
    uint32_t count;
};

/* The values in the member `key`, which may be absent, in document order; lists are numbered, null is left out, and what is beyond STEP_FACTS_MAX or deeper than STEP_FACT_DEPTH_MAX.
 * STATUS_BAD_INPUT when it is no object. */
enum status step_facts_read(struct step_facts *facts, const struct json *object, const char *key, struct arena *arena,
                            struct error *error);
/* The first fact whose key or group has both of these words ("cost", "trillion"; the second may be NULL) and is a number; NULL: none. */
const struct step_fact *step_facts_find(const struct step_facts *facts, const char *first, const char *second);
/* The fact of this group and name; NULL: none. */
const struct step_fact *step_facts_named(const struct step_facts *facts, const char *group, const char *name);
/* "1,234,567" from 1000 on, else three significant figures: "23.5". */
const char *step_number_text(double value, char *buffer, size_t size);
/* "51.7 %", "9.26 %" of a share; "< 0.01 %" of what is there but too little to show. */
const char *step_share_text(double share, char *buffer, size_t size);
/* For people: "13.7 s", "$1,234", "99.7 %". */
const char *step_fact_text(const struct step_fact *fact, char *buffer, size_t size);

#endif
