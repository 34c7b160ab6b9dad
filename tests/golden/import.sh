#!/usr/bin/env bash
# memwall import galvatron, memwall plan --galvatron-profile and --galvatron: plans there and back, machines from measured bandwidths, searches with measured profiles, what is refused. usage: import.sh BINARY
. "$(dirname "$0")/command.bash"

cat >"$folder/s.json" <<'JSON'
{ "schema": "memwall.scenario/1", "model": "llama-2-7b", "machine": "dgx-a100-40gb", "training": { "global_batch": 64, "sequence_length": 2048, "precision": "bf16" } }
JSON
s=$folder/s.json
step_of() { grep -m1 '"step_time_s"' "$1"; }

# ---- there and back: a plan whose layers are split differently ----
run 0 plan "$s" --planner galvatron-bmw --budget-gib 36 --out "$folder/ours.json" --galvatron "$folder/theirs.json" --quiet
grep -q '"tp_sizes_enc": "' "$folder/theirs.json" && grep -q '"layers"' "$folder/ours.json"
expect "  both files, layers differ" $?
run 0 import galvatron "$folder/theirs.json" --scenario "$s" --out "$folder/again.json" --quiet
run 0 run "$s" --plan "$folder/ours.json" --json --quiet
step_of "$folder/out" >"$folder/step"
run 0 run "$s" --plan "$folder/again.json" --json --quiet
step_of "$folder/out" | cmp - "$folder/step"
expect "  the plan that went to Galvatron's file and back takes the same time" $?

# ---- a plan of theirs ----
ones=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
twos=${ones//1/2}
printf '{"pp_deg": 2, "tp_sizes_enc": "%s", "tp_consecutive_flags": "%s", "dp_types_enc": "%s", "global_bsz": 64, "chunks": 16, "checkpoint": "%s", "pp_division": "15,17", "pipeline_type": "pipedream_flush", "default_dp_type": "zero2", "vtp": 4}' \
    "$twos" "$ones" "${ones//1/0}" "$ones" >"$folder/plan.json"
run 0 import galvatron "$folder/plan.json" --scenario "$s"
for part in '"schema": "memwall.plan/1"' '"tensor": 2' '"pipeline": 2' '"data": 2' '"zero_stage": 2' '"recompute":' '"embedding":' '"planner":"galvatron"'; do
    holds "$part"
done
cp "$folder/out" "$folder/imported.json"
run 0 run "$s" --plan "$folder/imported.json" --quiet
holds "step time"
run 1 import galvatron "$folder/plan.json" --scenario "$s" --set model=llama-2-13b
complains "a plan of 32 layers; the model has 40: it is for another model"
sed 's/"checkpoint": "1,/"checkpoint": "/' "$folder/plan.json" >"$folder/bad.json"
run 1 import galvatron "$folder/bad.json" --scenario "$s"
complains "1 layers are missing: it has 31, tp_sizes_enc 32"
sed 's/"vtp": 4/"vtp": 4, "vsp": 1/' "$folder/plan.json" >"$folder/bad.json"
run 1 import galvatron "$folder/bad.json" --scenario "$s"
complains "Ulysses sequence parallelism (vsp), which is not modelled"
sed 's/"global_bsz": 64/"global_bsz": 60/' "$folder/plan.json" >"$folder/bad.json"
run 1 import galvatron "$folder/bad.json" --scenario "$s"
complains "60 samples over 2 replicas in 16 micro-batches are no whole samples"
run 1 import galvatron "$folder/plan.json"
complains "--scenario is missing"
run 1 import megatron "$folder/plan.json" --scenario "$s"
complains 'files of "megatron" cannot be taken over; known: galvatron'
run 1 import galvatron "$folder/nothing.json" --scenario "$s"
complains "nothing.json"

# ---- machines from what was measured (figures of the authors' two servers of eight: facts/galvatron-bmw.md C.6) ----
printf '{"allreduce_size_8_consec_1": 155.658, "allreduce_size_4_consec_1": 157.984, "allreduce_size_4_consec_0": 16.22, "allreduce_size_2_consec_1": 149.666, "allreduce_size_2_consec_0": 8.13}' >"$folder/bandwidth.json"
run 0 import galvatron "$folder/bandwidth.json" --scenario "$s" --out "$folder/machine.json" --quiet
run 0 explain "$s" --set machine="$folder/machine.json" --set parallel.tensor=8 --set training.global_batch=8 --set training.sequence_length=2048
holds "Galvatron's profile, taken over by memwall import"
printf '{"pp_size_2": 163.7}' >"$folder/p2p.json"
run 1 import galvatron "$folder/p2p.json" --scenario "$s"
complains "no all-reduce of consecutive groups"
printf '{"allreduce_size_8_consec_1": 155658000000}' >"$folder/bad.json"
run 1 import galvatron "$folder/bad.json" --scenario "$s"
complains "allowed: 0.001 to 100000 GB/s (is the unit another one?)"
printf '{"layertype_0": 4.6434}' >"$folder/times.json"
run 1 import galvatron "$folder/times.json" --scenario "$s"
complains "a computation profile is the cost of a model"

# ---- searches with measured profiles ----
printf '{"allreduce_size_8_consec_1": 155.658, "allreduce_size_4_consec_1": 157.984, "allreduce_size_4_consec_0": 155.8, "allreduce_size_2_consec_1": 149.666, "allreduce_size_2_consec_0": 151.3, "pp_size_2": 163.7, "pp_size_4": 138.6, "pp_size_8": 109.45, "overlap_coe": 1.12555}' >"$folder/hardware.json"
printf '{"layertype_0": {"parameter_size": 772.1, "tp_activation_per_bsz_dict": {"1": 301.3, "2": 182.2, "4": 122.6, "8": 92.8, "checkpoint": 16.0}}, "other_memory_pp_off": {"model_states": 4000.0, "activation": 380.0}, "other_memory_pp_on_first": {"model_states": 2000.0, "activation": 32.0}, "other_memory_pp_on_last": {"model_states": 2000.0, "activation": 380.0}}' >"$folder/memory.json"
profiles=$folder/hardware.json,$folder/times.json,$folder/memory.json
run 0 plan "$s" --planner galvatron --preset g2 --galvatron-profile "$profiles" --budget-gib 38 --variant batch_first=64,batch_max=64 --json --quiet
holds '"preset": "g2"'
holds '"found": true'
run 1 plan "$s" --planner galvatron --preset g2 --galvatron-profile "$folder/hardware.json,$folder/times.json"
complains "has no parameter size (MiB)"
sed 's/"overlap_coe": 1.12555/"pp_deg_2": 0.1/; s/"allreduce_size_2_consec_0": 151.3, //' "$folder/hardware.json" >"$folder/short.json"
run 1 plan "$s" --planner galvatron --preset g2 --galvatron-profile "$folder/short.json"
complains "overlap coefficient"
sed 's/"allreduce_size_2_consec_0": 151.3, //' "$folder/hardware.json" >"$folder/short.json"
run 1 plan "$s" --planner galvatron --preset g2 --galvatron-profile "$folder/short.json"
complains "strided groups of 2"
printf '{"1_1_8": {"layernum[1]_bsz8_rank0_ms": 386.5, "layernum[1]_bsz8_rank0_act": 165.1, "layernum[1]_bsz8_rank0_act_peak": 434.1}}' >"$folder/raw.json"
run 1 plan "$s" --planner galvatron --preset g2 --galvatron-profile "$folder/raw.json"
complains "raw.json: layertype_0 is missing"
run 1 plan "$s" --planner galvatron --galvatron-profile "$profiles"
complains "preset memwall takes its costs from our model graph"
run 1 plan "$s" --planner exhaustive --galvatron-profile "$profiles"
complains "planner exhaustive takes no measured profiles"
run 1 plan "$s" --planner max-batch --set recompute=selective --set parallel.zero_stage=3 --galvatron "$folder/no.json" --quiet
grep -q "is recomputed selectively; Galvatron recomputes a layer whole or not" "$folder/err"
expect "  complains that Galvatron cannot say it" $?
holds "max-batch" # the search is not lost
[ ! -e "$folder/no.json" ]
expect "  nothing half-written" $?

[ "$failures" = 0 ]
