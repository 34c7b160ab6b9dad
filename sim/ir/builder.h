/* Building a schedule, op by op. The only way to make one besides loading.
 *
 * Ranks are built one after the other (builder_rank opens the next); ops are appended in the host's issue order. Works and kernels are shared: adding an equal one
 * returns the old index. Errors are sticky: after the first, calls do nothing and return 0, and builder_finish reports it. Programmer errors assert.
 *
 *     struct builder *b = builder_new();
 *     uint32_t hbm = builder_space(b, SPACE_DEVICE, 0, 80e9, SCHED_NONE, "gpu 0");
 *     uint32_t rank = builder_rank(b, devices, 8, 0, "stage 0");
 *     uint32_t q = builder_queue(b, QUEUE_COMPUTE, "compute");
 *     uint32_t act = builder_buffer(b, hbm, 1000, 1, BUFFER_ACTIVATION, 0, "layer 0");
 *     builder_op(b, OP_COMPUTE, q, work, PHASE_FORWARD);
 *     builder_acquire(b, act);                      // operands and dependencies go to the latest op
 *     builder_depends(b, earlier_op);
 *     TRY(builder_finish(b, &schedule, error));     // also frees the builder
 */
#ifndef MEMWALL_IR_BUILDER_H
#define MEMWALL_IR_BUILDER_H

#include "sim/ir/schedule.h"

struct builder;

struct builder *builder_new(void);                                 /* NULL when memory is out */
void builder_free(struct builder *builder);                        /* only when not finished; NULL is fine */
uint32_t builder_label(struct builder *builder, const char *text); /* shared */
uint32_t builder_label_format(struct builder *builder, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t builder_space(struct builder *builder, enum space_kind kind, uint32_t location, uint64_t capacity_bytes,
                       uint32_t parent, const char *label);
void builder_exact_blocks(struct builder *builder, uint32_t space); /* of a pinned space */
/* Opens a rank; queues, ops belong to it until the next call. */
uint32_t builder_rank(struct builder *builder, const uint32_t *devices, uint32_t device_count, uint32_t stage,
                      const char *label);
uint32_t builder_queue(struct builder *builder, enum queue_class queue_class, const char *label);
uint32_t builder_buffer(struct builder *builder, uint32_t space, uint64_t bytes, uint32_t copies,
                        enum buffer_class buffer_class, uint8_t flags, uint32_t label);
/* Sister groups instance-major; equal groups are shared. */
uint32_t builder_group(struct builder *builder, const uint32_t *members, uint32_t member_count, uint32_t instance_count,
                       const char *label);
/* `op_count` ops will name it: 2 for send/recv, ranks present for a collective. */
uint32_t builder_match(struct builder *builder, uint32_t group, uint32_t op_count);

uint32_t builder_kernel(struct builder *builder, const struct kernel *kernel);                              /* shared */
uint32_t builder_work_kernels(struct builder *builder, const struct work_item *items, uint32_t item_count); /* shared */
uint32_t builder_work_collective(struct builder *builder, uint32_t group, double bytes, enum dtype dtype);
uint32_t builder_work_transfer(struct builder *builder, double bytes, bool pageable);
uint32_t builder_work_host_optimizer(struct builder *builder, double parameters);
uint32_t builder_work_fixed(struct builder *builder, int64_t fixed_ps);

/* Appends an op of the open rank and returns its index. `queue` must be one of the rank's. */
uint32_t builder_op(struct builder *builder, enum opcode opcode, uint32_t queue, uint32_t work, enum op_phase phase);
/* These speak of the latest op. Operands may be added in any order. A dependency on SCHED_NONE or on an op of the same queue is ignored (order implies it). */
void builder_acquire(struct builder *builder, uint32_t buffer);
void builder_release(struct builder *builder, uint32_t buffer);
void builder_read(struct builder *builder, uint32_t buffer);
void builder_write(struct builder *builder, uint32_t buffer);
void builder_depends(struct builder *builder, uint32_t op);
void builder_set_match(struct builder *builder, uint32_t match);
void builder_tag(struct builder *builder, uint16_t micro_batch, uint16_t chunk, uint16_t layer);
void builder_flag(struct builder *builder, uint8_t flags);
/* A release decided later than the op was appended (last use): attach to an earlier op of the open rank. */
void builder_release_at(struct builder *builder, uint32_t op, uint32_t buffer);
uint32_t builder_op_count(const struct builder *builder);

/* Freeze into `schedule` (owned by the caller: schedule_free) and free the builder. Does not verify. */
enum status builder_finish(struct builder *builder, struct schedule *schedule, struct error *error);

#endif
