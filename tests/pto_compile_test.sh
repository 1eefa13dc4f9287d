#!/bin/bash
# test: slow timeout=300
# Tests the C++ header with compilers: it compiles alone, without warnings, in C++17 and C++20; two files of one program
# may include it; wrong types give error messages; without exceptions, an error prints its message and ends the program.
# The example of the manual page works as printed.
source=$1 build=$2
skip() {
  echo "skipped: $1"
  exit 77
}
grep -q '^TUTTI_SANITIZE:STRING=.' "$build/CMakeCache.txt" && skip "a plain program cannot load a sanitized library"
command -v g++ >/dev/null || skip "g++ not found: tools/setup check installs it"
. "$source/tests/shell.sh"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
includes="-I$source/include -I$source/include/tutti"
strict="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wcast-qual -Wnon-virtual-dtor
  -Woverloaded-virtual -Wundef -Werror"

# compile STATUS COMPILER OPTIONS... FILE: compiles a file, and checks the compiler's exit status.
compile() {
  local expected=$1 compiler=$2
  shift 2
  # shellcheck disable=SC2086
  run_tool "$expected" "$compiler" $includes "$@"
}

test_alone_and_without_a_warning() {
  local compiler standard header
  for header in comm/pto_comm_inst pto-inst common/pto_tile; do echo "#include <pto/$header.hpp>"; done >alone.cpp
  for compiler in g++ clang++; do
    command -v $compiler >/dev/null || { skip "$compiler not found" && continue; }
    for standard in 17 20; do
      # shellcheck disable=SC2086
      compile 0 $compiler -std=c++$standard $strict -fsyntax-only alone.cpp
      is "warnings of $compiler for C++$standard" "$err" ""
    done
    # shellcheck disable=SC2086
    compile 0 $compiler -std=c++17 $strict -fno-exceptions -fno-rtti -fsyntax-only alone.cpp
    is "warnings of $compiler without exceptions" "$err" ""
  done
}

# Code in the style of the instruction set's documents: a put that is started and waited for, and types of two bytes.
test_spelling() {
  cat >spelling.cpp <<'EOM'
#include <pto/comm/pto_comm_inst.hpp>
#include <pto/common/pto_tile.hpp>
#include <pto/pto-inst.hpp>
using namespace pto;

template <typename T>
__global__ AICORE void put(__gm__ T *to, __gm__ T *from, __gm__ uint8_t *workspace) {
  using AnyShape = Shape<DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC>;
  using AnyStride = Stride<DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC>;
  using Global = GlobalTensor<T, AnyShape, AnyStride, Layout::ND>;
  using ScratchTile = Tile<TileType::Vec, uint8_t, 1, comm::sdma::UB_ALIGN_SIZE>;
  Global target(to, AnyShape(1, 1, 1, 1, 1024), AnyStride(1024, 1024, 1024, 1024, 1));
  Global source(from, AnyShape(1, 1, 1, 1, 1024), AnyStride(1024, 1024, 1024, 1024, 1));
  ScratchTile scratchTile;
  TASSIGN(scratchTile, 0x0);
  comm::AsyncSession session;
  if (!comm::BuildAsyncSession<comm::DmaEngine::SDMA>(scratchTile, workspace, session)) return;
  auto event = comm::TPUT_ASYNC<comm::DmaEngine::SDMA>(target, source, session);
  (void)event.Wait(session);
  comm::sdma::SdmaBaseConfig config{1024, 0, 2};
  if (!comm::BuildAsyncSession(scratchTile, workspace, session, 0, config)) return;
  event = comm::TGET_ASYNC(target, source, session);
  while (!event.Test(session)) {
  }
}
template void put<half>(half *, half *, uint8_t *);
template void put<::bfloat16_t>(::bfloat16_t *, ::bfloat16_t *, uint8_t *);
using Wide = Tile<TileType::Vec, half, 4, 16>;
Wide wide;
EOM
  compile 0 g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only spelling.cpp
  is "warnings of g++" "$err" ""
  piece 1 "engine|DmaEngine::SDMA" 'comm::TPUT_ASYNC<comm::DmaEngine::URMA>(floats, other_floats, session);'
  printf '#define TUTTI_PTO_NO_GLOBAL_TYPES\nstruct half {};\n#include <pto/pto-inst.hpp>\npto::half a; half b;\n' >names.cpp
  compile 0 g++ -std=c++17 -fsyntax-only names.cpp
}

test_two_files_of_one_program() {
  echo '#include <pto/comm/pto_comm_inst.hpp>
    int other() { return pto::DYNAMIC; }' >other.cpp
  echo '#include <pto/comm/pto_comm_inst.hpp>
    int other();
    int main() { return other() - pto::DYNAMIC; }' >main.cpp
  compile 0 g++ -std=c++17 main.cpp other.cpp -L"$build" -ltutti -Wl,-rpath,"$build" -o two
  run_tool 0 ./two
}

# Declarations that all pieces use. They must compile, so that wrong pieces are refused only for their own errors.
cat >common.hpp <<'EOM'
#include <pto/comm/pto_comm_inst.hpp>
using namespace pto;
using Floats = GlobalTensor<float, Shape<1, 1, 1, 4, 8>, BaseShape2D<float, 4, 8>>;
using Ints = GlobalTensor<int32_t, Shape<1, 1, 1, 4, 8>, BaseShape2D<int32_t, 4, 8>>;
using FloatTile = Tile<TileType::Vec, float, 4, 8>;
using IntTile = Tile<TileType::Vec, int32_t, 4, 8>;
inline Floats floats, other_floats;
inline Ints ints;
inline FloatTile tile, other_tile;
inline IntTile int_tile;
inline comm::ParallelGroup<Floats> group;
inline comm::AsyncSession session;
EOM
# shellcheck disable=SC2086
g++ -std=c++17 $includes -x c++-header common.hpp -o common.hpp.gch # compiled once

# piece STATUS FACTS CODE: compiles a function body, and checks facts of the compiler's errors.
piece() {
  printf '#include "common.hpp"\nvoid piece() {\n%s\n}\n' "$3" >piece.cpp
  compile "$1" g++ -std=c++17 -I. -fsyntax-only piece.cpp
  has_facts "$3" "$err" "$2"
}

test_right_types_compile() {
  piece 0 "" 'comm::TGATHER(group, floats, tile);
    comm::TGATHER(group, floats, tile, other_tile);
    comm::TSCATTER(group, floats, tile);
    comm::TBROADCAST(group, floats, tile, other_tile);
    comm::TREDUCE(group, floats, tile, other_tile, comm::ReduceOp::Sum);
    comm::TPUT<AtomicType::AtomicAdd>(floats, other_floats, tile);
    comm::TPUT(floats, other_floats, tile, AtomicType::AtomicAdd);
    comm::TGET(floats, other_floats, tile, other_tile);
    comm::TPUT_ASYNC(floats, other_floats, session).Wait(session);
    comm::Signal signal; comm::Signal2D<2, 3> signals(nullptr);
    comm::TNOTIFY(signal, 1, comm::NotifyOp::Set);
    comm::TWAIT(signals, 1, comm::WaitCmp::EQ);
    static_assert(Floats::GetShape<DIM_4>() == 8);
    Tile<TileType::Vec, float, 4, 8, BLayout::RowMajor, DYNAMIC, 8> t(3);'
}

test_wrong_types_do_not() {
  local elements="element type"
  piece 1 "group|root|$elements" 'comm::TGATHER(group, ints, int_tile);'
  piece 1 "tile and tensors|$elements" 'comm::TGATHER(group, floats, int_tile);'
  piece 1 "tile and tensors|$elements" 'comm::TGATHER(group, floats, int_tile, int_tile);'
  piece 1 "group|root|$elements" 'comm::TSCATTER(group, ints, int_tile);'
  piece 1 "tile and tensors|$elements" 'comm::TBROADCAST(group, floats, int_tile);'
  piece 1 "tile and tensors|$elements" 'comm::TREDUCE(group, floats, int_tile, int_tile, comm::ReduceOp::Max);'
  piece 1 "both tensors|$elements" 'comm::TPUT(floats, ints, int_tile);'
  piece 1 "tile and tensors|$elements" 'comm::TGET(floats, other_floats, int_tile);'
  piece 1 "both tensors|$elements" 'comm::TPUT_ASYNC(floats, ints, session);'
  piece 1 "both tensors|$elements" 'comm::TGET_ASYNC(ints, floats, session);'
  piece 1 "first argument|comm::ParallelGroup" 'comm::TGATHER(floats, floats, tile);'
  piece 1 "signal must be an int32_t" 'comm::TNOTIFY(floats, 1, comm::NotifyOp::Set);'
  piece 1 "signal must be an int32_t" 'comm::TWAIT(floats, 1, comm::WaitCmp::EQ);'
  piece 1 "signal must be an int32_t" 'comm::TTEST(floats, 1, comm::WaitCmp::EQ);'
}

test_wrong_tiles_do_not() {
  piece 1 "multiple of 32 bytes" 'Tile<TileType::Vec, float, 4, 7> t;'
  piece 1 "multiple of 32 bytes" 'Tile<TileType::Vec, float, 7, 8, BLayout::ColMajor> t;'
  piece 1 "one row|one column" 'Tile<TileType::Vec, float, 0, 8> t;'
  piece 1 "valid rows" 'Tile<TileType::Vec, float, 4, 8, BLayout::RowMajor, 5, 8> t;'
  local numbers="DYNAMIC ones"
  piece 1 "$numbers" 'Tile<TileType::Vec, float, 4, 8, BLayout::RowMajor, DYNAMIC, DYNAMIC> t(3);'
  piece 1 "$numbers" 'FloatTile t(3);'
  piece 1 "$numbers" 'Shape<1, DYNAMIC, 1, 1, DYNAMIC> s(1, 2, 3);'
  piece 1 "row-major tiles" 'Tile<TileType::Vec, float, 8, 4, BLayout::ColMajor> t; comm::TGET(floats, other_floats, t);'
  piece 1 "TileType::Vec" 'Tile<TileType::Mat, float, 4, 8> t; comm::TGET(floats, other_floats, t);'
  piece 1 "specialise pto::DataType" 'struct pair { int a, b; };
    GlobalTensor<pair, Shape<1, 1, 1, 1, 4>, BaseShape2D<pair, 1, 4>> a, b; Tile<TileType::Vec, pair, 1, 4> t;
    comm::TGET(a, b, t);'
  piece 1 "last arguments|events" 'int x; comm::TGET(floats, other_floats, tile, x);'
  piece 1 "known at compile time" 'using G = GlobalTensor<float, Shape<>, Stride<>>; (void)G::GetShape<DIM_3>();'
}

test_without_exceptions_an_error_ends_the_program() {
  echo '#include "common.hpp"
    int main() {
      float here[32] = {}, there[32] = {};
      floats = Floats(here);
      other_floats = Floats(there);
      comm::TGET(floats, other_floats, tile);
    }' >main.cpp
  compile 0 g++ -std=c++17 -fno-exceptions -I. main.cpp -L"$build" -ltutti -Wl,-rpath,"$build" -o ends
  { run_tool 134 ./ends; } 2>/dev/null # SIGABRT, which the shell reports
  has_facts "the message without exceptions" "$err" "TUTTI_ERR_ARGUMENT: TGET: |in no window"
  compile 0 g++ -std=c++17 -I. main.cpp -L"$build" -ltutti -Wl,-rpath,"$build" -o throws
  { run_tool 134 ./throws; } 2>/dev/null
  has "the exception that was not caught" "$err" "in no window"
}

test_the_example_of_the_page() {
  sed -n '/^#include/,/^\.Ed/{ /^\.Ed/q; s/\\en/\\n/g; p; }' "$source/docs/man/tutti_pto.3" >page.cpp
  compile 0 g++ -std=c++17 -Wall -Wextra -Werror page.cpp -L"$build" -ltutti -Wl,-rpath,"$build" -o page
  run_tool 0 "$build/tutti" run -n 3 -- ./page
  is "output" "$out" "the last element is 247"
}

run_tests
