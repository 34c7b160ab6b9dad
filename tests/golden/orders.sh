#!/usr/bin/env bash
# Pipeline orders that cannot be: `memwall run` and `memwall pipeline` say where, what is wrong, and the shortest way out; and own orders run. usage: orders.sh BINARY
. "$(dirname "$0")/command.bash"

cat >"$folder/s.json" <<'JSON'
{ "schema": "memwall.scenario/1", "machine": "dgx-a100-80gb", "gpus": 4, "software": "megatron",
  "model": { "family": "gpt", "layers": 16, "hidden": 256, "heads": 4, "vocab": 1024, "max_sequence": 128 },
  "training": { "global_batch": 8 }, "parallel": { "pipeline": 4 } }
JSON
s=$folder/s.json
refuses() { # pattern, settings...
    local pattern=$1 sets=()
    shift
    for set in "$@"; do sets+=(--set "$set"); done
    run 1 run "$s" "${sets[@]}"
    complains "$pattern"
}
order=parallel.pipeline_order

# ---- every order runs ----
for name in gpipe 1f1b dapple-pb interleaved zb-h1 zb-h2 zb-v v-half v-min chimera dualpipe pipedream pipedream-2bw lsps-a lsps-b lsps-c auto; do
    run 0 run "$s" --set $order=$name
    holds "step time"
done
run 0 run "$s" --set "$order={\"name\":\"pipedream\",\"vertical_sync\":true}" --json
holds '"steps_in_schedule": 3'
run 0 explain "$s" --set $order=pipedream
holds "weights x 4 versions"
run 0 explain "$s" --set $order=chimera
holds "copies of the model  *2"

# ---- micro-batches and depths ----
for name in chimera dualpipe; do
    refuses "1 stage: $name needs an even number; the nearest is 2" $order=$name parallel.pipeline=1 gpus=1
done
refuses '6 micro-batches in 4 stages: chimera needs a multiple of 4; the nearest is 8: training.global_batch 8 would do' $order=chimera training.global_batch=6
refuses '7 micro-batches in 4 stages: dualpipe needs an even number of at least 8; the nearest is 8: training.global_batch 8' $order=dualpipe training.global_batch=7
refuses 'pipedream-2bw needs at least as many micro-batches as stages.*training.global_batch 4 would do' $order=pipedream-2bw training.global_batch=3
refuses 'the interleaved order needs a multiple of 4.*training.global_batch 16 would do' $order=interleaved parallel.virtual_stages=2 training.micro_batch=2 training.global_batch=18
refuses '3 stages: chimera needs an even number; the nearest are 2 and 4' $order=chimera parallel.pipeline=3 gpus=3 'plan.stage_layers=[5,5,6]'
refuses 'dualpipe needs an even number; the nearest are 2 and 4' $order=dualpipe parallel.pipeline=3 gpus=3 'plan.stage_layers=[5,5,6]'

# ---- placement ----
refuses 'virtual_stages is 2: pipeline_order "1f1b" allows only 1' $order=1f1b parallel.virtual_stages=2
refuses 'virtual_stages is 1: pipeline_order "zb-v" allows only 2' $order=zb-v parallel.virtual_stages=1
refuses '8 stages: pipeline 4 x virtual_stages 2 / 2 copies of the model makes 4' $order=chimera 'plan.stage_layers=[2,2,2,2,2,2,2,2]'
refuses '4 stages: pipeline 4 x virtual_stages 2 makes 8' $order=zb-v 'plan.stage_layers=[4,4,4,4]'

# ---- files of one's own ----
mine() { printf '%b\n' "$1" >"$folder/mine.txt"; }
file="$order={\"name\":\"file\",\"path\":\"$folder/mine.txt\"}"
two=(parallel.pipeline=2 gpus=2 training.global_batch=2)
both() { # pattern: run and pipeline say the same
    refuses "$1" "$file" "${two[@]}"
    run 1 pipeline --schedule-file "$folder/mine.txt"
    complains "$1"
}
mine 'F0 F1 B0\nF0 B0 F1 B1' && both 'mine.txt: stage 0, position 3: the stage never runs B1: add it'
mine 'F0 F1 B0 B1 B0\nF0 B0 F1 B1' && both 'stage 0, position 5: B0 stands at position 3 already: remove one'
mine 'F0 B0 F1 B1\nF0 F1 B0 B1' && both 'stage 1, position 2: .* waits for B0, which stands here at position 3, behind F1 that waits in turn: move B0 of stage 1 in front of position 2'
mine 'F0.0 F0.1 B0.1 B0.0\nF0.2 B0.2 F0.3 B0.3' && both 'stage 1, position 2: the stage waits for itself: B0.2 waits for B0.3, which stands behind it at position 4: move B0.2 of stage 1 behind position 4'
mine 'F0.0 B0.0\nF0.1 B0.1 F0.0 B0.0' && both 'stage 1, position 3: virtual stage 0 is on stage 0 already: it lives on one'
mine 'F0.0 B0.0 F0.3 B0.3\nF0.1 B0.1' && both 'stage 1, position 1: the stage holds 1 virtual stages, every stage must hold 2'
mine 'F0 B0 X1\nF0 B0' && both 'stage 0, position 3: "X1" is no step'
mine 'F0 F1 B0 B1\nF0 B0 F1 B1'
run 0 run "$s" --set "$file" --set parallel.pipeline=2 --set gpus=2 --set training.global_batch=2
run 0 pipeline --schedule-file "$folder/mine.txt"
refuses 'pipeline is 4: the steps of pipeline_order "file" are for 2 stages, a line each' "$file"
refuses '4 micro-batches: the steps of pipeline_order "file" are for 2; global_batch 2 makes as many' "$file" parallel.pipeline=2 gpus=2 training.global_batch=4
refuses 'cannot open' "$order={\"name\":\"file\",\"path\":\"$folder/none.txt\"}"
refuses '"file" needs its steps: {"name": "file", "path": "mine.txt"}' $order=file
refuses 'needs its steps: {"name": "steps", "stages": \["F0 B0"\]}' $order=steps
refuses 'expected a string' "$order={\"name\":\"steps\",\"stages\":[1]}"
refuses '2 numbers for 4 stages: give one for all, or one each' "$order={\"name\":\"auto\",\"limits\":[1,2]}"
refuses '"w" is none of loop, v' "$order={\"name\":\"auto\",\"placement\":\"w\"}" parallel.virtual_stages=2
for how in '"placement":"v","limits":2,"weight_gradient":2' '"placement":"loop","limits":[1,2,3,1.5]'; do
    run 0 run "$s" --set parallel.virtual_stages=2 --set "$order={\"name\":\"auto\",$how}"
    holds "step time"
done
refuses 'unknown key "limit".*did you mean "limits"' "$order={\"name\":\"auto\",\"limit\":2}"
refuses 'stage_layers\[1\]: stage 1 has 0 layers: every stage needs at least 1' $order=auto 'plan.stage_layers=[16,0,0,0]'
refuses 'or your own steps: file, steps, auto' $order=zb-x
run 1 pipeline --order zb-h1 --stages 4 --microbatches 8 --parameters limit=2
complains 'unknown key "limit"; no keys are known here'
run 1 plan "$s" --planner mpress --set $order=auto --set parallel.pipeline=2 --quiet
complains 'the plan has 4 stages, but pipeline_order "auto" made its steps for the scenario.s 2: set parallel.pipeline to 4'

# ---- what goes with what ----
refuses 'zero_stage is 1: pipeline_order "pipedream" .* allowed is 0' $order=pipedream parallel.zero_stage=1
refuses 'use "resident"' $order=chimera memory_policy=optimizer-on-host
refuses 'leave the key out' $order=pipedream parallel.gradient_barrier=none
refuses 'before, after, none' parallel.gradient_barrier=late

[ "$failures" = 0 ]
