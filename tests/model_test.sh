#!/bin/bash
# test: slow timeout=300
# model_test.sh SOURCE BUILD: checks the protocol of channels (tests/models/channel.pml) with spin: all states within
# the given bounds. Mutations of the model must fail, and traces of the real code must be runs of the model.
set -u
. "$1/tests/shell.sh"
source=$1 build=$2
for tool in spin gcc; do
  command -v "$tool" >/dev/null && continue
  echo "skipped: $tool not found"
  exit 77
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
cp "$source"/tests/models/* .

# verifier NAME FLAGS_OF_GCC FLAGS_OF_SPIN...: builds the verifier ./NAME.
verifier() {
  local name=$1 flags=$2
  shift 2
  mkdir "$name.d" && (
    cd "$name.d" || exit 1
    # shellcheck disable=SC2086
    spin "$@" -a ../channel.pml >spin.txt 2>&1 && gcc $flags -DCOLLAPSE -DNOFAIR -DMEMLIM=2000 -w -I.. -o "../$name" pan.c
  ) >"$name.txt" 2>&1
  [ -x "./$name" ] || complain "the verifier $name could not be built: $(cat "$name.txt" "$name.d/spin.txt")"
}

# verify WHAT NAME SETTINGS...: searches all states, and prints the size of the search. Writes out.txt.
verify() {
  local what=$1 name=$2 states depth memory
  shift 2
  env "$@" "./$name" -m1000000 -w22 >out.txt 2>&1
  states=$(awk '/states, stored/ { print $1; exit }' out.txt)
  depth=$(sed -n 's/.*depth reached \([0-9]*\),.*/\1/p' out.txt)
  memory=$(awk '/total actual memory usage/ { printf "%.0f", $1 }' out.txt)
  echo "  $what: $states states, depth $depth, $memory MB"
  grep -q 'errors: 0$' out.txt || complain "$what: $(grep '^pan:' out.txt | head -1)"
  if grep -q 'Search not completed\|search depth too small' out.txt; then complain "$what: the search is incomplete"; fi
  [ "${memory:-9999}" -lt 2000 ] || complain "$what: the search took $memory MB, expected less than 2000"
}

test_one_channel() {
  verifier base "-O2 -DSAFETY"
  local slots counted process mode=(marked counted)
  for slots in 2 3; do
    for counted in 0 1; do
      verify "1 channel, $slots slots, ${mode[counted]}, 2 operations of up to 5 messages" base \
        SLOTS=$slots COUNTED=$counted MESSAGES=5
      for process in end_of_link receiver; do # all statements of these processes must have been reached
        has "unreached in $process" "$(grep -A1 "unreached in proctype $process" out.txt)" "(0 of "
      done
    done
  done
  verify "1 channel, 1 slot, marked, 3 operations of up to 3 messages" base SLOTS=1 OPERATIONS=3
}

test_two_channels() {
  verify "2 channels in one direction, 2 slots each, marked, up to 3 messages" base CHANNELS=2 OPERATIONS=1
  verify "2 channels in both directions, 2 slots each, marked, up to 3 messages" base CHANNELS=2 OPERATIONS=1 BACK=1
  verify "2 channels in one direction, 2 shared slots, marked, up to 2 messages" base CHANNELS=2 OPERATIONS=1 SHARED=1 \
    MESSAGES=2
  [ -n "${TEST_LONG:-}" ] || return 0
  verify "2 channels in both directions, 2 slots each, counted, 2 operations of up to 2 messages" base \
    CHANNELS=2 COUNTED=1 BACK=1 MESSAGES=2
  verify "2 channels in one direction, 2 shared slots, marked, up to 3 messages" base CHANNELS=2 OPERATIONS=1 SHARED=1
  verify "2 channels in one direction, 2 slots each, marked, 2 operations of up to 3 messages" base CHANNELS=2
}

# The model has no progress label, so spin would report every cycle as a non-progress cycle. Without cycles, each run
# ends, and the other tests check that its end is valid.
test_no_cycle() {
  local counted
  verifier cycles "-O1 -DNP"
  for counted in 0 1; do
    env COUNTED=$counted ./cycles -l -m1000000 -w22 >out.txt 2>&1
    grep -qE "non-progress cycles[[:blank:]]+\+" out.txt || complain "spin did not search for cycles"
    has "cycles" "$(cat out.txt)" "errors: 0"
  done
}

# mutant NAME ERROR [SETTING]: checks that spin finds this error in the mutated model.
mutant() {
  verifier "$1" "-O0 -DSAFETY" "-D$1"
  env "${3:-SLOTS=2}" "./$1" -m1000000 -w20 >out.txt 2>&1
  has "$1" "$(cat out.txt)" "errors: 1"
  has "$1" "$(grep '^pan:1' out.txt)" "$2"
  echo "  $1: $(sed -n 's/^pan:1: \(.*\) (at depth \([0-9]*\))$/\1, after \2 steps/p' out.txt | cut -c 1-100)"
}

test_mutations() {
  mutant NO_DRAIN "use[from[c]]==n"
  mutant NO_HANDSHAKE "use[(1-me)]==n"
  mutant FLAG_FIRST "payload["
  mutant ONE_WORD "q_len(stores[c])==0"
  mutant CLEAR_LATE "payload["
  mutant NO_LAST "invalid end state"
  mutant ACK_RELEASED "q_len(stores[c])==0"
}

# The error of ONE_WORD comes from the shared word, not from stores that carry the value their source word has later.
test_two_words() {
  verifier TWO_WORDS "-O0 -DSAFETY" -DTWO_WORDS
  verify "one source word per kind of store" TWO_WORDS
}

# follow FILE: prints how many of the file's traces are runs of the model.
follow() {
  TRACES=$1 ./follow -E -m1000000 -w22 >out.txt 2>&1
  has "errors" "$(cat out.txt)" "errors: 0"
  sed -n 's/^traces: /  traces: /p' out.txt
}

# traces KIND COUNT LEGAL: writes COUNT traces of a kind; exactly LEGAL of them must be runs of the model.
traces() {
  "$build/tests/channel_trace_test" --write "$1.txt" "$2" "$seed" "$1" || complain "$1: the traces could not be written"
  TRACES=$1.txt ./follow -E -m1000000 -w22 >out.txt 2>&1
  sed -n "s/^traces: /  $1: /p" out.txt
  has "$1" "$(cat out.txt)" "errors: 0"
  has "$1" "$(cat out.txt)" "traces: $2, "
  is "$1, legal" "$(sed -n 's/^traces: .*legal: //p' out.txt)" "$3"
  [ "$3" -eq 0 ] || grep '^trace ' out.txt
}

test_traces() {
  local seed=${TEST_SEED:-$(date +%s%N)}
  echo "  TEST_SEED=$seed"
  verifier follow "-O2 -DSAFETY" -DTRACE
  traces schedules 1000 1000
  traces threads 50 50
  traces spoilt 200 0
}

# The order matters: one_channel builds the verifier that two_channels uses.
for name in one_channel two_channels no_cycle mutations two_words traces; do run_case "test_$name"; done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
