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
  explains "a wait" "2 wait"
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
  explains "a wait" "2 wait"
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

# ---- --hosts: a job of another launcher, on two hosts ----

# begin_by_hand: starts ranks 0 and 1 of a job on host h0, and ranks 2 and 3 on h1, and waits until rank 2 has stopped. The
# hosts are this machine.
by_hand=()
begin_by_hand() {
  local r port turns=0
  while [ $((turns++)) -lt 5 ]; do
    port=$((20000 + RANDOM % 10000)) # another process may have it
    for r in 0 1 2 3; do
      env TUTTI_RANK=$r TUTTI_WORLD_SIZE=4 TUTTI_MASTER_ADDR=127.0.0.1 TUTTI_MASTER_PORT=$port TUTTI_SECRET=s \
        TUTTI_HOST=h$((r / 2)) "$troubled" stopped 2 "$PWD/there" >"out.$r" 2>&1 &
      by_hand[r]=$!
    done
    until_true 20 exists there && return
    end_by_hand
  done
  complain "the job by hand did not come to its trouble: $(cat out.?)"
}
end_by_hand() { { kill -9 "${by_hand[@]}"; wait "${by_hand[@]}"; } 2>/dev/null; }

# at_h0 COMMAND...: runs a program that sees the processes of h0 only: those of h1 are hidden in its /proc.
at_h0() { (enter_h0 "$@"); }
enter_h0() { # the same, but replaces this shell
  # shellcheck disable=SC2016
  exec unshare --mount sh -c 'for pid in $0; do mount -t tmpfs none "/proc/$pid" || exit 1; done; exec "$@"' \
    "${by_hand[2]} ${by_hand[3]}" "$@"
}

# make_rsh: makes a remote shell that leaves h0, so that what it runs sees all processes. Its login shell has a banner.
# A few hosts are in trouble.
make_rsh() {
  local version
  version=$("$tutti" --version | cut -d' ' -f2)
  cat >rsh <<END
#!/bin/sh
host=\$1
shift
echo \$\$ >"$PWD/called.\$host"
echo "\$host" >>"$PWD/calls"
printf 'Welcome to %s\\nno newline' "\$host"
case \$host in
  refuses) echo "Permission denied" >&2; exit 255 ;;
  none) set -- /none/tutti top --agent ;;
  hangs) sleep 1000 ;;
  greets) printf '\\001tutti agent\\0023 $version\\n'; sleep 1000 ;;
  build) printf '\\001tutti agent\\0023 $version\\n\\047\\0\\0\\0\\0\\0\\0\\0\\004\\0\\0\\0abcd'; sleep 1000 ;; # a RUN_STATE
  old) printf '\\001tutti agent\\0021 0.0.1\\n' ;;
  chats) printf '\\001tutti agent\\0023 $version\\nand it is a fine day'; sleep 1000 ;;
esac
export TUTTI_HOST=\$host
exec nsenter --target $$ --mount sh -c "\$*"
END
  chmod 755 rsh
  export TUTTI_RSH=$PWD/rsh
}

hosts_can_be_hidden() { unshare --mount mount -t tmpfs none /proc/$$ 2>/dev/null; }
not_hidden() { [[ "$("$@" 2>&1)" == *"3 wait"* ]]; }

test_hosts() {
  hosts_can_be_hidden || { skip "needs root, to hide the processes of the other host"; return; }
  make_rsh
  begin_by_hand
  local pid=${by_hand[0]} said
  # Without --hosts: one host only. Its ranks wait for one that is not seen.
  until_true 10 at_h0 sh -c "'$tutti' top --why --no-stacks $pid | grep -q ': 2 wait'"
  has_facts "not seen" "$(at_h0 "$tutti" top --why --no-stacks $pid)" \
    "job $pid, 4 ranks, 2 of them seen (tutti top --hosts HOST,... asks other hosts): 2 wait|runs on a host that is not seen"
  has_facts "table, not seen" "$(at_h0 "$tutti" top $pid)" "2 of them seen|--hosts HOST,..."
  [ -e calls ] && complain "a host was asked without --hosts: $(cat calls)"
  # With it: all.
  until_true 10 not_hidden at_h0 "$tutti" top --hosts h1 --why --no-stacks $pid
  has_facts "why" "$(at_h0 "$tutti" top --hosts h1:2 --why $pid 2>&1)" \
    "job $pid, 4 ranks: 3 wait|rank 2 is stopped|SIGCONT|3 ranks wait for it|rank 0 (pid $pid on h0, waits)|rank 3 (pid ${by_hand[3]} on h1, waits)|C stacks of rank 2: gdb -p ${by_hand[2]} on host h1"
  said=$(at_h0 "$tutti" top --hosts h0,me@h1,h1 $pid 2>err) # h0 and h1 are asked in vain: their ranks are known
  is "ranks" "$(grep -cE '^h[01] ' <<<"$said")" 4
  has_facts "table" "$said" "job $pid: 4 ranks, for|stopped|3 ranks wait for rank 2"
  is "standard error" "$(cat err)" ""
  # The data say which host could not be asked.
  at_h0 "$tutti" top --hosts h1,refuses --json $pid >top.json 2>err
  is "status, though a host refuses" $? 0
  is "json" "$(python3 -c '
import json; o = json.load(open("top.json")); j = o["jobs"][0]
print(len(o["jobs"]), j["pid"], j["host"], j["launcher"], j["size"], j["seen"], j["waiting"], [r["host"] for r in j["ranks"]],
      j["why"][0]["rank"], j["why"][0]["reason"], o["hosts"][0], o["hosts"][1]["problem"])')" \
    "1 $pid h0 None 4 4 3 ['h0', 'h0', 'h1', 'h1'] 2 stopped {'host': 'h1', 'problem': None} rsh ended with status 255: Permission denied; it printed 'Welcome to refuses; no newline'"
  is "one line" "$(grep -c '^tutti top: host refuses: ' err) $(wc -l <err)" "1 1"
  # Several hosts at once, which do not help.
  at_h0 "$tutti" top --hosts old,none,refuses,chats,build,h1 $pid >out 2>err
  has_facts "hosts in trouble" "$(cat err)" \
    "host old: $(readlink -f "$tutti") there is version 0.0.1 (protocol 1), but here it is version|same version|host none: |did not start there|/none/tutti|host refuses: rsh ended with status 255|host chats: expected a frame of its agent|host build: expected a state that this build|install the same build"
  has_facts "the rest" "$(cat out)" "job $pid: 4 ranks, for|stopped"
  is "lines" "$(wc -l <err)" 5
  # Without JOB, and with a JOB of the other host.
  has_facts "list" "$(at_h0 "$tutti" top --hosts h1 | grep -E "(^| )$pid -")" " 4 |3 ranks wait for rank 2"
  # From a host without ranks.
  by_hand[4]=${by_hand[0]} by_hand[5]=${by_hand[1]}
  elsewhere() { at_h0 unshare --mount sh -c 'for pid in $0; do mount -t tmpfs none "/proc/$pid"; done; exec "$@"' "${by_hand[*]:4}" "$@"; }
  has_facts "list of a host without ranks" "$(elsewhere "$tutti" top --hosts h1 | grep "^h0 .* $pid -")" " 4 |3 ranks wait for rank 2"
  has_facts "job of the other host" "$(elsewhere "$tutti" top --hosts h1 --why --no-stacks "${by_hand[3]}")" "job $pid on h0, 4 ranks: 3 wait|rank 2 is stopped"
  has_facts "no such job" "$(elsewhere "$tutti" top --hosts h1 4194305 2>&1)" "there is no process 4194305 on this host|--hosts"
  is "its status" "$(elsewhere "$tutti" top --hosts h1 4194305 >/dev/null 2>&1; echo $?)" 1
  end_by_hand
}

# A host whose shell hangs, and one whose agent does: each takes 10 s, and no more.
test_silent_hosts() {
  make_rsh
  begin 2 stopped 1
  local began=$SECONDS
  "$tutti" top --hosts hangs,h1 >out 2>err
  is "status" $? 0
  [ $((SECONDS - began)) -le 20 ] || complain "it took $((SECONDS - began)) s"
  has_facts "a shell that hangs" "$(cat err)" "host hangs: |rsh gave no answer within 10 s"
  has_facts "the others" "$(cat out)" "$launcher tutti run"
  until_true 10 dead "$(cat called.hangs)" || complain "the remote shell of 'hangs' still runs"
  is "asked" "$(sort calls | tr '\n' ' ')" "h1 hangs "
  end_job
}
test_silent_agent() {
  make_rsh
  "$tutti" top --hosts greets 4194305 >out 2>err
  is "status" $? 1
  has_facts "an agent that hangs" "$(cat err)" \
    "host greets: its agent was asked|no answer within 10 s|there is no process 4194305 on this host"
  until_true 10 dead "$(cat called.greets)" || complain "the remote shell of 'greets' still runs"
}

# On a terminal, a host is called once, and looked at again and again. The agent ends with the command.
test_hosts_on_a_terminal() {
  hosts_can_be_hidden || { skip "needs root, to hide the processes of the other host"; return; }
  command -v script >/dev/null || { skip "script not found (Debian: bsdutils)"; return; }
  make_rsh
  begin_by_hand
  enter_h0 script -qfec "$tutti top --hosts h1 --interval 0.2 ${by_hand[0]}" /dev/null >seen 2>&1 </dev/null &
  local watcher=$!
  pictures() { [ "$(grep -c "^h1 .* ${by_hand[2]} stopped" seen)" -ge 5 ]; }
  until_true 20 pictures || complain "no five pictures: $(tail -n 20 seen)"
  is "calls" "$(wc -l <calls)" 1
  kill "$watcher" # that is script, whose terminal hangs up
  wait "$watcher" 2>/dev/null
  until_true 10 dead "$(cat called.h1)" || complain "the agent still runs"
  end_by_hand
}

test_hosts_usage() {
  has_facts "bad list" "$("$tutti" top --hosts a,,b 2>&1)" "--hosts"
  is "its status" "$("$tutti" top --hosts a,,b >/dev/null 2>&1; echo $?)" 2
  has_facts "no shell" "$(TUTTI_RSH=/none/ssh "$tutti" top --hosts a 2>&1)" "host a: cannot start 'ssh' to reach host a: No such file"
  # An agent that something else starts says so, and ends.
  head -c 100 /dev/urandom | timeout 20 "$tutti" top --agent >out 2>err
  is "random input" $? 1
  has_facts "random input" "$(cat err)" "--agent|only tutti top"
  timeout 20 "$tutti" top --agent </dev/null >out 2>err
  is "no input" "$? $(cat err)" "0 "
}
run_at_once
