#!/bin/bash
# hosts_net_test.sh SOURCE BUILD: the project's suites, and failures, on hosts that are namespaces (netns.sh), over a
# network that works and over one that damages packets. Each row prints its figure.
# test: slow timeout=600
set -u
. "$1/tests/shell.sh"
[ -n "${TEST_LONG-}" ] || { echo "skipped: runs only with TEST_LONG"; exit 77; }
. "$1/tests/netns.sh"
. "$1/tests/suites.sh"
tutti=$2/tutti build=$(realpath "$2")
here=$(mktemp -d)
trap 'hosts_end; rm -rf "$here"' EXIT
cd "$here" || exit 1
collectives="allreduce reduce broadcast allgather gather scatter alltoall reduce_scatter scan exscan"

# Makes as many hosts as the words of a list name. Sets `placed`, the list for placement.h.
make_for() { # "HOSTS" [tap]
  local word count=0
  for word in $1; do [ "$word" -lt "$count" ] || count=$((word + 1)); done
  hosts_make "$count" "${@:2}" || return
  placed=
  for word in $1; do placed+="@${hosts[word]}:h$word "; done
  export TEST_MASTER_ADDR=${job_address:-10.77.0.1}
}

shapes=("0 1" "0 0 1 1" "0 1 2 3" "0 0 0 1" "0 1 2 3 4 5 6 7")

test_suites() {
  local shape chosen
  hosts_possible || { skip "$hosts_why"; return; }
  for shape in "${shapes[@]}"; do
    echo "  hosts $shape:"
    make_for "$shape" || continue
    # The plans of plans_test lie in /tmp, which the hosts do not share.
    mapfile -t chosen < <(printf '%s\n' "${suites[@]}" | grep -v plans_test)
    suites_on "$placed" "${chosen[@]}"
    hosts_end
  done
}

# Every collective, measured and checked, by IPv4 and IPv6.
test_every_collective() {
  local shape job_address rows wrong
  hosts_possible || { skip "$hosts_why"; return; }
  for job_address in 10.77.0.1 fd77::1; do
    for shape in "${shapes[@]}" "0 1 0 1" "0 0 1 2 2 2"; do
      make_for "$shape" || continue
      # shellcheck disable=SC2086
      begin_job "$shape" "$tutti" bench $collectives -n "$(wc -w <<<"$shape")" --bytes 8:1M:64 --time-ms 5
      end_job
      rows=$(grep -c '^ *[0-9]' out.0) wrong=$(awk '/^ *[0-9]/ { n += $11 + $17 } END { print n + 0 }' out.0)
      echo "  $job_address, hosts $shape: $rows rows, $wrong wrong elements"
      is "hosts $shape: rows" "$rows" 30
      is "hosts $shape: wrong elements" "$wrong" 0
      hosts_end
    done
  done
}

tap_counts() {
  local what
  for what in sent dropped doubled reordered flipped overflowed; do echo -n " $(tap_count "$what") $what"; done
}

test_damaged_network() {
  local shapes=("" "0 1" "0 0 1 1" "0 1 2 3") shape seed what
  hosts_possible || { skip "$hosts_why"; return; }
  tap_possible || { skip "$tap_why"; return; }
  for seed in 1 2 3; do
    shape=${shapes[seed]}
    make_for "$shape" tap || continue
    for what in "seed $seed" "delay 100" "drop 0.002" "double 0.01" "reorder 0.01 1000" "flip 0.002"; do
      tap_say "$what"
    done
    echo "  seed $seed, hosts $shape:"
    suites_on "$placed" "$conformance" sweep_test tensor_test woven_test
    echo "   $(tap_counts)"
    for what in dropped doubled reordered flipped; do
      [ "$(tap_count $what)" -gt 0 ] || complain "seed $seed, hosts $shape: no packet was $what"
    done
    hosts_end
  done
}

now_us() { echo "${EPOCHREALTIME/./}"; }

# 64 ranks on 8 hosts: from the start of the first process to the end of the last one, a barrier in between.
test_start_of_64() {
  local i began shape
  hosts_possible || { skip "$hosts_why"; return; }
  shape=$(for i in {0..63}; do echo -n "$((i / 8)) "; done)
  for i in 1 2 3; do
    make_for "$shape" || continue
    began=$(now_us)
    begin_job "$shape" "$tutti" bench barrier -n 64 --time-ms 1
    end_job || complain "the job of 64 ranks failed"
    echo "  64 ranks on 8 hosts, start to end: $((($(now_us) - began) / 1000)) ms (bar: 2000 ms)"
    hosts_end
  done
}

# ---- failures ----

# begin_rounds "HOSTS" ELEMENTS [fork | late]: starts a job that calls allreduce until it fails, and waits until all
# ranks have begun. A call gives up after 20 s: what is known earlier was not found by that.
begin_rounds() {
  local r
  rm -f stop out.*
  begin_job "$1" env TUTTI_TIMEOUT_MS=20000 "$build/tests/until_error" "$2" "$here/stop" "${@:3}"
  for r in "${!job_pids[@]}"; do
    until grep -q begun "out.$r"; do
      kill -0 "${job_pids[r]}" 2>/dev/null || { complain "rank $r has ended: $(cat "out.$r")"; return 1; }
      sleep 0.01
    done
  done
  sleep 0.3 # the ranks are in the midst of their calls, or wait
}

# end_known WHAT BAR VICTIMS SURVIVORS BEGAN: waits for the survivors; all must have got TUTTI_ERR_PEER, with the number
# of a victim in the message. Prints after how many ms the last survivor knew; BAR: what it should be, in ms.
end_known() {
  local r line known what worst=0 wrong=0
  for r in $4; do
    wait "${job_pids[r]}" || { complain "$1: rank $r ended with status $?"; wrong=1; }
    line=$(grep -e '^knew' "out.$r")
    grep -Eq "^knew [0-9]+ TUTTI_ERR_PEER .*rank ($(tr ' ' '|' <<<"$3"))\b" <<<"$line" ||
      { complain "$1: rank $r: expected TUTTI_ERR_PEER that names one of ranks $3, got '$(tail -n 1 "out.$r")'"; wrong=1; }
    known=$(awk -v began="$5" '/^knew/ { print int(($2 - began) / 1000) }' "out.$r")
    [ "${known:-0}" -le "$worst" ] || worst=$known
  done
  [ $wrong = 0 ] && what="" || what=", and not all as they should"
  echo "  $1: the last of ranks $4 knew after $worst ms (bar: $2 ms)$what"
}

# A rank is killed, with data under way and without, and with a forked child of it that lives on.
test_killed() {
  local shape how victim began survivors
  hosts_possible || { skip "$hosts_why"; return; }
  for shape in "0 1" "0 0 1 1" "0 1 2 3" "0 1 2 3 4 5 6 7"; do
    for how in "20000" "20000 fork" "2 late"; do
      for victim in 0 $(($(wc -w <<<"$shape") - 1)); do
        [ "$how" != "2 late" ] || [ "$victim" != 0 ] || continue # the last rank is late
        make_for "$shape" || continue
        # shellcheck disable=SC2086
        if begin_rounds "$shape" $how; then
          began=$(now_us)
          { kill -9 "${job_pids[victim]}"; wait "${job_pids[victim]}"; } 2>/dev/null
          survivors=$(seq 0 $((${#job_pids[@]} - 1)) | grep -vx "$victim" | tr '\n' ' ')
          end_known "hosts $shape, $how: rank $victim killed" 200 "$victim" "${survivors% }" "$began"
        fi
        hosts_end
      done
    done
  done
}

# ranks_where "HOSTS" [-v] HOST: prints the ranks of a host; with -v, those of the others.
ranks_where() { tr ' ' '\n' <<<"$1" | grep -nx "${@:2}" | awk -F: '{ printf "%s%d", n++ ? " " : "", $1 - 1 }'; }

# A host falls silent: its link is cut. Both sides must know: the ranks of the host, and all others.
test_silent_host() {
  local shape how last began others own
  hosts_possible || { skip "$hosts_why"; return; }
  for shape in "0 1" "0 0 1 1" "0 1 2 3"; do
    for how in "20000" "2 late"; do
      make_for "$shape" || continue
      last=${shape##* }
      others=$(ranks_where "$shape" -v "$last") own=$(ranks_where "$shape" "$last")
      # shellcheck disable=SC2086
      if begin_rounds "$shape" $how; then
        began=$(now_us)
        link_down "$last"
        end_known "hosts $shape, $how: host $last silent" 3000 "$own" "$others" "$began"
        [ "$how" = "2 late" ] ||
          end_known "hosts $shape, $how: host $last silent, seen from there" 3000 "$others" "$own" "$began"
      fi
      hosts_end
    done
  done
}

# Ends a job that must still work.
end_good() { # WHAT
  local r
  touch stop
  end_job || complain "$1: the job did not end well"
  for r in "${!job_pids[@]}"; do grep -q '^done' "out.$r" || complain "$1: rank $r: $(tail -n 1 "out.$r")"; done
  echo "  $1: $(tail -n 1 out.0 | cut -c 1-100)"
}

# A link is away for 1.2 s, three times: no error, and nothing is lost.
test_link_away() {
  local shape how i
  hosts_possible || { skip "$hosts_why"; return; }
  for shape in "0 1" "0 0 1 1" "0 1 2 3"; do
    for how in "20000" "2 late"; do
      make_for "$shape" || continue
      # shellcheck disable=SC2086
      if begin_rounds "$shape" $how; then
        for i in 1 2 3; do
          link_down "${shape##* }"
          sleep 1.2
          link_up "${shape##* }"
          sleep 1.5
        done
        end_good "hosts $shape, $how: link away for 1.2 s, three times"
      fi
      hosts_end
    done
  done
}

# A stopped process is not dead: the others wait, and nothing is lost when it goes on. If it does not, the time-out of the
# call names it.
test_stopped() {
  local shape last r
  hosts_possible || { skip "$hosts_why"; return; }
  for shape in "0 1" "0 0 1 1" "0 1 2 3"; do
    make_for "$shape" || continue
    last=$(($(wc -w <<<"$shape") - 1))
    if begin_rounds "$shape" 20000; then
      kill -STOP "${job_pids[last]}"
      sleep 5
      kill -CONT "${job_pids[last]}"
      end_good "hosts $shape: rank $last stopped for 5 s"
    fi
    if begin_rounds "$shape" 20000; then
      kill -STOP "${job_pids[last]}"
      for ((r = 0; r < last; r++)); do
        wait "${job_pids[r]}"
        grep -q "^knew [0-9]* TUTTI_ERR_TIMEOUT .*rank $last\b" "out.$r" ||
          complain "rank $last stopped: rank $r: $(tail -n 1 "out.$r")"
      done
      echo "  hosts $shape: rank $last stopped: $(tail -n 1 out.0 | cut -d ' ' -f 3- | cut -c 1-100)"
    fi
    hosts_end
  done
}

run_tests
