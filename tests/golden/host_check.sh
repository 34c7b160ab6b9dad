#!/usr/bin/env bash
# The table and the verdict of validate/host_check.sh, from results as `memwall validate --json` prints them. usage: host_check.sh BINARY
. "$(dirname "$0")/command.bash"
check=$(realpath "$here/../../validate/host_check.sh")
"$binary" validate "$here/../../validate/scenarios/resident.json" --executor sim --json >"$folder/self.json" || exit 1

verdict() { # expected exit, the row's pattern, sed commands that change the result
    mkdir -p "$folder/one"
    sed -e "$3" "$folder/self.json" >"$folder/one/it.json"
    (cd "$folder" && bash "$check" --table one) >"$folder/out" 2>"$folder/err"
    [ $? = "$1" ]
    expect "exit $1: $3" $?
    holds "$2"
}

verdict 0 '| it | [0-9.]* | [0-9.]* | 0.0 % | 0.0 % | 0.0 % | equal |' ''
verdict 0 '| differ as a race may |' 's/"memory_equal": true/"memory_equal": false/'
verdict 1 '| impossible |' 's/"memory_equal": true/"memory_equal": false/; s/"memory_possible": true/"memory_possible": false/'
verdict 0 '| differ, possible or not is not known |' 's/"memory_equal": true/"memory_equal": false/; s/"memory_possible": true/"memory_possible": null/'
verdict 0 '| 10.0 % | 0.0 % |' 's/"step_error": 0/"step_error": 0.1/'
verdict 1 '| 10.1 % | 0.0 % |' 's/"step_error": 0/"step_error": 0.101/'
verdict 1 '| 0.0 % | 10.1 % | 0.0 % | equal |' '/"op_error"/,/}/s/"median": 0/"median": 0.101/'
verdict 0 '| 0.0 % | 0.0 % | 90.0 % | equal |' '/"op_error"/,/}/s/"p90": 0/"p90": 0.9/'
verdict 1 '| it | failed |' '/step_error/d'
[ "$failures" = 0 ]
