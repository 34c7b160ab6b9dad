#!/usr/bin/env bash
# One GPU, eight minutes: build, try the real module, calibrate, and hold the simulator to five scenarios. Prints one table in markdown.
#
#   validate/gpu_check.sh [BUILD]      BUILD: a build folder (default: build); what is there and runs is taken as it is
#   validate/gpu_check.sh --table DIR  only the table, from DIR/NAME.json as `memwall validate --json` wrote them
#
# Needs an NVIDIA GPU of 16 GB or more, and to build: CMake, a C compiler, the CUDA toolkit, and the libraries that CMakeLists.txt asks for. On a machine without them or
# without a network, bring a build folder made on one with the same C library. MPI and NCCL are not needed. Environment: CALIBRATION_S (default 150), STEPS (default 5).
set -uo pipefail
cd "$(dirname "$0")/.."

scenarios=(resident recompute offload swap emulated)
deadline=$((SECONDS + 470))

# The value of "KEY": at the top level of our own JSON, which has one key a line or all on one.
value() { # file key
    grep -oE "\"$2\": ?(\"[^\"]*\"|[-+0-9.eE]+|true|false)" "$1" | head -1 | sed -E 's/^"[^"]*": ?"?//; s/"$//'
}
inner() { # file object key
    tr -d '\n' <"$1" | grep -oE "\"$2\": ?\{[^{}]*" | head -1 | grep -oE "\"$3\": ?[-+0-9.eE]+" | head -1 | sed -E 's/.*: ?//'
}
scaled() { # number factor format
    [ -n "$1" ] && awk -v x="$1" -v f="$2" -v p="$3" 'BEGIN { printf p, x * f }' || printf -- '-'
}

table() { # folder
    local name file error peaks
    echo "| scenario | simulated ms | measured ms (median, min to max) | step error | op error (median, p90) | peaks equal |"
    echo "|---|---|---|---|---|---|"
    for name in "${scenarios[@]}"; do
        file=$1/$name.json
        if [ ! -s "$file" ]; then
            echo "| $name | - | $(cat "$1/$name.why" 2>/dev/null || echo 'not run') | | | |"
            continue
        fi
        error="$(scaled "$(value "$file" step_error)" 100 '%.1f %%')"
        [ "$(value "$file" emulated)" = true ] && error="none: ranks share a GPU"
        peaks=$(value "$file" memory_equal)
        [ "$peaks" = false ] && [ "$(value "$file" memory_possible)" = true ] && peaks="no, as timing may decide"
        [ "$(value "$file" memory_possible)" = false ] && peaks="no, and no timing gives them: a fault"
        printf '| %s | %s | %s (%s to %s) | %s | %s, %s | %s |\n' "$name" \
            "$(scaled "$(value "$file" simulated_step_s)" 1000 %.2f)" \
            "$(scaled "$(inner "$file" measured_step_s median)" 1000 %.2f)" \
            "$(scaled "$(inner "$file" measured_step_s min)" 1000 %.2f)" \
            "$(scaled "$(inner "$file" measured_step_s max)" 1000 %.2f)" "$error" \
            "$(scaled "$(inner "$file" op_error median)" 100 '%.1f %%')" \
            "$(scaled "$(inner "$file" op_error p90)" 100 '%.1f %%')" "$peaks"
    done
}

if [ "${1:-}" = --table ]; then
    table "$2"
    exit 0
fi

build=${1:-build}
out=$build/gpu_check
mkdir -p "$out"
rm -f "$out"/*.json "$out"/*.why

if ! "$build/memwall" --version >/dev/null 2>&1 || [ ! -e "$build/memwall_exec_cuda.so" ]; then
    echo "gpu_check: building in $build" >&2
    if ! cmake -S . -B "$build" -DMEMWALL_CUDA=ON >"$out/configure.log" 2>&1; then
        grep -E 'Could NOT|could not find|No package|MEMWALL_CUDA|REQUIRED|required' "$out/configure.log" | sort -u >&2
        echo "gpu_check: CMake cannot configure here; the lines above and $out/configure.log say what is missing" >&2
        exit 3
    fi
    if ! cmake --build "$build" -j "$(nproc)" --target memwall memwall_exec_cuda g_cuda_module >"$out/build.log" 2>&1; then
        tail -20 "$out/build.log" >&2
        exit 3
    fi
fi

if [ -e "$build/tests/g_cuda_module" ]; then
    timeout 120 "$build/tests/g_cuda_module" "$build/memwall_exec_cuda.so" >"$out/module.log" 2>&1
    code=$?
    case $code in
    0) module="passed" ;;
    77) module="$(grep -m 1 skipped "$out/module.log")" ;;
    *) module="FAILED ($code): $(tail -3 "$out/module.log" | tr '\n' ' ')" ;;
    esac
else
    module="not built"
fi
echo "gpu_check: copies, sums and random schedules with --check: $module" >&2

machine=$out/machine.json
left=$((deadline - SECONDS))
calibration=${CALIBRATION_S:-150}
[ "$calibration" -gt $((left / 2)) ] && calibration=$((left / 2))
timeout $((calibration + 90)) "$build/memwall" calibrate --executor cuda --seconds "$calibration" --out "$machine" --quiet \
    >"$out/calibrate.log" 2>&1 || echo "gpu_check: calibration: $(tail -2 "$out/calibrate.log" | tr '\n' ' ')" >&2

for name in "${scenarios[@]}"; do
    left=$((deadline - SECONDS))
    if [ "$left" -lt 10 ]; then
        echo "no time left" >"$out/$name.why"
        continue
    fi
    extra=()
    if [ "$name" = emulated ]; then
        extra=(--emulate) # simulated as two GPUs of the scenario's own machine
    elif [ -s "$machine" ]; then
        extra=(--set "machine=$machine")
    fi
    timeout "$left" "$build/memwall" validate "validate/gpu_scenarios/$name.json" "${extra[@]}" --executor cuda --steps "${STEPS:-5}" --json --quiet \
        >"$out/$name.json" 2>"$out/$name.log" || {
        tail -1 "$out/$name.log" >"$out/$name.why"
        [ -n "$(value "$out/$name.json" step_error)" ] || rm -f "$out/$name.json" # compared, but something is wrong: the table tells
    }
done

echo
echo "## memwall on a GPU, $(date -u +%Y-%m-%d)"
echo
echo "- GPU: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -1 || echo unknown)"
echo "- $("$build/memwall" --version | tail -1)"
echo "- copies, sums and random schedules with --check: $module"
echo "- machine: $([ -s "$machine" ] && echo "calibrated in $calibration s on this GPU" || echo "as the scenarios name it; calibration failed: $(tail -1 "$out/calibrate.log")")"
echo "- command: validate/gpu_check.sh, ${STEPS:-5} steps each, $SECONDS s in all"
echo
table "$out"
case $module in FAILED*) exit 3 ;; esac
grep -qE '"memory_possible": ?false' "$out"/*.json && exit 3
[ -s "$out/resident.json" ]
