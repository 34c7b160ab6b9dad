#!/usr/bin/env bash
# memwall sweep: figures against memwall run, resuming after kills (SWEEP_KILLS of them; 200 is the figure demanded), sharing a file, ranks, reading back, what is refused. usage: sweep.sh BINARY
. "$(dirname "$0")/command.bash"
kills=${SWEEP_KILLS:-6}

cat >"$folder/s.json" <<'JSON'
{ "schema": "memwall.sweep/1", "name": "small",
  "base": { "model": "gpt2-xl", "machine": "dgx-a100-80gb", "gpus": 8, "software": "megatron", "training": { "global_batch": 64 } },
  "axes": [ { "path": "parallel.tensor", "values": [1, 5] }, { "path": "parallel.pipeline", "values": [1, 2, 4] },
            { "path": "training.micro_batch", "log_range": { "from": 1, "to": 8, "factor": 2 } },
            { "path": "recompute", "values": ["none", "full"] },
            { "path": "parallel.data", "expression": "if(tensor == 5, 1, floor(gpus / (tensor * pipeline)))" } ],
  "conditions": [ "tensor == 5 or data * micro_batch <= 64" ] }
JSON
dump() { # database: every row that counts, whatever the order of writing
    "$binary" sweep --db "$1" --csv --quiet
}

run 0 sweep "$folder/s.json" --db "$folder/whole.db" --threads 2 --quiet
dump "$folder/whole.db" >"$folder/whole.txt"
holds "48 points of 48 combinations"
run 0 sweep "$folder/s.json" --db "$folder/whole.db" --quiet
holds " 0 computed"

# What did not run says why; a file of another kind is called that.
printf '%s' '{ "schema": "memwall.sweep/1", "base": { "model": "gpt2-xl", "machine": "dgx-a100-80gb" }, "axes": [ { "path": "parallel.tensor", "values": [3, 5, 7] } ] }' >"$folder/none.json"
run 2 sweep "$folder/none.json" --quiet
holds "No row answers"
holds "^     3  failed: .*tensor 3 .*does not divide"
holds "numbers alone are counted together"
holds "status <> 'done'"
run 2 sweep "$folder/none.json" --db "$folder/none.db" --quiet
run 2 report "$folder/none.db" --quiet
holds "No point could be computed"
run 2 sweep "$folder/none.json" --quiet --json
holds '"points": 3'
holds '"reason": "..parallel: tensor 3'
run 2 sweep "$folder/none.json" --quiet --where "status <> 'done'"
holds "Reasons, each once:"
holds "tensor 5 .*does not divide"
# srun without --mpi starts tasks that know nothing of each other: said, and the rows are right all the same
export SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2
run 0 sweep "$folder/s.json" --db "$folder/whole.db"
grep -q "srun started 2 tasks without MPI" "$folder/err"
expect "  says what srun lacks" $?
PMIX_RANK=0 SLURM_NTASKS=1 run 0 sweep "$folder/s.json" --db "$folder/whole.db"
! grep -q "without MPI" "$folder/err"
expect "  a single rank is none of many" $?
unset SLURM_STEP_ID SLURM_STEP_NUM_TASKS
printf '%s' '{ "schema": "memwall.scenario/1", "model": "gpt2-xl" }' >"$folder/scenario.json"
run 1 sweep "$folder/scenario.json"
complains 'this is a scenario ("memwall.scenario/1"), expected a sweep ("memwall.sweep/1"). memwall run FILE takes it'

# A row is what memwall run says of its scenario.
if command -v python3 >/dev/null; then
    "$binary" sweep --db "$folder/whole.db" --json >"$folder/rows.json"
    python3 - "$folder/rows.json" "$binary" "$folder" <<'PY'
import json, subprocess, sys
rows = json.load(open(sys.argv[1]))["rows"]
exits = {"done": 0, "does_not_fit": 2, "error": 1}
seen = {}
for row in rows:
    seen.setdefault(row["status"], []).append(row)
assert "done" in seen and "error" in seen, {k: len(v) for k, v in seen.items()}
for status, some in seen.items():
    for row in some[:: max(1, len(some) // 3)]:
        open(sys.argv[3] + "/one.json", "w").write(row["scenario"])
        run = subprocess.run([sys.argv[2], "run", sys.argv[3] + "/one.json", "--json", "--quiet"], capture_output=True, text=True)
        assert run.returncode == exits[status], (status, run.returncode)
        if status == "error":
            assert row["reason"] and row["step_time_s"] is None
            continue
        result = json.loads(run.stdout)
        for key in "step_time_s samples_per_s tokens_per_s tokens_per_s_per_gpu model_tflops_per_gpu hardware_tflops_per_gpu mfu hfu schedule_hash gpus ops".split():
            assert row[key] == result[key], (key, row[key], result[key])
        devices = [d for d in result["devices"] if d["space"] == "device"]
        assert row["peak_bytes"] == max(d["peak_bytes"] for d in devices)
PY
    expect "  rows agree with memwall run" $?
fi

# Killed at random instants (each fourth time one rank of three, where MPI is), resumed, killed again: no finished row is lost on the way, and in the end the database is that of an uninterrupted run.
sed 's/"small"/"long"/; s/"values": \[1, 5\]/"values": [1, 2]/; s/"axes": \[/"axes": [ { "path": "training.sequence_length", "range": { "from": 64, "to": 1024, "step": 5 } },/' \
    "$folder/s.json" >"$folder/long.json"
"$binary" sweep "$folder/long.json" --db "$folder/long.db" --threads 2 --quiet >/dev/null
dump "$folder/long.db" >"$folder/long.txt"
all=$("$binary" sweep --db "$folder/long.db" --json --quiet | grep -c '^ *"hash":')
mpi=()
if command -v mpirun >/dev/null && [ -e "$(dirname "$binary")/memwall_sweep_mpi.so" ]; then
    mpi=(timeout --signal=KILL 120 mpirun --allow-run-as-root --oversubscribe -n 3) # Open MPI 4.1 was once seen to wait for itself in PMIx_server_finalize, all ranks gone
fi
pause() { # up to so many milliseconds
    sleep "0.$(printf %03d $((RANDOM % $1)))"
}
# Kills come by what has been done, not by the clock, which runs differently on a busy computer: once the database holds some number of rows, and a moment more. Each fifth comes at once, while
# the sweep sets itself up.
moment() { # which kill, rows before, the process
    local target=$(($2 + (RANDOM * 32768 + RANDOM) % (all - $2 + 1)))
    if [ $(($1 % 5)) != 4 ]; then
        while kill -0 "$3" 2>/dev/null && [ "$(rows_written)" -lt "$target" ]; do
            sleep 0.01
        done
    fi
    pause 60
}
rows_written() { # of a database that may be written to right now
    if command -v sqlite3 >/dev/null; then
        [ -e "$folder/killed.db" ] && sqlite3 "$folder/killed.db" "SELECT count(*) FROM results" 2>/dev/null || echo 0
    else
        rows_now
    fi
}
rows_now() { # how many rows the database holds; 0 when there is none
    "$binary" sweep --db "$folder/killed.db" --json --quiet 2>/dev/null | grep -c '^ *"hash":'
}
RANDOM=${SWEEP_SEED:-7}
midway=0 lost=0 different=0
for ((i = 0; i < kills; i++)); do
    [ $((i % 3)) = 0 ] && rm -f "$folder"/killed.db* && before=0
    if [ $((i % 4)) = 3 ] && [ ${#mpi[@]} -gt 0 ]; then
        victim=$((RANDOM % 3))
        # shellcheck disable=SC2016
        "${mpi[@]}" bash -c '[ "$OMPI_COMM_WORLD_RANK" != "$1" ] || echo $$ >"$2"; shift 2; exec "$@"' rank $victim "$folder/pid" \
            "$binary" sweep "$folder/long.json" --db "$folder/killed.db" --threads 1 --quiet >/dev/null 2>&1 &
        whole=$!
        moment $i "$before" $whole
        kill -KILL "$(cat "$folder/pid" 2>/dev/null)" 2>/dev/null
    else
        "$binary" sweep "$folder/long.json" --db "$folder/killed.db" --threads 2 --quiet >/dev/null 2>&1 &
        whole=$!
        moment $i "$before" $whole
        kill -KILL $whole 2>/dev/null
    fi
    wait $whole 2>/dev/null
    rm -f "$folder/pid"
    now=$(rows_now)
    [ "$now" -ge "$before" ] || lost=$((lost + 1))
    [ "$now" -gt 0 ] && [ "$now" -lt "$all" ] && midway=$((midway + 1))
    before=$now
    if [ $((i % 3)) = 2 ] || [ $i = $((kills - 1)) ]; then
        "$binary" sweep "$folder/long.json" --db "$folder/killed.db" --quiet >/dev/null
        dump "$folder/killed.db" | cmp -s - "$folder/long.txt" || different=$((different + 1))
    fi
done
echo "     $kills kills, $midway of them midway through the rows; rows lost after $lost, another database after $different"
[ $lost = 0 ] && [ $different = 0 ]
expect "killed and resumed: the database is the same, nothing finished is lost" $?
[ $((midway * 3)) -ge "$kills" ]
expect "  a third of the kills or more came midway" $?

# Two sweeps share a file, at the same time.
sed 's/"small"/"other"/; s/"values": \[1, 5\]/"values": [1, 2]/' "$folder/s.json" >"$folder/t.json"
"$binary" sweep "$folder/s.json" --db "$folder/shared.db" --threads 1 --quiet >/dev/null &
"$binary" sweep "$folder/t.json" --db "$folder/shared.db" --threads 1 --quiet >/dev/null
wait
run 0 sweep "$folder/s.json" --db "$folder/shared.db" --quiet
holds " 0 computed"
run 0 sweep "$folder/t.json" --db "$folder/shared.db" --quiet
holds " 0 computed"
run 0 sweep --db "$folder/shared.db" --top 1
# Four that begin at once make the tables together: none takes a file that another is about to fill for a stranger's.
strangers=0
for ((i = 0; i < 30; i++)); do
    rm -f "$folder"/together.db*
    for one in 1 2 3 4; do
        "$binary" sweep "$folder/none.json" --db "$folder/together.db" --threads 1 --quiet >/dev/null 2>"$folder/together.$one" &
    done
    wait
    cat "$folder"/together.? | grep -q . && strangers=$((strangers + 1))
done
[ $strangers = 0 ]
expect "  four at once on a new file, thirty times" $?
grep -q "holds 2 sweeps" "$folder/err"
expect "  says that there are two" $?

# Ranks: the same rows.
if [ ${#mpi[@]} -gt 0 ]; then
    "${mpi[@]}" "$binary" sweep "$folder/s.json" --db "$folder/ranks.db" --threads 1 --quiet >"$folder/out" 2>&1
    holds "3 ranks"
    dump "$folder/ranks.db" | cmp -s - "$folder/whole.txt"
    expect "three ranks give the same database" $?
fi

run 0 sweep --db "$folder/whole.db" --where "pipeline = 2 and status = 'done'" --csv
[ "$(head -1 "$folder/out" | cut -d, -f1-3)" = "point,tensor,pipeline" ] && [ "$(tail -n +2 "$folder/out" | cut -d, -f3 | sort -u)" = 2 ]
expect "  --where keeps pipeline 2 alone" $?
run 0 sweep --db "$folder/whole.db" --pareto step_time_s,peak_bytes
run 0 sweep --db "$folder/whole.db" --top 3 --by step_time_s
[ "$(wc -l <"$folder/out")" = 5 ]
expect "  --top 3 prints three" $?
run 0 sweep --db "$folder/whole.db" --top 1 --by cost
holds " peak  cost_usd_per_trillion_tokens$"
run 0 sweep --db "$folder/whole.db" --pareto step_time_s,peak_reserved_bytes,time_bubble_s
holds " peak  peak_reserved_bytes  time_bubble_s$"
if command -v script >/dev/null; then # the progress bar keeps to one line of the terminal
    sed 's/"values": \[1, 5\]/"range": { "from": 1, "to": 40, "step": 1 }/' "$folder/s.json" >"$folder/long.json"
    script -qec "stty cols 80; timeout -s INT 5 $binary sweep $folder/long.json --threads 1" "$folder/terminal" >/dev/null </dev/null
    tr '\r' '\n' <"$folder/terminal" | grep -a '^\[#.* left, best [0-9]* tokens/s: tensor=' >"$folder/bars"
    [ -s "$folder/bars" ] && [ "$(sed 's/\x1b\[K.*//' "$folder/bars" | awk '{ if (length > n) n = length } END { print n }')" = 79 ]
    expect "  the bar says the best point, and ends before column 80" $?
fi
run 0 sweep --schema
holds "^CREATE TABLE IF NOT EXISTS results("
run 1 sweep
complains "say what to run"
run 1 sweep --db "$folder/absent.db"
complains "no such database"
run 1 sweep --db "$folder/whole.db" --where "tensr = 1"
complains "no such column: tensr"
sed 's/"path": "parallel.tensor"/"name": "order", "path": "parallel.tensor"/; s/tensor \* pipeline/order * pipeline/; s/(tensor == 5/(order == 5/; s/"tensor == 5 or/"order == 5 or/' "$folder/s.json" >"$folder/keyword.json"
run 0 sweep "$folder/keyword.json" --db "$folder/keyword.db" --quiet
run 1 sweep --db "$folder/keyword.db" --where "order = 1"
complains 'order is a word of SQL too: write "order" in double quotes'
run 0 sweep --db "$folder/keyword.db" --where '"order" = 1' --csv
run 1 sweep --db "$folder/whole.db" --top 0
complains "not a whole number from 1"
for count in top sweep threads; do
    run 1 sweep "$folder/s.json" --$count 1.5
    complains "--$count: \"1.5\" is not a whole number"
done
echo "This is text, and long enough to be mistaken for a page of a database; it is none, though." >"$folder/text.db"
run 1 sweep "$folder/s.json" --db "$folder/text.db"
complains "is no database"
if command -v sqlite3 >/dev/null; then
    sqlite3 "$folder/other.db" "CREATE TABLE t(a)"
    run 1 sweep "$folder/s.json" --db "$folder/other.db"
    complains "of another program"
    cp "$folder/whole.db" "$folder/later.db"
    sqlite3 "$folder/later.db" "PRAGMA user_version = 9" >/dev/null
    run 1 sweep "$folder/s.json" --db "$folder/later.db"
    complains "of format 9"
fi
sed 's/"values": \[1, 5\]/"range": { "from": 1, "to": 1000000 }/; s/"values": \[1, 2, 4\]/"range": { "from": 1, "to": 1000000 }/' "$folder/s.json" >"$folder/huge.json"
run 1 sweep "$folder/huge.json"
complains "combinations: at most"
sed 's/parallel.tensor/parallel.tensr/' "$folder/s.json" >"$folder/typo.json"
run 1 sweep "$folder/typo.json" --db "$folder/typo.db"
complains 'did you mean "parallel.tensor"'
[ ! -e "$folder/typo.db" ]
expect "  no database is left behind" $?
[ "$failures" = 0 ]
