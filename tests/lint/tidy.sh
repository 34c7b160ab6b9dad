#!/usr/bin/env bash
# clang-tidy over the library, with the checks of .clang-tidy. Skipped (77) without clang-tidy.
set -euo pipefail
cd "$1"
command -v clang-tidy >/dev/null || { echo "skipped: no clang-tidy"; exit 77; }
find sim hw_models strategies traces validate plots -name '*.c' -not -path '*/tools/*' -print0 |
    xargs -0 -P "$(nproc)" -n 8 sh -c 'clang-tidy --quiet --warnings-as-errors="*" "$@" -- -std=c17 -D_GNU_SOURCE -DMEMWALL_VERSION="\"0\"" -I. 2>/dev/null' sh && echo "tidy"
