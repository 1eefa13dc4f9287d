#!/bin/bash
# bench_links_test.sh SOURCE BUILD: tests `tutti bench links`: that all figures are there, in text and in JSON;
# relations between figures; and error messages. The figures depend on the machine and are not checked.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

links() { run "$1" bench links --time-ms 1 "${@:2}"; }
few=(--bytes 1K,4K --ping-bytes 16,256 --channels 1,3)

# TITLE: prints the rows of the table with this title.
table() { awk -v title="$1" '/^# [a-z]/ { on = index($0, title) > 0 } on && !/^#/ && NF' out.txt; }

test_text() {
  links 0 "${few[@]}"
  is "standard error" "$err" ""
  is "best: sizes" "$(table 'with the best number' | awk '{ printf "%s ", $1 }')" "1024 4096 "
  is "best: numbers of channels that were not measured" "$(table 'with the best number' | awk '$2 != 1 && $2 != 3')" ""
  is "by channels" "$(table 'by size and number' | awk '{ print $1, NF }')" "1024 3
4096 3"
  is "rows whose best is not the maximum" \
    "$(join <(table 'with the best') <(table 'by size and number') | awk '$3 != ($4 > $5 ? $4 : $5)')" ""
  is "pings" "$(table 'one message round a ring of 2' | awk '{ printf "%s/%s ", $1, $2 }')" \
    "16/1 16/2 16/3 16/8 256/1 256/2 256/3 256/8 "
  is "rows where the minimum exceeds the median, or a hop is not half of the round" \
    "$(table 'message round a ring' | awk '!($4 > 0 && $3 >= $4 && $5 * 2 - $3 < 1 && $3 - $5 * 2 < 1)')" ""
  is "trips" "$(table 'round trip' | awk '{ printf "%s ", $1 }')" "16 256 1024 4096 "
  is "rows that are not (full - ideal) / 2" \
    "$(table 'round trip' | awk '{ d = $9 - ($2 - $7) / 2; if (d > 1 || d < -1) print }')" ""
  is "rows that are not (full - issue - answer - ideal) / 2" \
    "$(table 'round trip' | awk '{ d = $8 - ($2 - $5 - $6 - $7) / 2; if (d > 2 || d < -2) print }')" ""
  has_facts "advice" "$(table advice)" "slots|bytes"
}

test_json() {
  links 0 --json -n 3 "${few[@]}" --flag separate --slots 5
  is "rows" "$(cut -d '"' -f 10 out.txt | sort | uniq -c | awk '{ printf "%s:%s ", $2, $1 }')" \
    "advice:1 bandwidth:4 ping:8 trip:4 "
  is "one best per size" "$(grep -c '"best": true' out.txt)" 2
  is "rows with three hops" "$(grep -c '"hops": 3' out.txt)" 8
  is "lines that are not objects" "$(grep -cv '^{"version": 1, "verb": "bench", "links": .*}$' out.txt)" 0
}

# Simulated links: the result is the same each time, for any ring. With Wormhole's figures, the advice is that of the
# manufacturer.
test_played() {
  links 0 --links wormhole --flag separate
  has_facts "advice" "$(table advice)" "4096 to 16384 bytes|8192 bytes"
  is "crossover near 5 KiB" "$(sed -n 's/.*bandwidth counts more than latency from \([0-9]*\) .*/\1/p' out.txt | awk '$1 > 4600 && $1 < 5700 { print "near" }')" near
  is "tables with eight hops" "$(grep -c 'ring of 8 ranks' out.txt)" 1
  cp out.txt first.txt
  links 0 --links wormhole --flag separate
  is "differences of a second run" "$(cmp first.txt out.txt)" ""
  links 0 --links wormhole -n 12 --channels 1 --json
  is "rows with twelve hops" "$(grep -c '"hops": 12' out.txt)" 8
  links 2 --links /no/such
  has "no such file of links" "$err" "/no/such"
  links 2 --links plain -n 1
  has_facts "a ring of one" "$err" "2 to 1024 chips|found 1"
}

test_refuses() {
  links 2 -n 1
  has_facts "one rank" "$err" "2 ranks|found 1"
  links 2 --channels 2,1
  has_facts "descending" "$err" "--channels|1 to 30"
  links 2 --channels 31
  has "too many" "$err" "'31'"
  links 2 --channels 0
  has "none" "$err" "'0'"
  links 2 --bytes 0
  has_facts "no bytes" "$err" "--bytes|1 byte to 1M"
  links 2 --bytes 2M
  has_facts "too long" "$err" "--bytes|1 byte to 1M"
  links 2 --ping-bytes 1:64K:1
  has "a bad list" "$err" "ascending sizes"
  links 2 --slots 65
  has_facts "slots" "$err" "--slots|1 to 64|65"
  links 2 --slots 0
  has_facts "no slots" "$err" "--slots|0"
  links 2 --flag joined
  has_facts "flag" "$err" "--flag|'merged' or 'separate'|'joined'"
  links 2 --chanels 2
  has "a misspelt option" "$err" "--channels"
  links 2 extra
  has "an argument" "$err" "options only"
  run 2 run -n 2 -- "$tutti" bench links -n 3
  has_facts "another number of ranks" "$err" "-n 3|2 ranks"
  run 0 bench links --help
  has "help" "$out" "--ping-bytes"
}

run_tests
