#!/bin/bash
# bench_fabric_test.sh SOURCE BUILD: tests `tutti bench links --hosts`, over sockets and over libfabric, and
# tools/bench-fabric: all rows are there, of the wire that was asked for, with right data; and error messages. No time is
# judged.
# test: slow timeout=300
set -u
. "$1/tests/shell.sh"
tool=$(realpath "$1")/tools/bench-fabric build=$(realpath "$2")
tutti=$build/tutti
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
unset TUTTI_FABRIC

# links STATUS "HOSTS" OPTIONS...: runs the command in a job with one rank for each word of HOSTS, which name its host.
links() {
  local hosts
  read -r -a hosts <<<"$2"
  export TEST_HOSTS=$2
  run "$1" run -n "${#hosts[@]}" -- "$build/tests/place" "$tutti" bench links --hosts --time-ms 1 "${@:3}"
  unset TEST_HOSTS
}
# field NAME: prints the values of a field of the rows of JSON, each once, in the order of the rows.
field() { sed -n "s/.*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p" out.txt | awk '!seen[$0]++' | tr '\n' ' '; }

test_table() {
  TUTTI_FABRIC=none links 0 "a b" --bytes 1,13,300001
  is "heading" "$(head -n 1 out.txt)" "# rank 0 with rank 1: sockets"
  is "rows" "$(awk '!/^#/ { printf "%s/%s ", $1, $2 }' out.txt)" "ping/1 ping/13 ping/300001 put/1 put/13 put/300001 \
get/1 get/13 get/300001 send/1 send/13 send/300001 both/1 both/13 both/300001 "
  is "rows without 8 columns, a time, or right data" "$(awk '!/^#/ && !(NF == 8 && $3 > 0 && $4 <= $3 && $8 == 0)' out.txt)" ""
}

# Ranks 0 and 2 share a host; so do 1 and 4.
test_hosts() {
  TUTTI_FABRIC=none links 0 "a b a c b" --bytes 8,4K --tests get,ping --outstanding 3 --json
  is "lines that are not objects" "$(grep -cv '^{"version": 1, "verb": "bench", "links": "hosts", .*}$' out.txt)" 0
  is "rows" "$(wc -l <out.txt)" 8
  is "tests" "$(field test)" "ping get "
  is "ranks that are measured" "$(field peer)" "1 3 "
  is "wires" "$(field wire)" "sockets "
  is "wrong data" "$(field wrong)" "0 "
}

test_fabric() {
  [ -x "$build/fabric_bench" ] || { skip "libfabric not found; tools/setup fabrics installs it"; return; }
  TUTTI_FABRIC=tcp links 0 "a b" --bytes 8,300001 --json
  is "rows" "$(wc -l <out.txt)" 10
  is "wires" "$(field wire)" "fabric "
  is "fabrics" "$(field fabric | sed 's|^tcp.*/[a-z0-9]* $|tcp/interface|')" "tcp/interface"
  is "wrong data" "$(field wrong)" "0 "
}

test_refuses() {
  links 2 "a a"
  has_facts "one host" "$err" "2 or more hosts|all 2 ranks"
  links 2 "a b" -n 3
  has_facts "another number of ranks" "$err" "-n 3|2 ranks"
  run 2 bench links --hosts
  has_facts "no job" "$err" "2 or more hosts|tutti run --hosts"
  run 2 bench links --hosts --tests put,pong
  has_facts "unknown test" "$err" "--tests|'put,pong'"
  run 2 bench links --hosts --bytes 0
  has_facts "no bytes" "$err" "--bytes|1 byte to 1G"
  run 2 bench links --hosts --outstanding 65
  has_facts "too many" "$err" "--outstanding|1 to 64|65"
  run 2 bench links --hosts extra
  has "an argument" "$err" "options only"
  run 2 bench links --hosts --channels 2
  has "an option of other links" "$err" "--channels"
  run 0 bench links --hosts --help
  has "help" "$out" "--outstanding"
  # 2 x 4 buffers of 64 MiB do not fit into 64 MiB.
  TUTTI_SHM_BYTES=64M links 1 "a b" --bytes 64M
  has "too little memory" "$err" "TUTTI_SHM_BYTES"
}

test_script() {
  [ "$(id -u)" = 0 ] || { skip "needs root"; return; }
  "$tool" "$build" --rounds 1 --sizes "1048576 8" --time-ms 1 --shape 1gbit >out.txt 2>err.txt </dev/null
  local status=$?
  case $(cat err.txt) in
    *"hosts cannot be made here"* | *"fabric_bench not found"*) skip "$(head -n 1 err.txt)"; return ;;
  esac
  is "status: $(tail -n 3 err.txt)" $status 0
  has_facts "first line" "$(head -n 1 out.txt)" "links: 1gbit|fabric: tcp|rounds: 1"
  is "rows" "$(awk '$2 ~ /^[0-9]/ { printf "%s/%s ", $1, $2 }' out.txt)" \
    "ping/8 ping/1048576 put/8 put/1048576 get/8 get/1048576 send/8 send/1048576 both/8 both/1048576 "
  is "rows without a time or a ratio" \
    "$(awk '$2 ~ /^[0-9]/ && !(NF == 9 && $3 > 0 && $4 > 0 && $5 > 0 && $7 > 0 && $8 > 0)' out.txt)" ""
  command -v iperf3 >/dev/null || { skip "iperf3 not found; tools/setup fabrics installs it"; return; }
  # The limit of the link: 8.4 ms for 1 MiB.
  is "row without a time of iperf3" "$(awk '$1 == "put" && $2 > 8 && !($6 > 7000 && $9 > 0)' out.txt)" ""
}

test_script_refuses() {
  refused "usage: tools/bench-fabric BUILD"
  refused "nowhere/tutti not found" nowhere
  refused "--sizes: expected multiples of 8, found '12'" "$build" --sizes "8 12"
  refused "--tests: expected ping, put, get, send or both, found 'write'" "$build" --tests "put write"
  refused "--rounds: expected 1 to 999, found '0'" "$build" --rounds 0
  refused "--shape: expected none or a rate such as 1gbit, found 'fast'" "$build" --shape fast
  refused "unknown option '--size'" "$build" --size 4
}

run_tests
