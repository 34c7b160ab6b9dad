/* Canonical text and JSON forms of a schedule. Printing a loaded schedule gives the same bytes. The text form is for people (`memwall schedule`): ranks, queues,
 * spaces, buffers, works, then each rank's ops, one a line. The JSON form has schema "memwall.schedule/1". Loading checks everything that printing can say (ranges, words,
 * sizes, 2^53 for JSON integers: bytes above are refused) but not what sched_verify checks. */
#ifndef MEMWALL_IR_SCHEDULE_TEXT_H
#define MEMWALL_IR_SCHEDULE_TEXT_H

#include "sim/base/strbuf.h"
#include "sim/ir/schedule.h"

void schedule_print_text(const struct schedule *schedule, struct strbuf *out);
void schedule_print_json(const struct schedule *schedule, struct strbuf *out);
/* `file` names the source in messages. The caller frees the schedule. */
enum status schedule_parse_text(struct schedule *schedule, const char *text, size_t length, const char *file,
                                struct error *error);
enum status schedule_parse_json(struct schedule *schedule, const char *text, size_t length, const char *file,
                                struct error *error);

#endif
