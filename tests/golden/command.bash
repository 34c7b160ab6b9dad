# Sourced by the scripts of this folder: run memwall, look at its exit code, its two streams and its files. $1 is the binary.
set -u
binary=$1
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
failures=0

# The whole output against NAME.txt; UPDATE_GOLDEN=1 writes it anew.
compare() { # name, arguments...
    local expected="$here/$1.txt" actual
    shift
    actual=$("$binary" "$@" 2>&1; echo "exit $?")
    if [ "${UPDATE_GOLDEN:-}" = 1 ]; then
        printf '%s\n' "$actual" >"$expected"
    elif ! diff -u "$expected" <(printf '%s\n' "$actual"); then
        echo "FAIL memwall $*"
        failures=$((failures + 1))
    else
        echo "ok   memwall $*"
    fi
}

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

holds() { # pattern: in standard output
    grep -q -- "$1" "$folder/out"
    expect "  prints $1" $?
}

complains() {
    grep -q -- "$1" "$folder/err"
    expect "  complains: $1" $?
    [ ! -s "$folder/out" ]
    expect "  standard output stays empty" $?
}
