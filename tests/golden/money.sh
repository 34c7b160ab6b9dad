#!/usr/bin/env bash
# memwall run with money: days, costs, energy, deadlines, intervals, result.json with all studies, what is refused. usage: money.sh BINARY
. "$(dirname "$0")/command.bash"
s="$here/../../scenarios/megatron-22b-dgx-a100.json"
toy="$here/../../scenarios/two-gpus-1f1b.json"

run 0 run --help
for flag in "--tokens N" "--days D" "--electricity USD" "--amortise YEARS" "--utilisation SHARE" "--carbon G" "--pue X" "--price-usd USD" "--gpu-hour-usd USD" \
    "--power-w W"; do
    holds "$flag"
done

run 0 run "$s" --tokens 300e9 --days 90 --electricity 0.12 --carbon 350 --pue 1.2 --uncertainty 20 --mtbf-hours 50000 --quiet
holds "^Money and energy: 300 billion tokens in"
holds "^  rented .* per trillion tokens: 1.39 USD a GPU-hour (2026, deploybase.ai"
holds "a server 250,000 USD (2021, .*: an estimate), worth nothing after 4 years"
holds "^  energy .* MWh: 1 server at 6500 W"
holds "^  5 to 95 %   .*days; rented .* USD; owned .* USD"
holds "^    batch grows with them"
holds "feeds at most 1 replica"

studies=(--sensitivity --critical-path --uncertainty 20 --mtbf-hours 50000 --tokens 1e9 --days 0.5 --electricity 0.1 --carbon 400)
run 0 run "$s" "${studies[@]}" --json --quiet --out "$folder/d"
cmp -s "$folder/out" "$folder/d/result.json"
expect "  result.json is what --json prints, studies and all" $?
if command -v python3 >/dev/null; then
    python3 - "$folder/out" <<'PY'
import json, math, sys
r = json.load(open(sys.argv[1]))
assert all(k in r for k in ("sensitivity", "critical_path", "uncertainty", "failures", "memory_pressure", "money"))
m = r["money"]
step = r["tokens_per_s"] * r["step_time_s"]
near = lambda a, b: abs(a - b) <= 1e-9 * abs(b)
assert m["steps"] == math.ceil(1e9 / step - 1e-9), (m["steps"], 1e9 / step)
assert near(m["days"], m["steps"] * r["step_time_s"] / r["failures"]["goodput"] / 86400)
hours = m["days"] * 24
assert near(m["rented"]["usd"], hours * 8 * m["prices"]["usd_per_gpu_hour"]["value"])
assert near(m["energy_kwh"], hours * m["servers"] * m["prices"]["system_W"]["value"] / 1000)
assert near(m["co2_kg"], m["energy_kwh"] * 0.4)
assert near(m["owned"]["usd"], m["days"] * m["prices"]["system_usd"]["value"] / (4 * 365.25) + m["energy_kwh"] * 0.1)
i = m["interval"]
assert i["rented_usd"]["p5"] < m["rented"]["usd"] < i["rented_usd"]["p95"]
assert near(i["rented_usd"]["p95"] / m["rented"]["usd"], r["uncertainty"]["step_time_interval_s"]["p95"] / r["step_time_s"])
g = m["deadline"]["batch_grown"]
assert g["meets"] and g["days"] <= 0.5 and g["gpus"] == 8 * g["replicas_for_each"] and g["global_batch"] == 4 * g["replicas_for_each"]
assert m["prices"]["system_usd"]["year"] == 2021 and m["prices"]["system_usd"]["estimated"]
PY
    expect "  the figures agree with each other" $?
fi
run 0 run "$s" --tokens 1e9 --gpu-hour-usd 10 --price-usd 100000 --power-w 5000 --electricity 0.2 --amortise 5 --utilisation 0.7 --quiet
holds "10 USD a GPU-hour (--gpu-hour-usd)"
holds "a server 100,000 USD (--price-usd), worth nothing after 5 years, busy 70 % of them"
holds "1 server at 5000 W (--power-w)"
run 0 run "$toy" --tokens 3e9 --days 10 --quiet
holds "the machines as they are do"

bare=(--set 'machine={"base":"dgx-a100-80gb","price":{"system_usd":0,"usd_per_gpu_hour":0},"power":{"system_W":0}}')
run 1 run "$s" --tokens 1e9 "${bare[@]}"
complains 'cannot be priced: for renting say price.usd_per_gpu_hour of the machine (--gpu-hour-usd); for owning say price.system_usd of the machine (--price-usd), power.system_W'
run 0 run "$s" --tokens 1e9 "${bare[@]}" --gpu-hour-usd 2 --quiet
holds "^  owned       not known: say price.system_usd"
run 1 run "$s" --tokens 1e9 "${bare[@]}" --gpu-hour-usd 2 --carbon 300
complains "^memwall: --carbon: is about energy, .*say power.system_W of the machine (--power-w)"
run 1 run "$s" --tokens 1e9 --amortise 3
complains "is about owned machines, .*say --electricity"
run 1 run "$s" --tokens 1e18
complains "would take .* years"
run 1 run "$s" --tokens 1e19
complains "^memwall: --tokens: expected a number from 1 to 1e+18 (tokens), found \"1e19\""
run 1 run "$s" --tokens nan
complains "^memwall: --tokens: expected a number"
run 1 run "$s" --days 0
complains "^memwall: --days: expected a number from 0.001 to"
run 1 run "$s" --pue 1.2
complains "needs --tokens N or --days D"
run 1 run "$s" --tokens 1e9 --utilisation 80
complains "^memwall: --utilisation: expected a number from 0.01 to 1"
exit $((failures > 0))
