#!/usr/bin/env bash
# Prints 08-mesh-and-switch.sweep.json: its plans are those of `memwall plan --planner mpress` (the words beside their moves left out). traces/lessons/lessons.sh runs it.
# usage: 08-mesh-and-switch.sweep.sh MEMWALL
set -euo pipefail
memwall=$1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
base='"model": "bert-huge-48", "gpus": 8, "software": "megatron", "parallel": { "pipeline": 8 }'

# plan_of MACHINE MICRO_BATCH ALLOW: the section "plan" in one line
plan_of() {
    printf '{ "schema": "memwall.scenario/1", %s, "machine": "%s", "training": { "sequence_length": 512, "micro_batch": %s, "global_batch": %s } }\n' \
        "$base" "$1" "$2" $((16 * $2)) >"$folder/s.json"
    "$memwall" plan "$folder/s.json" --planner mpress --variant "allow=$3" --threads 2 --out "$folder/plan.json" --quiet >"$folder/text"
    awk '/^ "plan": \{/ { inside = 1; printf "{"; next }
         inside && /^ }/ { print "}"; exit }
         inside && !/^ *"(when|over|why)": / { sub(/^ +/, ""); printf "%s", $0 }' "$folder/plan.json" | sed -E 's/,([]}])/\1/g'
}

machines='' systems='' micros='' policies='' plans='' comma=''
for micro in 16 24 32; do
    for machine in dgx1-v100-32gb:mesh dgx2-v100:switch; do
        for allow in '' recompute host all; do
            policy=mpress plan='{}'
            if [ -z "$allow" ]; then policy=resident; else plan=$(plan_of "${machine%:*}" $micro $allow); fi
            machines+="$comma\"${machine%:*}\"" systems+="$comma\"${machine#*:}${allow:+ $allow}\"" micros+="$comma$micro" policies+="$comma\"$policy\""
            plans+="$comma
        $plan"
            comma=', '
        done
    done
done
cat <<JSON
{ "schema": "memwall.sweep/1", "name": "a mesh and a switch",
  "base": { $base, "machine": "dgx1-v100-32gb", "training": { "sequence_length": 512 } },
  "axes": [
    { "zip": [
      { "path": "machine", "values": [$machines] },
      { "name": "system", "values": [$systems] },
      { "path": "training.micro_batch", "values": [$micros] },
      { "path": "memory_policy", "values": [$policies] },
      { "path": "plan", "values": [$plans ] } ] },
    { "path": "training.global_batch", "name": "batch", "expression": "micro_batch * 16" } ] }
JSON
