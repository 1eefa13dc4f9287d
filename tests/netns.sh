# netns.sh: hosts made of namespaces, for tests that run as root. A script reads it right after shell.sh, before it
# makes anything, with `. "$1/tests/netns.sh"`. The arguments of the script are SOURCE BUILD.
#
#   hosts_possible || { skip "$hosts_why"; return; }
#   hosts_make 3                          # h0, h1, h2, joined by a bridge
#   on_host 1 ping -c 1 10.77.0.1         # runs a program on h1; fd77::1 is the same host
#   begin_on_host 2 program >out.2 2>&1   # the same in the background; $! is the process id of the program
#   shape 1gbit; link_down 2; link_up 2
#   hosts_end
#
# A host is a network, mount, UTS and IPC namespace: it has its own hostname, interfaces, /sys, /tmp and /dev/shm. It
# sees SOURCE, BUILD and the current folder of hosts_make also if they lie in /tmp. Connections between hosts use the
# congestion control cubic: it is an attribute of the routes, as a namespace may not always choose one for itself.
#
# The script starts itself again in process, mount and network namespaces of its own; that network namespace has the
# switch between the hosts. So the network of the machine is not touched, and nothing has a name that the machine knows.
# When the script ends, whatever the reason, the kernel ends all its processes, and with them the namespaces, mounts and
# links. All hosts share the script's process namespace, so that $! is the process id that `kill` needs. A host's
# programs therefore see those of the others in /proc. The library does not mind: hosts differ by their networks.
# Process ids, also $$, repeat from script to script: use mktemp for names of files.

# Prints why this machine cannot make hosts; prints nothing if it can.
hosts_lack() {
  local program
  [ "$(id -u)" = 0 ] || { echo "needs root"; return; }
  for program in ip tc unshare nsenter setpriv; do
    command -v "$program" >/dev/null || { echo "needs $program (Debian packages iproute2 and util-linux)"; return; }
  done
  unshare --pid --fork --mount --mount-proc --net --uts --ipc true 2>&1 | sed 's/^/no namespaces: /'
}

# A signal that ends the script kills `unshare`; --kill-child then kills the first process of the process namespace, and
# the kernel kills the rest. That process is not the script, whose programs might mistake a parent 1 for a lost one.
hosts_why=$([ -n "${NETNS_INSIDE-}" ] || hosts_lack)
if [ -z "${NETNS_INSIDE-}" ] && [ -z "$hosts_why" ]; then
  hosts_folder=$(mktemp -d) # of all files that the script makes
  NETNS_INSIDE=1 TMPDIR=$hosts_folder setpriv --pdeathsig KILL \
    unshare --pid --fork --kill-child --mount --mount-proc --net \
    bash -c 'ip link set lo up; "$@"; exit $?' - bash "$0" "$@" <&0 &
  trap 'kill -9 $!; wait $!; rm -rf "$hosts_folder"; exit 143' HUP INT TERM
  wait $!
  hosts_status=$?
  rm -rf "$hosts_folder"
  exit $hosts_status
fi
unset NETNS_INSIDE
hosts_visible=("$(cd "$1" && pwd)" "$(cd "$2" && pwd)")

tap_why= # why the hosts cannot be joined by tests/tap
[ -c /dev/net/tun ] || tap_why="needs /dev/net/tun, of the kernel module tun"
tap_possible() { [ -z "$tap_why" ]; }
hosts_possible() { [ -z "$hosts_why" ]; }

hosts=()      # process ids of the hosts' keepers
hosts_network= # the first three numbers of their addresses
hosts_build=$2

# What the keeper of a host does: prepares the host, says so, and waits to be killed. Arguments: NAME FOLDER...
# shellcheck disable=SC2016
hosts_keeper='
set -eu
echo "$1" >/proc/sys/kernel/hostname
shift
mount -t tmpfs tmpfs /dev/shm # becomes /tmp, once it has the folders that the host needs to see
for folder; do
  case $folder in
    /tmp/?*) mkdir -p "/dev/shm/${folder#/tmp/}" && mount --rbind "$folder" "/dev/shm/${folder#/tmp/}" ;;
  esac
done
mkdir -p /dev/shm/cgroup
mount --rbind /sys/fs/cgroup /dev/shm/cgroup
mount -t sysfs sysfs /sys # of this network namespace
mount --move /dev/shm/cgroup /sys/fs/cgroup
rmdir /dev/shm/cgroup
mount --move /dev/shm /tmp
mount -t tmpfs tmpfs /dev/shm
chmod 1777 /tmp /dev/shm
# An address can be used at once, and not after a search for duplicates.
echo 0 | tee /proc/sys/net/ipv6/conf/all/accept_dad >/proc/sys/net/ipv6/conf/default/accept_dad
# A connection never begins at a port that a launcher on the machine has chosen for a job. While rank 0 does not listen
# yet, a rank of its host could else reach itself there. Nor at 29400 and 29500, the ports of torchrun.
echo 20000 29000 >/proc/sys/net/ipv4/ip_local_port_range
ip link set lo up
echo ready
exec sleep infinity'

# hosts_make N [tap] [NETWORK]: makes hosts h0 to h(N-1). Host I has the addresses NETWORK.(I+1)/24 (NETWORK: 10.77.0)
# and fd77::(I+1)/64 on eth0. With tap, the program tests/tap is the switch, and tap_say gives it commands.
hosts_make() {
  local count=$1 with_tap="" i fd line pid
  hosts_network=10.77.0
  for line in "${@:2}"; do [ "$line" = tap ] && with_tap=1 || hosts_network=$line; done
  hosts=()
  for ((i = 0; i < count; i++)); do
    exec {fd}< <(exec unshare --net --mount --uts --ipc bash -c "$hosts_keeper" - "h$i" "${hosts_visible[@]}" "$PWD")
    pid=$!
    line=
    read -r -u "$fd" line
    exec {fd}<&-
    hosts+=("$pid")
    [ "$line" = ready ] || { complain "host $i cannot be made"; return 1; }
  done
  if [ -n "$with_tap" ]; then hosts_join_tap; else hosts_join_bridge; fi ||
    { complain "the hosts cannot be joined"; return 1; }
  for ((i = 0; i < count; i++)); do
    hosts_ip "$i" >/dev/null <<END || { complain "host $i gets no address"; return 1; }
address add $hosts_network.$((i + 1))/24 dev eth0 noprefixroute
address add fd77::$((i + 1))/64 dev eth0 nodad noprefixroute
link set eth0 up
route add $hosts_network.0/24 dev eth0 src $hosts_network.$((i + 1)) congctl cubic
route add fd77::/64 dev eth0 congctl cubic
END
  done
}

hosts_ip() { nsenter --target "${hosts[$1]}" --net ip -batch -; } # HOST: runs commands of ip on standard input there

hosts_join_bridge() {
  local i
  {
    echo "link add switch type bridge stp_state 0 mcast_snooping 0"
    echo "link set switch addrgenmode none up"
    for i in "${!hosts[@]}"; do
      echo "link add h$i type veth peer name eth0 netns ${hosts[i]}"
      echo "link set h$i addrgenmode none master switch up"
    done
  } | ip -batch -
}

# enter_host I COMMAND...: replaces this shell by a program on host I.
enter_host() {
  TMPDIR=/tmp exec nsenter --target "${hosts[$1]}" --net --mount --uts --ipc --wdns="$PWD" -- "${@:2}"
}
on_host() { (enter_host "$@"); }          # I COMMAND...: runs a program on host I
begin_on_host() { (enter_host "$@") & }   # I COMMAND...: starts it; its process id is $!

# begin_job "HOSTS" COMMAND...: starts a job by hand, with one rank for each word of HOSTS, the number of the rank's host.
# The output of rank R goes to out.R. Rank 0 listens on $job_address; by default on the IPv4 address of its host.
begin_job() {
  local on r=0
  read -r -a on <<<"$1"
  job_pids=()
  for r in "${!on[@]}"; do
    begin_on_host "${on[r]}" env TUTTI_RANK="$r" TUTTI_WORLD_SIZE="${#on[@]}" TUTTI_MASTER_PORT=33456 TUTTI_SECRET=s3 \
      TUTTI_MASTER_ADDR="${job_address:-$hosts_network.$((on[0] + 1))}" TUTTI_TUNING=none "${@:2}" >"out.$r" 2>&1
    job_pids+=($!)
  done
}
# end_job: waits for all ranks. Returns 0 if all of them did; complains about each that did not end well.
end_job() {
  local r status bad=0
  for r in "${!job_pids[@]}"; do
    wait "${job_pids[r]}"
    status=$?
    [ $status = 0 ] || { complain "rank $r ended with status $status: $(tail -n 3 "out.$r")"; bad=1; }
  done
  return $bad
}

# The program tests/tap is a coprocess; it answers each command with a line.
hosts_join_tap() {
  local i spaces=()
  for i in "${hosts[@]}"; do spaces+=("/proc/$i/ns/net"); done
  coproc hosts_tap { exec "$hosts_build/tests/tap" "${spaces[@]}"; }
  tap_hears
}
tap_hears() { # reads an answer
  read -r -u "${hosts_tap[0]}" tap_answer || { complain "the tap has ended"; return 1; }
  [[ "$tap_answer" == ok* ]] || { complain "the tap says: $tap_answer"; return 1; }
}
tap_say() { echo "$*" >&"${hosts_tap[1]}" && tap_hears; } # COMMAND...: see tests/tap.c
# tap_count WHAT: prints how many packets the tap has treated so (sent, dropped, doubled, ...).
tap_count() {
  tap_say count >&2 || return
  awk -v what="$1" '{ for (i = 2; i < NF; i += 2) if ($i == what) print $(i + 1) }' <<<"$tap_answer"
}
tap_end() {
  [ -n "${hosts_tap_PID-}" ] || return 0
  local pid=$hosts_tap_PID
  kill "$pid"
  wait "$pid" 2>/dev/null
  unset hosts_tap_PID
}

# Cuts the link of host I, or mends it. No host loses its carrier: after a carrier comes back, Linux may wait for up to a
# second before it sends.
link_down() { if [ -n "${hosts_tap_PID-}" ]; then tap_say "down $1"; else bridge link set dev "h$1" state 0; fi; }
link_up() { if [ -n "${hosts_tap_PID-}" ]; then tap_say "up $1"; else bridge link set dev "h$1" state 3; fi; }

# shape RATE [BURST]: limits both directions of each host's link to a rate of tc (100mbit); shape none: no longer. Bridge
# only. By default, a burst of 64 KiB lets one segment of the largest size pass.
shape() {
  local i verb=replace
  local how=(root tbf rate "$1" burst "${2:-64kb}" latency 50ms)
  [ "$1" != none ] || verb=delete how=(root)
  for i in "${!hosts[@]}"; do
    if tc qdisc "$verb" dev "h$i" "${how[@]}"; then on_host "$i" tc qdisc "$verb" dev eth0 "${how[@]}"; else false; fi ||
      { complain "the link of host $i cannot be shaped to $1"; return 1; }
  done
}

# Prints the process ids of host I, one a line, its keeper left out.
host_pids() {
  local space path pid
  space=$(readlink "/proc/${hosts[$1]}/ns/net")
  for path in /proc/[0-9]*/ns/net; do
    pid=${path#/proc/} pid=${pid%/ns/net}
    [ "$pid" = "${hosts[$1]}" ] || [ "$(readlink "$path" 2>/dev/null)" != "$space" ] || echo "$pid"
  done
}

# Ends all hosts, with the programs that run there. It may be called again, and from a trap.
hosts_end() {
  local i left
  for i in "${!hosts[@]}"; do
    # The kernel removes the links of a network namespace some time after the namespace has ended.
    ip link delete "h$i" 2>/dev/null
    until left=$(host_pids "$i") && [ -z "$left" ]; do
      # shellcheck disable=SC2086
      { kill -9 $left; wait $left; } 2>/dev/null
    done
    { kill -9 "${hosts[i]}"; wait "${hosts[i]}"; } 2>/dev/null
  done
  hosts=()
  tap_end
  ip link delete switch 2>/dev/null || return 0
}
