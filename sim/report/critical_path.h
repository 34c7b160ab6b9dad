/* The critical path of a simulated step: one unbroken chain of spans from its begin to its end, each with one cause. Its length is the step time, to the picosecond.
 *
 * The step is that of timeline_step: of a schedule that holds several (asynchronous orders, stages that do not wait for each other) the settled one, from its first op to that of the next.
 *
 * Walked back from the op that ends last; of several steps from that with which the next one begins. An op that ran from start to end gives that span; before it stands
 *   a wait for memory   from the moment when all else was there until its buffers fitted: a span of its own (cause memory_wait);
 *   its last partner    of matched ops the path goes on with the one that was ready last (lowest index where equal);
 *   what made that ready: the dependency that ended then; else the op ahead in its queue; else the host, which issued it then.
 * The host's thread gives spans (cause host_issue) back to where it last waited: for an op to end, with which the path goes on, or for the start of the step. What an op of the step before
 * still does when a step of several begins is not looked into: there the path ends.
 *
 * Inside a span an op's time is split into what it takes alone (of a sequence of kernels, the collectives merged into it and not hidden are told apart), what sharing links, SMs and
 * memory with others added (contention), and launches that came late (host_issue), in this order; the order is a convention, the lengths are the engine's.
 *
 *     struct critical_path path;
 *     TRY(critical_path_find(&path, &input, error));    // input: of a simulated step that is DONE
 *     ... path.cause_ps[PATH_MEMORY_WAIT], path.spans[i] ...
 *     critical_path_free(&path);
 *
 * O(ops + dependencies) but for hosts that wait for launches to finish, where ops are looked through back to the one that ended. */
#ifndef MEMWALL_REPORT_CRITICAL_PATH_H
#define MEMWALL_REPORT_CRITICAL_PATH_H

#include "sim/base/json_write.h"
#include "sim/report/result.h"

/* First the phases of kernels (enum op_phase), then what is no kernel by its opcode (PATH_FIRST_OPCODE + enum opcode), then these. */
enum path_cause {
    PATH_FIRST_OPCODE = PHASE_COUNT,
    PATH_HOST_ISSUE = (int)PHASE_COUNT + (int)OPCODE_COUNT,
    PATH_MEMORY_WAIT,
    PATH_CONTENTION,
    PATH_UNEXPLAINED, /* 0 in every simulated step: a test holds it there */
    PATH_CAUSE_COUNT
};

/* How the path came from what stood before to an op: name, JSON word, what it is. */
#define PATH_LINK_TABLE(X)                                                                                             \
    X(PATH_BY_START, "step_start", "nothing: the step began")                                                          \
    X(PATH_BY_DEPENDENCY, "dependency", "the end of an op it depends on")                                              \
    X(PATH_BY_QUEUE, "queue", "the end of the op ahead in its queue")                                                  \
    X(PATH_BY_MATCH, "match", "a partner in another rank that was ready last")                                         \
    X(PATH_BY_HOST, "host", "its issue by the host")

enum path_link {
#define X(name, word, help) name,
    PATH_LINK_TABLE(X)
#undef X
        PATH_LINK_COUNT
};

struct path_span {
    int64_t from_ps, to_ps;
    uint32_t op; /* whose time it is; host_issue: the op that was being issued */
    enum path_cause cause;
    enum path_link link; /* why `op` could not begin earlier */
};

struct path_op {
    uint32_t op;
    int64_t time_ps; /* on the path */
};

enum { PATH_TOP_MAX = 8 };

struct critical_path {
    int64_t length_ps;       /* the sum of all spans; the length of the step */
    struct path_span *spans; /* in order of time, without gaps; times are the timeline's */
    uint32_t span_count;
    int64_t cause_ps[PATH_CAUSE_COUNT]; /* each sums to length_ps */
    int64_t link_ps[PATH_LINK_COUNT];
    int64_t *rank_ps; /* [rank_count] */
    uint32_t rank_count;
    struct path_op top[PATH_TOP_MAX]; /* ops with most time on the path, descending */
    uint32_t top_count;
    struct arena arena;
};

/* STATUS_UNSUPPORTED for measured timelines and for steps that did not end. On error nothing stays allocated. */
enum status critical_path_find(struct critical_path *path, const struct result_input *input, struct error *error);
void critical_path_free(struct critical_path *path);

/* "forward", "all_reduce", "memory_wait". */
const char *path_cause_word(uint32_t cause);
const char *path_link_word(enum path_link link);

/* Member "critical_path" of the result; a table for people. */
void critical_path_json(const struct critical_path *path, const struct result_input *input, struct json_writer *w);
void critical_path_text(const struct critical_path *path, const struct result_input *input, struct strbuf *out);

#endif
