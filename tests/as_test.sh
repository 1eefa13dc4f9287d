#!/bin/bash
# as_test.sh SOURCE BUILD: tests what `tutti as` prints on which output, and its exit statuses. as_execute_test.c tests
# how programs are executed.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

group='!pto.group<4x!pto.memref<16x32xf32>>' all='!pto.memref<64x32xf32>'
cat >gather.pto <<EOF
// A gather.
.arg %group : $group;
.arg %dst : $all;   tgather %group, %dst
EOF

test_print() {
  run 0 as gather.pto
  is "standard error" "$err" ""
  is "a module" "$out" ".arg %group : $group
.arg %dst : $all
tgather %group, %dst : ($group, $all)"
  cp out.txt printed.pto
  run 0 as printed.pto
  cmp -s out.txt printed.pto || complain "a program that is printed, read and printed again has changed: $out"
  "$tutti" as - <gather.pto | cmp -s - printed.pto || complain "the result differs if the program is on standard input"
  run 0 as gather.pto -o file.pto
  is "standard output with -o" "$out" ""
  cmp -s file.pto printed.pto || complain "the file of -o differs from standard output"
  for seed in "$source"/tests/fuzz_seeds/pto/*.pto; do
    [ "${seed##*/}" != broken.pto ] || continue
    run 0 as "$seed" --lower
    cp out.txt lowered.pto
    run 0 as lowered.pto
    cmp -s out.txt lowered.pto || complain "$seed: a lowered program that is read and printed has changed: $out"
  done
}

test_lower() {
  local tile='!pto.tile<32x32xf32, valid=?x?>' small='!pto.tile<5x8xf32, valid=?x7?>'
  run 0 as gather.pto --lower
  is "one tile" "$out" ".arg %group : $group
.arg %dst : $all
.arg %tile0 : $tile
tgather %group, %dst, %tile0 : ($group, $all, $tile)"
  run 0 as gather.pto --tiles 5x7 --ping-pong
  is "two tiles" "$(tail -1 out.txt)" "tgather %group, %dst, %tile0, %tile1 : ($group, $all, $small, $small)"
}

test_refusals() {
  echo 'tgathr %a' >wrong.pto
  run 1 as wrong.pto
  has_facts "unknown instruction" "$err" "tutti as: wrong.pto:1:1: |'tgathr'|'tgather'"
  is "standard output" "$out" ""
  "$tutti" as - <wrong.pto 2>err.txt
  has "standard input" "$(cat err.txt)" "standard input:1:1: "
  printf '.arg %%a : !pto.memref<...>\ntput %%a, %%a\n' >open.pto
  run 1 as open.pto --lower
  has_facts "no element type for tiles" "$err" "open.pto:2:1: |element type|tiles"
  run 2 as ./no/such.pto
  has_facts "no such file" "$err" "'./no/such.pto'|No such file or directory"
  run 2 as gather.pto -o /no/such/folder/file.pto
  has "no such folder" "$err" "'/no/such/folder/file.pto'"
}

test_usage() {
  run 2 as
  run 2 as gather.pto gather.pto
  for tiles in 16 x 16x 0x4 4x0 4x4x4 1048577x1 -1x4; do
    run 2 as gather.pto --tiles=$tiles
    has_facts "tiles $tiles" "$err" "--tiles|ROWSxCOLS|1 to 2^20|'$tiles'"
  done
  run 2 as gather.pto --arg a=b
  has_facts "an argument without --execute" "$err" "--arg, --at, --out and --root|--execute"
  run 2 as gather.pto --execute -o file.pto
  run 2 as - --execute
  has_facts "standard input for all ranks" "$err" "file|all ranks"
  run 2 as gather.pto --execute $(for i in $(seq 65); do echo --arg a=$i; done)
  has_facts "too many" "$err" "--arg|64 times"
  run 0 as --help
  has help "$out" "usage: tutti as"
  run 2 ass gather.pto
  has nearest "$err" "did you mean 'as'?"
}

# The programs in the man pages are valid.
test_manuals() {
  local page
  for page in tutti-pto.5 tutti-as.1; do
    awk '/^\.Bd/ { inside = 1; next } /^\.Ed/ { inside = 0 } inside' "$source/docs/man/$page" | sed 's/^\\&//' |
      grep -E '^(\.arg|\.const|t[a-z_]+ %)' >program.pto
    [ -s program.pto ] || complain "no program found in $page"
    run 0 as program.pto
  done
}

# Executes a program in a world of one rank.
test_execute_alone() {
  cat >alone.pto <<'EOF'
.arg %a : !pto.memref<2x3xi32>
.arg %s : !pto.memref<i32>
.const %v = -7 : i32
tnotify %s, %v {op = #pto.notify_op<Set>}
twait %s, %v {cmp = #pto.cmp<EQ>}
tput %a[1, 2], %s
EOF
  run 0 as --execute alone.pto --out a=a.npy
  is "output" "$out$err" ""
  is "the elements of a.npy" "$(tail -c 24 a.npy | od -An -td4 | tr -s ' \n' ' ')" " 0 0 0 0 0 -7 "
  has "the header of a.npy" "$(head -1 a.npy | tr -d '\0')" "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }"
}

source=$1
run_tests
