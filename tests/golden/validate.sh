#!/usr/bin/env bash
# `memwall validate` and `run --executor`: texts that must not change by accident, and what they promise of a real run. usage: validate.sh BINARY
# After a change that is meant: UPDATE_GOLDEN=1 bash tests/golden/validate.sh BINARY, then read the diff.
. "$(dirname "$0")/command.bash"

complains() { # what a run did before it failed may stand on standard output
    grep -q -- "$1" "$folder/err"
    expect "  complains: $1" $?
}

hash_of_output() {
    sed -n 's/.*"schedule_hash": *"\([0-9a-f]*\)".*/\1/p' "$folder/out" | head -n 1
}

cat >"$folder/tiny.json" <<'JSON'
{ "schema": "memwall.scenario/1", "name": "tiny", "machine": "toy-2gpu", "software": "ideal", "gpus": 2,
  "model": { "family": "gpt", "layers": 2, "hidden": 64, "heads": 2, "ffn": 256, "vocab": 500, "max_sequence": 64 },
  "training": { "sequence_length": 64, "micro_batch": 1, "global_batch": 4 }, "parallel": { "pipeline": 2, "data": 1 } }
JSON
cat >"$folder/unfit.json" <<'JSON'
{ "schema": "memwall.scenario/1", "name": "unfit", "machine": "toy-2gpu", "software": "ideal", "gpus": 1,
  "model": "gpt3-1.7b", "training": { "global_batch": 1 } }
JSON

compare validate_missing validate
compare validate_bad_executor validate tiny.json --executor hots
compare validate_self validate "$folder/tiny.json" --executor sim
compare validate_self_steps validate tiny.json --executor sim --steps 3
compare validate_check validate tiny.json --check
compare validate_limit validate tiny.json --limit ten
compare validate_unfit validate "$folder/unfit.json" --executor sim
compare run_sim_warmup run tiny.json --warmup 2
compare run_sim_emulate run tiny.json --emulate
compare schedule_executor schedule tiny.json --executor host

# A program alone has but one executor; it says what is missing, where it looked, and how to come by it.
cp "$binary" "$folder/memwall"
for name in host cuda; do
    "$folder/memwall" run "$folder/tiny.json" --executor $name >"$folder/out" 2>"$folder/err"
    [ $? = 1 ]
    expect "exit 1 without memwall_exec_$name.so" $?
    complains "the executor $name is not built: there is no memwall_exec_$name.so in $folder"
    complains "apt install"
done
# One that is none.
echo "no object" >"$folder/memwall_exec_host.so"
"$folder/memwall" run "$folder/tiny.json" --executor host >"$folder/out" 2>"$folder/err"
[ $? = 3 ]
expect "exit 3 with a broken memwall_exec_host.so" $?
complains "cannot be loaded here"
"$folder/memwall" --version >"$folder/out"
holds "^  sim "
holds "^  host  not usable"
holds "^  cuda  not built"

# One whose peaks are impossible: compared, told, and no success.
cp "$(dirname "$binary")/tests/exec_faulty.so" "$folder/memwall_exec_host.so"
"$folder/memwall" validate "$folder/tiny.json" --json >"$folder/out" 2>"$folder/err"
[ $? = 3 ]
expect "exit 3 for an impossible peak" $?
complains "measured peaks of 1 of [0-9]* spaces are such as no timing of this schedule gives"
holds '"memory_possible": false'

run 2 validate "$folder/unfit.json" --executor sim --json
holds '"fits": false'
holds '"reason": "does not fit'
run 0 validate "$folder/tiny.json" --executor sim --json
for key in schedule_hash simulated_step_s measured_step_s step_error op_error memory_equal memory_possible executor emulated; do
    holds "\"$key\":"
done
holds '"step_error": 0,'
holds '"memory_equal": true'

# Host threads: the same bytes, simulated and run.
run 1 run "$folder/tiny.json" --executor host --emulate
complains "--emulate"
run 1 run "$folder/tiny.json" --executor host --steps 0
complains "\"0\" is not a whole number from 1 to 1024"
for command in run validate; do # also where no op goes to storage
    run 1 $command "$folder/tiny.json" --executor host --scratch /nonexist
    complains '--scratch: no file can be written in "/nonexist": there is no such folder'
done
run 0 run "$folder/tiny.json" --no-fold --json
simulated=$(hash_of_output)
run 0 run "$folder/tiny.json" --executor host --steps 2 --json
[ "$(hash_of_output)" = "$simulated" ]
expect "  it ran the bytes that are simulated" $?
holds '"executor": "host"'
holds '"steps": 2'
run 0 run "$folder/tiny.json" --executor host --steps 1 --check
complains "the times of this run mean nothing"
run 0 validate "$folder/tiny.json" --executor host --steps 3 --quiet --json --out "$folder/files"
[ "$(hash_of_output)" = "$simulated" ]
expect "  it compared the bytes that are simulated" $?
holds "is not on_host"
[ ! -s "$folder/err" ]
expect "  standard error stays empty" $?
for file in validation.json ops.csv trace.simulated.json.gz trace.measured.json.gz plots/agreement.gp; do
    [ -s "$folder/files/$file" ]
    expect "  writes $file" $?
done
gzip -t "$folder/files/trace.measured.json.gz"
expect "  the trace is whole" $?
cmp -s "$folder/out" "$folder/files/validation.json"
expect "  the file is what was printed" $?
holds '"memory_possible": true'
# Exchanges that are waited for whole (megatron), and one GPU with one queue: nothing that timing could change in what lives when.
for more in software=megatron "gpus=1 --set parallel.pipeline=1"; do
    # shellcheck disable=SC2086
    run 0 validate "$folder/tiny.json" --set $more --executor host --steps 3 --json
    holds '"memory_equal": true'
done
run 3 validate "$folder/tiny.json" --executor host --steps 3 --limit 1e-9
complains "above --limit"
# What does not fit must not need more memory than this computer has: 1 MiB a device is too little for tiny.json.
run 2 run "$folder/tiny.json" --set 'machine={"base": "toy-2gpu", "gpu": {"memory_GiB": 0.001}}' --executor host --json
holds '"fits": false'

# Little address space: a message or a run, never a wait (OpenBLAS tries for ever to map a buffer; a sanitizer refuses at once).
for kib in 350000 400000 500000 700000; do
    (ulimit -v $kib; exec timeout -k 1 100 "$binary" run "$folder/tiny.json" --executor host --steps 1 --quiet >"$folder/out" 2>"$folder/err")
    code=$?
    [ $code = 0 ] || { [ $code = 3 ] && grep -qE "no memory for|cannot be loaded|no further thread" "$folder/err"; } || grep -q Sanitizer "$folder/err"
    expect "with $kib KiB of address space it ends: exit $code" $?
done

# gnuplot exits with 0 on a full disk: no half picture may stay.
mkdir "$folder/bin"
printf '#!/bin/sh\necho "<svg>" >agreement.svg.tmp\n: >agreement.png.tmp\n' >"$folder/bin/gnuplot"
chmod +x "$folder/bin/gnuplot"
PATH="$folder/bin:$PATH" run 0 validate "$folder/tiny.json" --executor sim --out "$folder/full"
complains "gnuplot failed on a plot"
[ -s "$folder/full/validation.json" ] && [ ! -e "$folder/full/agreement.svg" ] && [ ! -e "$folder/full/agreement.png" ]
expect "no half picture" $?

# No room for the files: what was measured is told all the same.
(ulimit -f 1; exec "$binary" validate "$folder/tiny.json" --executor host --steps 2 --out "$folder/cramped" 2>"$folder/err") | cat >"$folder/out"
[ "${PIPESTATUS[0]}" = 3 ]
expect "exit 3 when --out has no room" $?
complains "File too large"
holds "step time"
[ "$(grep -c "Written to" "$folder/out")" = 0 ]
expect "  claims no files" $?

# Interrupted: what was measured is told, and no earlier run's timeline stays beside it.
mkdir "$folder/cut"
echo earlier >"$folder/cut/trace.measured.json.gz"
: >"$folder/err" # the wait below must not find the run before
"$binary" validate "$folder/tiny.json" --executor host --steps 1024 --set training.global_batch=64 --out "$folder/cut" >"$folder/out" 2>"$folder/err" &
child=$!
for _ in $(seq 2400); do # ends with the second step; two minutes on a busy computer
    grep -q "^step 2 " "$folder/err" && break
    sleep 0.05
done
kill -INT $child
wait $child
[ $? = 3 ]
expect "exit 3 when it is interrupted" $?
complains "steps measured before that"
holds "step time"
[ -s "$folder/cut/trace.simulated.json.gz" ] && [ ! -e "$folder/cut/trace.measured.json.gz" ]
expect "no earlier run's timeline" $?
[ "$failures" = 0 ]
