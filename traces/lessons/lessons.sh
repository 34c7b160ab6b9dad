#!/usr/bin/env bash
# Makes the sweeps that have a maker (NAME.sweep.sh), runs the sweeps of the lessons and compares what is made of them (sweeps, pictures, README.md) with what lies
# here; then reads every number of the text a second way. --update writes them anew first.
# usage: traces/lessons/lessons.sh [--update] [BUILD]     BUILD holds memwall and tests/lessons_make, lessons_check (default build)
set -u
update=0
[ "${1:-}" = --update ] && update=1 && shift
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-build}" && pwd) || exit 1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
mkdir "$folder/rows" "$folder/made" "$folder/scratch"
cd "$here/../.." || exit 1

for maker in "$here"/*.sweep.sh; do # sweeps of plans that a planner makes
    sweep=$(basename "$maker" .sh).json
    bash "$maker" "$build/memwall" >"$folder/made/$sweep" || exit 1
    [ $update = 0 ] || cp "$folder/made/$sweep" "$here/$sweep" || exit 1
done
names=()
for sweep in "$here"/*.sweep.json; do
    name=$(basename "$sweep" .sweep.json)
    names+=("$name")
    "$build/memwall" sweep "$sweep" --db "$folder/rows/$name.db" --json --quiet >"$folder/rows/$name.json" || exit 1
done
"$build/tests/lessons_make" "$here" "$folder/rows" "$folder/made" "${names[@]}" || exit 1
if [ $update = 1 ]; then
    cp "$folder"/made/* "$here/" || exit 1
fi
failed=0
for file in "$folder"/made/*; do
    if ! diff -u "$here/$(basename "$file")" "$file" | head -20; then
        failed=1
    fi
    cmp -s "$file" "$here/$(basename "$file")" || failed=1
done
for picture in "$here"/*.svg; do
    [ -e "$folder/made/$(basename "$picture")" ] || { echo "FAIL $picture: of no lesson"; failed=1; }
done
[ $failed = 0 ] || echo "FAIL the lessons are not those of today's numbers: look at the differences, then traces/lessons/lessons.sh --update"
"$build/tests/lessons_check" "$build/memwall" "$here" "$folder/rows" "$folder/scratch" "${names[@]}" || failed=1
exit $failed
