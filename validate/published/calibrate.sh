#!/usr/bin/env bash
# The shipped machines' measured constants from public measurements alone: the tables of ../shared/data/measured and the points typed in this folder, by `memwall
# calibrate --from`. What they do not tell keeps the library file's value and source. Written into OUT/NAME.json, one for each machine; with the library's own
# files as bases it reproduces them (tests/golden/published_calibration.sh). To ship new constants: build, run this into hw_models/machines, build again; twice, for hgx-h200 stands
# on dgx-h100.
#
# usage: validate/published/calibrate.sh MEMWALL SHARED OUT
set -euo pipefail
memwall=$1
measured=$2/data/measured
out=$3
typed=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
mkdir -p "$out"

# machine, base, then --from and --system
calibrate() {
    local name=$1 base=$2
    shift 2
    "$memwall" calibrate --quiet --name "$name" --base "$base" --out "$work/$name.new.json" "$@" >"$work/$name.txt"
    mv "$work/$name.new.json" "$work/$name.json"
    echo "$name:"
    sed 's/^/  /' "$work/$name.txt"
}

# A table of several machines needs --system, and the two tables name the A100 differently: one after the other. The kernels are of an A100-PCIe: another board, with a plateau of its own.
calibrate dgx-a100-80gb dgx-a100-80gb --system a100 --from "$measured/vtrain_nccl_allreduce_lut.csv" \
    --from "$typed/dgx-a100-80gb.collectives.points.jsonl"
calibrate dgx-a100-80gb "$work/dgx-a100-80gb.json" --system a100_pcie --from "$measured/simumax_measured_kernel_efficiency.csv" \
    --from "$typed/dgx-a100-80gb.points.jsonl"
calibrate dgx1-v100-32gb dgx1-v100-32gb --system v100 --from "$measured/vtrain_nccl_allreduce_lut.csv"
calibrate dgx-h100 dgx-h100 --from "$typed/dgx-h100.points.jsonl"
calibrate hgx-h200 hgx-h200 --from "$typed/hgx-h200.points.jsonl"
calibrate dgx-b200 dgx-b200 --system b200_bf16_ceperm --from "$measured/simumax_measured_kernel_efficiency.csv" \
    --from "$typed/dgx-b200.points.jsonl"

for machine in dgx-a100-80gb dgx1-v100-32gb dgx-h100 hgx-h200 dgx-b200; do
    cp "$work/$machine.json" "$out/$machine.json"
done
