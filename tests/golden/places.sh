#!/usr/bin/env bash
# Answers that cannot be written are refused before the work: every command that has --out, and flags that name files. Then what a terminal must not obey, and files of another kind. usage: places.sh BINARY
. "$(dirname "$0")/command.bash"
s="$here/../../scenarios/gpt3-175b-dgx-a100.json"
q="$here/../../scenarios/questions/llama3-8b-in-60-days.json"
sweep="$here/../../scenarios/sweeps/gpt2-xl-one-gpu.json"
echo "a file" >"$folder/file"
mkdir "$folder/dir"

# No command gets so far as to look at its input, which is missing: the place is what it complains of.
refused() { # place, pattern, command and its flags...
    local place=$1 pattern=$2
    shift 2
    run 1 "$@" --out "$place"
    complains "--out: .*$pattern"
}
for command in run explain schedule fit compare validate sweep buy; do
    input=("$folder/absent.json")
    [ "$command" != compare ] || input+=("$folder/absent.json")
    refused "$folder/file/deep" "no folder .* can be made: Not a directory" "$command" "${input[@]}"
    refused "$folder/file" "is no folder" "$command" "${input[@]}"
    refused "/proc/none/such" "no file can be written in \"/proc\"" "$command" "${input[@]}"
done
for command in "report $folder/absent.json" "plan $folder/absent.json" "calibrate --executor sim --base toy-2gpu" "import galvatron $folder/absent.json"; do
    refused "$folder/no/such/file" "no file can be written in .*/no/such\": there is no such folder" $command
    refused "$folder/file/below" "no file can be written in" $command
    refused "/proc/none" "no file can be written in \"/proc\"" $command
    [ "${command%% *}" = report ] || refused "$folder/dir" "is a folder, expected the name of a file" $command
done
refused "$folder/$(printf '%0300d' 1)" "has more than 191 bytes" report "$s"
for flag in --galvatron --svg; do
    run 1 plan "$folder/absent.json" $flag "$folder/dir"
    complains "$flag: .*is a folder"
done
run 1 pipeline --stages 2 --microbatches 4 --svg "$folder/no/p.svg"
complains "\-\-svg: no file can be written in"
run 1 sweep "$sweep" --db "$folder/no/s.db" --quiet
complains "no/s.db"
if [ "$(id -u)" != 0 ]; then # root may write everywhere
    mkdir "$folder/closed"
    chmod 500 "$folder/closed"
    refused "$folder/closed/deep" "no file can be written in .*: Permission denied" run "$s"
    refused "$folder/closed/page.html" "no file can be written in .*: Permission denied" report "$s"
fi
[ "$(ls -A "$folder")" = "$(printf 'dir\nerr\nfile\nout')" ] || [ "$(ls -A "$folder")" = "$(printf 'closed\ndir\nerr\nfile\nout')" ]
expect "nothing is left behind" $?
[ -z "$(ls -A "$folder/dir")" ]
expect "  nor in folders that were looked at" $?
run 0 report "$s" --quick --quiet --out /dev/null
holds "Written to /dev/null"

# Control characters of a file reach no terminal and no page.
sed 's/"name": "[^"]*"/"name": "bad \\u001b[31m"/' "$s" >"$folder/escape.json"
for command in run explain "report --quick" schedule "sweep" buy; do
    run 1 $command "$folder/escape.json" --quiet
    complains "escape.json: line [0-9]* column [0-9]*: .*control characters (.u001b)"
done
sed "s/\"name\": \"[^\"]*\"/\"name\": \"bad $(printf '\302\233')31m\"/" "$s" >"$folder/raw.json"
run 1 run "$folder/raw.json"
complains "control characters (byte 0x9b)"
sed "s/\"name\": \"[^\"]*\"/\"name\": \"bad $(printf '\377')\"/" "$s" >"$folder/bytes.json"
run 1 run "$folder/bytes.json"
complains "not valid UTF-8 (byte 0xff)"
sed 's/"name": "[^"]*"/"name": "two\\nlines"/' "$s" >"$folder/lines.json"
run 1 run "$folder/lines.json"
complains "name: a name is one line"
run 1 run "$s" --set "name=$(printf 'bad \033[31m')"
complains "control characters"
printf 'F0 B0\nF0 \033[31mB0\n' >"$folder/order.txt"
run 1 pipeline --schedule-file "$folder/order.txt"
complains "order.txt"
! grep -q "$(printf '\033')" "$folder/err"
expect "  what is quoted of a file has no escapes" $?
for words in "$(printf 'x\033[31m\377')" "run --$(printf 'x\033[31m\377')"; do
    run 1 $words
    complains 'unknown'
    ! grep -q "$(printf '\033')" "$folder/err"
    expect "  nor what is quoted of the command line" $?
done
for flag in --stages --recompute; do
    run 1 pipeline --order 1f1b --stages 2 --microbatches 4 $flag "$(printf 'x\033[31m\302\233')"
    complains "$flag: \"x"
    ! grep -q "$(printf '\033\|\302\233')" "$folder/err"
    expect "  nor what is quoted of a flag's value" $?
done
if command -v sqlite3 >/dev/null; then # a database is anybody's
    "$binary" sweep "$sweep" --db "$folder/s.db" --quiet >"$folder/out"
    sqlite3 "$folder/s.db" "UPDATE results SET status = 'error', reason = 'r ' || char(27) || '[31m' || char(155) || char(10) || 'x'" >"$folder/out"
    run 0 sweep --db "$folder/s.db" --where "status = 'error'"
    holds "Reasons, each once:"
    ! grep -q "$(printf '\033\|\302\233')" "$folder/out"
    expect "  nor has what a database says" $?
    for figure in -1 9e999 "'abc'"; do
        sqlite3 "$folder/s.db" "UPDATE results SET step_time_s = $figure WHERE hash = (SELECT min(hash) FROM results)" >"$folder/out"
        run 1 sweep --db "$folder/s.db" --top 3
        complains "is damaged: 1 rows have figures that no simulation gives"
    done
fi

# A file of another kind is called what it is, whatever its keys.
printf '{ "parallel": {}, "schema": "memwall.plan/1" }' >"$folder/plan.json"
printf '{ "gpu": 1, "schema": "memwall.machine/1" }' >"$folder/machine.json"
run 1 run "$folder/plan.json"
complains 'plan.json:1: $.schema: this is a plan ("memwall.plan/1"), expected a scenario ("memwall.scenario/1"). memwall run SCENARIO.json --plan FILE takes it'
run 1 buy "$folder/machine.json"
complains 'this is a machine ("memwall.machine/1"), expected a question ("memwall.question/1"). --set machine=FILE takes it'
run 1 run "$s" --plan "$folder/machine.json"
complains 'this is a machine ("memwall.machine/1"), expected a plan'
run 1 run "$s" --set machine="$q"
complains 'this is a question\|missing keys'
run 1 run "$s" --set machine="$folder/plan.json"
complains 'this is a plan ("memwall.plan/1"), expected a machine'
run 1 run "$s" --set software="$folder/machine.json"
complains 'this is a machine ("memwall.machine/1"), expected a software stack'
run 1 plan --profile "$folder/plan.json" --planner pipedream --workers 2 --bandwidth 1
complains 'this is a plan ("memwall.plan/1"), expected a measured chain of layers'
printf '{ "schema": "memwall.machine/1", "name": "mine", "gpu_count": 2, "gpu": { "model": "X" }, "host": {} }' >"$folder/machine.json"
run 1 run "$s" --set machine="$folder/machine.json"
complains 'missing keys: gpu.peak_TFLOPS, parts, links, gpu.architecture, .*, host.pageable_GBps, .*, nccl.bus_GBps, nccl.latency_us, nccl.sms, nccl.channels'
printf '{}' >"$folder/empty.json"
run 1 run "$folder/empty.json"
complains 'missing keys: model, machine'
run 1 buy "$folder/empty.json"
complains 'missing keys: model, training, tokens, machines'

# Steps that wait for each other are bad input wherever they are given.
sed 's/"interleaved"/{ "name": "steps", "stages": ["F0 F1 B1 B0", "F1 F0 B0 B1"] }/; s/"virtual_stages": 3/"virtual_stages": 1/; s/"pipeline": 8/"pipeline": 2/; s/"nodes": 8/"nodes": 2/; s/"gpus": 64/"gpus": 16/; s/"global_batch": 64/"global_batch": 2/' "$s" >"$folder/dead.json"
for command in run explain schedule "report --quick" validate "fit --batch" plan; do
    run 1 $command "$folder/dead.json" --quiet
    complains "stage 1, position 1: the stage takes what F1 needs first, but stage 0 sends what F0 needs before that"
done
exit $((failures > 0))
