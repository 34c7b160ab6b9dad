#!/usr/bin/env bash
# DeepSpeed's configuration and estimators through the command line. usage: deepspeed.sh BINARY
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

run() { # expected exit, arguments...
    local expected=$1
    shift
    "$binary" "$@" >"$folder/out" 2>"$folder/err"
    local code=$?
    [ "$code" = "$expected" ]
    check "exit $expected of: $* (found $code: $(head -c 300 "$folder/err"))" $?
}

prints() { # file, text
    grep -qF -- "$2" "$folder/$1"
    check "$1 holds: $2" $?
}

cat >"$folder/ds_config.json" <<'JSON'
{
  "train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "steps_per_print": 10,
  "fp16": { "enabled": true },
  "optimizer": { "type": "AdamW", "params": { "lr": "auto" } },
  "zero_optimization": { "stage": 2, "offload_optimizer": { "device": "cpu" }, "allgather_bucket_size": 5e8 }
}
JSON
ds=("--from-deepspeed" "$folder/ds_config.json" --model gpt2-medium --machine dgx-a100-40gb)
run 0 run "${ds[@]}"
prints out "8 GPUs of dgx-a100-40gb"
prints err '$.steps_per_print: no effect on the simulation'
prints err '$.zero_optimization.allgather_bucket_size: new weights are gathered in one collective'
run 0 run "${ds[@]}" --json --quiet --gpus 4 --set recompute=full
[ ! -s "$folder/err" ]
check "quiet" $?
prints out '"ignored_keys"'
prints out '"$.optimizer.params"'
if command -v python3 >/dev/null; then
    python3 - "$folder/out" <<'PY'
import json, sys
result = json.load(open(sys.argv[1]))
keys = [entry["key"] for entry in result["ignored_keys"]]
assert keys == ["$.steps_per_print", "$.optimizer.params", "$.zero_optimization.allgather_bucket_size"], keys
assert result["schema"] == "memwall.result/1" and result["fits"], result["schema"]
PY
    check "JSON" $?
fi
run 1 run "${ds[@]}" --gpus 3
prints err "data-parallel GPUs 3 = "
run 1 run "${ds[@]}" --gpus x
prints err "expected a count"
run 1 run "${ds[@]}" --set parallel.tensr=2
prints err "tensor"
run 1 run --from-deepspeed "$folder/ds_config.json" --model gpt2-medium
prints err "needs --machine NAME too"
run 1 run --model gpt2-medium
prints err "belongs to --from-deepspeed"
run 1 run "${ds[@]}" "$folder/other.json"
prints err "takes the place of a scenario"
run 1 run --from-deepspeed "$folder/none.json" --model gpt2-medium --machine dgx-a100-40gb
prints err "none.json"
sed 's/"train_batch_size": 16/"train_batch_size": "auto"/' "$folder/ds_config.json" >"$folder/auto.json"
run 1 run --from-deepspeed "$folder/auto.json" --model gpt2-medium --machine dgx-a100-40gb
prints err "write the global batch"

cat >"$folder/s.json" <<'JSON'
{ "model": "gpt2-medium", "machine": "dgx-a100-40gb", "software": "deepspeed", "parallel": { "zero_stage": 2 },
  "memory_policy": "zero-offload" }
JSON
run 0 explain "$folder/s.json" --estimator deepspeed
prints out "P max(4T, 16) 1.5"
prints out "Simulated, all of it: ZeRO-2, policy zero-offload"
run 0 explain "$folder/s.json" --estimator deepspeed --json
prints out '"memwall.deepspeed-estimate/1"'
run 1 explain "$folder/s.json" --estimator colossal
prints err "known is deepspeed"
[ "$failures" = 0 ]
