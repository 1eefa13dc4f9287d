#!/bin/bash
# trace_jobs_test.sh SOURCE BUILD: traces of real jobs, as a user makes and reads them.
# test: fast waits timeout=120
set -u
. "$1/tests/shell.sh"
. "$1/tests/processes.sh"
unset TUTTI_TRACE TUTTI_TRACE_BYTES TUTTI_TIMEOUT_MS
tutti=$(realpath "$2")/tutti
traced=$(realpath "$2")/tests/traced
printf '#!/bin/sh\nhost=$1\nshift\nTUTTI_HOST=$host exec sh -c "$*"\n' >"$scratch/rsh"
# The clock of host b is 1000 s ahead of that of the others.
printf '#!/bin/sh\nhost=$1\nshift\nexport TUTTI_HOST=$host\n[ $host = b ] && exec unshare --time --monotonic 1000 sh -c "$*"\nexec sh -c "$*"\n' >"$scratch/rsh-ahead"
chmod 755 "$scratch" "$scratch/rsh" "$scratch/rsh-ahead"

# of_json EXPRESSION: prints an expression over what `tutti trace --json` has written into trace.json, `o`.
of_json() { python3 -c 'import json,sys; o=json.load(open("trace.json")); print(eval(sys.argv[1]))' "$1"; }
# look PATH...: reads traces as data, and as text into `out`.
look() {
  run 0 trace --json "$@"
  cp out.txt trace.json
  run 0 trace "$@"
}
# check_timeline FILE RANKS: the timeline parses, and has one row for the calls of each rank.
check_timeline() {
  is "rows of calls in $1" "$(python3 -c '
import json, re, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
pid = [e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == "calls"]
print(sum(e["name"] == "thread_name" and e["pid"] in pid and ": waits" not in e["args"]["name"] for e in events))' "$1")" "$2"
}

test_run() {
  run 0 run -n 2 --trace run.json -- "$traced" slow 1
  check_timeline run.json 2
  is "standard error" "$err" ""
  run 0 run -n 2 --trace run.html -- "$traced" slow 1
  has_facts "page" "$(cat run.html)" '<html|"allreduce(count 64, f64|"ranks": 2|</html>'
  is "what is left in TMPDIR" "$(mkdir tmp; TMPDIR=$PWD/tmp "$tutti" run -n 2 --trace x.json -- "$traced" slow 1 >/dev/null; ls tmp)" ""
  run 0 run -n 2 --trace - -- "$traced" open
  cp out.txt out.json
  has "standard output" "$(python3 -m json.tool out.json)" '"traceEvents"'
}

test_run_refused() {
  run 1 run -n 2 --trace none/x.json -- touch started
  has_facts "a folder that is not there" "$err" "--trace|none/x.json|No such file"
  [ ! -e started ] || complain "the program ran before the file was tried"
  run 1 run -n 2 --trace x.json -- true
  has_facts "no program of tutti" "$err" "--trace|no rank has recorded"
  [ ! -e x.json ] || complain "there is an empty file"
}

test_slow() {
  TUTTI_TRACE=$PWD/t run 0 run -n 3 -- "$traced" slow 1
  cp out.txt stats
  look t
  has_facts "slow rank" "$out" "3 ranks|began last: rank 1, in |waited for longest: rank 1, |% "
  is "who was awaited" "$(of_json 'o["calls"][0]["awaited"], o["calls"][0]["latest"], o["calls"][0]["count"], o["calls"][0]["open"]')" "(1, 1, 10, 0)"
  is "awaited before it came" "$(of_json 'o["rank"][1]["late_s"] > 0.4')" True
  is "path on rank 1" "$(of_json 'max(o["rank"], key=lambda r: r["critical_s"])["rank"]')" 1
  is "path and time" "$(of_json 'abs(sum(o["critical"].values()) - o["time_s"]) < 1e-6')" True
  # The counter of the library says the same of rank 0, which has printed it.
  is "waits of tutti_stats" "$(of_json 'abs(int(open("stats").read().split()[1]) * 1e-9 - o["rank"][0]["waited_s"]) < 1e-3')" True
}

test_killed() {
  TUTTI_TRACE=$PWD/t "$tutti" run -n 3 -- "$traced" killed 1 "$PWD/there" >run.out 2>run.err
  exists there || complain "the rank was not killed"
  look t
  has "text" "$out" "not ended on all ranks: 1 of them"
  is "calls" "$(of_json '[(c["count"], c["open"]) for c in o["calls"]]')" "[(10, 0), (1, 1)]"
  is "calls of the killed rank" "$(of_json 'o["rank"][1]["calls"]')" 10
  "$tutti" run -n 3 --trace killed.json -- "$traced" killed 1 "$PWD/there" >run.out 2>run.err
  is "status" $? 137
  check_timeline killed.json 3
  # A rank that was killed while it made its file.
  : >t/tutti-0000000000000001-7.trace
  run 0 trace t
  : >only-tutti && mkdir u && : >u/tutti-0000000000000001-0.trace
  run 1 trace u
  has "nothing recorded" "$err" "killed before they had recorded"
}

# A wait counts for the call that waited, though only a call before it has moved anything.
test_orphaned() {
  TUTTI_TRACE=t "$tutti" run -n 2 -- "$traced" orphaned 1 >run.out 2>run.err
  look t
  is "recv" "$(of_json '[(c["awaited"], c["waited_s"] > 0.25, c["open"]) for c in o["calls"] if c["call"][:4] == "recv"]')" \
    "[(1, True, 1)]"
  is "allreduce" "$(of_json '[c["longest_s"] < 0.25 for c in o["calls"] if c["call"][:4] == "allr"]')" "[True]"
}

test_open() {
  TUTTI_TRACE=t run 0 run -n 3 -- "$traced" open
  look t
  is "calls" "$(of_json 'sorted((c["call"].split("(")[0], c["count"], c["open"]) for c in o["calls"])[0]')" "('allreduce', 1, 0)"
  is "messages" "$(of_json 'o["messages"] >= 150, sum(c["count"] for c in o["calls"] if c["call"][:4] == "send"), sum(c["open"] for c in o["calls"])')" "(True, 150, 0)"
  TUTTI_TRACE=u run 0 run -n 3 -- "$traced" threads
  look u
  is "calls of threads" "$(of_json 'sum(c["count"] for c in o["calls"] if "count 64" in c["call"]), sum(c["open"] for c in o["calls"])')" "(30, 0)"
  TUTTI_TRACE=v run 0 run -n 4 -- "$traced" split
  look v
  is "parts of a split" "$(of_json '[c["count"] for c in o["calls"] if "count 64" in c["call"]]')" "[10, 10]"
}

test_worlds() {
  local what
  for what in worlds worlds-in-turn; do
    TUTTI_TRACE=$what run 0 run -n 2 -- "$traced" "$what"
    is "files" "$(ls "$what" | wc -l)" 4
    look "$what"
    is "calls of the last, $what" "$(of_json '[(c["count"], c["open"]) for c in o["calls"]]')" "[(2, 0)]"
    has "others" "$out" "2 files of other jobs were left out; --job"
  done
}

test_jobs() {
  local first
  TUTTI_TRACE=t run 0 run -n 2 -- "$traced" open
  first=$(ls t | sed -n 's/tutti-\(.*\)-0.trace/\1/p')
  TUTTI_TRACE=t run 0 run -n 3 -- "$traced" slow 0
  look t
  is "the last job" "$(of_json 'o["ranks"], o["traces"]')" "(3, 3)"
  look --job "$first" t
  is "the first job" "$(of_json 'o["ranks"], o["job"]')" "(2, '$first')"
  run 0 trace --job "$first" t/*-1.trace
  has "one file" "$out" "the traces of 1 ranks are missing"
  run 1 trace --job abc t
  has "no such job" "$err" "no trace of job abc"
  run 2 trace --job xyz t
  has "no number" "$err" "--job is 'xyz'"
}

test_fork() {
  TUTTI_TRACE=t run 0 run -n 2 -- "$traced" fork
  look t
  is "calls" "$(of_json '[(c["count"], c["open"]) for c in o["calls"]], len(o["rank"])')" "([(2, 0)], 2)"
}

# Descriptors are the program's: the library writes into no file that has got the number of one of its own.
test_closed() {
  mkdir in files
  (cd in && TUTTI_TRACE=t run 0 run -n 2 -- "$traced" closes 0 "files/mine" && cp -r t ..)
  is "files" "$(ls files | wc -l)" 128
  is "files of the program" "$(find files -type f -size +0 | wc -l)" 0
  look t
  is "calls" "$(of_json 'sum(c["count"] for c in o["calls"]), o["unread"]')" "(8, 0)"
}

test_ring() {
  TUTTI_TRACE=t TUTTI_TRACE_BYTES=4K run 0 run -n 2 -- "$traced" sizes
  look t
  has "lost events" "$out" "events were overwritten; TUTTI_TRACE_BYTES"
  is "lost" "$(of_json 'o["lost"] > 0')" True
}

test_alone() {
  TUTTI_TRACE=new/folder run 1 run -n 1 -- "$traced" open
  mkdir new
  TUTTI_TRACE=new/folder run 0 run -n 1 -- "$traced" slow 1
  look new/folder
  is "calls" "$(of_json '[(c["count"], c["open"]) for c in o["calls"]], o["ranks"]')" "([(10, 0)], 1)"
}

test_hosts() {
  export TUTTI_RSH=$scratch/rsh
  run 0 run --hosts a:2,b:2 --trace hosts.json -- "$traced" slow 3
  check_timeline hosts.json 4
  is "places" "$(grep -oE 'rank [0-9]+ \((a|b)\)"' hosts.json | sort -u | tr '\n' ' ')" 'rank 0 (a)" rank 1 (a)" rank 2 (b)" rank 3 (b)" '
  TUTTI_TRACE=$PWD/t run 0 run --hosts a:2,b:2 -- "$traced" slow 3
  look t
  is "hosts" "$(of_json '[(h["host"], abs(h["ahead_s"]) <= (h["error_s"] or 0) + 1e-6) for h in o["hosts"]]')" "[('a', True), ('b', True)]"
  is "last, and path on rank 3" "$(of_json 'o["calls"][0]["latest"], max(o["rank"], key=lambda r: r["critical_s"])["rank"] == 3')" "(3, True)"
  # The last MiB of each file is empty.
  TUTTI_TRACE_BYTES=2093056 run 0 run --hosts a:1,b:1 --trace empty.json -- "$traced" nothing
}

test_other_clock() {
  unshare --time --monotonic 1000 true 2>/dev/null || { skip "unshare --time is not allowed"; return; }
  export TUTTI_RSH=$scratch/rsh-ahead
  # The clock of the boot is the same, so that no time-out of the launcher passes.
  TUTTI_TRACE=$PWD/t run 0 run --hosts a:2,b:2 -- "$traced" slow 3
  look t
  is "clock" "$(of_json '[h["host"] for h in o["hosts"] if abs(h["ahead_s"] - 1000) <= h["error_s"] + 1e-6]')" "['b']"
  has_facts "text" "$out" "host b|clock 1000 s ahead, known to |began last: rank 3"
  is "time" "$(of_json '0.4 < o["time_s"] < 20')" True
}

test_host_killed() {
  export TUTTI_RSH=$scratch/rsh
  "$tutti" run --hosts a:2,b:2 --trace killed.json -- sh -c \
    '[ $TUTTI_HOST = b ] && { sleep 1; kill -9 $PPID; }; exec "$@"' - "$traced" killed 3 "$PWD/there" >run.out 2>run.err
  [ $? != 0 ] || complain "the job succeeded"
  [ ! -s killed.json ] || python3 -m json.tool killed.json >/dev/null || complain "killed.json is broken"
  has "message" "$(cat run.err)" "b"
}

test_bad() {
  local file
  run 2 trace
  has "nothing" "$err" "expected the directory of TUTTI_TRACE"
  run 1 trace none
  has_facts "no directory" "$err" "none|No such file"
  mkdir empty
  run 1 trace empty
  has_facts "empty directory" "$err" "empty|found none"
  echo "this is no trace, though it is a file of some length" >text
  run 1 trace text
  has_facts "no trace" "$err" "text|too short"
  head -c 100000 /dev/urandom >noise
  run 1 trace noise
  has_facts "noise" "$err" "noise|found another file"
  TUTTI_TRACE=t TUTTI_TRACE_BYTES=4K run 0 run -n 2 -- "$traced" open
  for file in t/*; do
    truncate -s 5000 "$file"
    run 1 trace t
    has_facts "cut in the ring" "$err" "$file|shorter than its ring"
    truncate -s 9000 "$file"
  done
  run 0 trace --json t # cut in the records
  run 2 trace --from 2 --until 1 t
  run 1 trace --page none/x.html t
  has_facts "a page that cannot be written" "$err" "none/x.html|No such file"
  run_tool 1 bash -c '"$0" trace --trace - t >/dev/full' "$tutti"
}

test_environment() {
  TUTTI_TRACE=/proc/none run 1 run -n 1 -- "$traced" open
  has_facts "unwritable" "$err" "TUTTI_TRACE is '/proc/none'|expected a directory"
  TUTTI_TRACE=t TUTTI_TRACE_BYTES=100 run 1 run -n 1 -- "$traced" open
  has_facts "too small" "$err" "TUTTI_TRACE_BYTES is 100|4K to 64G"
  [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null || { skip "no mount namespace"; return; }
  mkdir small
  run_tool 1 unshare -m sh -c 'mount -t tmpfs -o size=1M none small && TUTTI_TRACE=small exec "$@"' - "$tutti" run -n 1 -- "$traced" open
  has_facts "no room" "$err" "TUTTI_TRACE is 'small'|No space left"
  # There is room for the ring, but not for all records.
  run_tool 0 unshare -m sh -c 'mount -t tmpfs -o size=36K none small && TUTTI_TRACE_BYTES=28K TUTTI_TRACE=small "$@" && cp small/* .' - \
    "$tutti" run -n 1 -- "$traced" slow 1
  run 0 trace tutti-*.trace
}

# Calls with ever other sizes do not fill the disk: what is recorded of each is limited.
test_sizes() {
  TUTTI_TRACE=t TUTTI_TRACE_BYTES=4K run 0 run -n 2 -- "$traced" sizes
  look t
  is "size" "$(find t -size +1100k | wc -l)" 0
  is "unread" "$(of_json 'o["unread"] > 1000')" True
  has "text" "$out" "calls were not recorded"
}
run_at_once
