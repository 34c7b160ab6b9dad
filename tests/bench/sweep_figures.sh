#!/usr/bin/env bash
# What sweeps must reach, measured through the command line on two cores that nothing else uses: 10,000 scenarios of a GPT-3 175B class (degrees, micro-batch, recompute, machine, sequence length) in at
# most 60 s with the database, memory flat, two MPI ranks at least 1.8 times one, the same rows whatever the ranks or threads. About two minutes. usage: sweep_figures.sh BINARY [POINTS [POINTS_RANKS]]
set -u
binary=$(realpath "$1") points=${2:-10000} few=${3:-2500}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
failures=0

make_sweep() { # points, file: 192 splits (degrees, micro-batch, recompute, sharding, order) of two machines at each length
    local lengths=$((($1 + 191) / 192))
    cat >"$2" <<JSON
{ "schema": "memwall.sweep/1", "name": "figures",
  "base": { "model": "gpt3-175b", "machine": "dgx-a100-80gb", "nodes": 16, "gpus": 128, "software": "megatron", "detail": "stage",
            "parallel": { "sequence_parallel": true }, "training": { "global_batch": 64 } },
  "axes": [ { "path": "training.sequence_length", "range": { "from": $((2048 - 32 * (lengths - 1))), "to": 2048, "step": 32 } },
            { "path": "machine", "values": ["dgx-a100-80gb", "dgx-h100"] },
            { "path": "parallel.tensor", "values": [4, 8] }, { "path": "parallel.pipeline", "values": [8, 16] },
            { "path": "parallel.data", "expression": "gpus / (tensor * pipeline)" },
            { "path": "training.micro_batch", "values": [1, 2] }, { "path": "recompute", "values": ["selective", "full"] },
            { "path": "parallel.zero_stage", "values": [0, 1] },
            { "zip": [ { "name": "order", "path": "parallel.pipeline_order", "values": ["1f1b", "interleaved", "interleaved"] },
                       { "path": "parallel.virtual_stages", "values": [1, 2, 3] } ] } ],
  "conditions": [ "training.global_batch / (micro_batch * data) % pipeline == 0" ] }
JSON
}
seconds() { # nanoseconds
    awk -v ns="$1" 'BEGIN { printf "%.1f", ns / 1e9 }'
}
rows() { # database
    "$binary" sweep --db "$1" --csv --quiet
}
check() { # what, condition of awk
    if awk "BEGIN { exit !($2) }"; then
        echo "ok   $1"
    else
        echo "FAIL $1"
        failures=$((failures + 1))
    fi
}

# 1. two threads, the memory of the process on the way
make_sweep "$points" "$folder/all.json"
begun=$(date +%s%N)
"$binary" sweep "$folder/all.json" --db "$folder/two.db" --threads 2 --quiet >"$folder/out" &
sweep=$! processor=0
while [ -e "/proc/$sweep/status" ]; do
    ticks=$(sed 's/.*) //' "/proc/$sweep/stat" 2>/dev/null | awk '{ print $12 + $13 }')
    processor=${ticks:-$processor}
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$sweep/status" 2>/dev/null >>"$folder/rss"
    sleep 1 # each look costs these cores some milliseconds
done
wait $sweep
took=$(($(date +%s%N) - begun))
count=$("$binary" sweep --db "$folder/two.db" --json --quiet | grep -c '^ *"hash":')
samples=$(grep -c . "$folder/rss")
early=$(sed -n "$((samples / 10 + 1))p" "$folder/rss") late=$(tail -2 "$folder/rss" | head -1)
s10000=$(awk -v ns=$took -v n="$count" 'BEGIN { printf "%.1f", ns / 1e9 * 10000 / n }')
echo "two threads: $count scenarios in $(seconds $took) s with the database: 10,000 in $s10000 s"
echo "processor time $(awk -v t="$processor" -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.1f", t / hz }') s; two cores of our own need half of it"
echo "memory of the process: $((early / 1024)) MiB after a tenth of the time, $((late / 1024)) MiB at the end"
check "10,000 in 60 s" "$s10000 <= 60"
check "memory flat: at most a tenth more at the end" "$late <= 1.1 * $early"

# 2. one rank and two, a thread each
make_sweep "$few" "$folder/few.json"
one_ns=0
for ranks in 1 2; do
    begun=$(date +%s%N)
    mpirun --allow-run-as-root --oversubscribe -n $ranks "$binary" sweep "$folder/few.json" --db "$folder/ranks$ranks.db" --threads 1 --quiet >"$folder/out" 2>&1
    ns=$(($(date +%s%N) - begun))
    echo "$ranks MPI rank(s), a thread each: $("$binary" sweep --db "$folder/ranks$ranks.db" --json --quiet | grep -c '^ *"hash":') scenarios in $(seconds $ns) s"
    [ $ranks = 1 ] && one_ns=$ns
done
gain=$(awk -v a=$one_ns -v b=$ns 'BEGIN { printf "%.2f", a / b }')
echo "two ranks against one: $gain times"
check "at least 1.8 times" "$gain >= 1.8"
"$binary" sweep "$folder/few.json" --db "$folder/threads.db" --threads 2 --quiet >"$folder/out"
rows "$folder/ranks1.db" >"$folder/a"
cmp -s "$folder/a" <(rows "$folder/ranks2.db") && cmp -s "$folder/a" <(rows "$folder/threads.db")
check "the same rows from one rank, two ranks, two threads" "$? == 0"
[ $failures = 0 ]
