#!/bin/bash
# run_test.sh SOURCE BUILD: tests `tutti run`: exit statuses, signals, whole lines of output, and that it leaves no
# processes behind.
# test: fast waits timeout=120
set -u
. "$1/tests/shell.sh"
. "$1/tests/processes.sh"
tutti=$2/tutti
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

test_environment() {
  export RANK=5 WORLD_SIZE=9 MASTER_ADDR=elsewhere MASTER_PORT=1 LOCAL_RANK=5 TUTTI_SECRET_FILE=/none
  "$tutti" run -n 3 -- sh -c 'env >env.$TUTTI_RANK'
  is status $? 0
  unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_RANK TUTTI_SECRET_FILE
  for rank in 0 1 2; do
    is "rank $rank" "$(grep -E '^TUTTI_(RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR)=' env.$rank | sort | tr '\n' ' ')" \
      "TUTTI_LOCAL_RANK=$rank TUTTI_MASTER_ADDR=127.0.0.1 TUTTI_RANK=$rank TUTTI_WORLD_SIZE=3 "
    is "variables of an outer job at rank $rank" \
      "$(grep -cE '^(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK|TUTTI_SECRET_FILE)=' env.$rank)" 0
  done
  is "one secret" "$(sed -n s/^TUTTI_SECRET=//p env.? | sort -u | grep -cE '^[0-9a-f]{32}$')" 1
  is "one port" "$(sed -n s/^TUTTI_MASTER_PORT=//p env.? | sort -u | wc -l)" 1
  is "the reserved port" "$(sed -n s/^TUTTI_RESERVED_PORT=//p env.?)" "$(sed -n s/^TUTTI_MASTER_PORT=//p env.?)"
  is "limit" "$("$tutti" run -n 1 --timeout-ms 1234 -- sh -c 'echo $TUTTI_TIMEOUT_MS; echo $TUTTI_SECRET >secret')" 1234
  is "another secret" "$(grep -c "$(cat secret)" env.0)" 0
}

# The other ranks fail when the launcher has seen the end of the first.
test_statuses() {
  local said after_first='until [ -s first ] && ! kill -0 $(cat first) 2>/dev/null; do sleep 0.01; done'
  "$tutti" run -n 4 -- true
  is "all good" $? 0
  said=$("$tutti" run -n 3 -- sh -c "[ \$TUTTI_RANK = 1 ] && echo \$\$ >first && exit 9; $after_first; exit 4" 2>&1)
  is "first failure" $? 9
  has_facts "first failure" "$said" "rank 1 (pid |status 9"
  rm first
  said=$("$tutti" run -n 3 -- sh -c "[ \$TUTTI_RANK = 2 ] && echo \$\$ >first && kill -9 \$\$; $after_first; exit 1" 2>&1)
  is "killed" $? 137
  has_facts "killed" "$said" "rank 2 (pid |signal 9"
}

# The launcher is stopped while all ranks end, and sees all ends at once. It must name rank 2, which ended first.
test_first_of_many_ends() {
  local said launcher
  "$tutti" run -n 3 -- sh -c 'echo $$ >here.$TUTTI_RANK; until [ -e go ]; do sleep 0.01; done
    [ $TUTTI_RANK = 2 ] && exit 9; until [ -e gone ]; do sleep 0.01; done; exit 3' >said 2>&1 &
  launcher=$!
  until_true 10 exists here.0 here.1 here.2
  kill -STOP $launcher
  until_true 10 stopped $launcher
  echo >go
  until_true 10 dead "$(cat here.2)"
  echo >gone
  until_true 10 dead "$(cat here.0)"
  until_true 10 dead "$(cat here.1)"
  kill -CONT $launcher
  wait $launcher
  is "status" $? 9
  said=$(cat said)
  has_facts "first" "$said" "rank 2 (pid |2 other ranks"
}

# Rank 1 ends first, then rank 0, while the launcher still starts other ranks.
test_first_ends_early() {
  local said
  export -f read_state lives dead
  said=$("$tutti" run -n 40 -- bash -c 'case $TUTTI_RANK in
    0) until [ -s first ] && dead "$(cat first)"; do sleep 0.01; done; exit 3 ;;
    1) echo $$ >first; until [ -e next ]; do sleep 0.01; done; exit 9 ;;
    2) echo >next ;;
    esac; sleep 1' 2>&1)
  is "status" $? 9
  has_facts "first" "$said" "rank 1 (pid "
  is "what the ranks' shell lacks" "$(grep "not found" <<<"$said")" ""
}

# A killed rank takes a while to end, as the kernel frees its memory. A rank that fails because of it may end earlier.
test_slow_to_die() {
  local said
  said=$("$tutti" run -n 2 -- sh -c 'if [ $TUTTI_RANK = 1 ]; then
      echo $$ >victim; exec dd if=/dev/zero of=/dev/null bs=400M count=1000 2>/dev/null; fi
    until [ -s victim ] && [ $(awk "/VmRSS/ { print \$2 }" /proc/$(cat victim)/status) -gt 400000 ]; do sleep 0.02; done
    kill -9 $(cat victim); exit 3' 2>&1)
  is "status" $? 137
  has_facts "the killed rank" "$said" "rank 1 (pid |signal 9"
}

test_usage() {
  local said
  said=$("$tutti" run -n 4 -- no-such-program-here 2>&1)
  is "not found" $? 127
  has_facts "not found" "$said" "tutti run: |'no-such-program-here'|No such file or directory"
  echo nothing >plain
  said=$("$tutti" run -n 2 -- ./plain 2>&1)
  is "not executable" $? 126
  "$tutti" run -n 0 -- true 2>/dev/null
  is "no ranks" $? 2
  "$tutti" run -- true 2>/dev/null
  is "no -n" $? 2
  "$tutti" run -n 2 2>/dev/null
  is "no program" $? 2
  "$tutti" run -n 2 --bind socket -- true 2>/dev/null
  is "unknown binding" $? 2
  "$tutti" run -n 2 --prefxi -- true 2>/dev/null
  is "unknown option" $? 2
}

test_arguments_pass_untouched() {
  is "arguments" "$("$tutti" run -n 1 -- printf '%s|' -n 'a b' --prefix '' -- --help)" '-n|a b|--prefix||--|--help|'
}

test_streams() {
  is "input" "$(echo hello | "$tutti" run -n 3 -- sh -c 'echo $TUTTI_RANK:$(cat)' | sort | tr '\n' ' ')" '0:hello 1: 2: '
  "$tutti" run -n 2 --prefix -- sh -c 'echo out; echo err >&2' >out 2>err
  is "output" "$(sort out | tr '\n' ' ')" '[0] out [1] out '
  is "errors" "$(sort err | tr '\n' ' ')" '[0] err [1] err '
}

test_whole_lines() {
  "$tutti" run -n 4 --prefix -- awk -v r=x 'BEGIN {
    for (i = 0; i < 5000; i++) { printf "line %d of", i; if (i % 100 == 0) fflush(); print " " 5000 } printf "no newline" }' >out
  is "lines" "$(wc -l <out)" 20004
  is "wrong lines" "$(grep -vcE '^\[[0-3]\] (line [0-9]+ of 5000|no newline)$' out)" 0
  for rank in 0 1 2 3; do
    is "order of rank $rank" "$(grep -F "[$rank] line" out | awk '$3 != NR - 1' | wc -l)" 0
  done
  "$tutti" run -n 3 --prefix -- sh -c 'head -c 1048576 /dev/zero | tr "\0" x; echo; echo; head -c 1048577 /dev/zero | tr "\0" y' >out
  is "long lines" "$(awk '{ print length($0) }' out | sort -n | tr '\n' ' ')" \
    '4 4 4 1048580 1048580 1048580 1048581 1048581 1048581 '
}

# No output is lost if a rank is killed after it wrote, or if the reader is slow.
test_no_line_lost() {
  "$tutti" run -n 2 --prefix -- sh -c 'head -c 60000 /dev/zero | tr "\0" z; echo >wrote.$TUTTI_RANK
    until [ -s wrote.0 ] && [ -s wrote.1 ]; do sleep 0.01; done; kill -9 $$' >out 2>err
  is status $? 137
  is bytes "$(tr -dc z <out | wc -c)" 120000
  "$tutti" run -n 2 --prefix -- seq 100000 | (sleep 0.5; cat) >out
  is "slow reader" "$(wc -l <out)" 200000
  timeout 20 "$tutti" run -n 2 --prefix -- yes 2>err | head -n 3 >out
  is "reader that leaves" "${PIPESTATUS[0]}" 141
  is "reader that leaves" "$(wc -l <out)" 3
}

test_signals() {
  local name number
  for name in INT TERM HUP QUIT USR1; do
    rm -f ready.*
    # A background job of a script ignores SIGINT and SIGQUIT; env restores the default.
    env --default-signal=INT,QUIT "$tutti" run -n 2 -- \
      bash -c "trap 'echo $name; exit 0' $name; echo \$\$ >ready.\$TUTTI_RANK; while :; do sleep 0.02; done" >out 2>err &
    local launcher=$!
    until_true 10 exists ready.0 ready.1 || complain "$name: the ranks did not start"
    kill -$name $launcher
    wait $launcher
    is "$name: status" $? 0
    is "$name: passed on" "$(sort out | tr '\n' ' ')" "$name $name "
  done
  rm -f ready.*
  env --default-signal=INT "$tutti" run -n 2 -- bash -c 'echo $$ >ready.$TUTTI_RANK; exec sleep 30' 2>err &
  launcher=$!
  until_true 10 exists ready.0 ready.1
  kill -INT $launcher
  wait $launcher
  is "interrupted" $? 130
}

# interrupt_job RANKS COMMAND...: runs `tutti run` in a process group of its own, as a shell with a terminal does. Sends
# SIGINT to the group, as a terminal does, when all ranks have made their files ready.RANK. Sets `said` and `status`.
interrupt_job() {
  local ranks=$1 launcher
  shift
  rm -f ready.*
  setsid env --default-signal=INT "$tutti" run -n "$ranks" -- "$@" >out 2>err &
  launcher=$!
  # shellcheck disable=SC2046
  until_true 20 exists $(seq -f ready.%g 0 $((ranks - 1))) || complain "the ranks did not start"
  kill -INT -- -$launcher
  wait $launcher
  status=$? said=$(cat err)
}

# After Ctrl-C, the message names the interrupt and blames no rank. A later failure of a rank is reported with the
# interrupt as its cause.
test_interrupted() {
  local status said
  interrupt_job 4 bash -c 'echo $$ >ready.$TUTTI_RANK; exec sleep 30'
  is "status" $status 130
  has_facts "message" "$said" "tutti run: |signal 2 (Interrupt)"
  is "lines" "$(wc -l <<<"$said")" 1
  interrupt_job 2 bash -c 'trap "exit 130" INT; echo $$ >ready.$TUTTI_RANK; while :; do sleep 0.02; done'
  is "a trap: status" $status 130
  has_facts "a trap: message" "$said" "tutti run: |signal 2 (Interrupt)"
  is "a trap: lines" "$(wc -l <<<"$said")" 1
  interrupt_job 2 bash -c 'trap "exit $TUTTI_RANK" INT; echo $$ >ready.$TUTTI_RANK; while :; do sleep 0.02; done'
  is "another status" $status 1
  has_facts "another status" "$said" "status 1|signal 2 (Interrupt)"
}

test_stop_and_continue() {
  rm -f ready.*
  "$tutti" run -n 2 -- bash -c 'echo $$ >ready.$TUTTI_RANK; while [ ! -e finish ]; do sleep 0.02; done' &
  local launcher=$!
  until_true 10 exists ready.0 ready.1
  local first=$(cat ready.0) second=$(cat ready.1)
  kill -TSTP $launcher
  until_true 5 stopped $first || complain "rank 0 was not stopped"
  until_true 5 stopped $second || complain "rank 1 was not stopped"
  until_true 5 stopped $launcher || complain "the launcher was not stopped"
  kill -CONT $launcher
  until_true 5 not_stopped $first || complain "rank 0 did not continue"
  until_true 5 not_stopped $second || complain "rank 1 did not continue"
  touch finish
  wait $launcher
  is status $? 0
}

# After a failure, the other ranks have 2 s; then they get SIGTERM, and 2 s later SIGKILL. Rank 1 ends when the launcher
# has seen that rank 0 has failed.
test_grace() {
  local failed ended
  "$tutti" run -n 3 -- bash -c 'case $TUTTI_RANK in
    0) until [ -s ready ]; do sleep 0.01; done; echo $$ >victim; date +%s%N >failed; exit 3;;
    1) until [ -s failed ] && ! kill -0 $(cat victim) 2>/dev/null; do sleep 0.01; done; touch in-time; exit 0;;
    2) trap "date +%s%N >asked" TERM; echo >ready; while :; do sleep 0.05; done;; esac' 2>err
  is status $? 3
  ended=$(milliseconds) failed=$(($(cat failed) / 1000000))
  [ -e in-time ] || complain "rank 1 was ended too early"
  [ -s asked ] || complain "rank 2 got no SIGTERM"
  [ $(($(cat asked) / 1000000 - failed)) -ge 2000 ] || complain "rank 2 got SIGTERM less than 2 s after the failure"
  [ $((ended - failed)) -ge 4000 ] || complain "the job ended $((ended - failed)) ms after the failure, expected 4000"
  has_facts "message" "$(cat err)" "ending|1 rank"
}

# Processes that a rank has started end with the job, also if they have left its process group.
test_leaves_nothing_behind() {
  "$tutti" run -n 2 -- bash -c 'sleep 1000 & echo $! >child.$TUTTI_RANK
    (setsid bash -c "echo \$\$ >daemon.$TUTTI_RANK; trap \"\" TERM; while :; do sleep 0.1; done" &)
    until [ -s daemon.$TUTTI_RANK ]; do sleep 0.01; done
    [ $TUTTI_RANK = 0 ] && exit 5; exit 0' 2>err
  is status $? 5
  for file in child.0 child.1 daemon.0 daemon.1; do
    dead "$(cat $file)" || complain "$file still runs"
  done
}

test_launcher_is_killed() {
  rm -f ready.*
  "$tutti" run -n 4 -- bash -c 'trap "" TERM HUP INT; echo $$ >ready.$TUTTI_RANK; while :; do sleep 0.1; done' &
  local launcher=$! rank
  until_true 10 exists ready.0 ready.1 ready.2 ready.3
  kill -9 $launcher
  wait $launcher 2>/dev/null
  for rank in 0 1 2 3; do
    until_true 5 dead "$(cat ready.$rank)" || complain "rank $rank still runs"
  done
}

# Children that the launcher's process had before an exec do not belong to the job; it neither waits for them nor ends
# them.
test_spares_its_elder_children() {
  bash -c 'sleep 1000 & echo $! >elder; exec "$0" run -n 2 -- true' "$tutti"
  is status $? 0
  lives "$(cat elder)" || complain "a child from before the exec was ended"
  kill "$(cat elder)"
}

test_bind() {
  local cpus=($(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{ for (i = $1; i <= ($2 ? $2 : $1); i++) print i }'))
  "$tutti" run -n 5 --bind core -- sh -c 'taskset -cp $$ | sed "s/.*: //" >cpu.$TUTTI_RANK'
  for rank in 0 1 2 3 4; do
    is "rank $rank" "$(cat cpu.$rank)" "${cpus[$((rank % ${#cpus[@]}))]}"
  done
  is "unbound" "$("$tutti" run -n 1 -- sh -c 'taskset -cp $$' | sed 's/.*: //')" "$(taskset -cp $$ | sed 's/.*: //')"
}

test_many_ranks() {
  is "64 ranks" "$("$tutti" run -n 64 --prefix -- sh -c 'echo $TUTTI_RANK' | awk '"[" $2 "]" == $1' | sort -u | wc -l)" 64
}

# Ranks inherit no descriptors of the launcher.
test_descriptors() {
  local own=$(ls /proc/self/fd | sort -n | tr '\n' ' ')
  is inherited "$("$tutti" run -n 2 -- ls /proc/self/fd | sort -nu | tr '\n' ' ')" "$own"
  is prefixed "$("$tutti" run -n 2 --prefix -- ls /proc/self/fd | awk '{ print $2 }' | sort -nu | tr '\n' ' ')" "$own"
  "$tutti" run -n 2 --prefix -- sh -c 'echo in; exit 6' <&- >out 2>&1
  is "closed input" $? 6
}

# On a terminal, the launcher passes input to rank 0 line by line: rank 0 is no foreground job, and may not read the
# terminal.
test_terminal() {
  command -v script >/dev/null || { skip "script(1) not found" && return; }
  (sleep 0.5; echo typed; sleep 0.3; printf '\004') |
    timeout 20 script -qec "$tutti run -n 2 -- sh -c 'cat >typed.\$TUTTI_RANK'" /dev/null >/dev/null
  is status $? 0
  is "typed" "$(cat typed.0)" typed
  is "typed to rank 1" "$(cat typed.1)" ""
}

run_at_once
