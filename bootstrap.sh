#!/usr/bin/env bash
# memwall's first minute: install what is missing, build, and show it or test it.
#
#   ./bootstrap.sh demo    simulate GPT-3 175B on eight DGX A100; results, trace and plots go to out/demo
#   ./bootstrap.sh build   build/memwall
#   ./bootstrap.sh test    release and sanitizer builds, all tests (-Werror), the demo
#
# Asks nothing. Needs Debian 12 (or a relative with apt); works offline once installed.
set -euo pipefail
cd "$(dirname "$0")"

packages=(gcc make cmake pkg-config libcjson-dev zlib1g-dev libgsl-dev libopenblas-dev libhwloc-dev libsqlite3-dev libglpk-dev gnuplot-nox fonts-dejavu-core)
test_packages=(clang clang-format clang-tidy libopenmpi-dev)
# For the tests of HTML reports alone: a browser (about 100 MB) and a second XML parser. Where they cannot be had those tests are skipped.
optional_packages=(chromium libxml2-utils)

install_missing() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    local sudo=''
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "bootstrap: these packages are missing, and installing needs root: ${missing[*]}" >&2
            exit 1
        fi
        sudo='sudo'
    fi
    echo "bootstrap: installing ${missing[*]}" >&2
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

build() { # preset
    cmake --preset "$1" >/dev/null
    cmake --build --preset "$1" -j "$(nproc)" -- --no-print-directory -s
}

demo() {
    install_missing "${packages[@]}"
    build release
    build/memwall run scenarios/gpt3-175b-dgx-a100.json --out out/demo
}

case "${1:-}" in
demo) demo ;;
build)
    install_missing "${packages[@]}"
    build release
    echo "built build/memwall"
    ;;
test)
    install_missing "${packages[@]}" "${test_packages[@]}"
    (install_missing "${optional_packages[@]}") || echo "bootstrap: going on without ${optional_packages[*]}" >&2
    build release
    ctest --preset release
    echo "accuracy against measured data (limits were enforced by the tests above):"
    tests/accuracy/table.sh build
    build asan
    ctest --preset asan -LE "accuracy|lint"
    demo
    echo "all tests passed"
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 1
    ;;
esac
