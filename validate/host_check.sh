#!/usr/bin/env bash
# This computer against the simulator: calibrate, then run each scenario of validate/scenarios in both and print one table.
#
#   validate/host_check.sh [MACHINE.json]     without a file: calibrates first (about a minute), into build/host_check/machine.json
#
# Wants a quiet computer. Exits 1 when a step or the median op of a scenario is off by more than 10 %, or a peak of memory differs.
set -euo pipefail
cd "$(dirname "$0")/.."
memwall=${MEMWALL_BINARY:-build/memwall}
out=build/host_check
mkdir -p "$out"
machine=${1:-}
if [ -z "$machine" ]; then
    machine=$out/machine.json
    "$memwall" calibrate --executor host --out "$machine" --name this-computer --seconds "${SECONDS_TO_MEASURE:-60}" --fresh >"$out/calibration.txt"
fi
bad=0
number() { sed -n "s/^ *\"$2\": *\([^,]*\),\{0,1\}$/\1/p" "$1" | head -1; }
printf '| scenario | simulated s | measured s (median of 9) | step error | op error, median | op error, p90 | peaks equal |\n|---|---|---|---|---|---|---|\n'
for scenario in validate/scenarios/*.json; do
    name=$(basename "$scenario" .json)
    "$memwall" validate "$scenario" --set "machine=$machine" --executor host --steps 9 --quiet --json >"$out/$name.json" || { echo "| $name | failed |"; bad=1; continue; }
    awk -v name="$name" -v sim="$(number "$out/$name.json" simulated_step_s)" -v med="$(number "$out/$name.json" median)" \
        -v step="$(number "$out/$name.json" step_error)" -v memory="$(number "$out/$name.json" memory_equal)" \
        -v op="$(sed -n '/"op_error"/,/}/p' "$out/$name.json" | sed -n 's/.*"median": *\([^,]*\),*/\1/p' | head -1)" \
        -v p90="$(sed -n '/"op_error"/,/}/p' "$out/$name.json" | sed -n 's/.*"p90": *\([^,]*\),*/\1/p' | head -1)" \
        'BEGIN { printf "| %s | %.4f | %.4f | %.1f %% | %.1f %% | %.1f %% | %s |\n", name, sim, med, 100 * step, 100 * op, 100 * p90, memory;
                 exit !(step <= 0.1 && op <= 0.1 && memory == "true") }' || bad=1
done
exit "$bad"
