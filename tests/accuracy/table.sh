#!/usr/bin/env bash
# The accuracy table of the README: run from the repository root after a build. `tests/accuracy/table.sh [build folder]`.
set -u
cd "$(dirname "$0")/../.."
build=${1:-build}
for program in a_steps a_other_steps a_memory a_galvatron_memory a_galvatron_profiles a_galvatron_shapes a_kernels a_collectives a_offload_rates a_offload_logs a_offload_bars a_offload_limits a_offload_llama a_offload; do
    MEMWALL_SHARED=${MEMWALL_SHARED:-../shared} "$build/tests/$program" | grep -E 'mean|wanted' || echo "$program: no data"
done
