#!/usr/bin/env bash
# The same bytes on every run and from every compiler: results and schedules of a few scenarios against hashes made once. Whoever changes physics or constants on purpose
# writes them anew: tests/golden/determinism.sh BINARY --update. A second binary (another compiler's) is compared byte by byte. usage: determinism.sh BINARY [BINARY2]
set -u
binary=$1
other=${2:-$1}
golden=$(dirname "$0")/determinism.txt
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
failures=0

cat >"$folder/small.json" <<'JSON'
{ "schema": "memwall.scenario/1", "name": "small",
  "model": { "family": "gpt", "layers": 6, "hidden": 512, "heads": 8, "ffn": 2048, "vocab": 1000, "max_sequence": 256 },
  "machine": "toy-2gpu", "software": "ideal",
  "training": { "sequence_length": 256, "micro_batch": 2, "global_batch": 16 },
  "parallel": { "pipeline": 2, "data": 1 } }
JSON

for model in t5-large-32 swin-huge-32; do
    cat >"$folder/$model.json" <<JSON
{ "schema": "memwall.scenario/1", "name": "$model", "model": "$model", "machine": "dgx-a100-80gb", "gpus": 4, "software": "megatron",
  "training": { "micro_batch": 2, "global_batch": 16, "precision": "fp16" },
  "parallel": { "pipeline": 2, "data": 1, "tensor": 2 } }
JSON
done

produce() { # binary, folder
    mkdir -p "$2"
    "$1" run "$folder/small.json" --json --out "$2/out" >"$2/pipeline.json" || return 1
    "$1" run "$folder/small.json" --json --set parallel.pipeline=1 --set parallel.data=2 --set parallel.zero_stage=1 \
        --set recompute=selective >"$2/data.json" || return 1
    "$1" run "$folder/small.json" --json --set parallel.pipeline=1 --set parallel.tensor=2 >"$2/tensor.json" || return 1
    "$1" run "$folder/t5-large-32.json" --json >"$2/t5.json" || return 1
    "$1" run "$folder/swin-huge-32.json" --json --set recompute=full >"$2/swin.json" || return 1
    "$1" schedule "$folder/small.json" >"$2/schedule.txt" || return 1
    gzip -dc "$2/out/trace.json.gz" >"$2/trace.json" || return 1
    cp "$2/out/ops.csv" "$2/out/memory.csv" "$2/out/links.csv" "$2"
    rm -r "$2/out"
    (cd "$2" && sha256sum ./*) | sed 's,\./,,'
}

[ "$other" = --update ] && { produce "$binary" "$folder/new" >"$golden"; exit; }
produce "$binary" "$folder/first" >"$folder/first.txt" || failures=1
produce "$other" "$folder/second" >"$folder/second.txt" || failures=1
if ! diff -r "$folder/first" "$folder/second" >"$folder/difference"; then
    echo "FAIL $binary and $other give different bytes:"
    head -20 "$folder/difference"
    failures=1
fi
if ! diff "$golden" "$folder/first.txt"; then
    echo "FAIL not the bytes of $golden"
    failures=1
fi
[ "$failures" = 0 ]
