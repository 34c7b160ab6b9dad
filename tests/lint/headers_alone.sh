#!/usr/bin/env bash
# Every header compiles on its own.
set -euo pipefail
cd "$1"
compiler=$2
bad=0
while read -r header; do
    "$compiler" -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -I. -fsyntax-only -x c "$header" || bad=1
done < <(find sim hw_models strategies traces validate plots -name '*.h' | sort)
[ "$bad" -eq 0 ] && echo "all headers stand alone"
exit "$bad"
