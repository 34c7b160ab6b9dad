#!/usr/bin/env bash
# memwall compare: exit codes, both sides, the sentence, files of results, what is refused. usage: compare.sh BINARY
. "$(dirname "$0")/command.bash"

cat >"$folder/a.json" <<'JSON'
{ "schema": "memwall.scenario/1", "name": "small", "model": "gpt2", "machine": "dgx-a100-80gb", "gpus": 4,
  "training": { "micro_batch": 2, "global_batch": 16 }, "parallel": { "data": 4 } }
JSON
a=$folder/a.json

run 0 compare "$a" "$a"
holds "^B is as fast as A and takes as much memory (fullest device: "
holds "Both run the same schedule"
[ ! -s "$folder/err" ]
expect "  standard error stays empty" $?
awk 'length > 110' "$folder/out" | grep -q .
expect "  at most 110 columns" $((1 - $?))

# One flag for both, flags for one, each repeatable; the later wins.
run 0 compare "$a" "$a" --set model=gpt2-medium --set-a gpus=2 --set-a parallel.data=2 --set-b=memory_policy=optimizer-on-host
holds "^B on 4 GPUs is .* times as fast as A on 2 (.* times a GPU) and takes 0\..* of its memory"
holds "memory: fullest host space"
holds "^ *pcie .*iB"
holds "What binds A"
holds "What binds B"

# Results that a run wrote: the same figures as from the scenario.
run 0 compare "$a" "$a" --set-b training.micro_batch=4 --json
cp "$folder/out" "$folder/of-scenarios"
for key in '"schema": "memwall.compare/1"' '"statement":' '"ratio":' '"step_time_s":' '"tokens_per_s_per_gpu":' '"mfu":' '"hfu":' '"memory":' '"device":' \
    '"peak_bytes":' '"time_breakdown":' '"exposed":' '"traffic":' '"nvlink":' '"a":' '"b":' '"schedule_hash":' '"bounds":'; do
    holds "$key"
done
"$binary" run "$a" --json >"$folder/result_a.json"
"$binary" run "$a" --set training.micro_batch=4 --out "$folder/b" >/dev/null
run 0 compare "$folder/result_a.json" "$folder/b/result.json" --json
cmp -s "$folder/out" "$folder/of-scenarios"
expect "  files of results give the same bytes" $?
"$binary" compare - "$a" --set-b training.micro_batch=4 --json <"$folder/result_a.json" >"$folder/out"
cmp -s "$folder/out" "$folder/of-scenarios"
expect "  so does a result on standard input" $?
if command -v python3 >/dev/null; then
    python3 - "$folder/of-scenarios" <<'PY'
import json, sys
c = json.load(open(sys.argv[1]))
for key in ("step_time_s", "tokens_per_s", "mfu", "model_tflops_per_gpu"):
    assert abs(c["ratio"][key] - c["b"][key] / c["a"][key]) <= 1e-12 * c["ratio"][key], key
assert abs(c["ratio"]["memory"]["device"]["peak_bytes"] - c["b"]["devices"][0]["peak_bytes"] / c["a"]["devices"][0]["peak_bytes"]) < 1e-12
nvlink = [sum(l["bytes"] for l in c[side]["traffic"] if l["kind"] == "nvlink") for side in "ab"]
assert abs(c["ratio"]["traffic"]["nvlink"] - nvlink[1] / nvlink[0]) < 1e-12
PY
    expect "  ratios are those of the figures printed" $?
fi

run 0 compare "$a" "$a" --json --out "$folder/deep/er"
cmp -s "$folder/out" "$folder/deep/er/compare.json"
expect "  --out writes compare.json" $?

# What does not fit is printed all the same.
run 2 compare "$a" "$a" --set-b model=gpt3-175b --set-b training.sequence_length=1024
holds "^A fits, B does not; with memory to spare B is "
holds "DOES NOT FIT"
holds "B: does not fit: what is live at the start wants"
run 2 compare "$a" "$a" --set-a model=gpt3-175b --set-a training.sequence_length=1024 --json
holds '"fit": false'

run 1 compare "$a"
complains "an argument is missing"
run 1 compare "$a" "$folder/absent.json"
complains "absent.json"
run 1 compare "$a" "$a" --set-b parallel.tensr=2
complains "tensor"
run 1 compare "$a" "$a" --set-c parallel.tensor=2
complains "unknown flag --set-c; did you mean --set-"
run 1 compare "$folder/result_a.json" "$folder/result_a.json" --set gpus=2
complains "both files hold results"
run 1 compare "$folder/result_a.json" "$a" --set-a gpus=2
complains "holds a result: --set-a changes scenarios"
run 1 compare - "$a" </dev/null
complains "standard input\|-"
run 1 compare - "$a" <"$a"
complains "a scenario must be a file"
run 1 compare - -
complains "only one of both"
echo '{ "schema": "memwall.result/2" }' >"$folder/two.json"
run 1 compare "$a" "$folder/two.json"
complains 'two.json:1: \$.schema: .*a result of another memwall: this one reads "memwall.result/1"'
echo '{ "schema": "memwall.result/1", "fits": true, "step_time_s": 1, "devices": [ { "space": "shed" } ] }' >"$folder/shed.json"
run 1 compare "$folder/shed.json" "$a"
complains 'devices\[0\].space'
run 1 compare "$a" "$a" --executor host
complains "runs nothing"
[ "$failures" = 0 ]
