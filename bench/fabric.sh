#!/bin/bash
# fabric.sh SOURCE BUILD ROUNDS SIZES TESTS PROVIDER RATE TIME_MS: what tools/bench-fabric runs, which explains it. SIZES
# are separated by commas. Needs root.
set -u
complain() { echo "tools/bench-fabric: $*" >&2; }
. "$1/tests/netns.sh"
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd) rounds=$3 sizes=$4 tests=$5 provider=$6 rate=$7 time_ms=$8
hosts_possible || { complain "hosts cannot be made here: $hosts_why"; exit 1; }
hosts_make 2 || exit 1
here=$(mktemp -d)
trap 'hosts_end; rm -rf "$here"' EXIT
[ "$rate" = none ] || shape "$rate" || exit 1
export BENCH_HOSTS="${hosts[*]}" TUTTI_RSH=$source/bench/peers/remote-shell FABRIC_ADDRESS=10.77.0.1:30100
# The CPUs on which this script may run, separated by commas.
cpus=$(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' |
  awk -F - '{ for (c = $1; c <= (NF > 1 ? $2 : $1); c++) print c }' | paste -sd ,)
cpu_count=$(tr ',' '\n' <<<"$cpus" | wc -l)

# pair PROGRAM...: runs a program as two ranks, one on each host, and each on a CPU of its own.
pair() {
  on_host 0 "$build/tutti" run --hosts 10.77.0.1:1,10.77.0.2:1 --env FABRIC_ADDRESS -- \
    "$source/bench/peers/on-cpu" "$cpus" "$cpu_count" "$@" </dev/null
}

# The functions below print a line "TEST BYTES MICROSECONDS" for each figure.

# The bare loop writes where tutti puts or sends, and its time of a ping is that of a round trip. It polls, and then it
# sleeps: the better time counts. On limited links, two ranks that poll delay the kernel, which has no other CPU here.
bare() {
  local way names=""
  [[ $tests != *ping* ]] || names+=" ping"
  [[ $tests != *put* && $tests != *send* ]] || names+=" write"
  [[ $tests != *get* ]] || names+=" read"
  [[ $tests != *both* ]] || names+=" both"
  : >"$here/bare"
  for way in "" --sleep; do
    # shellcheck disable=SC2086
    TUTTI_FABRIC=none pair "$build/fabric_bench" $names $way --provider "$provider" --bytes "$sizes" \
      --time-ms "$time_ms" >>"$here/bare" || return
  done
  awk -v tests="$tests" '
    BEGIN {
      count = split("ping ping put write get read send write both both", pairs)
      for (i = 1; i < count; i += 2) loop[pairs[i]] = pairs[i + 1]
    }
    $2 ~ /^[0-9]+$/ {
      us = $1 == "ping" ? $3 / 2 : $3
      if (!(($1, $2) in best) || us < best[$1, $2]) best[$1, $2] = us
    }
    END {
      for (key in best) {
        split(key, row, SUBSEP)
        for (i = split(tests, names, " "); i > 0; i--)
          if (loop[names[i]] == row[1]) print names[i], row[2], best[key]
      }
    }' "$here/bare"
}

# tutti_over FABRIC WIRE: the command over that fabric, which must be of that wire.
tutti_over() {
  TUTTI_FABRIC=$1 pair "$build/tutti" bench links --hosts --json --bytes "$sizes" --tests "${tests// /,}" \
    --time-ms "$time_ms" >"$here/tutti" || return
  if grep -qv "\"wire\": \"$2\"" "$here/tutti"; then
    complain "TUTTI_FABRIC=$1: expected the wire '$2', found $(grep -v "\"wire\": \"$2\"" "$here/tutti" | head -n 1)"
    return 1
  fi
  sed 's/.*"test": "\([a-z]*\)".*"bytes": \([0-9]*\), "time_us": \([0-9.]*\),.*/\1 \2 \3/' "$here/tutti"
}

# One connection from host 0 to host 1, for a second. Its figure is the time of as many bytes at that rate, from 64 KiB
# up.
iperf() {
  local server rate_mbit
  command -v iperf3 >/dev/null || return 0
  begin_on_host 1 iperf3 -s -1 -p 30200 >"$here/server" 2>&1
  server=$!
  for _ in {1..100}; do
    on_host 1 ss -tln | grep -q :30200 && break
    sleep 0.05
  done
  on_host 0 iperf3 -c 10.77.0.2 -p 30200 -t 1 -f m >"$here/iperf" 2>&1
  kill "$server" 2>/dev/null
  wait "$server" 2>/dev/null
  rate_mbit=$(awk '/receiver/ { for (i = 2; i <= NF; i++) if ($i == "Mbits/sec") print $(i - 1) }' "$here/iperf")
  [[ $rate_mbit =~ ^[0-9.]+$ ]] || { complain "iperf3 has failed: $(tail -n 1 "$here/iperf")"; return 1; }
  awk -v mbit="$rate_mbit" -v sizes="$sizes" -v tests="$tests" 'BEGIN {
    for (t = split(tests, names, " "); t > 0; t--)
      for (s = split(sizes, bytes, ","); s > 0; s--)
        if (names[t] != "ping" && bytes[s] >= 65536) print names[t], bytes[s], bytes[s] * 8 / mbit
  }'
}

# Each round begins with another program.
for ((round = 1; round <= rounds; round++)); do
  for ((turn = 0; turn < 4; turn++)); do
    case $(((round + turn) % 4)) in
      1) side=bare && bare >"$here/figures" ;;
      2) side=fabric && tutti_over "$provider" fabric >"$here/figures" ;;
      3) side=sockets && tutti_over none sockets >"$here/figures" ;;
      0) side=iperf3 && iperf >"$here/figures" ;;
    esac || { complain "round $round: $side has failed"; exit 1; }
    sed "s/^/$round $side /" "$here/figures" >>"$here/all"
  done
done

echo "# two namespaces, links: $rate; fabric: $(sed -n '1s/^# \(.*\), mr_mode.*/\1/p' "$here/bare"); rounds: $rounds"
awk -v tests="$tests" -v sizes="$sizes" -v rounds="$rounds" '
  # Returns the median of values[1..n]; "-" if n is 0.
  function median(values, n,  i, k, x) {
    for (i = 2; i <= n; i++) {
      x = values[i]
      for (k = i - 1; k > 0 && values[k] > x; k--) values[k + 1] = values[k]
      values[k + 1] = x
    }
    return n == 0 ? "-" : (values[int((n + 1) / 2)] + values[int(n / 2) + 1]) / 2
  }
  function time_of(side,  n, r, values) {
    for (r = 1; r <= rounds; r++) if ((r, side, test, bytes) in us) values[++n] = us[r, side, test, bytes]
    return median(values, n + 0)
  }
  # The time over the fabric, in the times of a side.
  function ratio_to(side,  n, r, values) {
    for (r = 1; r <= rounds; r++)
      if ((r, side, test, bytes) in us) values[++n] = us[r, "fabric", test, bytes] / us[r, side, test, bytes]
    return median(values, n + 0)
  }
  function cell(value, width, digits) { return sprintf(value == "-" ? "%" width "s" : "%" width "." digits "f", value) }
  { us[$1, $2, $3, $4] = $5 }
  END {
    split("bare fabric sockets iperf3", sides)
    printf "%-5s %9s %11s %11s %11s %11s %12s %14s %13s\n", "test", "bytes", "bare_us", "fabric_us", "sockets_us",
      "iperf3_us", "fabric/bare", "fabric/sockets", "fabric/iperf3"
    test_count = split(tests, names, " ")
    size_count = split(sizes, list, ",")
    for (t = 1; t <= test_count; t++)
      for (s = 1; s <= size_count; s++) {
        test = names[t]
        bytes = list[s]
        printf "%-5s %9s", test, bytes
        for (i = 1; i <= 4; i++) printf " %s", cell(time_of(sides[i]), 11, 2)
        printf " %s %s %s\n", cell(ratio_to("bare"), 12, 2), cell(ratio_to("sockets"), 14, 2), cell(ratio_to("iperf3"), 13, 2)
      }
  }' "$here/all"
