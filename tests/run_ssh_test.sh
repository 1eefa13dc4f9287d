#!/bin/bash
# run_ssh_test.sh SOURCE BUILD: tests `tutti run --hosts` over ssh: hosts are namespaces with an sshd each. As root, for
# an ordinary user that only these namespaces have, whose login shell prints a banner and empties the environment.
# test: slow timeout=300
set -u
. "$1/tests/shell.sh"
[ -n "${TEST_LONG-}" ] || { echo "skipped: runs only with TEST_LONG"; exit 77; }
. "$1/tests/netns.sh"
here=$(mktemp -d)
trap 'hosts_end; rm -rf "$here"' EXIT
cd "$here" || exit 1
build=$(realpath "$2")
uid=64738
hosts_possible || { echo "skipped: $hosts_why"; exit 77; }
for program in /usr/sbin/sshd ssh ssh-keygen; do
  command -v $program >/dev/null || { echo "skipped: $program not found (tools/setup hosts installs it)"; exit 77; }
done

# ---- the hosts: h0 has the launcher; all have an sshd and the same user, home and command ----

mkdir bin home home/.ssh programs
cp "$build/tutti" bin/tutti
cat >shell <<'END'
#!/bin/sh
echo "Welcome to $(hostname)"
exec env -i /bin/sh "$@"
END
ssh-keygen -q -t ed25519 -N '' -f home/.ssh/id_ed25519 && ssh-keygen -q -t ed25519 -N '' -f wrong_key
cp home/.ssh/id_ed25519.pub home/.ssh/authorized_keys
sed '/^tutti-test:/d' /etc/passwd >passwd
echo "tutti-test:*:$uid:$uid::$here/home:$here/shell" >>passwd
hosts_make 3 || exit 1
for host in 0 1 2; do
  ssh-keygen -q -t ed25519 -N '' -f "key.$host"
  echo "10.77.0.$((host + 1)) $(cat "key.$host.pub")" >>home/.ssh/known_hosts
  cat >"sshd.$host" <<END
HostKey $here/key.$host
AuthorizedKeysFile $here/home/.ssh/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
END
  # sshd needs /run/sshd. Of this host alone: /run and /etc/passwd.
  on_host $host sh -c "mount --bind '$here/passwd' /etc/passwd && mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd"
  begin_on_host $host /usr/sbin/sshd -f "$here/sshd.$host" -D -e >"sshd.$host.log" 2>&1
done
chmod 755 . bin bin/tutti programs shell
chown -R $uid:$uid home programs
chmod 700 home/.ssh
tutti=$here/bin/tutti
# launch ARGUMENTS: replaces this shell by the launcher, as the user on host 0.
launch() { enter_host 0 setpriv --reuid $uid --regid $uid --clear-groups env HOME="$here/home" "$tutti" run "$@"; }
# job STATUS ARGUMENTS: runs a job; sets `out` and `err`.
job() {
  (cd programs && launch "${@:2}") >out.txt 2>err.txt </dev/null
  local status=$?
  out=$(cat out.txt) err=$(cat err.txt)
  [ "$status" = "$1" ] || complain "status of ${*:2}: got $status, expected $1: $err"
}
until_true() { # SECONDS COMMAND...
  local turns=$(($1 * 20))
  shift
  while ! "$@"; do
    [ $((turns--)) -gt 0 ] || return 1
    sleep 0.05
  done
}
answers() { on_host "$1" bash -c ": <>/dev/tcp/127.0.0.1/22" 2>/dev/null; }
for host in 0 1 2; do until_true 20 answers $host || complain "sshd of host $host does not answer: $(cat sshd.$host.log)"; done

# Prints the processes of the user on host I, without those of ssh.
left_on() {
  local pid
  for pid in $(host_pids "$1"); do
    [ "$(awk '/^Uid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null)" = $uid ] || continue
    case $(cat "/proc/$pid/comm" 2>/dev/null) in sshd | ssh | "") ;; *) echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline")" ;; esac
  done
}
nothing_left() { [ -z "$(left_on 0)$(left_on 1)$(left_on 2)" ]; }
check_nothing_left() { until_true 20 nothing_left || complain "$1: processes are left: $(left_on 0; left_on 1; left_on 2)"; }
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

two=10.77.0.2:2,10.77.0.3:2

test_a_job() {
  job 0 --hosts $two --prefix --env GIVEN=x -- sh -c 'echo $TUTTI_RANK $(hostname) $GIVEN $PWD $TUTTI_MASTER_ADDR'
  is "places" "$(sort -n <<<"$out" | cut -d' ' -f1-5)" "$(printf '[%d] %d %s x %s\n' 0 0 h1 "$here/programs" 1 1 h1 "$here/programs" 2 2 h2 "$here/programs" 3 3 h2 "$here/programs")"
  is "no banner" "$err" ""
  is "addresses" "$(awk '{ print $6 }' <<<"$out" | sort -u)" "10.77.0.2,[fd77::2],127.0.0.1,[::1]"
  job 0 --hosts 10.77.0.1:2,$two --by-host -- "$tutti" bench allreduce alltoall -n 6 --bytes 8:32K:64 --time-ms 2
  is "rows without wrong elements" "$(sed 's/^\[[0-9]*\] *//' <<<"$out" | awk '!/^#/ && $11 == 0 && $17 == 0' | wc -l)" 6
  check_nothing_left "a job"
}

# Training gives the same bits on one host and on two.
test_train() {
  local data=/usr/share/datasets/fashion-mnist list
  [ -x "$build/examples/train" ] || { skip "no examples/train in the build"; return; }
  [ -d $data ] || { skip "no Fashion-MNIST (tools/setup demo installs it)"; return; }
  cp "$build"/examples/train "$build"/libtutti.so* programs/
  for list in 10.77.0.2:2 10.77.0.2,10.77.0.3; do
    job 0 --hosts $list --env LD_LIBRARY_PATH="$here/programs" -- ./train --epochs 1 --samples 8192 --result "result.${#list}"
  done
  is "models" "$(sed -n 's/^model //p' programs/result.* | grep -c .)" 2
  is "different models" "$(sed -n 's/^model //p' programs/result.* | sort -u | wc -l)" 1
}

# Each of these is one sentence that names the host.
test_refused() {
  local said=10.77.0.3
  cp home/.ssh/id_ed25519 right_key && cp wrong_key home/.ssh/id_ed25519
  chown $uid home/.ssh/id_ed25519
  job 1 --hosts $said -- true
  has_facts "wrong key" "$err" "tutti run: host $said: ssh ended with status 255|Permission denied (publickey)"
  is "wrong key: lines" "$(wc -l <err.txt)" 1
  cp right_key home/.ssh/id_ed25519
  cp home/.ssh/known_hosts known && sed -i "/^$said /d" home/.ssh/known_hosts
  job 1 --hosts $said -- true
  has_facts "unknown host key" "$err" "tutti run: host $said: ssh ended with status 255|Host key verification failed"
  is "unknown host key: lines" "$(wc -l <err.txt)" 1
  cp known home/.ssh/known_hosts
  job 1 --hosts 10.77.0.99 -- true
  has_facts "no such host" "$err" "tutti run: host 10.77.0.99: ssh ended with status 255|No route to host"
  job 1 --hosts someone@$said -- true
  has_facts "another user" "$err" "tutti run: host someone@$said: ssh ended with status 255|Permission denied"
}

# What is missing on host 2 only. The mounts are of that host.
test_missing() {
  cp /bin/true programs/program
  on_host 2 mount -t tmpfs tmpfs "$here/programs"
  job 127 --hosts $two -- ./program
  has_facts "no program" "$err" "tutti run: host 10.77.0.3: |cannot start '$here/programs/./program'|No such file"
  is "no program: lines" "$(wc -l <err.txt)" 1
  mkdir -p programs/folder
  (cd programs/folder && launch --hosts $two -- true) >out.txt 2>err.txt
  is "no folder: status" $? 1
  has_facts "no folder" "$(cat err.txt)" "tutti run: host 10.77.0.3: |'$here/programs/folder'|No such file"
  on_host 2 umount "$here/programs"
  on_host 2 mount -t tmpfs tmpfs "$here/bin"
  job 1 --hosts $two -- true
  has_facts "no tutti" "$err" "tutti run: host 10.77.0.3: $tutti did not start there|not found|it must be installed"
  is "no tutti: lines" "$(wc -l <err.txt)" 1
  printf '#!/bin/sh\nprintf "\\001tutti agent\\0021 77.8.9\\n"\nexec cat >/dev/null\n' >"$here/other"
  chmod 755 "$here/other"
  on_host 2 cp "$here/other" "$tutti"
  job 1 --hosts $two -- true
  has_facts "other version" "$err" "tutti run: host 10.77.0.3: $tutti|77.8.9|here it is version $("$tutti" --version | cut -d' ' -f2)"
  is "other version: lines" "$(wc -l <err.txt)" 1
  until_true 20 on_host 2 umount "$here/bin" 2>/dev/null || complain "the command of host 2 is still used"
  check_nothing_left "missing"
}

begin() { # starts a job whose ranks wait, each with a child that has left its process group
  rm -f programs/ready.*
  (cd programs && launch --hosts $two -- bash -c '(setsid sleep 1000 &) ; echo $$ >ready.$TUTTI_RANK
    trap "" TERM HUP INT; while :; do sleep 0.1; done') >out.txt 2>err.txt </dev/null &
  launcher=$!
  until_true 30 all_ready || complain "the ranks did not start: $(cat err.txt)"
}
all_ready() { for rank in 0 1 2 3; do [ -s programs/ready.$rank ] || return 1; done; }
# end_after WHAT STATUS: waits for the launcher, and for all processes; prints how long both took.
end_after() {
  local began
  began=$(milliseconds)
  wait "$launcher" 2>/dev/null
  is "$1: status" $? "$2"
  printf '  %s: the launcher ended after %d ms' "$1" $(($(milliseconds) - began))
  check_nothing_left "$1"
  printf ', all processes after %d ms\n' $(($(milliseconds) - began))
}
# pid_on HOST WORDS: prints the process of the user whose command line contains the words; the last one started.
pid_on() { left_on "$1" | grep -F "$2" | tail -n 1 | cut -d' ' -f1; }

test_killed() {
  begin
  kill -9 "$launcher"
  end_after "launcher killed" 137
  begin
  kill -9 "$(pid_on 2 'run --agent')"
  end_after "agent killed" 1
  has_facts "agent killed" "$(cat err.txt)" "host 10.77.0.3: its agent has ended|ranks 2, 3"
  begin
  kill -9 "$(cat programs/ready.1)"
  end_after "rank killed" 137
  has_facts "rank killed" "$(cat err.txt)" "rank 1 (host 10.77.0.2, pid |signal 9"
}

test_cut() {
  begin
  link_down 2
  end_after "host cut" 1
  has_facts "host cut" "$(cat err.txt)" "host 10.77.0.3: no sign of life for 4 s|ranks 2, 3"
  link_up 2
  begin
  link_down 0
  end_after "launcher cut" 1
  link_up 0
}

# A program that uses the library learns of a killed rank by itself.
test_library() {
  rm -f programs/ready.*
  (cd programs && launch --hosts $two -- sh -c "echo \$\$ >ready.\$TUTTI_RANK; exec $tutti bench allreduce -n 4 --bytes 8:16M:2 --time-ms 60000") >out.txt 2>err.txt </dev/null &
  launcher=$!
  until_true 30 all_ready
  until_true 30 grep -q '#wrong' out.txt
  kill -9 "$(cat programs/ready.3)"
  end_after "rank killed in a call" 137
  has_facts "rank killed in a call" "$(cat err.txt)" "rank 3 (host 10.77.0.3, pid |signal 9"
}

run_tests
