#!/usr/bin/env bash
# memwall fit: exit codes, keys, the largest model and batch against memwall run, what is refused. usage: fit.sh BINARY
. "$(dirname "$0")/command.bash"

cat >"$folder/v100.json" <<'JSON'
{ "schema": "memwall.scenario/1", "name": "one V100", "machine": "yard-v100", "gpus": 1, "software": "pytorch-eager", "recompute": "full" }
JSON
s=$folder/v100.json

# PatrickStar's figure: PyTorch alone trains 1B on a V100 of 32 GB, 2B not. The scenario needs no model of its own.
run 0 fit "$s" --models patrickstar-ladder
holds "^The largest model that fits: gpt2_1b (1.076 billion parameters), .* tokens/s"
holds "^gpt2_2b (2.083 billion parameters) does not fit: gpu 0 would need .* and has 31.7 GiB"
holds "^  optimizer "
grep -q "^memwall: gpt2_1b fits: " "$folder/err" && grep -q "^memwall: gpt_175b does not fit: gpu 0" "$folder/err"
expect "  progress on standard error" $?
run 0 fit "$s" --models "gpt2_4b, gpt2_1b,gpt2_2b" --json --quiet
for key in '"schema": "memwall.fit/1"' '"largest":' '"next":' '"full":' '"space": "device"' '"device": "gpu 0"' '"capacity_bytes":' '"needed_bytes":' '"by_class":' \
    '"tried":' '"tokens_per_s":' '"simulations": 3' '"monotone": true'; do
    holds "$key"
done
[ ! -s "$folder/err" ]
expect "  --quiet: standard error stays empty" $?
if command -v python3 >/dev/null; then
    python3 - "$folder/out" <<'PY'
import json, sys
fit = json.load(open(sys.argv[1]))
assert fit["largest"]["model"] == "gpt2_1b" and fit["next"]["model"] == "gpt2_2b"
assert fit["full"]["needed_bytes"] > fit["full"]["capacity_bytes"] and sum(fit["full"]["by_class"].values()) == fit["full"]["needed_bytes"]
assert [t["model"] for t in fit["tried"]] == ["gpt2_1b", "gpt2_2b", "gpt2_4b"] and [t["fits"] for t in fit["tried"]] == [True, False, False]
PY
    expect "  the figures agree with each other" $?
fi
run 0 fit "$s" --models sc21-ladder,gpt2 --all --quiet
holds "The largest model that fits: gpt3-1.7b "
[ "$(grep -c "^  gpt3-.* no " "$folder/out")" = 9 ]
expect "  --all tries all" $?

# Nothing fits; the answer is printed all the same.
run 2 fit "$s" --models gpt3_6b,gpt3_8b
holds "^None of 2 models fits"
run 2 fit "$s" --set model=gpt3_6b --batch --json
holds '"fits": false'
holds '"largest": null'

# The largest batch: it runs, and one more does not.
run 0 fit "$s" --set model=gpt2_1b --batch --quiet
batch=$(sed -n 's/^The largest that fits: micro-batch \([0-9]*\) .*/\1/p' "$folder/out")
run 0 run "$s" --set model=gpt2_1b --set training.micro_batch="$batch"
run 2 run "$s" --set model=gpt2_1b --set training.micro_batch=$((batch + 1))
run 0 fit "$s" --set gpus=2 --set model=gpt2_1b --set training.global_batch=8 --batch --json --quiet --out "$folder/deep/er"
cmp -s "$folder/out" "$folder/deep/er/fit.json"
expect "  --out writes fit.json" $?

# A model that the scenario cannot train is passed over, and said so.
run 0 fit "$s" --set gpus=4 --set parallel.pipeline=4 --models gpt2_1b,gpt3_10b
holds "gpt3_10b (10.22 billion parameters) was refused"
holds "do not divide evenly"

run 1 fit "$s"
complains "say what shall grow"
run 1 fit "$s" --models gpt2 --batch
complains "exclude each other"
run 1 fit "$s" --set model=gpt2 --batch --all
complains "--all is for --models"
run 1 fit "$s" --batch
complains 'missing key "model"'
run 1 fit "$s" --models gpt2_1c
complains 'did you mean "gpt2_1b"'
complains "ladder: patrickstar-ladder, sc21-ladder"
run 1 fit "$s" --models gpt2,,gpt2-xl
complains "an empty name"
run 1 fit "$s" --models gpt2 --set parallel.tensr=2
complains "tensor"
run 1 fit "$folder/absent.json" --models gpt2,gpt2-xl
complains "absent.json"
run 1 fit - --models gpt2
complains "not standard input"
run 1 fit "$s" --models gpt2 --executor host
complains "runs nothing"
[ "$failures" = 0 ]
