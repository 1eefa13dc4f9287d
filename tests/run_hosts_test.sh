#!/bin/bash
# run_hosts_test.sh SOURCE BUILD: tests `tutti run --hosts`: placement, input and output, exit statuses, signals, and that
# nothing is left of a job, whatever is killed. Hosts are this machine: TUTTI_RSH runs the agents here.
# test: fast waits timeout=240
set -u
. "$1/tests/shell.sh"
. "$1/tests/processes.sh"
tutti=$2/tutti
chmod 755 "$scratch"

# make_rsh NAME LINES: makes a program for TUTTI_RSH, in the current folder. Agents and ranks get the name of their host as
# TUTTI_HOST. The file rsh.HOST has the process id of the guardian of the agent.
make_rsh() {
  printf '#!/bin/sh\nhost=$1\nexport TUTTI_HOST=$host\nshift\n%s\n' "$2" >"$1"
  chmod 755 "$1"
}
cd "$scratch" && make_rsh rsh 'echo $$ >"rsh.$host"; exec sh -c "$*"'
export TUTTI_RSH=$scratch/rsh

# begin OPTIONS -- PROGRAM: starts a job in the background; sets `launcher`.
begin() {
  env --default-signal=INT,QUIT "$tutti" run "$@" >out 2>err &
  launcher=$!
}
# Each rank writes its process id to ready.RANK, and waits.
waits='echo $$ >ready.$TUTTI_RANK; while :; do sleep 0.05; done'
all_ready() { until_true 20 exists ready.0 ready.1 ready.2 ready.3 || complain "the ranks did not start: $(cat err)"; }
# agent_of HOST: prints the process id of a host's agent, whose parent is its guardian.
agent_of() { tr -d ' ' <"/proc/$(cat "rsh.$1")/task/$(cat "rsh.$1")/children"; }
all_dead() { for pid; do dead "$pid" || return 1; done; }
# check_gone WHAT PID...: the processes end. Ends them otherwise.
check_gone() {
  local pid what=$1
  shift
  until_true 20 all_dead "$@" && return
  for pid; do
    dead "$pid" && continue
    complain "$what: process $pid still runs: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
    kill -9 "$pid"
  done
}
ranks() { cat ready.0 ready.1 ready.2 ready.3; }

show='echo $TUTTI_RANK:$TUTTI_LOCAL_RANK:$TUTTI_WORLD_SIZE:$TUTTI_HOST'
# place OPTIONS: prints where the ranks run, as RANK:LOCAL:RANKS:HOST ...
place() { "$tutti" run "$@" -- sh -c "$show" | sort -n | tr '\n' ' '; }

test_places() {
  is "filled" "$(place --hosts a:2,b:2)" "0:0:4:a 1:1:4:a 2:0:4:b 3:1:4:b "
  is "dealt" "$(place --hosts a:2,b:2 --by-host)" "0:0:4:a 1:0:4:b 2:1:4:a 3:1:4:b "
  is "fewer" "$(place -n 3 --hosts a:2,b:2)" "0:0:3:a 1:1:3:a 2:0:3:b "
  is "a host without ranks" "$(place -n 1 --hosts a:2,b:2)" "0:0:1:a "
  is "twice" "$(place --hosts a,b,a:2)" "0:0:4:a 1:1:4:a 2:2:4:a 3:0:4:b "
  is "users and addresses" "$(place --hosts 'me@a,[::1],10.0.0.1')" "0:0:3:me@a 1:0:3:::1 2:0:3:10.0.0.1 "
  printf '# two hosts\na slots=2\n\nb:2 # the second\n' >hosts
  is "a file" "$(place --hostfile hosts --by-host)" "0:0:4:a 1:0:4:b 2:1:4:a 3:1:4:b "
  is "12 hosts" "$(place --hosts a,b,c,d,e,f,g,h,i,j,k,l | wc -w)" 12
}

test_bad_lists() {
  local list
  for list in '' a,,b a:0 a:x :2 fe80::1 '[::1' -oProxyCommand=x 'a;b' 'a b'; do
    run 2 run --hosts "$list" -- true
    has_facts "list '$list'" "$err" "tutti run: --hosts, host |expected|found"
  done
  printf 'a\nb slots=none\n' >hosts
  run 2 run --hostfile hosts -- true
  has_facts "a bad line" "$err" "hosts:2: |slots=N|'slots=none'"
  run 2 run --hostfile missing -- true
  has_facts "no file" "$err" "missing|No such file"
  run 2 run --hostfile hosts --hosts a -- true
  has_facts "both" "$err" "--hosts|--hostfile|both"
  run 2 run -n 5 --hosts a:2,b:2 -- true
  has_facts "too many ranks" "$err" "-n: |at most 4|--hosts|found 5"
  run 2 run --hosts a
  has "no program" "$err" "program is missing"
  run 2 run --hosts a --env NOT_SET_ANYWHERE -- true
  has_facts "unset variable" "$err" "--env|'NOT_SET_ANYWHERE'|not set"
  run 2 run --hosts a --env =x -- true
  has_facts "no name" "$err" "--env|NAME=VALUE|'=x'"
}

# The library connects the ranks: rank 0's port and addresses are right.
test_a_job() {
  local said
  for said in --by-host --prefix; do
    run 0 run --hosts a:2,b:2 $said -- "$tutti" bench allreduce -n 4 --bytes 8:32K:64 --time-ms 2
    is "$said: rows without wrong elements" "$(sed 's/^\[[0-9]*\] *//' <<<"$out" | awk '!/^#/ && $11 == 0 && $17 == 0' | wc -l)" 3
  done
  is "several hosts: loopback last" "$("$tutti" run --hosts a,b -- sh -c 'echo $TUTTI_MASTER_ADDR' | grep -cE '127\.0\.0\.1(,\[::1\])?$')" 2
  is "one host" "$("$tutti" run --hosts a:2 -- sh -c 'echo $TUTTI_MASTER_ADDR' | sort -u)" 127.0.0.1
  said=$(TUTTI_PORTS=20000-60000 "$tutti" run --hosts a,b -- sh -c 'echo $TUTTI_MASTER_PORT $TUTTI_RESERVED_PORT' | sort -u)
  [[ "$said" =~ ^([0-9]+)\ ([0-9]+)$ && ${BASH_REMATCH[1]} = "${BASH_REMATCH[2]}" ]] || complain "one port: '$said'"
  [ "${said%% *}" -ge 20000 ] && [ "${said%% *}" -le 60000 ] || complain "TUTTI_PORTS: '$said'"
}

test_environment() {
  unset "${!PYTHON@}"
  export RANK=5 WORLD_SIZE=9 MASTER_ADDR=elsewhere TUTTI_SECRET_FILE=/none TUTTI_SECRET=old TUTTI_HOST=here PYTHONHASHSEED=7 \
    LD_LIBRARY_PATH=/somewhere OTHER=other HERE=$'two\nlines' TUTTI_SPIN_US=3 TUTTI_TUNING=none
  make_rsh empty "exec env -i TUTTI_HOST=\$host $(command -v sh) -c \"\$*\""
  TUTTI_RSH=$PWD/empty "$tutti" run --hosts a,b --env HERE --env GIVEN=a=b --env EMPTY= --timeout-ms 1234 -- \
    sh -c 'env -0 >env.$TUTTI_RANK; pwd >pwd.$TUTTI_RANK' </dev/null
  is status $? 0
  local rank host=(a b)
  for rank in 0 1; do
    is "rank $rank" "$(tr '\0\n' '\n|' <env.$rank | grep -vE '^(TUTTI_MASTER_|TUTTI_SECRET=|TUTTI_RESERVED|TUTTI_KEEPER=|_=|SHLVL=|PWD=|OLDPWD=)' | sort | tr '\n' ' ')" \
      "EMPTY= GIVEN=a=b HERE=two|lines LD_LIBRARY_PATH=/somewhere PATH=$PATH PYTHONHASHSEED=7 TUTTI_HOST=${host[rank]} TUTTI_LOCAL_RANK=0 TUTTI_RANK=$rank TUTTI_SPIN_US=3 TUTTI_TIMEOUT_MS=1234 TUTTI_TUNING=none TUTTI_WORLD_SIZE=2 "
    is "folder" "$(cat pwd.$rank)" "$PWD"
  done
  is "one secret" "$(cat env.? | tr '\0' '\n' | sed -n s/^TUTTI_SECRET=//p | sort -u | grep -cE '^[0-9a-f]{32}$')" 1
  unset RANK WORLD_SIZE MASTER_ADDR TUTTI_SECRET_FILE TUTTI_SECRET TUTTI_HOST PYTHONHASHSEED LD_LIBRARY_PATH OTHER HERE TUTTI_SPIN_US
  BIG=$(head -c 100000 /dev/zero | tr '\0' x)
  export BIG
  is "100 KB" "$("$tutti" run --hosts a,b --env BIG -- sh -c 'echo ${#BIG}' | sort -u)" 100000
  is "variables here" "$("$tutti" run -n 1 --env GIVEN=x -- sh -c 'echo $GIVEN')" x
}

# Neither the secret nor variables are in the arguments of any process.
test_secrets() {
  local launcher secret file
  begin --hosts a:2,b:2 --env HIDDEN=m4rk3r -- sh -c "echo \$TUTTI_SECRET >secret; $waits"
  all_ready
  secret=$(cat secret)
  is "secret" "${#secret}" 32
  for file in /proc/[0-9]*/cmdline; do
    [[ "$(cat "$file" 2>&1 | tr '\0' ' ')" != *"$secret"* ]] || complain "the secret is in $file"
  done
  for file in a b; do
    is "variables of $file" "$(tr '\0' ' ' <"/proc/$(agent_of $file)/cmdline" | grep -c 'm4rk3r')" 0
  done
  kill -9 "$launcher"
  wait "$launcher" 2>/dev/null
  check_gone "secrets" $(ranks)
}

test_output() {
  "$tutti" run --hosts a:2,b:2 --prefix -- awk 'BEGIN {
    for (i = 0; i < 3000; i++) { printf "line %d of", i; if (i % 100 == 0) fflush(); print " " 3000 } printf "no newline" }' >out
  is "lines" "$(wc -l <out)" 12004
  is "wrong lines" "$(grep -vcE '^\[[0-3]\] (line [0-9]+ of 3000|no newline)$' out)" 0
  head -c 10000000 /dev/urandom >bytes
  "$tutti" run --hosts a,b -- sh -c '[ $TUTTI_RANK = 0 ] || exec cat bytes' >out
  cmp out bytes || complain "10 MB differ"
  "$tutti" run --hosts a,b -- sh -c '[ $TUTTI_RANK = 0 ] || cat bytes >&2' 2>err
  cmp err bytes || complain "10 MB of errors differ"
  run 0 run --hosts a,b --prefix -- true
  is "no output" "$out$err" ""
  "$tutti" run --hosts a,b -- seq 200000 | (sleep 1; cat) >out
  is "slow reader" "$(wc -l <out)" 400000
  timeout 30 "$tutti" run --hosts a,b --prefix -- yes 2>err | head -n 3 >out
  is "reader that leaves" "${PIPESTATUS[0]}" 141
  is "reader that leaves" "$(wc -l <out)" 3
}

test_input() {
  is "input" "$(echo hello | "$tutti" run --hosts a:2,b -- sh -c 'echo $TUTTI_RANK:$(cat)' | sort | tr '\n' ' ')" '0:hello 1: 2: '
  head -c 10000000 /dev/urandom >bytes
  "$tutti" run --hosts a,b --by-host -- cat <bytes >out
  cmp out bytes || complain "10 MB differ"
  is "no input" "$("$tutti" run --hosts a,b -- cat </dev/null)" ""
  is "closed input" "$("$tutti" run --hosts a,b -- sh -c 'cat; echo end' <&- | tr '\n' ' ')" "end end "
  is "input that is not read" "$("$tutti" run --hosts a,b -- echo done <bytes | tr '\n' ' ')" "done done "
}

test_statuses() {
  run 0 run --hosts a:2,b:2 -- true
  is "all good" "$err" ""
  run 7 run --hosts a:2,b:2 -- sh -c 'echo >here.$TUTTI_RANK
    if [ $TUTTI_RANK = 2 ]; then until [ -s here.0 ] && [ -s here.1 ] && [ -s here.3 ]; do sleep 0.01; done; echo $$ >first; exit 7; fi
    until [ -s first ] && ! kill -0 $(cat first) 2>/dev/null; do sleep 0.01; done; exit 4'
  has_facts "first failure" "$err" "rank 2 (host b, pid |status 7|other rank"
  rm first
  # Rank 0 exits because rank 3 is killed on the other host.
  run 137 run --hosts a:2,b:2 -- sh -c 'case $TUTTI_RANK in 3) echo $$ >first; kill -9 $$;; esac
    until [ -s first ] && ! kill -0 $(cat first) 2>/dev/null; do sleep 0.01; done; exit 1'
  has_facts "killed" "$err" "rank 3 (host b, pid |signal 9"
  # Rank 1 does not end by itself.
  rm first
  run 5 run --hosts a,b -- sh -c 'if [ $TUTTI_RANK = 0 ]; then until [ -e first ]; do sleep 0.01; done; exit 5; fi
    echo >first; exec sleep 1000'
  has_facts "grace" "$err" "rank 0 (host a, pid |status 5|host b: ending the 1 rank"
}

# The launcher is stopped while ranks of both hosts end. It must name rank 3, which ended first. The agents wait for the
# launcher for 4 s; on a machine that needs longer for the other steps, the test says nothing.
test_first_of_many_ends() {
  local launcher status
  begin --hosts a:2,b:2 -- sh -c 'echo $$ >ready.$TUTTI_RANK; until [ -e go ]; do sleep 0.01; done
    [ $TUTTI_RANK = 3 ] && exit 9; until ! kill -0 $(cat ready.3) 2>/dev/null; do sleep 0.01; done; sleep 1; exit 3'
  all_ready
  kill -STOP "$launcher"
  until_true 10 stopped "$launcher"
  echo >go
  until_true 10 dead "$(cat ready.0)" && until_true 10 dead "$(cat ready.1)" && until_true 10 dead "$(cat ready.2)"
  kill -CONT "$launcher"
  wait "$launcher"
  status=$?
  if grep -q "its agent has ended" err; then skip "the machine is too slow" && return; fi
  is "status" $status 9
  has_facts "first" "$(cat err)" "rank 3 (host b, pid "
}

test_cannot_start() {
  run 127 run --hosts a,b -- ./missing
  has_facts "no program" "$err" "host |cannot start '$PWD/./missing'|No such file"
  run 127 run --hosts a,b -- missing-everywhere
  has_facts "not in PATH" "$err" "host |cannot start 'missing-everywhere'|No such file"
  echo nothing >plain
  run 126 run --hosts a,b -- ./plain
  has_facts "not executable" "$err" "host |plain'|Permission denied"
  # On host b, the folder is gone when the agent comes.
  mkdir folder
  make_rsh removes 'if [ $host = b ]; then rmdir "$PWD"; cd /; fi; exec sh -c "$*"'
  (TUTTI_RSH=$PWD/removes; cd folder && exec "$tutti" run --hosts a,b -- touch ../never) >out 2>err
  is "no folder: status" $? 1
  has_facts "no folder" "$(cat err)" "host |'$PWD/folder'|No such file|all hosts"
  [ ! -e never ] || complain "a rank was started"
}

test_signals() {
  local name launcher
  for name in INT TERM HUP QUIT USR1; do
    rm -f ready.*
    begin --hosts a:2,b:2 -- bash -c "trap 'echo $name; exit 0' $name; $waits"
    all_ready
    kill -$name "$launcher"
    wait "$launcher"
    is "$name: status" $? 0
    is "$name: passed on" "$(sort out | tr '\n' ' ')" "$name $name $name $name "
  done
  rm -f ready.*
  begin --hosts a:2,b:2 -- bash -c 'echo $$ >ready.$TUTTI_RANK; exec sleep 1000'
  all_ready
  kill -INT "$launcher"
  wait "$launcher"
  is "interrupted" $? 130
  is "message" "$(cat err)" "tutti run: interrupted by signal 2 (Interrupt)"
}

# Ctrl-C on a terminal reaches the process group of the launcher: ssh is in another.
test_interrupted_group() {
  local launcher
  setsid env --default-signal=INT "$tutti" run --hosts a:2,b:2 -- bash -c 'echo $$ >ready.$TUTTI_RANK; exec sleep 1000' >out 2>err &
  launcher=$!
  all_ready
  kill -INT -- "-$launcher"
  wait "$launcher"
  is "status" $? 130
  is "message" "$(cat err)" "tutti run: interrupted by signal 2 (Interrupt)"
}

test_interrupted_while_calling() {
  local launcher
  make_rsh hangs 'echo $$ >"rsh.$host"; exec sleep 1000'
  TUTTI_RSH=$PWD/hangs begin --hosts a,b -- true
  until_true 10 exists rsh.a rsh.b
  kill -INT "$launcher"
  wait "$launcher"
  is "status" $? 130
  is "message" "$(cat err)" "tutti run: interrupted by signal 2 (Interrupt)"
  check_gone "calls" "$(cat rsh.a)" "$(cat rsh.b)"
}

# A launcher that is stopped for longer than an agent waits for signs of life is not given up.
test_stop_and_continue() {
  local launcher rank
  begin --hosts a:2,b:2 -- bash -c 'echo $$ >ready.$TUTTI_RANK; while [ ! -e finish ]; do sleep 0.02; done'
  all_ready
  kill -TSTP "$launcher"
  for rank in 0 1 2 3; do until_true 10 stopped "$(cat ready.$rank)" || complain "rank $rank was not stopped"; done
  until_true 10 stopped "$launcher" || complain "the launcher was not stopped"
  sleep 6
  kill -CONT "$launcher"
  for rank in 0 1 2 3; do until_true 10 not_stopped "$(cat ready.$rank)" || complain "rank $rank did not continue"; done
  touch finish
  wait "$launcher"
  is "status" $? 0
}

# Each rank starts a child, and a daemon that leaves its process group and ignores signals.
family='sleep 1000 & echo $! >child.$TUTTI_RANK
  (setsid bash -c "echo \$\$ >daemon.$TUTTI_RANK; trap \"\" TERM HUP INT; while :; do sleep 0.1; done" &)
  until [ -s daemon.$TUTTI_RANK ]; do sleep 0.01; done
  trap "" TERM HUP INT; echo $$ >ready.$TUTTI_RANK; while :; do sleep 0.1; done'
begin_family() {
  rm -f ready.* child.* daemon.*
  begin --hosts a:2,b:2 -- bash -c "$family"
  all_ready
  agents="$(agent_of a) $(agent_of b) $(cat rsh.a rsh.b)"
}
check_family_gone() { # WHAT PID...
  check_gone "$@" $agents $(ranks) $(cat child.? daemon.?)
}

test_launcher_is_killed() {
  local launcher agents
  begin_family
  kill -9 "$launcher"
  wait "$launcher" 2>/dev/null
  check_family_gone "launcher killed"
}

test_agent_is_killed() {
  local launcher agents
  begin_family
  kill -9 "$(agent_of b)"
  wait "$launcher"
  is "status" $? 1
  has_facts "message" "$(cat err)" "host b: its agent has ended|ranks 2, 3"
  check_family_gone "agent killed"
}

test_guardian_is_killed() {
  local launcher agents
  begin_family
  kill -9 "$(cat rsh.a)"
  wait "$launcher"
  is "status" $? 1
  has_facts "message" "$(cat err)" "host a: its agent has ended|signal 9|ranks 0, 1"
  check_family_gone "guardian killed"
}

test_rank_is_killed() {
  local launcher agents
  begin_family
  kill -9 "$(cat ready.1)"
  wait "$launcher"
  is "status" $? 137
  has_facts "message" "$(cat err)" "rank 1 (host a, pid |signal 9|host a: ending the 1 rank|host b: ending the 2 ranks"
  check_family_gone "rank killed"
}

# The ranks leave processes behind when they end.
test_leaves_nothing_behind() {
  "$tutti" run --hosts a,b -- bash -c 'sleep 1000 & echo $! >child.$TUTTI_RANK
    (setsid bash -c "echo \$\$ >daemon.$TUTTI_RANK; trap \"\" TERM; while :; do sleep 0.1; done" &)
    until [ -s daemon.$TUTTI_RANK ]; do sleep 0.01; done' >out 2>err
  is "status" $? 0
  check_gone "left behind" $(cat child.? daemon.?)
}

# A side that is stopped is silent, as one behind a cut connection.
test_silent_agent() {
  local launcher agents
  begin_family
  kill -STOP "$(agent_of b)"
  wait "$launcher"
  is "status" $? 1
  has_facts "message" "$(cat err)" "host b: no sign of life for 4 s|ranks 2, 3"
  check_family_gone "silent agent"
}
# A launcher that runs late notices the silence later.
test_silent_agent_and_late_launcher() {
  local launcher agents
  begin_family
  kill -STOP "$(agent_of b)" "$launcher"
  sleep 3
  kill -CONT "$launcher"
  wait "$launcher"
  is "status" $? 1
  has_facts "message" "$(cat err)" "host b: no sign of life for 4 s|ranks 2, 3"
  check_family_gone "silent agent and late launcher"
}
test_silent_launcher() {
  local launcher agents
  begin_family
  kill -STOP "$launcher"
  check_family_gone "silent launcher"
  kill -CONT "$launcher"
  wait "$launcher"
  is "status" $? 1
}

test_banner() {
  make_rsh banner 'echo "Welcome to $host"; printf "no newline \001tutti agen"; exec sh -c "$*"'
  TUTTI_RSH=$PWD/banner run 0 run --hosts a,b -- echo x
  is "output" "$out" $'x\nx'
  make_rsh noise 'echo "warning of $host" >&2; exec sh -c "$*"'
  TUTTI_RSH=$PWD/noise run 0 run --hosts a,b -- sleep 0.2
  is "errors" "$(sort err.txt)" $'tutti run: host a: warning of a\ntutti run: host b: warning of b'
  make_rsh endless 'yes Welcome'
  TUTTI_RSH=$PWD/endless run 1 run --hosts a -- echo x
  has_facts "endless banner" "$err" "host a: |did not start|65536 bytes|'Welcome; Welcome"
  make_rsh late '(until [ -e begun ]; do sleep 0.05; done; echo late) & exec sh -c "$*"'
  TUTTI_RSH=$PWD/late run 1 run --hosts a -- sh -c "echo >begun; exec sleep 60"
  has_facts "late output" "$err" "host a: |frame|login shell"
}

test_no_agent() {
  make_rsh refuses 'echo "Permission denied (publickey)." >&2; exit 255'
  TUTTI_RSH=$PWD/refuses run 1 run --hosts a -- true
  is "refused" "$err" "tutti run: host a: refuses ended with status 255: Permission denied (publickey)."
  make_rsh elsewhere 'exec /no/such/tutti'
  TUTTI_RSH=$PWD/elsewhere run 1 run --hosts a -- true
  has_facts "missing" "$err" "host a: $(readlink -f "$tutti") did not start there|status 127|not found|all hosts"
  make_rsh quiet 'exit 0'
  TUTTI_RSH=$PWD/quiet run 1 run --hosts a -- true
  has_facts "quiet" "$err" "host a: |did not start|status 0"
  make_rsh killed 'kill -9 $$'
  TUTTI_RSH=$PWD/killed run 1 run --hosts a -- true
  has_facts "killed" "$err" "host a: |did not start|signal 9"
  TUTTI_RSH=/no/such/ssh run 1 run --hosts a -- true
  has_facts "no ssh" "$err" "cannot start 'ssh' to reach host a|No such file"
  make_rsh other 'sh -c "$*" | sed -u "s/agent\x02[0-9]* [0-9.]*/agent\x02999 77.8.9/"'
  TUTTI_RSH=$PWD/other run 1 run --hosts a,b -- true
  has_facts "other version" "$err" "host |$(readlink -f "$tutti")|77.8.9|protocol 999|here it is version $("$tutti" --version | cut -d' ' -f2)|same version"
  is "one sentence" "$(wc -l <err.txt)" 1
}

# Nothing answers: the launcher gives up after half a minute.
test_no_answer() {
  make_rsh hangs 'echo "still trying" >&2; exec sleep 1000'
  TUTTI_RSH=$PWD/hangs run 1 run --hosts a -- true
  has_facts "message" "$err" "host a: |no answer within 30 s|still trying"
}

# TUTTI_RSH may have arguments. Without it, ssh gets options that make it fail where it would ask.
test_rsh() {
  printf '#!/bin/sh\nshift 2\n. "%s"\n' "$scratch/rsh" >words
  chmod +x words
  TUTTI_RSH="$PWD/words -p  22" run 0 run --hosts a -- echo x
  is "arguments" "$out" x
  mkdir bin
  printf '#!/bin/sh\nprintf "%%s|" "$@" >arguments\nwhile [ "$1" != -- ]; do shift; done\nshift\n. "%s"\n' "$scratch/rsh" >bin/ssh
  chmod +x bin/ssh
  (unset TUTTI_RSH; PATH=$PWD/bin:$PATH; run 0 run --hosts me@a -- echo x; is "ssh" "$out" x; exit $complaints) || complaints=$((complaints + 1))
  has_facts "options of ssh" "$(cat arguments)" "-T|BatchMode=yes|ConnectTimeout=10|--|me@a|exec $(readlink -f "$tutti") run --agent|"
}

# The path of the command has characters that shells treat in a special way.
test_odd_path() {
  local folder shell tried=
  folder="$PWD/a b'c\"d\$e\\f;g!h*i"
  mkdir "$folder" && cp "$tutti" "$folder/tutti"
  for shell in sh bash dash csh tcsh zsh fish; do
    command -v "$shell" >/dev/null || continue
    make_rsh "rsh-$shell" "exec $shell -c \"\$*\""
    TUTTI_RSH=$PWD/rsh-$shell run_tool 0 "$folder/tutti" run --hosts a -- echo "$shell"
    is "$shell" "$out" "$shell"
    tried="$tried $shell"
  done
  has "shells" "$tried" "sh bash"
}

test_bind() {
  local cpus=($(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{ for (i = $1; i <= ($2 ? $2 : $1); i++) print i }'))
  "$tutti" run --hosts a:3,b:2 --bind core -- sh -c 'taskset -cp $$ | sed "s/.*: //" >cpu.$TUTTI_RANK'
  local rank local=(0 1 2 0 1)
  for rank in 0 1 2 3 4; do is "rank $rank" "$(cat cpu.$rank)" "${cpus[$((local[rank] % ${#cpus[@]}))]}"; done
}

# Ranks inherit no descriptors of agents.
test_descriptors() {
  local own=$(ls /proc/self/fd | sort -n | tr '\n' ' ')
  is inherited "$("$tutti" run --hosts a,b -- ls /proc/self/fd | sort -nu | tr '\n' ' ')" "$own"
}

# An agent that something else starts says so, and ends.
test_agent_alone() {
  "$tutti" run --agent </dev/null >out 2>err
  is "no input" $? 1
  head -c 100 /dev/urandom | timeout 20 "$tutti" run --agent >out 2>err
  is "random input" $? 1
  has_facts "random input" "$(cat err)" "--agent|only tutti run"
}

run_at_once
