#!/usr/bin/env bash
# A file includes only its own or lower floors (DESIGN.md section 2). One table of floors: prefix, floor. The longest matching prefix counts.
set -euo pipefail
cd "$1"
floors='sim/base/ 1
sim/core/ 2
sim/ir/ 3
sim/model/ 3
hw_models/ 3
traces/ 3
sim/engine/ 4
sim/plan/ 4
strategies/ 4
sim/exec.h 5
sim/engine/exec_sim 5
validate/dispatch/ 5
validate/exec_host/ 5
validate/exec_cuda/ 5
strategies/planners/ 6
strategies/plugin/ 6
plots/ 7
sim/report/ 7
sim/sweep/ 7
sim/buy/ 7
validate/ 7
sim/cli/ 8'
floor_of() {
    local best=0 longest=0 prefix floor
    while read -r prefix floor; do
        if [[ $1 == "$prefix"* && ${#prefix} -gt $longest ]]; then
            longest=${#prefix} best=$floor
        fi
    done <<<"$floors"
    echo "$best"
}
declare -A cache
bad=0
while IFS=: read -r file line include; do
    for name in "$file" "$include"; do
        [ -n "${cache[$name]:-}" ] || cache[$name]=$(floor_of "$name")
    done
    if [ "${cache[$file]}" -eq 0 ] || [ "${cache[$include]}" -eq 0 ]; then
        echo "$file:$line: $include: not in the table of floors" && bad=1
    elif [ "${cache[$include]}" -gt "${cache[$file]}" ]; then
        echo "$file:$line: floor ${cache[$file]} includes $include of floor ${cache[$include]}" && bad=1
    fi
done < <(find sim hw_models strategies traces validate plots -name '*.[ch]' -print0 | xargs -0 grep -nE '^#include "' |
    grep -v 'ops.def"' | sed -E 's/^([^:]+):([0-9]+):#include "([^"]+)".*/\1:\2:\3/')
[ "$bad" -eq 0 ] && echo "layers hold"
exit "$bad"
