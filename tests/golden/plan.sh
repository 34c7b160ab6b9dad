#!/usr/bin/env bash
# memwall plan: exit codes, keys, what is refused; memwall run --plan: a plan runs as it was said to, edited by hand, and not for others. usage: plan.sh BINARY
. "$(dirname "$0")/command.bash"

cat >"$folder/s.json" <<'JSON'
{ "schema": "memwall.scenario/1", "model": "bert-huge-32", "machine": "box-8x-titan-rtx", "training": { "global_batch": 32 } }
JSON
s=$folder/s.json

# ---- the answer ----
run 0 plan "$s" --planner exhaustive --budget-gib 8,12,16,20 --top 4 --out "$folder/plan.json" --json --quiet
for key in '"schema": "memwall.planning/1"' '"samples_per_s":' '"global_batch": 32' '"pipeline":' '"partition":' '"layers":' '"leftover_mib":' '"simulated":' '"runners_up":' \
    '"alpha_t":' '"alpha_m":' '"reasons":' '"planner": "exhaustive"' '"model_hash":' '"machine_hash":' '"front":'; do
    holds "$key"
done
if command -v python3 >/dev/null; then
    python3 - "$folder/out" "$folder" <<'PY'
import json, sys
results = json.load(open(sys.argv[1]))
assert [r["budget_gib"] for r in results] == [8, 12, 16, 20]
for before, after in zip(results, results[1:]):
    assert after["simulated"]["step_time_s"] <= before["simulated"]["step_time_s"]
for r in results:
    assert sum(r["partition"]) == 32 and len(r["layers"]) == 32 and len(r["leftover_mib"]) == r["pipeline"]
    assert len(r["runners_up"]) == 4 and r["simulated"]["peak_bytes"] <= r["budget_gib"] * 2**30
    assert all(u["simulated"]["fits"] for u in r["runners_up"])
    plan = json.load(open("%s/plan-%dgib.json" % (sys.argv[2], r["budget_gib"])))
    origin = plan.pop("origin")
    assert plan == r["plan"] and origin["model_hash"] == r["model_hash"] and origin["machine_hash"] == r["machine_hash"]
open(sys.argv[2] + "/step", "w").write(repr(results[3]["simulated"]["step_time_s"]))
PY
    expect "  the figures agree with each other and with the files" $?
fi
run 0 plan "$s" --planner exhaustive --budget-gib 20 --out "$folder/plan.json" --quiet
holds "^Budget 20 GiB a device"
holds "^  step time .* simulated"
holds "split (pipeline-tensor-data) x layers"
holds "left GiB"
holds "micro-batch: samples of a GPU"
holds "est.: by the cost *model; GiB: the peak of the fullest GPU"
holds "est. time a micro-batch  est. GiB"
holds "  - the next best, .*, would cost .* time ("


# ---- the table shows what tells plans apart, and which do not fit ----
run 0 plan "$s" --planner galvatron-bmw --set machine=titan-rtx-8-galvatron --set training.global_batch=64 \
    --set training.precision=fp16 --set software=pytorch-eager --budget-gib 8,20 --quiet
holds "^  best  8-1-1 ([0-9 ]*) "
holds "  8-1-1 gpipe  "
holds "\\* behind that of tensor and data whose groups are"
holds "memory alpha_m .* (1 - largest stage / sum of all; at best 0.875)"
run 0 plan "$s" --planner galvatron-base --set machine=titan-rtx-8-galvatron --set training.global_batch=64 \
    --set training.precision=fp16 --set software=pytorch-eager --budget-gib 8 --quiet
holds " ! [0-9.]* *[0-9.]*$"
holds "!: more than the budget by the simulator"

# ---- a plan runs ----
run 0 run "$s" --plan "$folder/plan.json" --json --quiet
if command -v python3 >/dev/null; then
    python3 - "$folder/out" "$folder/step" <<'PY'
import json, sys
assert repr(json.load(open(sys.argv[1]))["step_time_s"]) == open(sys.argv[2]).read()
PY
    expect "  run --plan takes the time that plan said" $?
fi
ops=$(sed -n 's/^ *"ops": \([0-9]*\).*/\1/p' "$folder/out")
run 0 schedule "$s" --plan "$folder/plan.json" --quiet
holds "^end $ops ops"
run 0 explain "$s" --plan "$folder/plan.json" --quiet
run 0 run "$s" --plan "$folder/plan.json" --set recompute=full --json --quiet
sed 's/"zero_stage": 0/"zero_stage": 1/' "$folder/plan.json" >"$folder/edited.json"
run 0 run "$s" --plan "$folder/edited.json" --json --quiet
sed 's/"bert-huge-32"/"bert-huge-48"/' "$s" >"$folder/other.json"
run 1 run "$folder/other.json" --plan "$folder/plan.json"
complains "plan.json:[0-9]*: .*: the plan was made for another model (bert-huge-32"
sed 's/box-8x-titan-rtx/box-8x-rtx3090/' "$s" >"$folder/other.json"
run 1 run "$folder/other.json" --plan "$folder/plan.json"
complains "the plan was made for another machine (box-8x-titan-rtx"
run 1 run "$s" --set gpus=4 --plan "$folder/plan.json"
complains "the plan is for 8 GPUs .*, the scenario has 4"
run 1 run "$s" --plan "$s"
complains "memwall.plan/1"
run 1 run "$s" --plan "$folder/nothing.json"
complains "nothing.json"

# ---- no plan ----
run 2 plan "$s" --budget-gib 1.1 --json --quiet
holds '"found": false'
holds '"smallest_budget_gib":'
run 2 plan "$s" --set model=gpt3-175b
holds "DOES NOT FIT"
holds "the smallest budget that would do is"
# enough is enough: the very figure that is printed, in the headline and in the reasons; what the cost model alone would say is too little for galvatron-bmw on all of these
for model in bert-huge-48 t5-large-32 swin-huge-32; do
    for planner in galvatron-bmw galvatron-base; do
        run 2 plan "$s" --set model=$model --planner $planner --budget-gib 1.3 --quiet
        holds "where a plan fits by simulation"
        for enough in $(sed -n 's/.*smallest budget that would do is \([0-9.]*\) GiB.*/\1/p' "$folder/out"); do
            run 0 plan "$s" --set model=$model --planner $planner --budget-gib "$enough" --quiet
        done
    done
done
for model in gpt2-xl gpt2-large gpt3-1.7b; do
    run 2 plan "$s" --set model=$model --set machine=dgx-a100-40gb --budget-gib 1 --quiet
    for enough in $(sed -n 's/.*smallest budget that would do is \([0-9.]*\) GiB.*/\1/p' "$folder/out"); do
        run 0 plan "$s" --set model=$model --set machine=dgx-a100-40gb --budget-gib "$enough" --quiet
    done
done
run 1 plan "$s" --budget-gib 0.2
complains "below the runtime line"
run 1 plan "$s" --budget-gib 8,100
complains "100 GiB a device: a TITAN RTX of box-8x-titan-rtx has 23.6.* GiB usable"
run 1 plan "$s" --budget-gib 8,8.0000001
complains "8 GiB twice"
run 3 plan "$here/../../scenarios/two-gpus-1f1b.json" --out /dev/full --quiet # full when the plan is there
grep -q "cannot write: No space left" "$folder/err"
expect "  says that the plan could not be written" $?
holds "Budget 16 GiB a device"
run 1 plan "$s" --out "$folder/one.json" --svg "$folder/one.json"
complains 'one.json" is the file of --svg, too'
cp "$s" "$folder/mine.json"
run 1 plan "$folder/mine.json" --out "$folder/./mine.json"
complains 'is the file of the scenario, too'
cmp -s "$s" "$folder/mine.json" && [ ! -e "$folder/one.json" ]
expect "  nothing written" $?
run 1 plan "$s" --threads 1.5
complains '"1.5" is not a whole number'
run 1 plan "$s" --budget-gib 8,,12
complains "expected GiB with commas between"
run 1 plan "$s" --planner exhaustion
complains 'unknown planner "exhaustion"; did you mean "exhaustive"?'
run 1 plan "$s" --planner max-batch --space full
complains 'planner max-batch has no parameter "space"'
run 1 plan "$s" --space 4d
complains 'did you mean "3d"'
run 1 plan "$s" --variant simulate=0
complains "from 1 to 100000"
run 1 plan "$s" --set gpus=7 --set training.global_batch=7 --space tp
complains 'no split of 7 GPUs in space "tp"'
run 1 plan "$s" --planner galvatron-bmw --preset v1 --variant recompute_peak=on
complains "preset v1 has no switch recompute_peak: v1 has no recomputation; leave it out"
run 1 plan "$s" --planner galvatron-bmw --variant recompute_cost=half
complains "preset memwall has no switch recompute_cost"
for planner in galvatron-bmw galvatron exhaustive; do
    run 1 plan "$s" --planner $planner --variant max_tensor=16
    complains "max_tensor is 16: there are 8 GPUs"
done
run 1 plan "$s" --planner galvatron-bmw --variant max_pipeline=9
complains "max_pipeline is 9: there are 8 GPUs"
run 2 plan "$s" --planner galvatron-bmw --space dp --variant batch_first=7,batch_max=7 --quiet
holds "no split to try of 8 GPUs in space dp .*; the next batch for all devices is 8"
run 0 plan "$s" --planner galvatron-bmw --variant batch_first=7,batch_max=7 --quiet # a pipeline of all takes any batch
run 1 plan "$s" --set training.global_batch=12
complains "or 2 times the tensor or pipeline degree, which leaves data 4"
run 0 plan "$s" --set training.global_batch=12 --set parallel.tensor=2 --planner galvatron-bmw --quiet
run 2 plan "$s" --planner galvatron-bmw --set model=gpt2-xl --space tp --quiet # 25 heads
holds "no plan at any budget: no split of 8 GPUs in space tp"
run 1 plan "$s" --budget-gib 1e300
complains 'expected GiB .*, found "1e300"'
run 0 plan "$s" --set gpus=7 --set training.global_batch=7 --quiet
holds "^Budget"
run 1 plan "$s" --set parallel.tensor=16
complains "does not divide the number of gpus, 8"

# ---- Galvatron: layers split differently, on several models and machines ----
mixed=0
while read -r model machine budget; do
    printf '{ "schema": "memwall.scenario/1", "model": "%s", "machine": "%s", "training": { "global_batch": 64 } }\n' "$model" "$machine" >"$folder/m.json"
    run 0 plan "$folder/m.json" --planner galvatron-bmw --budget-gib "$budget" --out "$folder/mixed.json" --json --quiet
    cp "$folder/out" "$folder/answer.json"
    run 0 run "$folder/m.json" --plan "$folder/mixed.json" --json --quiet
    if command -v python3 >/dev/null; then
        python3 - "$folder/answer.json" "$folder/out" "$folder/mixed.json" "$budget" <<'PY'
import json, sys
answer, ran, plan = (json.load(open(f)) for f in sys.argv[1:4])
simulated = answer["simulated"]
assert simulated["fits"] and ran["step_time_s"] == simulated["step_time_s"]
assert max(d["peak_bytes"] for d in ran["devices"]) == simulated["peak_bytes"] <= float(sys.argv[4]) * 2**30
assert any(r.startswith("cost model and simulator: ") for r in answer["reasons"])
assert sum(s["layers"] for s in answer["splits"]) == len(answer["layers"])
assert all(u["simulated"]["samples_per_s"] <= simulated["samples_per_s"] for u in answer["runners_up"] if u["simulated"] and u["simulated"]["fits"])
mixed = "layers" in plan["parallel"]
assert not mixed or answer["tensor"] is None or answer["zero_stage"] is None
sys.exit(3 if mixed else 0)
PY
        code=$?
        [ "$code" = 0 ] || [ "$code" = 3 ]
        expect "  $model on $machine: run --plan takes the time and the bytes that plan said" $?
        [ "$code" != 3 ] || mixed=$((mixed + 1))
    fi
done <<'CASES'
gpt2-xl box-8x-titan-rtx 10
llama-2-7b dgx-a100-40gb 36
t5-large-32 box-8x-titan-rtx 6
bert-huge-48 titan-rtx-8-galvatron 10
CASES
if command -v python3 >/dev/null; then
    [ "$mixed" -ge 2 ]
    expect "layers split differently in $mixed of these plans" $?
fi
run 0 plan "$s" --set model=gpt2-xl --set machine=dgx-a100-40gb --set training.global_batch=64 --planner galvatron-bmw --budget-gib 10 --quiet
holds "1-1-8f-c 1-1-8-c"
holds " 0-3 "
# the authors' rule keeps a fifth of large budgets; what cannot win is not called too big
run 0 plan "$s" --planner galvatron-bmw --preset g2 --set model=bert-huge-32 --budget-gib 22 --quiet
holds "MiB of 17[.]5.* GiB left (the rest of 22 GiB is the caching allocator.s: reserve)"
holds "of those tried (--variant batch_max=N tries more)"
holds " splits: 0 refused, 0 too big by closed form, [1-9][0-9]* too slow to win, "

# stages before and after balancing, in words and as a picture
run 0 plan "$s" --set machine=titan-rtx-8-galvatron --planner galvatron-bmw --budget-gib 8 --svg "$folder/balance.svg" --quiet
holds "balance of stages   time alpha_t"
holds "before balancing    time alpha_t .* a step simulated; layers"
holds "by the simulator$"
grep -q "memory-balanced, before: .* alpha_t" "$folder/balance.svg" && grep -q "after balancing: .* alpha_m" "$folder/balance.svg"
expect "  the picture has both" $?
grep -q "memory at its peak, by the cost model" "$folder/balance.svg"
expect "the picture says whose figures its bars are" $?
[ "$(grep 'GiB</text>' "$folder/balance.svg" | grep -v dashed | sed 's/.*<text x="\([^"]*\)".*/\1/' | sort -u | wc -l)" = 1 ]
expect "  what stages take stands in one column, clear of the budget's line" $?
if command -v python3 >/dev/null; then
    python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$folder/balance.svg"
    expect "  and is XML" $?
fi
run 0 plan "$s" --set machine=titan-rtx-8-galvatron --planner galvatron-bmw --budget-gib 8 --json --quiet
holds '"simulated_step_time_s":'
# a mixed plan runs for real as well
cat >"$folder/host.json" <<'JSON'
{ "schema": "memwall.scenario/1", "machine": "example-host", "gpus": 2,
  "model": { "family": "gpt", "layers": 4, "hidden": 64, "heads": 4, "ffn": 256, "vocab": 512, "max_sequence": 32 },
  "training": { "sequence_length": 32, "micro_batch": 2, "global_batch": 8, "precision": "fp32" },
  "parallel": { "data": 2, "layers": [ { "layers": 1, "tensor": 2 }, { "layers": 1, "zero_stage": 3 }, { "layers": 2, "recompute": "full" } ] } }
JSON
run 0 run "$folder/host.json" --executor host --check --json --quiet
holds '"executor": "host"'

# ---- max-batch ----
run 0 plan "$s" --planner max-batch --set parallel.tensor=2 --json --quiet
holds '"planner": "max-batch"'
run 0 list planners
holds "^exhaustive "
holds "^max-batch "

# ---- mpress: moves in the plan, which runs as it was said to ----
cat >"$folder/m.json" <<'JSON'
{ "schema": "memwall.scenario/1", "machine": "dgx1-v100-32gb", "software": "ideal", "training": { "micro_batch": 8, "global_batch": 128 },
  "model": { "family": "gpt", "layers": 16, "hidden": 1024, "heads": 16, "ffn": 4096, "vocab": 8000, "max_sequence": 512 } }
JSON
m=$folder/m.json
run 0 plan "$m" --planner mpress --budget-gib 2.1 --out "$folder/mpress.json" --json --quiet
for key in '"planner": "mpress"' '"moves":' '"to": "devices"' '"stripes":' '"lag":' '"lead":' '"when": "out after its forward' '"over": "gpu .* links' '"why": "stage 0 would take' '"stage_places":'; do
    holds "$key"
done
said=$(sed -n 's/^ *"step_time_s": \([^,]*\),*$/\1/p' "$folder/out" | head -1)
run 0 run "$m" --plan "$folder/mpress.json" --json --quiet
holds "\"step_time_s\": $said"
for order in pipedream pipedream-2bw; do # without a flush: the settled step
    run 0 plan "$m" --planner mpress --budget-gib 2.3 --set parallel.pipeline_order=$order --out "$folder/mpress.json" --json --quiet
    holds "\"name\": \"$order\""
    holds '"to": "devices"'
    said=$(sed -n 's/^ *"step_time_s": \([^,]*\),*$/\1/p' "$folder/out" | head -1)
    run 0 run "$m" --plan "$folder/mpress.json" --json --quiet
    holds "\"step_time_s\": $said"
done
grep -q '"recompute": "none"' "$folder/mpress.json"
expect "  one word for layers that are alike: what mpress computes again stands among its moves" $?
run 0 plan "$m" --planner mpress --budget-gib 2.3
holds 'h activations to the host'
run 1 plan "$m" --planner mpress --set parallel.pipeline_order=dualpipe --set parallel.pipeline=8
complains 'with a flush ("1f1b") or without ("pipedream", "pipedream-2bw")'
run 2 plan "$m" --planner mpress --budget-gib 0.4 --quiet
holds "the best found"
run 1 plan "$m" --planner mpress --variant allow=nothing
complains "recompute+host"
run 1 run "$m" --set memory_policy=mpress
complains "plan SCENARIO --planner mpress"
run 1 plan "$m" --planner mpress --set gpus=8 --set model.layers=4
complains "mpress makes each GPU a stage"

# ---- profiles: PipeDream's own figures for its VGG16 profile (facts/mpress-hippie-pipelines.md B.5) ----
awk 'BEGIN { print "{\"schema\":\"memwall.profile/1\",\"name\":\"VGG16\",\"layers\":[" }
    /^ *\{ [0-9]/ { n = split($0, rows, "}"); for (i = 1; i <= n; i++) if (match(rows[i], /[0-9].*/)) {
        split(substr(rows[i], RSTART), f, ",");
        printf "%s{\"forward_s\":%se-3,\"backward_s\":%se-3,\"activation_bytes\":%s,\"parameter_bytes\":%s}\n", comma, f[1], f[2] + 0, f[3], f[4]; comma = "," } }
    END { print "]}" }' "$here/../vgg16_profile.h" >"$folder/vgg16.json"
for row in "16 1.25 46.587 145.802" "16 3.125 45.477 83.541" "16 12.5 43.023 52.410" "16 25 42.715 47.222" "4 1.25 174.498 500.192"; do
    set -- $row
    run 0 plan --planner pipedream --profile "$folder/vgg16.json" --workers "$1" --bandwidth "$2"
    holds "slowest stage  *$3 ms a minibatch"
    holds "pure data parallel  *$4 ms"
done
holds "^ *0 .* 3 .* 508.686"
holds "^ *1 .* 1 .* 163.849"
run 0 plan --planner dapple --profile "$folder/vgg16.json" --workers 16 --bandwidth 1.25 --microbatches 8 --json
holds '"schema": "memwall.partition/1"'
holds '"replicas": 15'
run 2 plan --profile "$folder/vgg16.json" --workers 4 --bandwidth 1 --replicas 2 --variant memory_test=true --budget-gib 0.001
holds "no partition passes the memory test"
run 1 plan
complains "needs a scenario, or --profile FILE"
run 1 plan "$s" --workers 4
complains "go with --profile"
run 1 plan --profile "$folder/vgg16.json" --workers 4
complains "bandwidth: is missing"
run 1 plan --profile "$folder/vgg16.json" --workers 4.5 --bandwidth 1
complains 'not a whole number from 1 to 4096'
run 1 plan --planner galvatron --profile "$folder/vgg16.json" --workers 4 --bandwidth 1
complains "profiles are for the planners pipedream and dapple"
run 1 plan --profile "$folder/vgg16.json" --workers 4 --bandwidth 1 --microbatches 8
complains "planner pipedream has no step"
for half in "--budget-gib 1" "--variant memory_test=true" "--planner dapple --microbatches 8 --budget-gib 1"; do
    run 1 plan --profile "$folder/vgg16.json" --workers 4 --bandwidth 1 $half
    complains "only the memory test of planner pipedream looks at it"
done
run 1 plan --profile "$folder/vgg16.json" --workers 4 --bandwidth 1 --variant memory_test=true --budget-gib 1,2
complains "2 budgets: with --profile one is allowed"
run 1 plan --profile "$s" --workers 4 --bandwidth 1
complains "this is a scenario"
run 1 plan "$s" --profile "$folder/vgg16.json" --workers 4 --bandwidth 1
complains "stands in place of a scenario"
run 0 plan "$s" --planner pipedream --variant order=pipedream --out "$folder/async.json" --quiet
run 0 run "$s" --plan "$folder/async.json"
holds "settled: step"

[ "$failures" = 0 ]
