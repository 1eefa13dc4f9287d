#!/bin/bash
# hosts.sh SOURCE BUILD COUNT COMMAND...: makes COUNT hosts of namespaces (tests/netns.sh) and runs a command beside them;
# tools/bench-peers --hosts and tools/bench-torch --hosts start themselves again with it. Needs root.
#
# The command finds in BENCH_HOSTS the process ids of the hosts' keepers; host I has the address 10.77.0.(I+1). On
# descriptor 3 it may write a rate of tc, or none: the links of all hosts get it, and the answer on standard input is ok.
set -u
who=tools/${5##*/} # the command is Python and a tool
complain() { echo "$who: $*" >&2; }
. "$1/tests/netns.sh"
hosts_possible || { complain "--hosts: hosts cannot be made here: $hosts_why"; exit 1; }
hosts_make "$3" || exit 1
# The routes between hosts use cubic. This is for connections within a host, where the kernel allows it.
for i in "${!hosts[@]}"; do
  on_host "$i" sh -c 'echo cubic >/proc/sys/net/ipv4/tcp_congestion_control' 2>/dev/null
done
export BENCH_HOSTS="${hosts[*]}"
exec {out}>&1
coproc tool { exec "${@:4}" 3>&1 >&"$out"; }
pid=${tool_PID?} in=${tool[0]} answers=${tool[1]}
while read -r -u "$in" rate; do
  if shape "$rate"; then echo ok; else echo failed; fi >&"$answers"
done
wait "$pid"
status=$?
hosts_end
exit $status
