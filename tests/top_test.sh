#!/bin/bash
# top_test.sh SOURCE BUILD: `tutti top` looks at real jobs from outside, as a user does.
# test: fast waits timeout=120
set -u
. "$1/tests/shell.sh"
. "$1/tests/processes.sh"
tutti=$(realpath "$2")/tutti
troubled=$(realpath "$2")/tests/troubled
launcher=

# begin RANKS TROUBLE VICTIM: starts a job of `troubled` and waits until the trouble is there.
begin() {
  rm -f there
  # The shell goes on when its rank dies, so that the job goes on.
  "$tutti" run -n "$1" -- bash -c '"$@"; exec sleep 1000' - "$troubled" "$2" "$3" "$PWD/there" >out 2>err &
  launcher=$!
  until_true 20 exists there || complain "$2: the job did not come to its trouble: $(cat err)"
}

end_job() {
  [ -n "$launcher" ] || return
  kill "$launcher" 2>/dev/null
  wait "$launcher" 2>/dev/null
  launcher=
}

says_all() { # FACTS
  local fact facts
  said=$("$tutti" top --why --no-stacks "$launcher" 2>&1)
  IFS='|' read -r -a facts <<<"$1"
  for fact in "${facts[@]}"; do [[ "$said" == *"$fact"* ]] || return 1; done
}

# explains NAME FACTS: tutti top --why says all of these facts, soon: a wait is published after 10 ms, and on a busy machine
# later.
explains() {
  local said
  until_true 10 says_all "$2" || has_facts "$1" "$said" "$2"
}

test_stopped() {
  begin 4 stopped 2
  explains stopped "3 wait|rank 2 is stopped|SIGCONT|3 ranks wait for it|not yet collective 11 by rank 2|rank 0 (pid |waits|collective 11, allreduce|for rank 2"
  end_job
}

test_computing() {
  begin 3 computes 0
  explains computes "2 wait|rank 0 has not started collective 11: its program computes|2 ranks wait for it"
  end_job
}

test_late() {
  begin 2 sleeps 1
  explains late "1 waits|rank 1 has not started collective 11: its program sleeps outside tutti|1 rank waits for it"
  end_job
}

# Rank 1 has died, and the others have got the error and do something else.
test_dead() {
  begin 3 dies 1
  explains dead "0 wait|has failed: TUTTI_ERR_PEER: rank 1|has died or exited|rank 1 (pid |dead"
  end_job
}

# The victim waits for a message of another rank, which waits for the victim.
test_other_call() {
  begin 3 receives 1
  explains "another call" "ranks wait for each other: |rank 1 (pid |waits"
  end_job
}

# All ranks have closed all their descriptors; tutti run still has the memory.
test_closed() {
  begin 2 closes 0
  explains closed "1 waits|rank 0 has not started collective 11"
  end_job
}

test_whom() {
  local rank said
  begin 3 stopped 1
  rank=$(pgrep -P "$launcher" | head -1)
  has_facts "by a rank" "$("$tutti" top --once "$rank")" "job $launcher (tutti run): 3 ranks|stopped"
  # The shell is an ancestor of the launcher, as mpirun is one of its ranks.
  has_facts "by an ancestor" "$("$tutti" top --once $$)" "job $launcher (tutti run): 3 ranks|stopped"
  has_facts "list" "$("$tutti" top)" "$launcher tutti run|rank 1"
  has_facts "table" "$("$tutti" top "$launcher")" "rank|pid|state|awaited|waits since|2 ranks wait for rank 1"
  "$tutti" top --json "$launcher" >top.json
  is "json" "$(python3 -c '
import json; o = json.load(open("top.json")); j = o["jobs"][0]; r = j["ranks"][1]
print(o["version"], o["verb"], j["launcher"], j["size"], j["seen"], j["waiting"], r["rank"], r["state"], r["call"][:19],
      j["ranks"][0]["waits_for"], j["why"][0]["rank"], j["why"][0]["reason"], j["why"][0]["waiters"], j["circle"])')" \
    "1 top tutti run 3 3 2 1 stopped allreduce(count 64, [1] 1 stopped 2 []"
  has_facts "another process" "$("$tutti" top 1 2>&1)" "process 1 "
  is "its status" "$("$tutti" top 1 >/dev/null 2>&1; echo $?)" 1
  has_facts "no process" "$("$tutti" top 4194305 2>&1)" "there is no process 4194305"
  has_facts "no number" "$("$tutti" top job 2>&1)" "JOB is 'job'|pid of tutti run"
  is "usage" "$("$tutti" top job >/dev/null 2>&1; echo $?)" 2
  end_job
}

test_signal() {
  begin 3 stopped 1
  kill -USR2 "$launcher"
  until_true 10 grep -q "rank 2 (pid" err
  has_facts "report" "$(cat err)" "tutti run: job $launcher (tutti run), 3 ranks: 2 wait|rank 1 is stopped"
  kill -0 "$launcher" || complain "the launcher has ended"
  end_job
}

# The first rank whose time limit passes reports.
test_hang_report() {
  export TUTTI_HANG_REPORT=1 TUTTI_TIMEOUT_MS=500
  begin 4 stopped 3
  unset TUTTI_HANG_REPORT TUTTI_TIMEOUT_MS
  until_true 10 grep -q "has waited 500 ms in collective 11" err || complain "no time-out: $(cat err)"
  until_true 10 grep -q "rank 3 (pid" err # the rank looks twice, while others may have failed
  has_facts "report" "$(cat err)" "4 ranks: |rank 3 is stopped|for it, for "
  is "reports" "$(grep -c '^job .* 4 ranks' err)" 1
  end_job
}

test_log() {
  export TUTTI_TIMEOUT_MS=1500 TUTTI_LOG=info:$PWD/log.%r
  begin 2 sleeps 1
  until_true 10 grep -q "warn failed" log.0 || complain "no failure in the log"
  has_facts "log" "$(cat log.0)" \
    "rank 0 info start: tutti |rank 0 of 2|rank 0 info selection: allreduce(count 64|built-in table|rank 0 warn slow: has waited 1.|for rank 1|rank 0 warn failed: communicator 1: TUTTI_ERR_TIMEOUT"
  is "selection once" "$(grep -c selection log.0)" 1
  is "form" "$(grep -vcE '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z [^ ]+ rank 0 (warn|info|debug) [a-z ]+: ' log.0)" 0
  has_facts "the other" "$(cat log.1)" "rank 1 info start"
  unset TUTTI_LOG
  end_job
  has_facts "debug" "$(TUTTI_DEBUG=TRACE "$tutti" run -n 2 -- "$troubled" ends 1 x 2>&1)" \
    "debug call: communicator 1, collective 10: allreduce(count 64|info end: communicator 1: 10 collectives"
  has_facts "level" "$(TUTTI_LOG=much "$tutti" run -n 1 -- "$troubled" ends 1 x 2>&1)" "TUTTI_LOG is 'much'|off, warn, info or debug"
  has_facts "file" "$(TUTTI_LOG=info:/none/x "$tutti" run -n 1 -- "$troubled" ends 1 x 2>&1)" "TUTTI_LOG|/none/x|No such file"
  is "nothing" "$("$tutti" run -n 2 -- "$troubled" ends 1 x 2>&1)" ""
  unset TUTTI_TIMEOUT_MS
}

test_other_user() {
  [ "$(id -u)" = 0 ] || { skip "needs root, to be another user"; return; }
  # The other user may not be able to reach the build.
  chmod 755 .. . && cp "$tutti" other && chmod 755 other
  setpriv --reuid 65534 --clear-groups "$PWD/other" --version >/dev/null 2>&1 || { skip "no file for another user"; return; }
  begin 2 stopped 1
  has_facts "list" "$(setpriv --reuid 65534 --clear-groups "$PWD/other" top 2>&1)" "no job of this user (uid 65534)"
  has_facts "job" "$(setpriv --reuid 65534 --clear-groups "$PWD/other" top "$launcher" 2>&1)" \
    "process $launcher belongs to another user"
  end_job
}

# The memory of a world that has ended is not kept: the launcher would hold all worlds of a program.
test_many_worlds() {
  local kept
  "$tutti" run -n 2 -- "$troubled" worlds 0 "$PWD/there" >out 2>err &
  launcher=$!
  rm -f there
  until_true 20 exists there || complain "worlds: $(cat err)"
  kept=$(readlink /proc/"$launcher"/fd/* | grep -c memfd:tutti)
  [ "$kept" -le 3 ] || complain "the launcher keeps $kept memories"
  end_job
}
run_at_once
