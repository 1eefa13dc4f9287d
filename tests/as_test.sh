#!/bin/bash
# as_test.sh SOURCE BUILD: the contract of `tutti as`: what it prints, where, and the exit statuses. What programs do:
# as_execute_test.c.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT TUTTI_RANK TUTTI_WORLD_SIZE TUTTI_MASTER_ADDR TUTTI_MASTER_PORT

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
  cmp -s out.txt printed.pto || complain "printed, read and printed, it is $out"
  "$tutti" as - <gather.pto | cmp -s - printed.pto || complain "standard input is read otherwise"
  run 0 as gather.pto -o file.pto
  is "standard output with -o" "$out" ""
  cmp -s file.pto printed.pto || complain "-o writes something else"
  for seed in "$source"/tests/fuzz_seeds/pto/*.pto; do
    [ "${seed##*/}" != broken.pto ] || continue
    run 0 as "$seed" --lower
    cp out.txt lowered.pto
    run 0 as lowered.pto
    cmp -s out.txt lowered.pto || complain "$seed: lowered, read and printed, it is $out"
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
  is "what is wrong" "$err" "tutti as: wrong.pto:1:1: expected an instruction, found 'tgathr'; did you mean 'tgather'?"
  is "standard output" "$out" ""
  "$tutti" as - <wrong.pto 2>err.txt
  has "standard input" "$(cat err.txt)" "standard input:1:1: expected"
  printf '.arg %%a : !pto.memref<...>\ntput %%a, %%a\n' >open.pto
  run 1 as open.pto --lower
  has "nothing to make tiles of" "$err" "open.pto:2:1: expected a type of elements to make tiles of"
  run 2 as ./no/such.pto
  has "no such file" "$err" "cannot open './no/such.pto': No such file or directory"
  run 2 as gather.pto -o /no/such/folder/file.pto
  has "no such folder" "$err" "cannot write '/no/such/folder/file.pto'"
}

test_usage() {
  run 2 as
  run 2 as gather.pto gather.pto
  for tiles in 16 x 16x 0x4 4x0 4x4x4 1048577x1 -1x4; do
    run 2 as gather.pto --tiles=$tiles
    has "tiles $tiles" "$err" "--tiles: expected ROWSxCOLS, each from 1 to 2^20, found '$tiles'"
  done
  run 2 as gather.pto --arg a=b
  has "an argument without --execute" "$err" "say how to --execute"
  run 2 as gather.pto --execute -o file.pto
  run 2 as - --execute
  has "standard input for all ranks" "$err" "expected a file that all ranks can read"
  run 2 as gather.pto --execute $(for i in $(seq 65); do echo --arg a=$i; done)
  has "too many" "$err" "--arg: expected at most 64 of it, found more"
  run 0 as --help
  has help "$out" "usage: tutti as"
  run 2 ass gather.pto
  has nearest "$err" "did you mean 'as'?"
}

# The programs in the man pages.
test_manuals() {
  local page
  for page in tutti-pto.5 tutti-as.1; do
    awk '/^\.Bd/ { inside = 1; next } /^\.Ed/ { inside = 0 } inside' "$source/docs/man/$page" | sed 's/^\\&//' |
      grep -E '^(\.arg|\.const|t[a-z_]+ %)' >program.pto
    [ -s program.pto ] || complain "$page has no program"
    run 0 as program.pto
  done
}

# A world of one.
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
  is "what it says" "$out$err" ""
  is "what it wrote" "$(tail -c 24 a.npy | od -An -td4 | tr -s ' \n' ' ')" " 0 0 0 0 0 -7 "
  has "its header" "$(head -1 a.npy | tr -d '\0')" "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }"
}

source=$1
run_tests
