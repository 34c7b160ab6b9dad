#!/usr/bin/env bash
# memwall report: of a scenario, of a result, of a sweep; what it refuses. The pages are read by parsers that know nothing of memwall (python3, xmllint where they are). usage: report.sh BINARY
. "$(dirname "$0")/command.bash"
s="$here/../../scenarios/two-gpus-1f1b.json"
fit="$here/../../scenarios/gpt2-xl-one-gpu-offload.json"
page="$folder/page.html"

whole() { # file, JSON of the result or "": well-formed, self-contained, labelled, with the result's figures
    [ -z "$(compgen -G "$1.*.tmp")" ]
    expect "  nothing half-written beside it" $?
    if command -v xmllint >/dev/null; then
        xmllint --noout "$1"
        expect "  xmllint reads it" $?
    fi
    command -v python3 >/dev/null || return 0
    python3 - "$1" "${2:-}" <<'PY'
import html.parser, json, sys, xml.etree.ElementTree as tree
text = open(sys.argv[1], encoding="utf-8").read()
root = tree.fromstring(text.split("\n", 1)[1])
names = lambda e: e.tag.split("}")[1]
every = list(root.iter())
ids = [e.get("id") for e in every if e.get("id")]
assert len(ids) == len(set(ids)), "an id twice"
for e in every:
    for reference in (e.get("aria-labelledby") or "").split():
        assert reference in ids, reference
    assert e.get("src") is None and (e.get("href") or "#")[0] == "#", "something from outside"
    if names(e) == "svg" and e.get("aria-hidden") != "true":
        assert e.get("role") == "img" and e.get("aria-labelledby") and e.get("viewBox"), "a picture without a label"
    if names(e) == "table":
        assert [names(c) for c in e][:3] == ["caption", "thead", "tbody"], "a table without caption or head"
        width = len(e.find(".//{*}thead/{*}tr"))
        assert all(len(row) == width for row in e.findall(".//{*}tbody/{*}tr")), "a row of another width"
        assert all(th.get("scope") for th in e.iter() if names(th) == "th")
assert "url(" not in text and "@import" not in text and text.count("http") == text.count("http://www.w3.org/")
class Open(html.parser.HTMLParser):  # as HTML, not as XML: the same elements
    count, stack = 0, []
    def handle_starttag(self, tag, attrs): self.count += 1
    def handle_startendtag(self, tag, attrs): self.count += 1
parser = Open(); parser.feed(text); parser.close()
assert parser.count == len(every), (parser.count, len(every))
headings = [int(names(e)[1]) for e in every if names(e) in ("h1", "h2", "h3")]
assert headings[0] == 1 and headings.count(1) == 1 and all(b - a <= 1 for a, b in zip(headings, headings[1:]))
values = {float(e.get("value")) for e in every if names(e) == "data"}
if sys.argv[2]:
    r = json.load(open(sys.argv[2]))
    wanted = [r["step_time_s"], r["tokens_per_s"]] + ([r["mfu"]] if r["mfu"] else [])
    wanted += [d[k] for d in r["devices"] for k in ("peak_bytes", "peak_reserved_bytes")]
    wanted += [v for row in r["time_breakdown"] for v in row["exposed"].values() if v > 0]
    wanted += [x[k] for x in r.get("sensitivity", []) if x["present"] and x["step_time_s"] for k in ("change", "step_time_s")]
    wanted += [c["share"] for c in r.get("critical_path", {}).get("causes", [])]
    missing = [w for w in wanted if w not in values]
    assert not missing, missing
PY
    expect "  python3 reads it: labels, tables, nothing from outside, the result's figures" $?
}

has() { # file, text
    grep -q -- "$2" "$1"
    expect "  has $2" $?
}

run 0 report --help
holds "one HTML file to decide by"

# of a scenario
run 0 report "$s" --out "$page" --quiet --uncertainty 20 --set machine=dgx-a100-80gb --set gpus=2
holds "^Written to $page ([0-9]* kB): a report of the scenario"
whole "$page"
for id in answer timeline memory links causes binds certainty assumptions repeat; do
    has "$page" "<section id=\"$id\""
done
has "$page" "One training step on 2 GPUs of dgx-a100-80gb, simulated by the sim executor of memwall. .*: pipeline 2 (1f1b); .* micro-batches of .*; memory policy resident"
has "$page" "The critical path"
# figures that would puzzle say why: executed below model FLOPs, a rate far below what the link can carry
has "$page" "Executed (HFU): .*, causal attention leaves out the masked half"
has "$page" "Each column is the mean of .*; the dashed line is what it can carry, [0-9.]* GB/s"
has "$page" "The dashed line is what the link can carry"
has "$page" "--set machine=dgx-a100-80gb"
cp "$page" "$folder/first.html"
run 0 report "$s" --out "$page" --quiet --uncertainty 20 --set machine=dgx-a100-80gb --set gpus=2
cmp -s "$page" "$folder/first.html"
expect "  the same again, byte by byte" $?
run 0 report "$s" --quick --quiet
has "$folder/out" "<!DOCTYPE html>"
! grep -q "re-simulated" "$folder/out"
expect "  --quick leaves what binds out" $?
run 0 report "$s" --quick --quiet --json --out "$page"
holds '"of": "scenario"'
mkdir "$folder/into"
run 0 report "$s" --quick --quiet --out "$folder/into"
[ -s "$folder/into/report.html" ]
expect "  a folder gets report.html" $?

run 0 report "$here/../../scenarios/gpt3-175b-dgx-a100.json" --out "$page" --quiet --quick
has "$page" "Each column is the mean of .* that it can carry are far above this picture"
has "$page" "All on one scale: a picture's full height is .* of what its link can carry"
has "$page" "Executed (HFU): .*, with recomputation"
# money: what is paid each way, what it takes, what the deadline takes, what it rests on; nothing is said twice or left over
run 0 report "$here/../../scenarios/gpt3-175b-dgx-a100.json" --out "$page" --quiet --quick --tokens 300e9 --days 60 --electricity 0.12
has "$page" "<caption[^>]*>Money: what is paid"
has "$page" "all tokens</th><td class=.n.><data value=.[0-9.]*.>\$773,090</data></td><td class=.n.><data value=.[0-9.]*.>\$549,911"
has "$page" "of it electricity</th><td class=.s r.>in the rent</td>"
has "$page" "to buy the servers, at once</th><td class=.s r.>-</td><td class=.n.><data value=.2000000.>\$2,000,000</data>"
has "$page" "in time</th><td class=.s r.>"
has "$page" "<caption[^>]*>What the deadline takes"
has "$page" "a server</th><td class=.n.><data value=.250000.>\$250,000</data></td><td>2021, recalled, not read in a source: an estimate"
has "$page" "power of a server at work</th><td class=.n.><data value=.6500.>6,500 W"
! grep -q "Further figures" "$page"
expect "  nothing left over" $?
run 0 report "$here/../../scenarios/gpt3-175b-dgx-a100.json" --out "$page" --quiet --quick --tokens 1e9 --uncertainty 20
has "$page" "all tokens</th>.*<td class=.s r.>not known</td>"
has "$page" "what is not said of it</th><td class=.s r.>-</td><td class=.s r.>electricity usd per kwh</td>"
has "$page" "Cost, rented<b>.*per trillion tokens; 5 to 95 %: .[0-9,.]* to "

run 0 report "$s" --out "$page" --quiet --quick --tokens 1e12 --days 30 # no price of electricity: said once
has "$page" "<caption[^>]*>What the deadline takes"
! grep -q "Further figures" "$page"
expect "  nothing left over of a deadline without the price of electricity" $?

run 0 report "$fit" --out "$page" --quiet --quick --mtbf-hours 50000 --checkpoint-GBps 10
has "$page" "size of a checkpoint</th>"
has "$page" "time to write a checkpoint</th>"
has "$page" "of the time writes checkpoints</th>"
! grep -q "row\" class=\"s\">\(checkpoint\|lost\|mtbf\|devices\)</th>" "$page"
expect "  each figure of failures has words of its own" $?

# of a result: the folder, the file in it, the file alone, one that belongs to other files
run 0 run "$fit" --out "$folder/result" --sensitivity --critical-path --quiet --json
cmp -s "$folder/out" "$folder/result/result.json"
expect "  result.json is what --json prints" $?
run 0 report "$folder/result" --out "$page"
whole "$page" "$folder/result/result.json"
has "$page" "memwall run .*--sensitivity --critical-path"
has "$page" "<section id=\"timeline\""
run 0 report "$folder/result/result.json" --out "$folder/second.html"
[ "$(grep -c '<section' "$page")" = "$(grep -c '<section' "$folder/second.html")" ]
expect "  the file in its folder says as much" $?
"$binary" report - --out "$page" <"$folder/result/result.json" >"$folder/out"
expect "reads standard input" $?
(program=$(realpath "$binary") && cd "$folder" && echo >./- && "$program" report - --out "$page" <"$folder/result/result.json" >"$folder/out")
expect "reads standard input, a file called - or not" $?
whole "$page" "$folder/result/result.json"
mkdir "$folder/alone"
cp "$folder/result/result.json" "$folder/alone/mine.json"
run 0 report "$folder/alone/mine.json" --out "$page"
whole "$page" "$folder/alone/mine.json"
has "$page" "Only the result itself is there"
cp "$folder/result"/*.json "$folder/result"/*.csv "$folder/alone"
sed -i 's/"name": "/"name": "not /' "$folder/alone/result.json"
run 0 report "$folder/alone" --out "$page"
has "$page" "belong to another one"

# what does not fit is a report too
run 2 report "$s" --quiet --quick --out "$page" --set training.micro_batch=4096 --set training.global_batch=8192
has "$page" "It does not fit"
whole "$page"

# of a sweep
cat >"$folder/sweep.json" <<JSON
{ "schema": "memwall.sweep/1", "name": "small <b>", "base": "$s",
  "axes": [ { "path": "training.micro_batch", "values": [1, 2, 4096] },
            { "path": "training.global_batch", "expression": "micro_batch * 4" },
            { "path": "parallel.tensor", "values": [1, 2] } ] }
JSON
run 0 sweep "$folder/sweep.json" --db "$folder/s.db" --quiet
run 0 report "$folder/s.db" --out "$page"
holds "a report of the sweep"
whole "$page"
for id in answer pareto reasons axes repeat; do
    has "$page" "<section id=\"$id\""
done
has "$page" "small &lt;b&gt;"
sed -i 's/"small/"other/' "$folder/sweep.json"
run 0 sweep "$folder/sweep.json" --db "$folder/s.db" --quiet
run 1 report "$folder/s.db"
complains "choose with --sweep ID from 1 (small <b>), 2 (other <b>)"
run 0 report "$folder/s.db" --sweep 2 --out "$page"
# points that cannot be computed: they are not called simulated, their missing value is "-", and where nothing fits there is no best
printf '{ "schema": "memwall.sweep/1", "name": "faults", "base": "%s", "axes": [ { "name": "x", "values": [0, 1, 2] }, { "path": "training.global_batch", "expression": "4 / x" } ] }' "$s" >"$folder/faults.json"
run 0 sweep "$folder/faults.json" --db "$folder/faults.db" --quiet
run 0 report "$folder/faults.db" --out "$page"
whole "$page"
has "$page" "<th scope=.row.[^>]*>-</th>"
has "$page" "The best by tokens a second"
! grep -q "<small>simulated in full" "$page"
expect "  nor called simulated" $?
sed -i 's/0, 1, 2/0, -1/' "$folder/faults.json"
run 2 sweep "$folder/faults.json" --db "$folder/none.db" --quiet
run 2 report "$folder/none.db" --out "$page"
! grep -q "The best by tokens a second" "$page"
expect "  no best where nothing fits" $?

# what it refuses
run 1 report "$folder/nothing.json"
complains "cannot open"
run 1 report "$folder/sweep.json"
complains "a sweep that has yet to run: memwall sweep"
echo '{ "schema": "memwall.result/9" }' >"$folder/bad.json"
run 1 report "$folder/bad.json"
complains "a result of another memwall"
echo '{ "schema": "memwall.plan/1" }' >"$folder/bad.json"
run 1 report "$folder/bad.json"
complains 'found "memwall.plan/1"; allowed are'
echo 'hello' >"$folder/bad.json"
run 1 report "$folder/bad.json"
complains "line 1 column 1"
mkdir "$folder/empty"
run 1 report "$folder/empty"
complains "there is no result.json in this folder"
head -c 3000 "$folder/s.db" >"$folder/cut.db"
run 1 report "$folder/cut.db"
complains "cut.db"
head -c 200 "$folder/result/ops.csv" >"$folder/ops.csv"
cp "$folder/ops.csv" "$folder/result/ops.csv"
run 1 report "$folder/result"
complains "result/ops.csv:[0-9]*: "
run 1 report "$folder/alone/mine.json" --set detail=op
complains "holds a result: --set is for scenarios"
run 1 report "$s" --sweep 1
complains "holds a scenario: --sweep is for databases of sweeps"
run 1 report "$s" --quick --quiet --json
complains "needs --out FILE"
run 1 report "$s" --quick --quiet --out "$folder/no/such/folder/page.html"
complains "no/such/folder"
exit $((failures > 0))
