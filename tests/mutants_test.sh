#!/bin/bash
# mutants_test.sh SOURCE BUILD: tests the tests: each patch in tests/mutants puts a bug into the library. Checks that all
# patches apply, are short, and that each class has five. With TEST_LONG, builds each, and checks that the simulated world
# (sim_world_test) finds it within SEEDS seeds; prints the table of docs/TESTING.md. A patch with a line "Not found: REASON"
# is a known gap of the simulated world, and is not searched for.
# test: slow timeout=7200
set -u
source=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
. "$source/tests/shell.sh"
SEEDS=${SEEDS:-50000}
classes="lost-wakeup credit-lost verdict-lost torn-board wrong-culprit early-reuse missed-departure"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

test_they_apply() {
  local patch class
  cp -r "$source/src" "$scratch/src"
  for patch in "$source"/tests/mutants/*.patch; do
    (cd "$scratch" && git apply --check "$patch" 2>/dev/null) || complain "$patch does not apply"
    head -1 "$patch" | grep -q '^What: ' || complain "$patch does not say what is wrong"
    [ "$(grep -c '^+[^+]' "$patch")" -le 5 ] && [ "$(grep -c '^-[^-]' "$patch")" -le 5 ] || complain "$patch is long"
  done
  for class in $classes; do
    [ "$(grep -L '^Not found: ' "$source/tests/mutants/$class-"* | wc -l)" -ge 5 ] ||
      complain "class $class has fewer than five that are found"
  done
}

# Mutants in a folder with the sources, so that the compiler runs again for changed files only.
test_they_are_found() {
  local patch name said
  [ -n "${TEST_LONG:-}" ] || { skip "takes about an hour; set TEST_LONG"; return; }
  mkdir "$scratch/tree" && (cd "$source" && tar c --exclude=./build --exclude=./.git .) | tar x -C "$scratch/tree"
  cmake -S "$scratch/tree" -B "$scratch/build" >/dev/null && cmake --build "$scratch/build" --target world_copy -j2 >/dev/null ||
    { complain "the library does not build"; return; }
  for patch in ${MUTANTS:-"$source"/tests/mutants/*.patch}; do
    name=$(basename "$patch" .patch)
    if grep -q '^Not found: ' "$patch"; then
      echo "| ${name%-*} | ${name##*-} | $(sed -n 's/^Not found: /not found: /p' "$patch") |"
      continue
    fi
    (cd "$scratch/tree" && git apply "$patch")
    if cmake --build "$scratch/build" --target world_copy -j2 >"$scratch/log" 2>&1; then
      said=$("$build/tests/sim_world_test" --find "1:$SEEDS" "$scratch/build/tests/libworld_copy.so")
      [ $? = 0 ] && complain "$name is not found"
      echo "| ${name%-*} | ${name##*-} | ${said:0:160} |"
    else
      complain "$name does not compile: $(grep error "$scratch/log" | head -1)"
    fi
    (cd "$scratch/tree" && git apply -R "$patch")
  done
}

run_tests
