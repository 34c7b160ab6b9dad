#!/usr/bin/env bash
# The contract of the command line with the outside: exit codes, names of keys, what goes to which stream, files. usage: cli.sh BINARY
. "$(dirname "$0")/command.bash"

cat >"$folder/small.json" <<'JSON'
{ "schema": "memwall.scenario/1", "name": "small", "model": "gpt2", "machine": "dgx-a100-80gb", "gpus": 4,
  "training": { "micro_batch": 2, "global_batch": 16 }, "parallel": { "pipeline": 2, "data": 2, "zero_stage": 1 } }
JSON

run 0 --version
holds "memwall [0-9]"
for executor in sim host cuda; do
    holds "^  $executor "
done
run 0 --help
holds "\-\-plugin FILE.so"
for command in run validate explain schedule pipeline list; do
    run 0 "$command" --help
    holds "usage: memwall $command"
done

run 0 run "$folder/small.json"
holds 'memory efficiency  [0-9.]* samples/s for each GiB'
holds "step time"
[ ! -s "$folder/err" ]
expect "  standard error stays empty" $?
run 0 run "$folder/small.json" --json
for key in schema fits step_time_s samples_per_s tokens_per_s tokens_per_s_per_gpu model_tflops_per_gpu hardware_tflops_per_gpu \
    mfu hfu schedule_hash devices time_breakdown traffic bounds capacity_bytes peak_bytes peak_reserved_bytes peak_time_s at_peak; do
    holds "\"$key\":"
done
cp "$folder/out" "$folder/first"
run 0 run "$folder/small.json" --json
cmp -s "$folder/out" "$folder/first"
expect "  the same bytes again" $?

run 0 run "$folder/small.json" --set training.global_batch=32 --out "$folder/deep/er" --trace-ranks 0
for file in result.json trace.json.gz ops.csv memory.csv links.csv traffic.csv stages.csv plots/timeline.gp; do
    [ -s "$folder/deep/er/$file" ]
    expect "  writes $file" $?
done
gzip -t "$folder/deep/er/trace.json.gz"
expect "  the trace is whole" $?
! gzip -dc "$folder/deep/er/trace.json.gz" | grep -q '"ph":"X".*"pid":1,'
expect "  the trace holds rank 0 alone" $?

run 1 run "$folder/small.json" --out "$folder/none" --trace-ranks 2
complains "there is no rank 2; the schedule has ranks 0 to 1"
echo '{"model":"gpt2","machine":"yard-v100","gpus":1,"parallel":{"layers":[{"layers":3},{"layers":9,"zero_stage":1}]}}' >"$folder/one.json"
run 0 run "$folder/one.json" # once a failed check: a norm over all ranks of one
holds "9 of 12 layers otherwise"
run 1 run "$folder/absent.json"
complains "absent.json"
run 1 run "$folder/small.json" --set parallel.tensr=2
complains "tensor"
run 1 run "$folder/small.json" --executor hots
complains 'did you mean "host"'
run 1 run
complains "an argument is missing"
run 1 runn
complains 'did you mean "run"'

run 2 run "$folder/small.json" --set model=gpt3-1.7b --set gpus=1 --set parallel.pipeline=1 --set parallel.data=1 \
    --set training.micro_batch=32 --set training.global_batch=32 --json
holds '"fits": *false'
holds '"reason":'

run 0 explain "$folder/small.json"
for section in "Model and parameters" "Activations" "FLOPs" "Kernels" "Collectives" "Host" "Pipeline" "Machine" "Software"; do
    holds "== $section"
done
holds "source: "
run 0 explain "$folder/small.json" --set training.layer_drop=0.5 --set parallel.pipeline=1 --set parallel.data=1 --set gpus=1
holds "model FLOPs of the layers that ran"
run 0 explain "$folder/small.json" --json
holds '"schema": *"memwall.explain/1"'

run 0 list machines --json
for key in name title gpu_count gpu_memory_bytes peak_flops hbm_bytes_per_s links price sources estimated; do
    holds "\"$key\":"
done
for topic in models software orders policies parameters scenarios; do
    run 0 list "$topic" --json
    holds "\"$topic\":"
    run 0 list "$topic"
done
# Copies and collectives of one GPU meet at a port that is no link of the cluster: the traffic must not count it.
run 0 run "$folder/small.json" --set memory_policy=optimizer-on-host --out "$folder/ports"

# What a command does not heed it refuses, by the flag's own name.
run 1 run "$folder/small.json" --jsn
complains "unknown flag --jsn; did you mean --json"
run 1 run "$folder/small.json" --json=1
complains "--json takes no value"
run 1 run "$folder/small.json" --out
complains "--out needs a value"
run 1 run "$folder/small.json" -j
complains "unknown flag -j"
run 1 run "$folder/small.json" --out ""
complains "--out needs the name of a folder"
run 1 run "$folder/small.json" --trace-ranks 0
complains "it needs --out"
run 1 run "$folder/small.json" --set model="$folder/small.json"
complains 'small.json:1: \$.schema: this is a scenario ("memwall.scenario/1"), expected a model: a name (memwall list models)'
run 1 list models --set model=gpt2
complains "no use for --set"
# --out is common: what other commands than run answer lies there too.
run 0 pipeline --order 1f1b --stages 2 --microbatches 2 --json --out "$folder/answers"
run 0 explain "$folder/small.json" --out "$folder/answers"
run 0 schedule "$folder/small.json" --out "$folder/answers"
run 0 list models --json --out "$folder/answers"
for file in pipeline.json explain.txt schedule.txt list.json; do
    [ -s "$folder/answers/$file" ] && echo "ok   $file is in the folder" || { echo "FAIL $file is not in the folder"; failures=$((failures + 1)); }
done
run 1 schedule "$folder/small.json" --executor cuda
complains "this command runs nothing"
run 0 run --version
holds "memwall [0-9]"

# Input that cannot be read is bad input; a name that is no text does not spoil the JSON.
run 1 run "$(printf 'a%.0s' $(seq 5000))"
complains "cannot open"
run 1 run "$folder/small.json" --set name="$(printf '\377')"
complains "not valid UTF-8"
sed 's/"name": "small",//' "$folder/small.json" >"$folder/$(printf '\377').json"
run 0 run "$folder/$(printf '\377').json" --json
iconv -f UTF-8 -t UTF-8 "$folder/out" >/dev/null 2>&1
expect "  the JSON is UTF-8" $?

# Streams that are full or closed.
for arguments in "run $folder/small.json" "--help" "run --help" "--version" "list models"; do
    # shellcheck disable=SC2086 # words on purpose
    "$binary" $arguments >/dev/full 2>"$folder/err"
    [ $? = 3 ]
    expect "exit 3 on a full disk: memwall $arguments" $?
done
"$binary" run "$folder/small.json" --out "$folder/closed" --json <&- >&- 2>&-
[ $? = 3 ]
expect "exit 3 when standard output is closed" $?
[ "$(head -c 1 "$folder/closed/result.json")" = "{" ]
expect "  and the files are whole" $?
(ulimit -f 1; exec "$binary" run "$folder/small.json" --out "$folder/cramped" 2>"$folder/err") | cat >"$folder/out"
[ "${PIPESTATUS[0]}" = 3 ]
expect "exit 3 when --out has no room" $?
grep -q "File too large" "$folder/err"
expect "  complains: File too large" $?
holds "step time"
[ "$(grep -c "Written to" "$folder/out")" = 0 ]
expect "  claims no files" $?
[ "$failures" = 0 ]
