#!/bin/bash
# test: slow timeout=300
# Compiles the headers for C++: without a warning, in every standard from C++17 on; in two files of one program; with
# wrong types, which are refused with a message; without exceptions. Runs the examples, in C++17 and C++20.
source=$1 build=$2
skip() {
  echo "skipped: $1"
  exit 77
}
grep -q '^TUTTI_SANITIZE:STRING=.' "$build/CMakeCache.txt" && skip "a plain program cannot load a sanitized library"
command -v g++ >/dev/null || skip "g++ is missing; tools/setup check installs it"
. "$source/tests/shell.sh"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
strict="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wcast-qual -Wnon-virtual-dtor
  -Woverloaded-virtual -Wundef -Werror"
link="-L$build -ltutti -Wl,-rpath,$build"

# compile STATUS TOOL OPTIONS... FILE
compile() {
  local expected=$1 compiler=$2
  shift 2
  run_tool "$expected" "$compiler" "-I$source/include" "$@"
}

# Instantiates every template, so that warnings within them are seen.
cat >all.cpp <<'EOM'
#include <tutti/channel.hpp>
#include <tutti/mesh.hpp>
#include <tutti/topology.hpp>
#include <tutti/tutti.hpp>
#include <tutti/window.hpp>

#include <array>
#include <vector>

template <typename T>
void all(const tutti::comm &c, tutti::op op) {
  std::vector<T> a(8), b(8);
  const std::vector<std::size_t> counts(c.ranks(), 1);
  c.allreduce(a, b, op), c.allreduce(a, op), c.iallreduce(a, b, op).wait(), c.iallreduce(a, op).wait();
  c.reduce(a, b, op, 0), c.reduce(a, op, 0), c.ireduce(a, b, op, 0).wait(), c.ireduce(a, op, 0).wait();
  c.broadcast(a, 0), c.ibroadcast(a, 0).wait();
  c.gather(a, b, 0), c.gather(a, 0), c.igather(a, b, 0).wait(), c.igather(a, 0).wait();
  c.scatter(a, b, 0), c.scatter(a, 0), c.iscatter(a, b, 0).wait(), c.iscatter(a, 0).wait();
  c.allgather(a, b), c.allgather(a), c.iallgather(a, b).wait(), c.iallgather(a).wait();
  c.reduce_scatter(a, b, op), c.reduce_scatter(a, op), c.ireduce_scatter(a, b, op).wait();
  c.ireduce_scatter(a, op).wait();
  c.alltoall(a, b), c.alltoall(a), c.ialltoall(a, b).wait(), c.ialltoall(a).wait();
  c.scan(a, b, op), c.scan(a, op), c.iscan(a, b, op).wait(), c.iscan(a, op).wait();
  c.exscan(a, b, op), c.exscan(a, op), c.iexscan(a, b, op).wait(), c.iexscan(a, op).wait();
  c.gatherv(a, b, {counts}, 0), c.gatherv(a, {counts, counts}, 0), c.igatherv(a, b, {counts}, 0).wait();
  c.scatterv(a, b, {counts}, 0), c.scatterv(a, {counts, counts}, 0), c.iscatterv(a, b, {counts}, 0).wait();
  c.allgatherv(a, b, {counts}), c.allgatherv(a, {counts, counts}), c.iallgatherv(a, b, {counts}).wait();
  c.reduce_scatterv(a, b, {counts}, op), c.reduce_scatterv(a, {counts}, op), c.ireduce_scatterv(a, b, {}, op).wait();
  c.alltoallv(a, {counts}, b, {counts}), c.alltoallv(a, {counts}), c.ialltoallv(a, {counts}, b, {counts}).wait();
  static_cast<void>(c.allreduce(a[0], op)), static_cast<void>(c.reduce(a[0], op, 0));
  static_cast<void>(c.scan(a[0], op)), static_cast<void>(c.exscan(a[0], op));
  static_cast<void>(c.broadcast(a[0], 0)), static_cast<void>(c.allgather(a[0]));
  c.send(a, 0), c.isend(a, 0).wait(), c.recv(a, 0), c.irecv(a, 0).wait();
  const tutti::op mine = tutti::make_op<T>([](T x, T y) { return static_cast<T>(x + y); }, true, "mine");
  tutti::memory<T> memory(c, 8);
  c.allreduce(memory, mine);
  std::array<tutti::request, 2> requests{c.isend(a, 0), c.irecv(tutti::span(b.data(), 8), 0)};
  tutti::wait_all(requests);
}

void instantiate(const tutti::comm &c);
void instantiate(const tutti::comm &c) {
  std::vector<std::byte> bytes(8);
  c.broadcast(bytes, 0), c.broadcast(bytes, 0U), c.broadcast(bytes, 0L), c.broadcast(bytes, std::uint8_t{0});
  c.send(bytes, std::size_t{0}, std::int64_t{0});
  all<signed char>(c, tutti::op::sum), all<std::uint16_t>(c, TUTTI_MIN), all<int>(c, tutti::op::premul_sum(2));
  all<std::uint64_t>(c, tutti::op::max), all<long long>(c, TUTTI_SUM), all<float>(c, tutti::op::avg);
  all<double>(c, tutti::op::sum);
}
EOM

test_without_a_warning() {
  local compiler standard more
  for compiler in g++ clang++; do
    command -v $compiler >/dev/null || { skip "$compiler is missing" && continue; }
    more=
    [ $compiler = clang++ ] || more=-Wuseless-cast
    for standard in 17 20; do
      # shellcheck disable=SC2086
      compile 0 $compiler -std=c++$standard $strict $more -fsyntax-only all.cpp
      is "warnings of $compiler, C++$standard" "$err" ""
    done
    # shellcheck disable=SC2086
    compile 0 $compiler -std=c++17 $strict $more -fno-exceptions -fno-rtti -fsyntax-only all.cpp
    is "warnings of $compiler without exceptions" "$err" ""
  done
}

test_two_files_of_one_program() {
  echo '#include <tutti/tutti.hpp>
    tutti_op other() { return tutti::op::sum.id(); }' >other.cpp
  echo '#include <tutti/tutti.hpp>
    tutti_op other();
    int main() { return other() != tutti::op::sum.id(); }' >main.cpp
  # shellcheck disable=SC2086
  compile 0 g++ -std=c++17 main.cpp other.cpp $link -o two
  run_tool 0 ./two
}

test_every_header_alone() {
  local header
  for header in "$source"/include/tutti/*.hpp; do
    echo "#include <tutti/${header##*/}>" >alone.cpp
    # shellcheck disable=SC2086
    compile 0 g++ -std=c++17 $strict -fsyntax-only alone.cpp
    is "warnings of ${header##*/}" "$err" ""
  done
}

# Compiled and run in C++20: fields by name, and std::span.
cat >named.cpp <<'EOM'
#include <tutti/channel.hpp>
#include <tutti/tutti.hpp>

#include <cstdio>
#include <span>

int main() {
  const tutti::comm world = tutti::comm::init({.timeout_ms = 20000, .join_timeout_ms = 20000});
  const std::vector<int> mine(world.rank() + 1, 1);
  const std::vector<std::size_t> counts = world.allgather(mine.size());
  std::vector<int> all(3), sum(1), out(1);
  world.allgatherv(std::span<const int>(mine), std::span(all), {.counts = counts});
  world.with({.algorithm = "ring", .lanes = 2}).allreduce(std::span<const int>(mine).first(1), sum, tutti::op::sum);
  tutti::persistent_request again = world.prepare({.collective = TUTTI_ALLREDUCE,
                                                   .send = sum.data(),
                                                   .recv = out.data(),
                                                   .count = sum.size(),
                                                   .type = tutti::datatype_of<int>,
                                                   .op = tutti::op::sum,
                                                   .timeout_ms = 20000});
  again.start();
  again.wait();
  world.run({.collective = TUTTI_BARRIER});
  tutti::channel_builder builder(world, {.slots = 4, .slot_bytes = 64});
  if (world.rank() == 0) std::printf("all %d%d%d, sum %d, sum of sums %d\n", all[0], all[1], all[2], sum[0], out[0]);
}
EOM

test_fields_by_name() {
  local compiler
  for compiler in g++ clang++; do
    command -v $compiler >/dev/null || { skip "$compiler is missing" && continue; }
    # shellcheck disable=SC2086
    compile 0 $compiler -std=c++20 $strict named.cpp $link -o named
    is "warnings of $compiler" "$err" ""
    run_tool 0 "$build/tutti" run -n 2 -- ./named
    is "the output, by $compiler" "$out" "all 111, sum 2, sum of sums 4"
  done
}

# The headers of the pieces, compiled once.
printf '#include <tutti/window.hpp>\n#include <list>\n#include <vector>\n' >pieces.hpp
g++ -std=c++17 "-I$source/include" -x c++-header pieces.hpp -o pieces.hpp.gch

# piece STATUS FACTS CODE: compiles some statements, and checks facts of the compiler's errors.
piece() {
  printf '#include "pieces.hpp"\nvoid piece(tutti::comm &c, std::vector<int> &v) {\n%s\n}\n' "$3" >piece.cpp
  compile "$1" g++ -std=c++17 -Werror=unused-result -fsyntax-only piece.cpp
  has_facts "$3" "$err" "$2"
}

test_wrong_types_do_not_compile() {
  piece 0 "" 'c.allreduce(v, TUTTI_SUM);'
  piece 0 "" 'bool b[3] = {}; c.broadcast(b, 0); c.allreduce(b, TUTTI_LOR);'
  piece 1 "no datatype|element type" 'struct pair { int a, b; } p[3] = {}; c.broadcast(p, 0);'
  piece 1 "no datatype|element type" 'int *p[3] = {}; c.broadcast(p, 0);'
  piece 1 "no datatype|element type" 'enum class color { red } p[3] = {}; c.broadcast(p, 0);'
  piece 0 "" '(void)c.allreduce(true, TUTTI_LOR);'
  piece 1 "no datatype|element type" '(void)c.allreduce(1.0L, TUTTI_SUM);'
  piece 1 "contiguous" 'std::list<int> l; c.send(l, 0);'
  piece 1 "contiguous" 'int x = 0; c.broadcast(&x, 0);'
  piece 1 "contiguous" 'int x = 0; c.recv(x, 0);'
  piece 1 "std::vector<bool>|bits|std::vector<unsigned char>" 'std::vector<bool> b; c.broadcast(b, 0);'
  piece 1 "std::vector<bool>|bits|std::vector<unsigned char>" 'const std::vector<bool> b; c.send(b, 0);'
  piece 1 "std::vector<bool>|bits|std::vector<unsigned char>" '(void)c.allgather(true);'
  piece 1 "std::vector<bool>|bits|std::vector<unsigned char>" 'std::vector<bool> b; c.allreduce(v, b, TUTTI_SUM);'
  piece 1 "elements are const" 'const std::vector<int> w(3); c.allreduce(v, w, TUTTI_SUM);'
  piece 1 "elements are const" 'c.recv(tutti::span<const int>(v), 0);'
  piece 1 "send and recv|one element type" 'std::vector<float> w(3); c.allreduce(v, w, TUTTI_SUM);'
  piece 1 "buffer is a temporary" 'c.allreduce(v, std::vector<int>(3), TUTTI_SUM);'
  piece 1 "buffer is a temporary" '(void)c.isend(std::vector<int>(3), 0);'
  piece 1 "callable T(T, T)" '(void)tutti::make_op<int>([](int *a) { return *a; }, true, "x");'
  piece 1 "callable T(T, T)" 'int n = 0; (void)tutti::make_op<int>([n](int, int) mutable { return n++; }, true, "x");'
  piece 1 "unused-result" 'c.isend(v, 0);'
  piece 1 "unused-result" 'c.prepare({});'
  piece 1 "unused-result" 'int x = 0; c.allreduce(x, TUTTI_SUM);'
  piece 1 "deleted" 'tutti::comm copy(c);'
  piece 1 "deleted" 'tutti::comm_view view = c.dup();'
  piece 1 "deleted" 'tutti::comm_view view; view = c.dup();'
  piece 1 "deleted" 'tutti::window a; tutti::window b(a);'
  piece 1 "conversion from" 'tutti::span<int> s = std::vector<int>(3);'
  piece 1 "window|trivially copyable" '(void)tutti::window().part<std::vector<int>>(0);'
}

test_wrong_conversions_do_not_compile() {
  piece 0 "" 'tutti_op handle = 1024; c.allreduce(v, tutti::op(handle)); c.reduce(v, TUTTI_MAX, v.size());'
  piece 1 "cannot convert" 'c.allreduce(v, 0);'
  piece 1 "cannot convert" 'c.allreduce(v, true);'
  piece 1 "cannot convert" 'c.allreduce(v, TUTTI_F32);'
  piece 1 "cannot convert" 'tutti_op handle = 1024; c.allreduce(v, handle);'
  piece 1 "no matching function" '(void)tutti::op(true);'
  piece 1 "no matching function" '(void)tutti::op(7);'
  piece 1 "cannot convert" 'c.broadcast(v, true);'
  piece 1 "cannot convert" 'c.broadcast(v, 1.5);'
  piece 1 "cannot convert" 'c.send(v, 0, TUTTI_I32);'
  piece 1 "cannot convert" 'c.reduce(v, TUTTI_SUM, TUTTI_SUM);'
  piece 1 "cannot convert" 'c.reduce(v, 0, TUTTI_SUM);'
  piece 1 "invalid conversion" 'tutti::call call; call.type = 3;'
  piece 1 "invalid user-defined conversion" 'tutti::call call; call.op = 3;'
  piece 1 "no match for" 'tutti::call call; call.root = true;'
  piece 1 "deleted" '(void)c.split(true);'
  piece 1 "deleted" '(void)c.split(1.5);'
  piece 1 "deleted" '(void)tutti::make_op<int>([](int a, int) { return a; }, "a name", "x");'
  piece 1 "deleted" '(void)tutti::make_op<int>([](int a, int) { return a; }, 1, "x");'
  piece 1 "invalid conversion" 'tutti::check(3);'
}

test_without_exceptions_an_error_ends_the_program() {
  echo '#include <tutti/tutti.hpp>
    int main() {
      const tutti::comm world = tutti::comm::init();
      int a[3] = {}, b[4] = {};
      world.allreduce(a, b, tutti::op::sum);
    }' >main.cpp
  # shellcheck disable=SC2086
  compile 0 g++ -std=c++17 -fno-exceptions main.cpp $link -o ends
  { run_tool 134 ./ends; } 2>/dev/null # SIGABRT, which the shell reports
  has_facts "the message" "$err" "TUTTI_ERR_ARGUMENT: rank 0: allreduce: |recv has 4|expected 3|send"
}

test_the_example_of_the_page() {
  sed -n '/^#include/,/^\.Ed/{ /^\.Ed/q; s/\\en/\\n/g; p; }' "$source/docs/man/tutti_hpp.3" >page.cpp
  # shellcheck disable=SC2086
  compile 0 g++ -std=c++17 -Wall -Wextra -Werror page.cpp $link -o page
  run_tool 0 "$build/tutti" run -n 3 -- ./page
  is "the output" "$out" "sum 3, maximum 2"
}

test_the_example_program() {
  local standard ranks
  for standard in 17 20; do
    # shellcheck disable=SC2086
    compile 0 g++ -std=c++$standard $strict "$source/examples/primes.cpp" $link -o primes
    is "warnings in C++$standard" "$err" ""
    for ranks in 1 2 3 5; do
      run_tool 0 "$build/tutti" run -n $ranks -- ./primes 1000
      is "$ranks ranks" "$out" "168 primes below 1000; the last is 997; the largest gap is 20, after 887"
    done
  done
  run_tool 2 ./primes many
  has "a wrong argument" "$err" "usage"
}

run_tests
