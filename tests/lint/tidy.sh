#!/usr/bin/env bash
# clang-tidy over the library, with the checks of .clang-tidy. Skipped (77) without clang-tidy. What needs the CUDA toolkit or MPI is left out where they are not.
set -euo pipefail
cd "$1"
command -v clang-tidy >/dev/null || { echo "skipped: no clang-tidy"; exit 77; }
includes='' without=(-not -path '*/tools/*' -not -path 'strategies/plugin/example.c') # the example is compiled against what is installed (tests/golden/plugin.sh)
if [ -e /usr/local/cuda/include/cuda_runtime_api.h ]; then
    includes='-isystem /usr/local/cuda/include'
else
    without+=(-not -path 'validate/exec_cuda/*')
fi
if pkg-config --exists mpi-c; then
    includes+=" $(pkg-config --cflags mpi-c | sed 's/-I/-isystem /g')"
else
    without+=(-not -name 'world_mpi.c' -not -path 'sim/sweep/mpi/*')
fi
export includes
find sim hw_models strategies traces validate plots -name '*.c' "${without[@]}" -print0 |
    xargs -0 -P "$(nproc)" -n 8 sh -c 'clang-tidy --quiet --warnings-as-errors="*" "$@" -- -std=c17 -D_GNU_SOURCE -DMEMWALL_VERSION="\"0\"" -I. $includes 2>/dev/null' sh && echo "tidy"
