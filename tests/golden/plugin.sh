#!/usr/bin/env bash
# Strategies in a shared object: compiled against what is installed alone, added by --plugin, refused when they are not ours. usage: plugin.sh BINARY
. "$(dirname "$0")/command.bash"
export LSAN_OPTIONS=detect_leaks=0 # dlopen of a broken file keeps what the loader holds

prefix=$folder/prefix
cmake --install "$(dirname "$binary")" --prefix "$prefix" >/dev/null 2>"$folder/err" || cat "$folder/err"
installed=$prefix/bin/memwall
[ -x "$installed" ] && [ -e "$prefix/lib/memwall/memwall_exec_host.so" ] && [ -e "$prefix/include/memwall/memwall.h" ]
expect "the program, its executors and the header are installed" $?
! grep -rnE "DESIGN\.md|facts/" "$prefix/include/memwall"
expect "installed headers cite nothing that only the developers have" $?
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
flags=$(pkg-config --cflags memwall)
make_plugin() { # file.c, file.so
    cc -std=c17 -Wall -Wextra -Werror -shared -fPIC $flags "$1" -o "$2"
    expect "compiles: $1" $?
}
binary=$installed
mine=$folder/mine.so
make_plugin "$prefix/share/memwall/plugin/example.c" "$mine" # as plugin.h says

cat >"$folder/s.json" <<'JSON'
{ "schema": "memwall.scenario/1", "machine": "dgx-a100-80gb", "gpus": 4, "software": "megatron",
  "model": { "family": "gpt", "layers": 16, "hidden": 1024, "heads": 16, "vocab": 1024, "max_sequence": 128 },
  "training": { "global_batch": 8 }, "parallel": { "pipeline": 4 } }
JSON
s=$folder/s.json

# ---- what it adds is what built-in ones are ----
run 0 list orders --plugin "$mine"
holds eager-1f1b
run 0 pipeline --order eager-1f1b --stages 4 --microbatches 8 --plugin "$mine"
holds eager-1f1b
run 0 run "$s" --plugin "$mine" --set parallel.pipeline_order=eager-1f1b --set memory_policy=late-host-adam
holds "hidden behind other work, a rank: offload"
for again in 1 2; do
    run 0 run "$s" --plugin="$mine" --set parallel.pipeline_order=eager-1f1b --set memory_policy=late-host-adam --json
    mv "$folder/out" "$folder/again$again"
done
cmp "$folder/again1" "$folder/again2"
expect "the same bytes again" $?
(cd "$folder" && "$installed" run s.json --plugin mine.so --set memory_policy=late-host-adam >out 2>err)
expect "a bare file name is a file of this folder" $?
(cd "$folder" && "$installed" list scenarios >out 2>err) && grep -q "share/memwall/scenarios/gpt3-175b-dgx-a100.json" "$folder/out"
expect "where there are no scenarios the installed ones are listed" $?
run 1 run "$s" --set memory_policy=late-host-adam
complains 'unknown memory policy "late-host-adam"'

# ---- a policy of activations on the kit, as strategies/policies/activation_kit.h says: half of what vdnn moves ----
kit=$prefix/include/memwall/strategies/policies/activation_kit.h
{
    echo '#include <memwall.h>'
    echo '#include "strategies/policies/activation_kit.h"'
    sed -n '/^ \*     static void begin/,/^ \*     }$/s/^ \* *//p' "$kit"
    echo 'static const struct memory_policy half = { .abi = MEMORY_POLICY_ABI, .name = "half", .summary = "",'
    sed -n 's/^ \* *\.\.\. \(.begin_rank = begin.*\) \*\/$/\1 };/p' "$kit"
    echo 'static const struct memory_policy *const policies[] = { &half };'
    echo 'const struct memwall_plugin memwall_plugin = { .abi = MEMWALL_PLUGIN_ABI, .headers = MEMWALL_HEADERS, .policies = policies, .policy_count = 1 };'
} >"$folder/half.c"
make_plugin "$folder/half.c" "$folder/half.so"
for policy in vdnn half; do
    run 0 schedule "$s" --plugin "$folder/half.so" --set memory_policy="$policy"
    grep -c " copy_d2h " "$folder/out" >"$folder/$policy"
done
counts=$(cat "$folder/vdnn" "$folder/half" | xargs)
[ "$counts" = "128 64" ]
expect "of 16 layers and 8 micro-batches every copy, and every second: $counts" $?
run 0 run "$s" --plugin "$folder/half.so" --set memory_policy=half
holds "pinned memory of server 0"

# ---- its planner plans as the built-in ones do: budgets, reasons, a plan that runs ----
run 0 list planners --plugin "$mine"
holds zero-ladder
l="--set parallel.pipeline=1 --planner zero-ladder"
run 0 plan "$s" --plugin "$mine" $l --json --quiet
holds '"planner": "zero-ladder"'
holds '"simulated": 4'
holds 'ZeRO-3 would take'
peaks=$(sed -n 's/.*ZeRO-[0-9] would take .* s and \([0-9.]*\) GiB.*/\1/p' "$folder/out")
[ "$(echo "$peaks" | wc -l)" = 3 ]
expect "  the other three rungs, each with its memory: ${peaks//$'\n'/ }" $?
least=$(echo "$peaks" | sort -g | head -1)
run 0 plan "$s" --plugin "$mine" $l --budget-gib "$least"5 --out "$folder/ladder.json" --quiet
run 0 run "$s" --plan "$folder/ladder.json" --json --quiet
holds '"step_time_s":'
run 2 plan "$s" --plugin "$mine" $l --budget-gib 1 --json --quiet
holds '"found": false'
holds 'no ZeRO stage fits 1 GiB'
run 1 plan "$s" --planner zero-ladder
complains 'unknown planner "zero-ladder"'

# ---- rows of a sweep are kept by plug-in too ----
cat >"$folder/sweep.json" <<JSON
{ "schema": "memwall.sweep/1", "name": "p", "base": "s.json", "axes": [ { "path": "memory_policy", "values": ["resident", "late-host-adam"] } ] }
JSON
run 0 sweep "$folder/sweep.json" --db "$folder/a.db" --plugin "$mine"
run 0 sweep "$folder/sweep.json" --db "$folder/a.db" --plugin "$mine"
holds '2 found in the database, 0 computed'

# ---- every function that the kit promises can be called ----
{
    echo '#include <memwall.h>'
    echo '#include "strategies/policies/activation_kit.h"'
    echo '#include <stdint.h>'
    echo 'typedef void (*any)(void);'
    echo '#pragma GCC diagnostic ignored "-Wcast-function-type"'
    echo 'extern const any all[]; const any all[] = {'
    for header in sim/plan/lower.h sim/plan/order.h sim/ir/builder.h sim/base/arena.h sim/base/status.h strategies/planners/planner.h strategies/planners/oracle.h strategies/policies/activation_kit.h; do
        gcc -std=c17 -fpreprocessed -dD -E "$prefix/include/memwall/$header" | tr '\n' ' ' | grep -oE '\b(lower|order|builder|arena|error|status|planner|oracle|activation)_[a-z0-9_]+\(' | tr -d '(' | sort -u
    done | grep -vx arena_array | sed 's/.*/    (any)&,/'
    echo '};'
    echo 'static uint32_t build(const struct order_request *r, uint32_t s, struct order_step *o) { (void)r; (void)s; (void)o; return 0; }'
    echo 'static const struct pipeline_order bad = { .abi = PIPELINE_ORDER_ABI, .name = "builds-nothing", .summary = "builds nothing", .virtual_stages = 1, .model_replicas = 1, .build = build };'
    echo 'static const struct pipeline_order *const orders[] = { &bad };'
    echo 'const struct memwall_plugin memwall_plugin = { .abi = MEMWALL_PLUGIN_ABI, .headers = MEMWALL_HEADERS, .orders = orders, .order_count = 1 };'
} >"$folder/all.c"
names=$(grep -c '(any)' "$folder/all.c")
[ "$(grep -c '(any)lower_' "$folder/all.c")" -gt 30 ]
expect "names found in the headers: $names" $?
make_plugin "$folder/all.c" "$folder/all.so"
run 0 list orders --plugin "$folder/all.so"
holds builds-nothing
run 3 run "$s" --plugin "$folder/all.so" --set parallel.pipeline_order=builds-nothing
complains 'builds-nothing'

# ---- what is refused, by name ----
refused() { # pattern, file
    run 1 list orders --plugin "$2"
    complains "$1"
}
refused 'missing.so' "$folder/missing.so"
refused 'is a folder, expected a file' "$folder"
echo 'not an object' >"$folder/text.so"
refused 'text.so: cannot be loaded as a shared object' "$folder/text.so"
head -c 12000 "$mine" >"$folder/cut.so"
refused 'is cut short' "$folder/cut.so"
head -c 80 "$mine" >"$folder/cut.so"
refused 'is cut short' "$folder/cut.so"
run 1 list orders --plugin "$mine" --plugin "$mine"
complains 'there is a pipeline order "eager-1f1b" already: choose another name'
variant() { # pattern, C of the entry and its order
    { echo '#include <memwall.h>'; echo "$2"; } >"$folder/v.c"
    make_plugin "$folder/v.c" "$folder/v.so"
    refused "$1" "$folder/v.so"
}
order='static uint32_t build(const struct order_request *r, uint32_t s, struct order_step *o) { (void)r; (void)s; (void)o; return 0; }
static const struct pipeline_order one = { .abi = PIPELINE_ORDER_ABI, .name = NAME, .summary = SUMMARY, .virtual_stages = 1, .model_replicas = 1, .build = BUILD };
static const struct pipeline_order *const orders[] = { &one, &one };
const struct memwall_plugin memwall_plugin = { .abi = MEMWALL_PLUGIN_ABI, .headers = HEADERS, .orders = orders, .order_count = COUNT };
uint32_t use(void); uint32_t use(void) { return build(0, 0, 0); }'
with() { # name, summary, build, headers, count
    echo "${order//NAME/$1}" | sed -e "s/SUMMARY/$2/; s/BUILD/$3/; s/HEADERS/$4/; s/COUNT/$5/"
}
variant 'was compiled with the headers of another memwall (0.0.1+old; this one has .*): install those of this one .* and compile it again with them' "$(with '"x"' '""' build '"0.0.1+old"' 1)"
variant 'without a usable name' "$(with '"Bad Name"' '""' build MEMWALL_HEADERS 1)"
variant 'without a usable name' "$(with 0 '""' build MEMWALL_HEADERS 1)"
variant 'needs a summary' "$(with '"x"' 0 build MEMWALL_HEADERS 1)"
variant '"x" lacks `build`' "$(with '"x"' '""' 0 MEMWALL_HEADERS 1)"
variant '"1f1b" already' "$(with '"1f1b"' '""' build MEMWALL_HEADERS 1)"
variant '"x" already' "$(with '"x"' '""' build MEMWALL_HEADERS 2)"
variant 'has no order, no policy and no planner' "$(with '"x"' '""' build MEMWALL_HEADERS 0)"
nothing='const struct memwall_plugin memwall_plugin = { .abi = MEMWALL_PLUGIN_ABI, .headers = MEMWALL_HEADERS,'
variant 'pipeline order 0 of its list is missing' "$nothing .order_count = 1 };"
variant 'memory policy 0 of its list is missing' "static const struct memory_policy *const policies[1]; $nothing .policies = policies, .policy_count = 1 };"
variant 'planner 0 of its list is missing' "$nothing .planner_count = 1 };"
variant 'it exports no `const struct memwall_plugin memwall_plugin`' 'int nothing; '
variant 'cannot be loaded as a shared object.*no_such_function' 'void no_such_function(void); void use(void); void use(void) { no_such_function(); }'

exit "$((failures > 0))"
