#!/usr/bin/env bash
# memwall calibrate: the closed loop on the simulator, resuming, messages of bad usages. usage: calibrate.sh BINARY
set -u
binary=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

expect() { # what, condition already evaluated to 0 or 1
    if [ "$2" = 0 ]; then
        echo "ok   $1"
    else
        echo "FAIL $1"
        failures=$((failures + 1))
    fi
}

run() { # expected exit, arguments...
    local wanted=$1
    shift
    "$binary" "$@" >"$folder/out" 2>"$folder/err"
    local code=$?
    [ "$code" = "$wanted" ] || { cat "$folder/err"; false; }
    expect "exit $wanted: memwall $*" $?
}

complains() { # pattern: in standard error, and nothing else is said
    grep -qe "$1" "$folder/err"
    expect "  complains: $1" $?
    [ ! -s "$folder/out" ]
    expect "  standard output stays empty" $?
}

holds() { # pattern: in standard output
    grep -qe "$1" "$folder/out"
    expect "  prints $1" $?
}

cd "$folder" || exit 1

# ---- bad usages ----
run 1 calibrate
complains "--out: is missing"
run 1 calibrate --executor sim --out a.json
complains "--base: is missing"
run 1 calibrate --executor simm --base toy-2gpu --out a.json
complains 'did you mean "sim"'
run 1 calibrate --executor sim --base toy-3gpu --out a.json
complains 'toy-2gpu'
run 1 calibrate --executor sim --base toy-2gpu --out "$folder"
complains "is a folder, expected the name of a file"
run 1 calibrate --executor sim --base toy-2gpu --out absent/a.json
complains "no file can be written in \"absent\""
run 1 calibrate --executor sim --base toy-2gpu --out ""
complains '--out needs the name of a file, found ""'
for name in "" $'bell\a' $'return\r' $'c1\xc2\x85' $'cut\xc3' $'long\xf5\x80\x80\x80' "$(printf '%064d' 0)"; do
    run 1 calibrate --executor sim --base toy-2gpu --out a.json --name "$name"
    complains "--name: a machine's name must "
done
run 1 calibrate --executor sim --base toy-2gpu --out $'two\nlines.json'
complains "its byte 4 is 0x0a, of a control character (it is taken from --out)"
mkdir folder && mkfifo pipe && echo >file
run 1 calibrate --from "" --out a.json
complains '--from: the name is empty (""): give a file, or - for standard input'
run 1 calibrate --from folder --out a.json
complains '--from: "folder" is a folder; give a regular file, or - for standard input'
run 1 calibrate --executor sim --base toy-2gpu --from pipe --out a.json
complains '--from: "pipe" is a pipe; give a regular file'
run 1 calibrate --executor sim --base toy-2gpu --from absent.log --out a.json
complains '--from: "absent.log" cannot be read: No such file'
run 1 calibrate --executor sim --base toy-2gpu --points "" --out a.json
complains '--points: the name is empty'
run 1 calibrate --executor sim --base toy-2gpu --storage file --out a.json
complains '--storage: no file can be written in "file": not a folder'
run 1 calibrate --executor sim --base toy-2gpu --storage absent --out a.json
complains '--storage: no file can be written in "absent": there is no such folder'
run 1 calibrate --executor sim --base toy-2gpu --storage /proc --out a.json
complains '--storage: no file can be written in "/proc": '
rm -r folder pipe file
run 1 calibrate --executor sim --base toy-2gpu --out a.json --seconds never
complains '--seconds: "never" is not a number'
run 1 calibrate --executor sim --base toy-2gpu --out a.json --devices 1.5
complains '--devices: "1.5" is not a whole number'
run 1 calibrate --executor sim --base toy-2gpu --out a.json --devices 3
complains "3"
run 1 calibrate --executor sim --base toy-2gpu --out a.json --system x
complains "there is no --from"
run 1 calibrate --from a.log --fresh --out a.json
complains "nothing is measured with --from alone"
run 1 calibrate --from absent.log --out a.json
complains "absent.log"
run 1 calibrate --executor host --base toy-2gpu --out a.json
grep -q "a host is what it is found to be" "$folder/err" || grep -q "is not built" "$folder/err"
expect "  a host has no base" $?
run 1 calibrate surplus --out a.json
complains "unexpected argument surplus"
[ -z "$(ls)" ] || [ "$(ls)" = "err
out" ]
expect "bad usages leave no files" $?
run 0 calibrate --help
holds "memwall calibrate --executor host --out here.json"
holds "--from FILE"

# ---- the closed loop: what the simulator is, calibration finds ----
value() { # file, path: a number of a machine file
    python3 - "$1" "$2" <<'PY'
import json, sys
at = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    at = at[int(key)] if isinstance(at, list) else at[key]
print(at)
PY
}
near() { # file, path, relative tolerance: the number is the shipped machine's
    local found wanted code
    found=$(value "$1" "$2")
    wanted=$(value "$source/hw_models/machines/dgx-a100-80gb.json" "$2")
    python3 -c "import sys; a, b, t = map(float, sys.argv[1:]); sys.exit(not abs(a - b) <= t * abs(b))" \
        "$found" "$wanted" "$3"
    code=$?
    expect "  $2 is $found, the machine's $wanted within $3" $code
}
run 0 calibrate --executor sim --base dgx-a100-80gb --out dgx.json
grep -q "100 %" err
expect "  progress reaches 100 %" $?
holds "gemm fp16"
holds "Written: dgx.json"
# Points are exact to 2 ps: what is recovered is limited by the rounding of file values to three digits of their standard error.
near dgx.json links.3.GBps 1e-4
near dgx.json links.3.back_GBps 1e-4
near dgx.json links.3.both_GBps 1e-4
near dgx.json host.pageable_GBps 1e-4
near dgx.json kernel_model.gemm.fp16.sm_efficiency 1e-3
near dgx.json kernel_model.gemm.fp16.floor_s 1e-3
near dgx.json kernel_model.gemm.tf32.sm_efficiency 1e-3
near dgx.json kernel_model.class_efficiency.elementwise 1e-3
near dgx.json latency.kernel_floor_us 1e-3

# A machine said wrongly is put right by points alone.
python3 - <<'PY'
import json
m = json.load(open("dgx.json"))
m["host"]["pageable_GBps"] = 3
m["latency"]["kernel_floor_us"] = 9
m["kernel_model"]["class_efficiency"]["elementwise"] = 0.3
m["kernel_model"]["gemm"]["fp16"].update(sm_efficiency=0.5, floor_s=9e-6)
m["links"][3].update(GBps=7, back_GBps=5, both_GBps=8)
json.dump(m, open("wrong.json", "w"))
PY
run 0 calibrate --from dgx.json.points.jsonl --base ./wrong.json --out right.json
near right.json links.3.GBps 1e-4
near right.json links.3.both_GBps 1e-4
near right.json host.pageable_GBps 1e-4
near right.json latency.kernel_floor_us 1e-3
near right.json kernel_model.class_efficiency.elementwise 1e-3
near right.json kernel_model.gemm.fp16.sm_efficiency 1e-3

# ---- the same file again ----
cp dgx.json first.json
run 0 calibrate --executor sim --base dgx-a100-80gb --out dgx.json --quiet
[ ! -s err ]
expect "  --quiet says nothing" $?
cmp -s dgx.json first.json
expect "  nothing is measured twice, the same file comes out" $?

# ---- killed, interrupted and resumed ----
run 0 calibrate --executor sim --base toy-2gpu --seconds 1 --name cut --out whole.json --quiet
lines=$(wc -l <whole.json.points.jsonl)
head -n 40 whole.json.points.jsonl >cut.json.points.jsonl
printf '{"kind":"copy","way":"h2d","to":0,"by' >>cut.json.points.jsonl # a line that kill -9 cut short
run 0 calibrate --executor sim --base toy-2gpu --seconds 1 --name cut --out cut.json
grep -q "39 points measured before are in cut.json.points.jsonl" err
expect "  says what it goes on from" $?
cmp -s whole.json cut.json
expect "  the same machine file" $?
[ "$(wc -l <cut.json.points.jsonl)" = "$lines" ]
expect "  each point once" $?
: >empty.json.points.jsonl
run 0 calibrate --executor sim --base toy-2gpu --seconds 1 --name cut --out empty.json --quiet
cmp -s whole.json empty.json
expect "  an empty file of points is begun" $?
run 1 calibrate --executor sim --base toy-2gpu --seconds 1 --name other --out cut.json
complains 'holds points of machine "cut" by executor sim'
run 0 calibrate --executor sim --base toy-2gpu --seconds 1 --name other --out cut.json --fresh --quiet
echo '{"kind":"issue","issue":"op","seconds":0,"source":""}' >>cut.json.points.jsonl
run 1 calibrate --executor sim --base toy-2gpu --seconds 1 --name other --out cut.json
complains "cut.json.points.jsonl:$((lines + 1)): "
# A point that no constants explain is refused by name; without it, it is measured anew.
python3 - whole.json.points.jsonl spoilt.json.points.jsonl <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
copies = [l for l in lines if l.get("kind") == "copy" and l["way"] == "h2d" and l.get("pageable") and l["at_once"] == 1]
for one in copies:
    one["seconds"] *= 1e4 if one["bytes"] > 2**20 else 1
with open(sys.argv[2], "w") as out:
    out.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
PY
run 1 calibrate --executor sim --base toy-2gpu --seconds 1 --name cut --out spoilt.json --quiet
complains "measured on cut by executor sim: no constants explain the"
complains "take its line out of spoilt.json.points.jsonl and give the same command again"
[ ! -e spoilt.json ]
expect "  no file is written" $?
grep -v '"way":"h2d","pageable":true' spoilt.json.points.jsonl >rest
mv rest spoilt.json.points.jsonl
run 0 calibrate --executor sim --base toy-2gpu --seconds 1 --name cut --out spoilt.json --quiet
cmp -s whole.json spoilt.json
expect "  measured anew: the same machine file" $?
exec 9>>cut.json.points.jsonl
flock 9
run 3 calibrate --executor sim --base toy-2gpu --seconds 1 --name other --out cut.json --fresh
complains "another calibration is writing it"
exec 9>&-

# ---- a real executor, interrupted and killed: what was measured is kept ----
lines_of() { # points in a file, its first line not counted
    [ -f "$1" ] && echo $(($(wc -l <"$1") - 1)) || echo 0
}
wait_for_points() { # file, how many
    for ((i = 0; i < 1800; i++)); do
        [ "$(lines_of "$1")" -ge "$2" ] && return 0
        sleep 0.1
    done
    return 1
}
if [ ! -f "$(dirname "$binary")/memwall_exec_host.so" ]; then
    echo "skip the executor host is not built"
else
    "$binary" calibrate --executor host --devices 2 --seconds 1000 --out real.json >out 2>err &
    wait_for_points real.json.points.jsonl 3
    kill -INT $!
    wait $!
    [ $? = 3 ]
    expect "  interrupted: exit 3" $?
    grep -q "points are kept in real.json.points.jsonl; the same command goes on from there" err
    expect "  says how to go on" $?
    [ ! -e real.json ] && [ ! -s out ]
    expect "  no machine file of half a calibration" $?
    kept=$(lines_of real.json.points.jsonl)
    "$binary" calibrate --executor host --devices 2 --seconds 1000 --out real.json --quiet >out 2>err &
    wait_for_points real.json.points.jsonl $((kept + 3))
    kill -KILL $!
    wait $! 2>/dev/null
    [ "$(lines_of real.json.points.jsonl)" -ge $((kept + 3)) ]
    expect "  killed: it had gone on from $kept points" $?
    run 1 calibrate --executor host --devices 2 --name other --out real.json
    complains 'holds points of machine "real" by executor host'

    # To the end, in as little time as there is. A busy computer may spoil a point: then it is refused by name. Nothing here is a time.
    "$binary" calibrate --executor host --devices 1 --seconds 1 --out short.json --json >out 2>err
    code=$?
    [ "$code" = 0 ] || { [ "$code" = 1 ] && grep -q "measured on short by executor host: " err && grep -q "take its line out" err; }
    expect "a short calibration of this computer ends: exit $code" $?
    [ "$(grep -c '"source":"measured on short by executor host' short.json.points.jsonl)" = "$(lines_of short.json.points.jsonl)" ] &&
        [ "$(lines_of short.json.points.jsonl)" -ge 100 ]
    expect "  every point says where it comes from" $?
    if [ "$code" = 0 ]; then
        python3 - out short.json <<'PY'
import json, sys
answer, machine = (json.load(open(path)) for path in sys.argv[1:])
assert answer["schema"] == "memwall.calibration/1" and answer["executor"] == "host" and answer["file"] == "short.json"
assert machine["schema"] == "memwall.machine/1" and machine["gpu"]["on_host"] is True and machine["gpu_count"] == 1
fields = [c["field"] for c in answer["constants"]]
assert len(fields) == len(set(fields)) >= 10 and all(c["value"] > 0 and c["standard_error"] > 0 for c in answer["constants"])
sourced = {f for s in machine["provenance"] if "measured on short by executor host" in s["source"] for f in s["fields"]}
def named(field): # provenance speaks of links and parts by kind
    section, _, rest = field.partition(".")
    index, _, rest = rest.partition(".")
    return f"{section}.{machine[section][int(index)]['kind']}.{rest}" if index.isdigit() else field
assert {named(f) for f in fields} <= sourced, {named(f) for f in fields} - sourced
assert all(r["points"] > 0 and 0 <= r["mean_error"] <= r["worst_error"] for r in answer["residuals"]) and answer["residuals"]
PY
        expect "  constants with standard errors, sources, residuals" $?
        run 0 run "$source/validate/scenarios/resident.json" --set machine=./short.json --json --quiet
        holds '"fits": true'
    else
        [ ! -e short.json ]
        expect "  no machine file of refused points" $?
    fi
fi

head -n 1 whole.json.points.jsonl >none.jsonl

# ---- json ----
run 0 calibrate --executor sim --base toy-2gpu --seconds 1 --name cut --out whole.json --quiet --json
python3 - out <<'PY'
import json, sys
a = json.load(open(sys.argv[1]))
assert a["schema"] == "memwall.calibration/1" and a["machine"] == "cut" and a["file"] == "whole.json"
assert a["executor"] == "sim" and a["points"] > 100
assert any(c["field"].startswith("links.") and c["standard_error"] >= 0 for c in a["constants"])
assert all(0 <= r["mean_error"] <= r["worst_error"] for r in a["residuals"]) and a["residuals"]
assert isinstance(a["missing"], list) and isinstance(a["left_out"], list)
PY
expect "  one JSON document with constants, residuals, what is missing" $?

# ---- --from, --points are somebody's files ----
cp none.jsonl kept.jsonl
run 1 calibrate --from kept.jsonl --base toy-2gpu --out ./kept.jsonl
complains '--out: "./kept.jsonl" is the file of --from, too, and would be written over'
run 1 calibrate --executor sim --from kept.jsonl --base toy-2gpu --out one.json --points kept.jsonl --fresh
complains '--points: "kept.jsonl" is the file of --from, too'
cmp -s none.jsonl kept.jsonl
expect "  the file is left as it is" $?
run 1 calibrate --executor sim --base toy-2gpu --out one.json --points one.json
complains "is the machine file of --out"
printf 'no newline' >diary
run 1 calibrate --executor sim --base toy-2gpu --out one.json --points diary
complains "does not begin as a file of points does"
run 1 calibrate --executor sim --base toy-2gpu --out one.json --points diary --fresh
[ "$(cat diary)" = "no newline" ]
expect "  a file that holds no points is left as it is" $?
mkfifo pipe
run 1 calibrate --executor sim --base toy-2gpu --out one.json --points pipe
complains "is not a regular file"
(ulimit -f 8; exec "$binary" calibrate --executor sim --base toy-2gpu --out one.json --quiet 2>limited)
[ $? = 3 ] && grep -q "File too large" limited
expect "  a limit on the size of files ends in a message" $?

# ---- nothing, too little ----
run 1 calibrate --executor sim --base toy-2gpu --out /dev/null
complains '"/dev/null" is not a regular file'
run 1 calibrate --from none.jsonl --base toy-2gpu --out few.json
complains "there is nothing to fit from: no row was taken as a point"
run 1 calibrate --from "$source/tests/import/bandwidth_test_quick.txt" --out few.json
complains "there is no --base: the library machine most like this one"
(head -n 1 whole.json.points.jsonl; grep '"class":"gemm"' whole.json.points.jsonl | head -n 3) >few.jsonl
run 1 calibrate --from few.jsonl --base toy-2gpu --out few.json
[ ! -e few.json ]
expect "  no file is written" $?

echo "$failures failures"
[ "$failures" = 0 ]
