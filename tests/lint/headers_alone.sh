#!/usr/bin/env bash
# Every header compiles on its own.
set -euo pipefail
cd "$1"
compiler=$2
bad=0
# The CUDA executor's headers need the toolkit's: without one they are left out.
cuda=/usr/local/cuda/include
[ -e "$cuda/cuda_runtime_api.h" ] || cuda=''
while read -r header; do
    [[ $header == validate/exec_cuda/* && -z $cuda ]] && continue
    "$compiler" -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -I. ${cuda:+-isystem "$cuda"} -fsyntax-only -x c "$header" || bad=1
done < <(find sim hw_models strategies traces validate plots -name '*.h' | sort)
[ "$bad" -eq 0 ] && echo "all headers stand alone"
exit "$bad"
