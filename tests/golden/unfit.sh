#!/usr/bin/env bash
# A step that does not fit is a result: exit 2, everything printed, the reason by names. usage: unfit.sh BINARY
set -u
binary=$1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
failures=0

check() { # what, code
    if [ "$2" != 0 ]; then
        echo "FAIL $1"
        failures=$((failures + 1))
    fi
}

try() { # name, flags...
    local name=$1
    shift
    "$binary" run scenarios/gpt3-175b-dgx-a100.json "$@" --json >"$folder/out" 2>"$folder/err"
    [ $? = 2 ]
    check "$name: exit 2" $?
    [ ! -s "$folder/err" ]
    check "$name: standard error stays empty" $?
    for key in schema reason step_time_s samples_per_s tokens_per_s tokens_per_s_per_gpu model_tflops_per_gpu hardware_tflops_per_gpu mfu hfu \
        schedule_hash devices time_breakdown traffic bounds capacity_bytes peak_bytes peak_reserved_bytes peak_time_s at_peak optimizer activation; do
        grep -q "\"$key\":" "$folder/out"
        check "$name: key $key" $?
    done
    grep -q '"fits": false' "$folder/out"
    check "$name: fits is false" $?
    if command -v python3 >/dev/null; then
        python3 -m json.tool "$folder/out" >/dev/null
        check "$name: valid JSON" $?
    fi
    "$binary" run scenarios/gpt3-175b-dgx-a100.json "$@" >"$folder/text" 2>"$folder/err"
    [ $? = 2 ]
    check "$name: exit 2 of the summary" $?
    for part in "DOES NOT FIT" "held there, by class" "Memory at its peak" "gpu 0"; do
        grep -q "$part" "$folder/text"
        check "$name: prints $part" $?
    done
}

# What lives from the start is too much: no op is to blame.
try static --set nodes=1 --set gpus=8 --set parallel.pipeline=1 --set parallel.pipeline_order=1f1b --set parallel.virtual_stages=1
grep -q "what is live at the start wants" "$folder/text"
check "static: the reason" $?
# Activations are: the op that waits, the space, and what it wants are named.
try dynamic --set training.micro_batch=8 --set recompute=none
tr -s '\n ' ' ' <"$folder/text" | grep -q "DOES NOT FIT: op [0-9]*, forward mb .* wants .* of gpu 0, where .* are free"
check "dynamic: the reason" $?
grep -q "with memory to spare" "$folder/text" && ! grep -q '"step_time_s": 0,' "$folder/out" && ! grep -q '"time_breakdown": \[\]' "$folder/out"
check "dynamic: what it would take" $?

# A policy that refuses before there is a schedule gives a result too, with what it counted; --out has it as result.json, compare reads it.
cat >"$folder/refused.json" <<'E'
{ "model": "gpt_175b", "machine": "yard-v100", "gpus": 1, "recompute": "full", "training": { "micro_batch": 4, "sequence_length": 1024, "precision": "fp16" },
  "memory_policy": { "name": "patrickstar" } }
E
"$binary" run "$folder/refused.json" --json --out "$folder/refused" >"$folder/out" 2>"$folder/err"
[ $? = 2 ] && [ ! -s "$folder/err" ]
check "refused: exit 2, nothing on standard error" $?
for part in '"schema": "memwall.result/1"' '"machine": "yard-v100"' '"plan": "gpt_175b, fp16, .*memory policy patrickstar"' '"fits": false' '"reason": ".' '"step_time_s": null' '"full": {' '"space": "' \
    '"needed_bytes": [1-9]' '"devices": \[\]'; do
    grep -q "$part" "$folder/out"
    check "refused: prints $part" $?
done
cmp -s "$folder/out" "$folder/refused/result.json"
check "refused: result.json" $?
if command -v python3 >/dev/null; then
    python3 -m json.tool "$folder/out" >/dev/null
    check "refused: valid JSON" $?
fi
"$binary" run "$folder/refused.json" >"$folder/text" 2>"$folder/err"
[ $? = 2 ] && [ ! -s "$folder/err" ] && grep -q "^DOES NOT FIT: .* would need .* and has " "$folder/text"
check "refused: the summary" $?
"$binary" compare "$folder/out" "$folder/out" >"$folder/text" 2>"$folder/err"
[ $? = 2 ] && grep -q "^Neither A nor B fits" "$folder/text"
check "refused: compare reads it" $?
"$binary" report "$folder/refused" --out "$folder/refused.html" --quiet >"$folder/text" 2>"$folder/err"
[ $? = 2 ] && grep -q "are too small for the chunks" "$folder/refused.html"
check "refused: report reads it" $?
# The other commands that print no figures say as much, in the same document.
for command in explain schedule; do
    "$binary" $command "$folder/refused.json" --json >"$folder/$command" 2>"$folder/err"
    [ $? = 2 ] && [ ! -s "$folder/err" ]
    check "refused: exit 2 of $command, nothing on standard error" $?
    cmp -s "$folder/$command" "$folder/out"
    check "refused: $command --json is the result that run gives" $?
    "$binary" $command "$folder/refused.json" >"$folder/text" 2>"$folder/err"
    [ $? = 2 ] && grep -q "^DOES NOT FIT: .* would need .* and has " "$folder/text"
    check "refused: the reason of $command" $?
done
# What would do is said with the result, ready to paste, and does: exit 0 with it.
cat >"$folder/zero.json" <<'E'
{ "model": "gpt2-xl", "machine": "yard-v100", "gpus": 1, "software": "deepspeed", "training": { "micro_batch": 64, "global_batch": 64 },
  "memory_policy": { "name": "zero-offload" } }
E
for scenario in "$folder/zero.json" "$folder/refused.json"; do
    "$binary" run "$scenario" >"$folder/text" 2>"$folder/err"
    [ $? = 2 ] && sed -n '/^What would do/,$p' "$folder/text" | grep -q "^  --set "
    check "would do: $scenario says it" $?
    "$binary" run "$scenario" --json | grep -q '"would_do": \[$'
    check "would do: $scenario, in JSON" $?
    sed -n 's/^  \(--set .*\)$/\1/p' "$folder/text" >"$folder/changes"
    while read -r change; do
        # shellcheck disable=SC2086
        "$binary" run "$scenario" $change >"$folder/text" 2>"$folder/err"
        check "would do: $scenario $change" $?
        ! grep -q "^What would do" "$folder/text"
        check "would do: nothing to say where it fits, $change" $?
    done <"$folder/changes"
done
"$binary" run - <"$folder/zero.json" >"$folder/text" 2>"$folder/err"
[ $? = 2 ] && ! grep -q "^What would do" "$folder/text"
check "would do: standard input cannot be read once more" $?
[ "$failures" = 0 ]
