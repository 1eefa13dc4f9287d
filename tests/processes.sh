# processes.sh: functions of scripts that start processes and wait for them; they read it after shell.sh. `run_at_once`
# runs several tests at the same time, each in a folder and a shell of its own, as tests of processes mostly wait.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# until_true SECONDS COMMAND...: repeats a command until it succeeds; fails if it does not succeed in time. Waits in `read`,
# as a process for each turn would keep the CPUs from the processes that are waited for.
until_true() {
  local turns=$(($1 * 50)) silence
  shift
  "$@" && return
  exec {silence}<> <(:)
  while read -rt 0.02 -u "$silence"; ! "$@" && [ $((--turns)) -gt 0 ]; do :; done
  exec {silence}>&-
  [ "$turns" -gt 0 ]
}
# Sets `state` to the letter of the state of a process; fails if there is none.
read_state() { # PID
  { read -r state <"/proc/$1/stat"; } 2>/dev/null || return
  state=${state##*) } && state=${state:0:1}
}
lives() { local state && read_state "$1" && [ "$state" != Z ]; }
dead() { ! lives "$1"; }
stopped() { local state && read_state "$1" && [ "$state" == T ]; }
not_stopped() { ! stopped "$1"; }
exists() { for file; do [ -s "$file" ] || return 1; done; }

run_in_folder() { # test_NAME
  mkdir "$scratch/$1" && cd "$scratch/$1" || exit 1
  "$1"
  if [ "$complaints" -gt 0 ]; then echo "FAILED ${1#test_}"; elif [ "$skips" -gt 0 ]; then echo "skipped ${1#test_}"; else echo "ok ${1#test_}"; fi
}

# Eight tests at a time: more would take so much of two slow CPUs that agents, which may be silent for 4 s, are given up.
# Prints the results in the order of names, and the summary. Returns 1 if a test failed.
run_at_once() {
  local name cases begun=0
  cases=$(declare -F | awk '$3 ~ /^test_/ { print $3 }')
  for name in $cases; do
    [ $((begun++)) -lt 8 ] || wait -n
    (run_in_folder "$name") >"$scratch/$name.log" 2>&1 &
  done
  wait
  for name in $cases; do cat "$scratch/$name.log"; done
  passed=$(cat "$scratch"/*.log | grep -c '^ok ')
  skipped=$(cat "$scratch"/*.log | grep -c '^skipped ')
  failed=$(($(echo "$cases" | wc -l) - passed - skipped)) # a case that ended without a result has failed
  echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
  [ "$failed" -eq 0 ]
}
