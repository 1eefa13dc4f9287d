#!/bin/bash
# tiles.sh SOURCE BUILD ROUNDS SIZES TILES CALLS: what tools/bench-tiles runs, which explains it. Needs root.
set -u
complain() { echo "tools/bench-tiles: $*" >&2; }
. "$1/tests/netns.sh"
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd) rounds=$3 sizes=$4 tile_sizes=$5 calls=$6
hosts_possible || { complain "hosts cannot be made here: $hosts_why"; exit 1; }
program=$build/bench-tiles-program
"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O2 -I"$source/include" "$source/bench/tiles.c" "$build/libtutti.a" \
  -lexpat -lhwloc -lsodium -lyaml -pthread -lm -o "$program" || exit 1
hosts_make 2 || exit 1
trap 'hosts_end; rm -f "$program"' EXIT
export BENCH_HOSTS="${hosts[*]}" TUTTI_RSH=$source/bench/peers/remote-shell

# tiles CALL BYTES TILE strided|contiguous ROUNDS: sets load, store, one, two, ratio and wrong.
tiles() {
  local away=1 said
  [ "$1" = reduce ] || away=3
  said=$(on_host 0 "$build/tutti" run --hosts "10.77.0.1:1,10.77.0.2:$away" -n $((away + 1)) --bind none -- "$program" "$@") ||
    exit 1
  read -r load store one two ratio wrong <<<"$said"
}
# is_even: loading and storing a tile take the same time within 25%.
is_even() { awk -v a="$load" -v b="$store" 'BEGIN { exit !(a <= 1.25 * b && b <= 1.25 * a) }'; }

# even_out CALL BYTES TILE: limits the links so that loading a tile takes as long as storing it. Sets rate, in Mbit/s.
even_out() {
  local try free
  [ -z "${rate-}" ] || shape none
  tiles "$1" "$2" "$3" strided 0
  free=$load
  rate=$(awk -v b="$3" -v s="$store" -v f="$free" 'BEGIN { t = s - f / 2; printf "%d", b * 8 / (t > s / 4 ? t : s / 4) }')
  for try in 1 2 3 4 5 6; do
    shape "${rate}mbit" 6kb || exit 1
    tiles "$1" "$2" "$3" strided 0
    awk -v a="$load" -v b="$store" 'BEGIN { exit !(a <= 1.08 * b && b <= 1.08 * a) }' && return
    rate=$(awk -v r="$rate" -v a="$load" -v b="$store" 'BEGIN { printf "%d", r * a / b }')
  done
}

status=0
printf '%-7s %9s %6s %6s %8s %8s %9s %9s %6s %6s   %s\n' call bytes tile Mbit/s load_us store_us one_us two_us ratio wrong \
  "contiguous: one_us two_us ratio wrong"
for call in $calls; do
  for bytes in $sizes; do
    for tile in $tile_sizes; do
      [ $((bytes / tile)) -ge 16 ] || continue
      # The machine may have changed since the rate was found.
      for try in 1 2 3; do
        even_out "$call" "$bytes" "$tile"
        tiles "$call" "$bytes" "$tile" strided "$rounds"
        is_even && break
      done
      is_even || status=1
      row=$(printf '%-7s %9s %6s %6s %8s %8s %9s %9s %6s %6s' "$call" "$bytes" "$tile" "$rate" "$load" "$store" "$one" "$two" \
        "$ratio" "$wrong")
      [ "$wrong" = 0 ] || status=1
      tiles "$call" "$bytes" "$tile" contiguous "$rounds"
      [ "$wrong" = 0 ] || status=1
      printf '%s   %18s %6s %5s %5s\n' "$row" "$one" "$two" "$ratio" "$wrong"
    done
  done
done
exit $status
