#!/bin/bash
# bench_links_test.sh SOURCE BUILD: `tutti bench links`: every figure is there, as text and as data; how they hang together; what is
# refused. The figures themselves are the machine's.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

links() { run "$1" bench links --time-ms 1 "${@:2}"; }
few=(--bytes 1K,4K --ping-bytes 16,256 --channels 1,3)

# TITLE: the rows of that table.
table() { awk -v title="$1" '/^# [a-z]/ { on = index($0, title) > 0 } on && !/^#/ && NF' out.txt; }

test_text() {
  links 0 "${few[@]}"
  is "standard error" "$err" ""
  is "best: sizes" "$(table 'with the best number' | awk '{ printf "%s ", $1 }')" "1024 4096 "
  is "best: one of the channels" "$(table 'with the best number' | awk '$2 != 1 && $2 != 3')" ""
  is "by channels" "$(table 'by size and number' | awk '{ print $1, NF }')" "1024 3
4096 3"
  is "best is the best" "$(join <(table 'with the best') <(table 'by size and number') | awk '$3 != ($4 > $5 ? $4 : $5)')" ""
  is "pings" "$(table 'once round a ring of 2' | awk '{ printf "%s/%s ", $1, $2 }')" \
    "16/1 16/2 16/3 16/8 256/1 256/2 256/3 256/8 "
  is "least, then median; a hop is half" \
    "$(table 'once round' | awk '!($4 > 0 && $3 >= $4 && $5 * 2 - $3 < 1 && $3 - $5 * 2 < 1)')" ""
  is "trips" "$(table 'there and back' | awk '{ printf "%s ", $1 }')" "16 256 1024 4096 "
  is "(full - ideal) / 2" "$(table 'there and back' | awk '{ d = $9 - ($2 - $7) / 2; if (d > 1 || d < -1) print }')" ""
  is "(full - issue - answer - ideal) / 2" \
    "$(table 'there and back' | awk '{ d = $8 - ($2 - $5 - $6 - $7) / 2; if (d > 2 || d < -2) print }')" ""
  has "advice" "$(table 'what follows')" "slots of "
}

test_json() {
  links 0 --json -n 3 "${few[@]}" --flag separate --slots 5
  is "rows" "$(cut -d '"' -f 4 out.txt | sort | uniq -c | awk '{ printf "%s:%s ", $2, $1 }')" \
    "advice:1 bandwidth:4 ping:8 trip:4 "
  is "one best a size" "$(grep -c '"best": true' out.txt)" 2
  is "three hops" "$(grep -c '"hops": 3' out.txt)" 8
  is "objects" "$(grep -cv '^{"links": .*}$' out.txt)" 0
}

# Played: the same always, for any ring; Wormhole's figures lead to the advice that its makers give.
test_played() {
  links 0 --links wormhole --flag separate
  has "advice" "$out" "slots of 4096 to 16384 bytes; at least 8192 bytes outstanding"
  is "crossover near 5 KiB" "$(sed -n 's/.*bandwidth counts from \([0-9]*\) .*/\1/p' out.txt | awk '$1 > 4600 && $1 < 5700 { print "near" }')" near
  is "eight hops" "$(grep -c 'ring of 8 ranks' out.txt)" 1
  cp out.txt first.txt
  links 0 --links wormhole --flag separate
  is "again" "$(cmp first.txt out.txt)" ""
  links 0 --links wormhole -n 12 --channels 1 --json
  is "twelve hops" "$(grep -c '"hops": 12' out.txt)" 8
  links 2 --links /no/such
  has "no model" "$err" "/no/such"
  links 2 --links plain -n 1
  has "no ring" "$err" "a ring of 2 to 1024 chips, found 1"
}

test_refuses() {
  links 2 -n 1
  has "one rank" "$err" "at least 2 ranks are needed, found 1"
  links 2 --channels 2,1
  has "descending" "$err" "ascending numbers from 1 to 30"
  links 2 --channels 31
  has "too many" "$err" "'31'"
  links 2 --channels 0
  has "none" "$err" "'0'"
  links 2 --bytes 0
  has "no bytes" "$err" "from 1 byte to 1M"
  links 2 --bytes 2M
  has "too long" "$err" "from 1 byte to 1M"
  links 2 --ping-bytes 1:64K:1
  has "a bad list" "$err" "ascending sizes"
  links 2 --slots 65
  has "slots" "$err" "expected 1 to 64, found 65"
  links 2 --slots 0
  has "no slots" "$err" "found 0"
  links 2 --flag joined
  has "flag" "$err" "expected merged or separate, found 'joined'"
  links 2 --chanels 2
  has "a slip" "$err" "--channels"
  links 2 extra
  has "a name" "$err" "takes options only"
  run 2 run -n 2 -- "$tutti" bench links -n 3
  has "another job" "$err" "-n 3, but this job has 2 ranks"
  run 0 bench links --help
  has "help" "$out" "--ping-bytes"
}

run_tests
