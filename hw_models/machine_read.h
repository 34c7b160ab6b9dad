/* Inside the machine loader only: its parts, split by concept. `partial` means that a base machine is already in `machine` and absent keys keep its values. */
#ifndef MEMWALL_HW_MODELS_MACHINE_READ_H
#define MEMWALL_HW_MODELS_MACHINE_READ_H

#include "hw_models/machine.h"

/* machine_fields.c: all scalars of the sections gpu, host, latency, memory_overhead, nccl, network, price, power. */
enum status machine_read_fields(struct machine *machine, const struct json *root, bool partial, struct error *error);
/* Note every scalar that an override sets as coming from `origin`. null is refused: nothing can be taken away. */
enum status machine_note_overrides(struct machine *machine, const struct json *root, const char *origin,
                                   struct error *error);

/* Refuse a machine of its own that lacks keys, naming all of them. */
enum status machine_need_fields(const struct json *root, struct error *error);

/* machine_sources.c: "provenance", "standard_errors", "residuals". */
enum status machine_add_source(struct machine *machine, const char *field, const char *source, bool estimated,
                               struct error *error);
enum status machine_read_sources(struct machine *machine, const struct json *root, struct error *error);
/* The standard errors of what an override changes no longer hold. */
void machine_forget_standard_errors(struct machine *machine, const struct json *root);

/* machine_topology.c: "parts" and "links", compact groups expanded. */
enum status machine_read_topology(struct machine *machine, const struct json *root, bool partial, struct error *error);
/* Keep `keep` of the parts of one kind (compute NICs only for PART_NIC), spread evenly in file order; drop their links. */
enum status machine_thin_parts(struct machine *machine, enum machine_part_kind kind, uint32_t keep,
                               struct error *error);
/* Every GPU reaches a CPU without crossing another GPU, each DRAM has one CPU and each CPU one DRAM, NICs and drives hang somewhere; devices on the host have their one link. */
enum status machine_check_topology(const struct machine *machine, const struct json *root, struct error *error);

/* machine_curves.c: "collectives", "kernel_model", "measured". */
enum status machine_read_curves(struct machine *machine, const struct json *root, bool partial, struct error *error);
enum status machine_read_kernel_model(struct machine *machine, const struct json *root, bool partial,
                                      struct error *error);
enum status machine_read_measured(const struct json *root, struct error *error);

/* Copy into the machine's arena; STATUS_NO_MEMORY. */
enum status machine_text(struct machine *machine, const char *text, const char **copy, struct error *error);
enum status machine_out_of_memory(struct error *error);

#endif
