#!/usr/bin/env bash
# The shipped machines' measured constants come out of the public measurements again: calibrating the library's files from them gives these very files. Another compiler's
# last digit may differ: texts must be equal, numbers to 3 % (constants that the points hardly tell move by 1 % with another BLAS). Skipped without ../shared. usage: published_calibration.sh BINARY
set -u
binary=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
shared=${MEMWALL_SHARED:-$root/../shared}
if [ ! -r "$shared/data/measured/simumax_measured_kernel_efficiency.csv" ]; then
    echo "skipped: no data"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
failures=0

bash "$root/validate/published/calibrate.sh" "$binary" "$shared" "$folder" >"$folder/report.txt" || {
    cat "$folder/report.txt"
    exit 1
}
# Words and numbers one a line; numbers compared with a tolerance.
words() { sed -E 's/([][{}:,])/ \1 /g' "$1" | tr -s ' ' '\n'; }
count=0
for made in "$folder"/*.json; do
    name=$(basename "$made")
    count=$((count + 1))
    cmp -s "$made" "$root/hw_models/machines/$name" && continue
    paste <(words "$root/hw_models/machines/$name") <(words "$made") | awk -F'\t' '
        $1 == $2 { next }
        $1 + 0 != 0 && $2 + 0 != 0 { e = ($1 - $2) / $1; if (e < 0) e = -e; if (e <= 0.03) next }
        { print "  shipped " $1 ", made " $2; bad = 1; if (++shown == 10) exit }
        END { exit bad }' || {
        echo "FAIL $name"
        failures=$((failures + 1))
    }
done
[ "$count" -ge 5 ] || { echo "FAIL: $count machines made"; failures=$((failures + 1)); }
grep -E "gemm|ranks|:$" "$folder/report.txt"
[ "$failures" -eq 0 ] && echo "published calibrations hold: $count machines"
exit "$failures"
