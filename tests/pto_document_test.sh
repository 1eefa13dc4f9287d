#!/bin/bash
# test: slow timeout=300
# Extracts the examples of the TGATHER document, compiles them, and runs them on 2, 3 and 4 processes, with tiles
# smaller and larger than the data.
source=$1 build=$2
document=$source/../shared/seeds/1_pto_tgather.md
skip() {
  echo "skipped: $1"
  exit 77
}
[ -f "$document" ] || skip "$document not found"
grep -q '^TUTTI_SANITIZE:STRING=.' "$build/CMakeCache.txt" && skip "a plain program cannot load a sanitized library"
command -v g++ >/dev/null || skip "g++ not found: tools/setup check installs it"
. "$source/tests/shell.sh"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1

# Blocks of C++ with an #include are complete examples; they become example_1.hpp, example_2.hpp, ...
awk '/^```cpp$/ { inside = 1; text = ""; next }
  /^```$/ { if (inside && text ~ /#include/) printf "%s", text >("example_" ++n ".hpp"); inside = 0; next }
  inside { text = text $0 "\n" }' "$document"

cat >main.cpp <<'EOM'
#include "example_1.hpp"
#include "example_2.hpp"
#include <cstdio>
#include <cstdlib>
#include <vector>

/* Returns the number of wrong elements, with ROWS x COLS elements at each rank, and each rank in turn as the root. */
template <int NRANKS, int ROWS, int COLS, int TILE_ROWS, int TILE_COLS>
static long wrong(tutti_comm *world) {
  const int rank = (int)tutti_rank(world), count = ROWS * COLS;
  long failures = 0;
  tutti_window *window;
  if (tutti_window_create(world, NULL, sizeof(float) * count, &window) != TUTTI_OK) abort();
  float *blocks[NRANKS];
  for (int r = 0; r < NRANKS; r++) blocks[r] = (float *)tutti_window_address(window, (uint32_t)r);
  for (int i = 0; i < count; i++) blocks[rank][i] = (float)(rank * count + i);
  if (tutti_barrier(world) != TUTTI_OK) abort();
  for (int root = 0; root < NRANKS; root++) {
    if (rank == root) {
      std::vector<float> one(NRANKS * count, -1), two(NRANKS * count, -1);
      gather<float, ROWS, COLS, TILE_ROWS, TILE_COLS, NRANKS>(blocks, one.data(), rank);
      gather_pingpong<float, ROWS, COLS, TILE_ROWS, TILE_COLS, NRANKS>(blocks, two.data(), rank);
      for (int i = 0; i < NRANKS * count; i++) failures += (one[i] != (float)i) + (two[i] != (float)i);
    }
    if (tutti_barrier(world) != TUTTI_OK) abort();
  }
  if (tutti_window_free(window) != TUTTI_OK) abort();
  return failures;
}
template <int NRANKS>
static long wrong_at_any_size(tutti_comm *world) {
  return wrong<NRANKS, 32, 64, 8, 16>(world) + wrong<NRANKS, 5, 27, 2, 8>(world) + wrong<NRANKS, 5, 27, 16, 32>(world) +
         wrong<NRANKS, 16, 16, 16, 16>(world) + wrong<NRANKS, 1, 100, 4, 24>(world);
}

int main() {
  tutti_comm *world;
  if (tutti_init(NULL, &world) != TUTTI_OK) return 1;
  const uint32_t n = tutti_ranks(world);
  const long failures = n == 2   ? wrong_at_any_size<2>(world)
                        : n == 3 ? wrong_at_any_size<3>(world)
                                 : wrong_at_any_size<4>(world);
  if (failures) printf("rank %u: %ld elements are wrong\n", tutti_rank(world), failures);
  else printf("all elements are right\n");
  return tutti_comm_free(world) != TUTTI_OK || failures;
}
EOM

test_two_examples_are_in_the_document() {
  is "examples" "$(ls example_*.hpp | wc -l)" 2
  has "the first example" "$(cat example_1.hpp)" "comm::TGATHER(group, dstG, stagingTile)"
  has "the second example" "$(cat example_2.hpp)" "comm::TGATHER(group, dstG, pingTile, pongTile)"
}

test_they_compile_as_they_stand() {
  run_tool 0 g++ -std=c++17 -O1 -Wall -Wextra -Werror -I"$source/include" -I"$source/include/tutti" main.cpp \
    -o examples -L"$build" -ltutti -Wl,-rpath,"$build"
  is "warnings of the compiler" "$err" ""
}

test_they_run_on_2_3_and_4_processes() {
  local n
  for n in 2 3 4; do
    run_tool 0 "$build/tutti" run -n $n -- ./examples
    is "ranks of $n with right results" "$(grep -c '^all elements are right$' out.txt)" $n
  done
}

run_tests
