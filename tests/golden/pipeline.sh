#!/usr/bin/env bash
# `memwall pipeline` and `memwall list`: text that must not change by accident. usage: pipeline.sh BINARY
# After a change that is meant: UPDATE_GOLDEN=1 bash tests/golden/pipeline.sh BINARY, then read the diff.
. "$(dirname "$0")/command.bash"

compare pipeline_1f1b pipeline --order 1f1b --stages 4 --microbatches 8
compare pipeline_gpipe_hop pipeline --order gpipe --stages 3 --microbatches 4 --forward 1 --backward 1 --hop 0.5
compare pipeline_interleaved pipeline --order interleaved --stages 2 --microbatches 4 --virtual 2 --backward 1
compare pipeline_json pipeline --order 1f1b --stages 2 --microbatches 3 --json
compare pipeline_long pipeline --order 1f1b --stages 2 --microbatches 200
compare pipeline_bad_order pipeline --order atuo --stages 2 --microbatches 2
compare pipeline_bad_multiple pipeline --order interleaved --stages 4 --microbatches 6 --virtual 2
compare pipeline_bad_number pipeline --order 1f1b --stages 0 --microbatches 3
compare pipeline_bad_fraction pipeline --order 1f1b --stages 2 --microbatches 2.5
compare pipeline_bad_time pipeline --order 1f1b --stages 2 --microbatches 2 --forward nan
compare pipeline_zero_time pipeline --order 1f1b --stages 2 --microbatches 2 --forward 0
compare pipeline_tiny_time pipeline --order 1f1b --stages 2 --microbatches 2 --forward 1e-9 --backward 1e-9
compare pipeline_missing pipeline --stages 2 --microbatches 2
compare pipeline_bad_flag pipeline --order 1f1b --stagez 2
compare pipeline_compare pipeline --compare 1f1b,zb-h1,zb-v --stages 2 --microbatches 3 --forward 1 --backward 1 --weight-grad 1
compare pipeline_compare_json pipeline --compare 1f1b,chimera --stages 2 --microbatches 2 --json
compare pipeline_compare_and_order pipeline --compare 1f1b,gpipe --order 1f1b --stages 2 --microbatches 2
compare pipeline_parameter pipeline --order 1f1b --parameters in_flight_max=2 --stages 3 --microbatches 4
compare pipeline_bad_parameter pipeline --order gpipe --parameters backward_order=filo --stages 3 --microbatches 4
compare pipeline_bad_svg pipeline --order gpipe --stages 3 --microbatches 4 --svg /nowhere/x.svg
svg=$(mktemp)
"$binary" pipeline --compare 1f1b,zb-v --stages 3 --microbatches 4 --svg "$svg" >/dev/null &&
    [ "$(grep -c '<rect' "$svg")" = $((1 + 4 + 3 * 2 + 3 * 4 * 2 + 3 * 2 * 4 * 3)) ] && # background, legend, idle rows, passes
    grep -q '</svg>' "$svg" && echo "ok   memwall pipeline --svg" || { echo "FAIL memwall pipeline --svg"; failures=$((failures + 1)); }
"$binary" pipeline --order 1f1b --stages 2 --microbatches 2 --recompute lazy --svg "$svg" >/dev/null && grep -q 'at most 2 micro-batches in flight a stage' "$svg" &&
    ! grep -q 'activations kept' "$svg" && echo "ok   recomputed: micro-batches in flight" || { echo "FAIL recomputed: micro-batches in flight"; failures=$((failures + 1)); }
rm -f "$svg"
compare pipeline_copies pipeline --compare 1f1b,chimera --stages 2 --microbatches 2
compare pipeline_bad_virtual pipeline --compare 1f1b,zb-v --stages 2 --microbatches 2 --virtual 3
compare pipeline_auto_v pipeline --order auto --stages 2 --microbatches 3 --virtual 2 --placement v --backward 1 --weight-grad 1 --limit 1.5
compare pipeline_compare_chunks pipeline --compare auto,1f1b,interleaved --stages 2 --microbatches 4 --virtual 2
compare pipeline_bad_placement pipeline --order auto --stages 2 --microbatches 2 --virtual 2 --placement w
compare pipeline_placement_alone pipeline --order auto --stages 2 --microbatches 2 --placement v
compare pipeline_auto_lazy pipeline --order auto --stages 2 --microbatches 3 --recompute lazy --limit 2
compare pipeline_auto pipeline --order auto --stages 4 --microbatches 8 --forward 1,1,1,2 --backward 1 --weight-grad 1,1,2,1 --limit 5
compare pipeline_eager pipeline --order 1f1b --stages 3 --microbatches 3 --forward 1,2,1 --recompute eager --keep-last
compare pipeline_bad_list pipeline --order 1f1b --stages 3 --microbatches 3 --forward 1,2
compare pipeline_bad_recompute pipeline --order 1f1b --stages 3 --microbatches 3 --recompute late
compare pipeline_bad_auto pipeline --order auto --stages 3 --microbatches 3 --parameters in_flight_max=2
compare pipeline_bad_limits pipeline --order auto --stages 3 --microbatches 3 --limit 2,1
compare pipeline_bad_limit pipeline --order 1f1b --stages 3 --microbatches 3 --limit 3
compare pipeline_bad_limit_of pipeline --order auto --stages 3 --microbatches 3 --limit 2,0.9,1
compare pipeline_zero_time_of pipeline --order 1f1b --stages 3 --microbatches 3 --backward 2,0,2
compare pipeline_keep_last_alone pipeline --order 1f1b --stages 3 --microbatches 3 --keep-last
compare pipeline_auto_eager pipeline --order auto --stages 3 --microbatches 4 --backward 2,3,1 --recompute eager --limit 2 --keep-last
compare pipeline_file pipeline --schedule-file tests/golden/schedule_mine.txt --forward 1,2
compare pipeline_file_deadlock pipeline --schedule-file tests/golden/schedule_deadlock.txt
compare pipeline_file_and_stages pipeline --schedule-file tests/golden/schedule_mine.txt --stages 2
compare pipeline_dealt pipeline --order pipedream --stages 3 --microbatches 12 --forward 3,2,1 --backward 3,2,1 --replicas 3,2,1
compare pipeline_cut pipeline --order 1f1b --stages 2 --microbatches 4 --replicas 2,1
compare pipeline_dealt_json pipeline --order 1f1b --stages 2 --microbatches 4 --replicas 2,1 --sharing deal --json
compare pipeline_bad_deal pipeline --order 1f1b --stages 2 --microbatches 5 --replicas 2,1 --sharing deal
compare pipeline_bad_dealer pipeline --order zb-h1 --stages 2 --microbatches 4 --replicas 2,1 --sharing deal
compare pipeline_bad_replicas pipeline --order 1f1b --stages 2 --microbatches 4 --replicas 2,1.5
compare pipeline_bad_sharing pipeline --order 1f1b --stages 2 --microbatches 4 --sharing deal
compare list_topics list
compare list_bad_topic list machine
compare list_bad_folder list scenarios /nowhere
compare list_stray_folder list models /nowhere
[ "$failures" = 0 ]
