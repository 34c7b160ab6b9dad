#!/usr/bin/env bash
# `memwall pipeline` and `memwall list`: text that must not change by accident. usage: pipeline.sh BINARY
# After a change that is meant: UPDATE_GOLDEN=1 bash tests/golden/pipeline.sh BINARY, then read the diff.
set -u
binary=$1
here=$(dirname "$0")
failures=0

compare() { # name, arguments...
    local expected="$here/$1.txt" actual
    shift
    actual=$("$binary" "$@" 2>&1; echo "exit $?")
    if [ "${UPDATE_GOLDEN:-}" = 1 ]; then
        printf '%s\n' "$actual" >"$expected"
    elif ! diff -u "$expected" <(printf '%s\n' "$actual"); then
        echo "FAIL memwall $*"
        failures=$((failures + 1))
    else
        echo "ok   memwall $*"
    fi
}

compare pipeline_1f1b pipeline --order 1f1b --stages 4 --microbatches 8
compare pipeline_gpipe_hop pipeline --order gpipe --stages 3 --microbatches 4 --forward 1 --backward 1 --hop 0.5
compare pipeline_interleaved pipeline --order interleaved --stages 2 --microbatches 4 --virtual 2 --backward 1
compare pipeline_json pipeline --order 1f1b --stages 2 --microbatches 3 --json
compare pipeline_long pipeline --order 1f1b --stages 2 --microbatches 200
compare pipeline_bad_multiple pipeline --order interleaved --stages 4 --microbatches 6 --virtual 2
compare pipeline_bad_number pipeline --order 1f1b --stages 0 --microbatches 3
compare pipeline_bad_fraction pipeline --order 1f1b --stages 2 --microbatches 2.5
compare pipeline_bad_time pipeline --order 1f1b --stages 2 --microbatches 2 --forward nan
compare pipeline_zero_time pipeline --order 1f1b --stages 2 --microbatches 2 --forward 0
compare pipeline_tiny_time pipeline --order 1f1b --stages 2 --microbatches 2 --forward 1e-9 --backward 1e-9
compare pipeline_missing pipeline --stages 2 --microbatches 2
compare pipeline_bad_flag pipeline --order 1f1b --stagez 2
compare list_topics list
compare list_bad_topic list machine
compare list_bad_folder list scenarios /nowhere
compare list_stray_folder list models /nowhere
[ "$failures" = 0 ]
