#!/bin/bash
# bench_hosts_test.sh SOURCE BUILD: tests tools/bench-peers --hosts: each installed peer is started on two hosts, which
# are namespaces, and has right results there; a shaped link is measured. No time is judged.
# test: fast timeout=300
set -u
. "$1/tests/shell.sh"
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
command -v python3 >/dev/null || { echo "python3 not found" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# compare ARGUMENTS...: runs the tool. Returns 1 if this machine lacks what it needs. Sets `out` and `err`.
compare() {
  local status
  [ "$(id -u)" = 0 ] || { skip "needs root"; return 1; }
  python3 "$source/tools/bench-peers" "$build" --rounds 1 --time-ms 1 --json all.json "$@" >out.txt 2>err.txt </dev/null
  status=$?
  out=$(cat out.txt) err=$(cat err.txt)
  case $err in
    *"hosts cannot be made here"* | *"no peer is installed"* | *"built with sanitizers"*) skip "$err"; return 1 ;;
  esac
  is "status of $*" "$status" 0
  [ "$status" = 0 ] || { complain "$err"; return 1; }
}

# field ROW COLUMN: prints a field of a table's row, without blanks.
field() { cut -d '|' -f "$2" <<<"$1" | tr -d ' '; }

test_every_peer() {
  local row bytes peer column=6 known=0
  compare --hosts 2x1 --sizes 8,64K --late 1 || return
  for peer in openmpi mpich gloo; do
    if [[ "$err" == *"$peer is not installed"* ]]; then
      skip "$peer is not installed; tools/setup peers installs it"
      continue
    fi
    known=$((known + 1))
    for bytes in 8 64K; do
      row=$(grep -F "| 2x1 | allreduce | $bytes |" <<<"$out")
      [[ "$(field "$row" 5)" =~ ^[0-9.]+$ ]] || complain "$bytes bytes: no time of this library in '$row'"
      [[ "$(field "$row" $column)" =~ ^[0-9.]+$ ]] || complain "$bytes bytes: no time of $peer in '$row'"
    done
    grep -Eq "^\| $peer:[a-z+]* \| [0-9]+ \| 1 \|$" <<<"$out" || complain "no CPU time of $peer in: $out"
    column=$((column + 3))
  done
  is "tables" "$(grep -c '^Links: not limited$' <<<"$out")" 1
  is "peers in the table" "$(grep -o ' us | setting | ratio' <<<"$out" | wc -l)" "$known"
  [[ "$err" == *"openmpi is not installed"* ]] || is "bar of short allreduces" \
    "$(grep -cE '^\| allreduce 8 to 1K, 2x1 \| <= 1.1 x Open MPI \| [0-9.]+ \(8, Open MPI; of 8\) \| (yes|no) \|$' <<<"$out")" 1
  is "bar of 16 MiB" "$(grep -cE '^\| allreduce 16M, 4x1 \|.*\| not measured \|$' <<<"$out")" 1
}

# The loop without a library has two ranks, so it has no time with 2x2.
test_bare_sockets() {
  local bytes
  compare --hosts 2x1,2x2 --sizes 8,64K,1M --peers sockets || return
  for bytes in 8 64K 1M; do
    [[ "$(field "$(grep -F "| 2x1 | allreduce | $bytes |" <<<"$out")" 8)" =~ ^[0-9.]+$ ]] ||
      complain "$bytes bytes: no ratio to bare sockets in: $out"
    is "time of bare sockets, $bytes bytes, 2x2" "$(field "$(grep -F "| 2x2 | allreduce | $bytes |" <<<"$out")" 6)" ""
  done
}

# 1 MiB is the shortest message for which a shaped link is measured.
test_shaped() {
  local row rate
  compare --hosts 2x1 --shape 1gbit --sizes 1M --peers gloo || return
  row=$(grep -F "| 2x1 | allreduce | 1M |" <<<"$out")
  [[ "$(field "$row" 9)" =~ ^[0-9.]+$ ]] || complain "no time of the flat plan in '$row'"
  rate=$(python3 -c 'import json; print(json.load(open("all.json"))["tables"][0]["link_bits_per_s"]["0"])')
  if ! command -v iperf3 >/dev/null; then
    skip "iperf3 is not installed; tools/setup peers installs it"
  else # the shaper lets no more pass
    awk -F '[][, ]+' '{ exit !($2 > 1e5 && $2 < 1.1e9 && $3 > 1e5 && $3 < 1.1e9) }' <<<"$rate" ||
      complain "rates of the link: $rate bit/s"
  fi
}
run_tests
