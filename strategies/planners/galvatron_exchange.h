/* Galvatron's searched plans and profiles as ours, and ours as theirs (the formats of its released code).
 *
 *   their plan -> ours   layers, stages, micro-batches; "vtp" and "embed_sdp" are the split of embedding and head (absent: as the first and the last layer); plain data parallelism is what
 *                        default_dp_type says; sequence length, precision and what else a plan of theirs doesn't say is the scenario's. Ulysses sequence parallelism is refused.
 *   our plan -> theirs   refused with the reason where their files have no word for it (orders other than gpipe and 1f1b, several chunks, stage places and replicas, ZeRO-1, selective recomputation, policies ...)
 *   profiles             into the model profile that the presets search with; machines from measured bandwidths */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_EXCHANGE_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_EXCHANGE_H

#include "strategies/planners/galvatron_files.h"
#include "strategies/planners/planner.h"

/* `file` was read with the scenario's number of GPUs. The plan's arrays are in `arena`; it passes plan_check. STATUS_BAD_INPUT: another model, or something we can't do. */
enum status galvatron_import_plan(const struct scenario *scenario, const struct galvatron_plan_file *file,
                                  struct plan *plan, struct arena *arena, struct error *error);
/* All keys of today's Galvatron, without those of embedding and head where the plan doesn't say them and first and last layer differ (Galvatron then takes its own); arrays in `arena`. STATUS_UNSUPPORTED says what their files can't. */
enum status galvatron_export_plan(const struct scenario *scenario, const struct plan *plan,
                                  struct galvatron_plan_file *file, struct arena *arena, struct error *error);

/* Puts what a computation or memory file says of the scenario's model (one kind of layer; its sequence length where the file has several) into a profile. STATUS_BAD_INPUT names the layer or the
 * value that is missing. Times come from "layertype_0...", else from the difference of two "layernum[...]" of equal batch. */
enum status galvatron_model_add(const struct galvatron_file *file, const struct scenario *scenario,
                                struct galvatron_model_profile *model, struct error *error);
/* Files of any kind, for a search over the scenario's GPUs. `model` and `hardware` come filled with what we would say; the first file of a kind (model: computation or memory) empties its part, so that nothing of ours
 * stands beside what was measured. Errors carry the file's name; galvatron_check_profiles then tells what is missing. */
enum status galvatron_profiles_load(const char *const *paths, uint32_t count, const struct scenario *scenario,
                                    struct galvatron_model_profile *model, struct galvatron_hardware_profile *hardware,
                                    struct error *error);

/* A machine file (memwall.machine/1) on `base` whose all-reduce curves are those of the hardware files: "allreduce_size_#_#MB_time" tables as measured; a bandwidth without a size holds from 16 to 256 MiB (our
 * rule, as for titan-rtx-8-galvatron). Consecutive groups only: those are the curves of a machine. STATUS_BAD_INPUT: no all-reduce in the files. */
enum status galvatron_machine_from_files(const struct galvatron_file *files, uint32_t count, const struct machine *base,
                                         struct strbuf *out, struct error *error);

#endif
