#!/usr/bin/env bash
# This computer against the simulator: calibrate, then run each scenario of validate/scenarios in both and print one table.
#
#   validate/host_check.sh [MACHINE.json]     without a file: calibrates first (about a minute), into build/host_check/machine.json
#   validate/host_check.sh --table DIR        only the table and the verdict, from DIR/NAME.json as `memwall validate --json` wrote them
#
# Wants a quiet computer, and complains on standard error of one that is not. Exits 1 when a scenario failed, its step or its median op is off by more than LIMIT percent, or a measured peak of memory is one that no timing of
# the schedule gives. A peak that differs because two queues race (sim/ir/peak_range.h) is told, and is no failure. Environment: LIMIT (10), STEPS (9), SECONDS_TO_MEASURE
# (60), MEMWALL_BINARY (build/memwall).
set -euo pipefail
if [ "${1:-}" = --table ]; then
    table=$(realpath -e "${2:?a folder, please}")
else
    machine=${1:+$(realpath -e "$1")}
fi
cd "$(dirname "$0")/.."
limit=${LIMIT:-10}
bad=0

number() { sed -n "s/^ *\"$2\": *\([^,]*\),\{0,1\}$/\1/p" "$1" | head -1; }
of_ops() { sed -n '/"op_error"/,/}/p' "$1" | sed -n "s/.*\"$2\": *\([^,]*\),*/\1/p" | head -1; }

head_row() {
    printf '| scenario | simulated s | measured s (median of %s) | step error | op error, median | op error, p90 | peaks |\n|---|---|---|---|---|---|---|\n' "$1"
}

row() { # name, file: false when it breaks a limit
    local peaks
    if [ -z "$(number "$2" step_error)" ]; then
        echo "| $1 | failed |"
        return 1
    fi
    case $(number "$2" memory_equal),$(number "$2" memory_possible) in
    *,false) peaks="impossible" ;;
    true,*) peaks="equal" ;;
    *,true) peaks="differ as a race may" ;;
    *) peaks="differ, possible or not is not known" ;;
    esac
    awk -v name="$1" -v sim="$(number "$2" simulated_step_s)" -v med="$(number "$2" median)" -v step="$(number "$2" step_error)" \
        -v op="$(of_ops "$2" median)" -v p90="$(of_ops "$2" p90)" -v peaks="$peaks" -v limit="$limit" \
        'BEGIN { printf "| %s | %.4f | %.4f | %.1f %% | %.1f %% | %.1f %% | %s |\n", name, sim, med, 100 * step, 100 * op, 100 * p90, peaks;
                 exit !(100 * step <= limit && 100 * op <= limit && peaks != "impossible") }'
}

if [ -n "${table:-}" ]; then
    head_row "${STEPS:-9}"
    for file in "$table"/*.json; do
        row "$(basename "$file" .json)" "$file" || bad=1
    done
    exit "$bad"
fi

# Jiffies of all cores: busy ones, all.
cores_busy() { awk '$1 == "cpu" { idle = $5 + $6; for (i = 2; i <= 9; i++) all += $i; print all - idle, all; exit }' /proc/stat; }

look_for_others() { # what runs before anything of ours does
    local before after
    [ -r /proc/stat ] || return 0
    before=$(cores_busy)
    sleep 1
    after=$(cores_busy)
    echo "$before $after" | awk '$4 > $2 && ($3 - $1) / ($4 - $2) > 0.1 {
        printf "host_check.sh: others keep %.0f %% of the cores busy: the errors below are theirs too\n", 100 * ($3 - $1) / ($4 - $2) }' >&2
}

memwall=${MEMWALL_BINARY:-build/memwall}
look_for_others
out=build/host_check
mkdir -p "$out"
if [ -z "$machine" ]; then
    machine=$out/machine.json
    "$memwall" calibrate --executor host --out "$machine" --name this-computer --seconds "${SECONDS_TO_MEASURE:-60}" --fresh >"$out/calibration.txt"
fi
head_row "${STEPS:-9}"
for scenario in validate/scenarios/*.json; do
    name=$(basename "$scenario" .json)
    "$memwall" validate "$scenario" --set "machine=$machine" --executor host --steps "${STEPS:-9}" --quiet --json >"$out/$name.json" || true # the row tells
    row "$name" "$out/$name.json" || bad=1
done
exit "$bad"
