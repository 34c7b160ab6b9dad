#!/usr/bin/env bash
# MPress against what it is compared with: GPT 5.3 to 25.5 B and Bert 0.35 to 6.2 B on DGX-1 V100 and DGX A100, one table of samples a second a machine. All figures are simulated: our prediction,
# with our rules (of MPress only the abstract is known) and, where no shape is published, our shapes: facts/mpress-hippie-pipelines.md A.10.
#
#   validate/mpress_table.sh [MACHINE...]     default: dgx1-v100-32gb dgx-a100-40gb
#
# Pipelines of eight single GPUs (equal stages) on the two bases of MPress: DAPPLE's order, with a flush, and PipeDream's, asynchronous with weight versions stashed. Everything resident; with
# recomputation or host swap alone (DAPPLE), or all of MPress's mechanisms, as `memwall plan --planner mpress` finds them. PipeDream's weights lag behind: its samples are not worth as much. ZeRO variants: eight data-parallel ranks; of recomputation none or full and micro-batches of 1, 2, 4, 8, 16 the fastest that fits. Takes minutes; MEMWALL_BINARY says which memwall.
set -euo pipefail
cd "$(dirname "$0")/.."
memwall=${MEMWALL_BINARY:-build/memwall}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# name layers hidden heads vocabulary sequence micro-batch (of the pipeline) global batch
models='Bert-0.35B 24 1024 16 30522 512 4 128
Bert-0.64B 48 1024 16 30522 512 4 128
Bert-1.67B 32 2048 16 30522 512 4 128
Bert-4.0B 50 2560 32 30522 512 4 128
Bert-6.2B 78 2560 32 30522 512 4 128
GPT-5.3B 25 4096 32 50257 1024 1 32
GPT-10.3B 50 4096 32 50257 1024 1 32
GPT-15.4B 75 4096 32 50257 1024 1 32
GPT-20.4B 100 4096 32 50257 1024 1 32
GPT-25.5B 125 4096 32 50257 1024 1 32'

number() { sed -n "s/^ *\"$2\": *\([^,]*\),\{0,1\}$/\1/p" "$1" | head -1; }

# scenario FILE MACHINE NAME LAYERS HIDDEN HEADS VOCABULARY SEQUENCE MICRO GLOBAL SOFTWARE PARALLEL REST
scenario() {
    local family=gpt
    case $3 in Bert*) family=bert ;; esac
    cat >"$1" <<JSON
{ "schema": "memwall.scenario/1", "name": "$3", "machine": "$2", "gpus": 8, "software": "${11}",
  "model": { "family": "$family", "layers": $4, "hidden": $5, "heads": $6, "ffn": $((4 * $5)), "vocab": $7, "max_sequence": $8 },
  "training": { "micro_batch": $9, "global_batch": ${10} }, "parallel": ${12}${13} }
JSON
}

# Samples a second of a scenario that fits, else "-"; a machine without drives has no ZeRO-Infinity.
run_one() {
    "$memwall" run "$1" --quiet --json >"$folder/result.json" 2>"$folder/errors" && number "$folder/result.json" samples_per_s || echo -
}

plan_one() {
    "$memwall" plan "$1" --planner mpress --variant "allow=$2" --quiet --json >"$folder/result.json" 2>"$folder/errors" || { echo -; return; }
    number "$folder/result.json" samples_per_s
}

faster() { awk -v a="$1" -v b="$2" 'BEGIN { print (a == "-" ? b : b == "-" ? a : a + 0 > b + 0 ? a : b) }'; }

# zero POLICY STAGE MACHINE MODEL...
zero() {
    local policy=$1 stage=$2 best=- micro mode
    shift 2
    for mode in none full; do
        for micro in 1 2 4 8 16; do
            if [ $((${9} % (8 * micro))) = 0 ]; then
                scenario "$folder/s.json" "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$micro" "$9" deepspeed "{ \"zero_stage\": $stage }" \
                    ", \"recompute\": \"$mode\", \"memory_policy\": \"$policy\""
                best=$(faster "$best" "$(run_one "$folder/s.json")")
            fi
        done
    done
    echo "$best"
}

systems='DAPPLE +recomputation +host-swap MPress-on-DAPPLE PipeDream MPress-on-PipeDream ZeRO-Offload ZeRO-3-Offload ZeRO-Infinity'
for machine in ${*:-dgx1-v100-32gb dgx-a100-40gb}; do
    printf '%s, samples/s (simulated; - does not fit)\n\n' "$machine"
    printf '| model | DAPPLE | + recomputation | + host swap | MPress on DAPPLE | PipeDream | MPress on PipeDream | ZeRO-Offload | ZeRO-3 Offload | ZeRO-Infinity | MPress on DAPPLE over each ZeRO |\n|---|---|---|---|---|---|---|---|---|---|---|\n'
    : >"$folder/rows"
    while read -r name layers rest; do
        read -r hidden heads vocabulary sequence micro global <<<"$rest"
        base=$((layers / 8)) more=$((layers % 8)) stages=''
        for s in 0 1 2 3 4 5 6 7; do # as the planner splits: what is left over before the last stage
            extra=0
            [ $s -lt 7 ] && [ $((7 - s)) -le $more ] && extra=1
            stages+="${stages:+, }$((base + extra))"
        done
        scenario "$folder/s.json" "$machine" "$name" "$layers" $rest megatron '{ "pipeline": 8 }' ", \"plan\": { \"stage_layers\": [$stages] }"
        row="$name $(run_one "$folder/s.json")"
        for allow in recompute host all; do
            row+=" $(plan_one "$folder/s.json" "$allow")"
        done
        scenario "$folder/s.json" "$machine" "$name" "$layers" $rest megatron '{ "pipeline": 8, "pipeline_order": "pipedream" }' ", \"plan\": { \"stage_layers\": [$stages] }"
        row+=" $(run_one "$folder/s.json") $(plan_one "$folder/s.json" all)"
        row+=" $(zero zero-offload 2 "$machine" "$name" "$layers" $rest)"
        row+=" $(zero zero3-offload 3 "$machine" "$name" "$layers" $rest)"
        row+=" $(zero zero-infinity 3 "$machine" "$name" "$layers" $rest)"
        echo "$row" >>"$folder/rows"
        echo "$row" | awk '{ printf "| %s |", $1; for (i = 2; i <= 10; i++) printf " %s |", ($i == "-" || $i == "null" ? "-" : sprintf("%.4g", $i));
            for (i = 8; i <= 10; i++) printf "%s%s", (i > 8 ? ", " : " "), ($5 + 0 > 0 && $i + 0 > 0 ? sprintf("%.2f", $5 / $i) : "-"); print " |" }'
    done <<<"$models"
    awk -v systems="$systems" 'BEGIN { n = split(systems, name, " ") }
        { family = $1; sub(/-.*/, "", family); for (i = 1; i <= n; i++) if ($(i + 1) + 0 > 0) largest[family i] = $1 }
        END { for (f = 1; f <= 2; f++) { family = f == 1 ? "Bert" : "GPT"; printf "\nlargest %s that fits:", family;
              for (i = 1; i <= n; i++) printf "%s %s %s", (i > 1 ? "," : ""), name[i], (largest[family i] != "" ? largest[family i] : "none") } print "\n" }' "$folder/rows"
done
