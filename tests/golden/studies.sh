#!/usr/bin/env bash
# memwall run with studies: what binds, critical path, uncertainty, failures. usage: studies.sh BINARY
. "$(dirname "$0")/command.bash"
s="$here/../../scenarios/two-gpus-1f1b.json"
big="$here/../../scenarios/megatron-22b-dgx-a100.json"

run 0 run --help
for flag in --sensitivity --critical-path "--uncertainty N" "--mtbf-hours H" "--checkpoint-GBps B" "--restart-s T"; do
    holds "$flag"
done
run 0 run "$s" --sensitivity --critical-path --quiet
holds "^What binds: the step re-simulated"
holds "^  2x matrix throughput: *-[0-9.]* %"
holds "^Critical path: .* one cause at every instant"
holds "^Memory: fullest is gpu"
holds "a micro-batch 10 % larger needs .* more there: fits; one .* times as large would fill it"
run 0 run "$s" --quiet
! grep -q "re-simulated\|Critical path" "$folder/out"
expect "  no studies unasked" $?

run 0 run "$big" --sensitivity --critical-path --uncertainty 40 --mtbf-hours 50000 --json --quiet
cp "$folder/out" "$folder/first"
run 0 run "$big" --sensitivity --critical-path --uncertainty 40 --mtbf-hours 50000 --json --quiet
cmp -s "$folder/out" "$folder/first"
expect "  the same again, byte by byte" $?
if command -v python3 >/dev/null; then
    python3 - "$folder/out" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
p = r["critical_path"]
assert p["length_ps"] == round(r["step_time_s"] * 1e12)
for part in ("causes", "began_by", "stages"):
    assert abs(sum(c["time_s"] for c in p[part]) - p["length_s"]) < 1e-9 * p["length_s"], part
assert "unexplained" not in [c["cause"] for c in p["causes"]]
present = [x for x in r["sensitivity"] if x["present"]]
assert all(a["change"] <= b["change"] for a, b in zip(present, present[1:]))
assert all(abs(x["change"] - (x["step_time_s"] / r["step_time_s"] - 1)) < 1e-9 for x in present)
assert {x["resource"] for x in r["sensitivity"]} == {"hbm_size", "hbm_bandwidth", "matrix", "pcie", "nvlink", "nic", "dram_bandwidth", "dram_size", "cores",
                                                     "nvme", "host_issue"}
u = r["uncertainty"]
assert u["step_time_interval_s"]["p5"] < r["step_time_s"] < u["step_time_interval_s"]["p95"] and "links" in u["without_known_error"]
f = r["failures"]
assert abs(f["interval_simulated_s"] / f["interval_daly_s"] - 1) < 0.02 and 0.9 < f["goodput"] < 1
assert r["memory_pressure"][0]["largest_class"]
PY
    expect "  the figures agree with each other" $?
fi

run 1 run "$s" --uncertainty 5
complains "^memwall: --uncertainty: expected a number from 20 to 100000, found \"5\""
run 1 run "$s" --mtbf-hours -3
complains "^memwall: --mtbf-hours: expected a number from"
run 1 run "$s" --checkpoint-GBps 10
complains "needs --mtbf-hours"
run 1 run "$s" --critical-path --executor host
complains "is about simulated steps"
run 1 run "$here/../../scenarios/bert-large-dgx1.json" --uncertainty 30
complains "has no standard_errors"
exit $((failures > 0))
