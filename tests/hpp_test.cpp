/* test: timeout=120 */
/* hpp_test.cpp: tests tutti.hpp on 1 to 4 ranks: every call against a result that is computed without the library;
 * owners, buffers, datatypes, operations; errors with their messages. */
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <tutti/tutti.hpp>
#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
#endif

#include "hpp_world.hpp"

using tutti::comm;
using tutti::op;
using tutti::request;

/* ---- datatypes ---- */

static_assert(tutti::datatype_of<int8_t> == TUTTI_I8 && tutti::datatype_of<uint8_t> == TUTTI_U8);
static_assert(tutti::datatype_of<int16_t> == TUTTI_I16 && tutti::datatype_of<uint16_t> == TUTTI_U16);
static_assert(tutti::datatype_of<int32_t> == TUTTI_I32 && tutti::datatype_of<uint32_t> == TUTTI_U32);
static_assert(tutti::datatype_of<int64_t> == TUTTI_I64 && tutti::datatype_of<uint64_t> == TUTTI_U64);
static_assert(tutti::datatype_of<long> == (sizeof(long) == 8 ? TUTTI_I64 : TUTTI_I32));
static_assert(tutti::datatype_of<long long> == TUTTI_I64 && tutti::datatype_of<unsigned long long> == TUTTI_U64);
static_assert(tutti::datatype_of<float> == TUTTI_F32 && tutti::datatype_of<double> == TUTTI_F64);
static_assert(tutti::datatype_of<char> == (std::is_signed_v<char> ? TUTTI_I8 : TUTTI_U8));

struct bf16 {
  uint16_t bits;
};
template <>
inline constexpr tutti_datatype tutti::datatype_of<bf16> = TUTTI_BF16;

/* ---- owners ---- */

template <typename T>
constexpr bool is_owner = std::is_nothrow_move_constructible_v<T> &&std::is_nothrow_move_assignable_v<T> &&
                          !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(is_owner<comm> && is_owner<request> && is_owner<tutti::memory<float>>);
static_assert(std::is_base_of_v<std::runtime_error, tutti::error>);
static_assert(std::is_convertible_v<comm &, tutti::comm_view> && std::is_convertible_v<const comm &, tutti::comm_view>);
static_assert(!std::is_convertible_v<comm, tutti::comm_view> && !std::is_assignable_v<tutti::comm_view &, comm>);

/* ---- conversions to a span ---- */

template <typename From, typename T>
constexpr bool converts = std::is_convertible_v<From, tutti::span<T>>;
static_assert(converts<std::vector<int> &, int> && converts<const std::vector<int> &, const int>);
static_assert(converts<std::vector<int> &, const int> && !converts<const std::vector<int> &, int>);
static_assert(converts<std::vector<int>, const int> && !converts<std::vector<int>, int>);
static_assert(converts<std::array<int, 3> &, int> && converts<int (&)[3], int> &&
              converts<const int (&)[3], const int>);
static_assert(converts<tutti::span<int>, const int> && converts<tutti::span<int>, int>);
static_assert(!converts<tutti::span<const int>, int> && !converts<std::vector<int> &, float> && !converts<int, int>);
static_assert(!converts<std::vector<bool> &, bool>);
static_assert(std::is_same_v<decltype(tutti::span(std::declval<const std::vector<int> &>())), tutti::span<const int>>);
static_assert(std::is_same_v<decltype(tutti::span(std::declval<int *>(), size_t{3})), tutti::span<int>>);

/* ---- helpers ---- */

/* Returns the element that a rank has in its input: a small number, so that sums are exact in every type. */
template <typename T>
static T element(int rank, size_t i) {
  return static_cast<T>((static_cast<size_t>(rank) * 5 + i * 3) % 11 + 1);
}

template <typename T>
static std::vector<T> input(int rank, size_t size) {
  std::vector<T> made(size);
  for (size_t i = 0; i < size; i++) made[i] = element<T>(rank, i);
  return made;
}

/* Returns the sums of the inputs of ranks 0 to ranks - 1. */
template <typename T>
static std::vector<T> sums(int ranks, size_t size) {
  std::vector<T> made(size);
  for (int r = 0; r < ranks; r++)
    for (size_t i = 0; i < size; i++) made[i] = static_cast<T>(made[i] + element<T>(r, i));
  return made;
}

template <typename T>
static std::vector<T> part(const std::vector<T> &all, size_t first, size_t count) {
  return std::vector<T>(all.begin() + static_cast<ptrdiff_t>(first),
                        all.begin() + static_cast<ptrdiff_t>(first + count));
}

template <typename Got, typename Expected>
static void same(Player &me, const char *what, const Got &got, const Expected &expected) {
  me.check(std::size(got) == std::size(expected), "%s: found %zu elements; expected %zu", what, std::size(got),
           std::size(expected));
  for (size_t i = 0; i < std::size(expected) && i < std::size(got); i++)
    me.check(std::data(got)[i] == std::data(expected)[i], "%s: element %zu is %g; expected %g", what, i,
             static_cast<double>(std::data(got)[i]), static_cast<double>(std::data(expected)[i]));
}

static unsigned char rank_byte(const Player &me) { return static_cast<unsigned char>(me.rank + 1); }

/* ---- every call, in its four forms ---- */

/* The sizes and the ranks of a test of calls, and a result buffer to start with. */
template <typename T>
struct Calls {
  Player &me;
  const comm &world;
  size_t n; /* elements of a block */
  int ranks, rank;
  size_t all; /* elements of all blocks */
  std::vector<T> mine, whole;

  Calls(Player &player, const comm &c, size_t size)
      : me(player),
        world(c),
        n(size),
        ranks(static_cast<int>(c.ranks())),
        rank(static_cast<int>(c.rank())),
        all(size * c.ranks()),
        mine(input<T>(rank, size)),
        whole(input<T>(rank, size * c.ranks())) {}

  std::vector<T> empty(size_t size) const { return std::vector<T>(size, T{99}); }
  std::vector<T> unchanged(size_t size) const { return empty(size); }

  void reductions() {
    const std::vector<T> sum = sums<T>(ranks, n), before = sums<T>(rank, n), until = sums<T>(rank + 1, n);
    std::vector<T> out = empty(n);
    world.allreduce(mine, out, op::sum);
    same(me, "allreduce", out, sum);
    out = mine;
    world.allreduce(out, TUTTI_SUM);
    same(me, "allreduce in place", out, sum);
    out = empty(n);
    world.iallreduce(mine, out, op::sum).wait();
    same(me, "iallreduce", out, sum);
    out = mine;
    world.iallreduce(out, op::sum).wait();
    same(me, "iallreduce in place", out, sum);

    out = empty(n);
    world.scan(mine, out, op::sum);
    same(me, "scan", out, until);
    out = mine;
    world.scan(out, op::sum);
    same(me, "scan in place", out, until);
    out = empty(n);
    world.iscan(mine, out, op::sum).wait();
    same(me, "iscan", out, until);
    out = mine;
    world.iscan(out, op::sum).wait();
    same(me, "iscan in place", out, until);

    out = empty(n);
    world.exscan(mine, out, op::sum);
    same(me, "exscan", out, rank == 0 ? unchanged(n) : before);
    out = mine;
    world.exscan(out, op::sum);
    same(me, "exscan in place", out, rank == 0 ? mine : before);
    out = empty(n);
    world.iexscan(mine, out, op::sum).wait();
    same(me, "iexscan", out, rank == 0 ? unchanged(n) : before);
    out = mine;
    world.iexscan(out, op::sum).wait();
    same(me, "iexscan in place", out, rank == 0 ? mine : before);
  }

  void rooted_reductions(uint32_t root) {
    const bool is_root = world.rank() == root;
    const std::vector<T> sum = sums<T>(ranks, n), at_root = is_root ? sum : empty(n);
    std::vector<T> out = empty(n);
    world.reduce(mine, out, op::sum, root);
    same(me, "reduce", out, at_root);
    std::vector<T> only_root = empty(is_root ? n : 0);
    world.reduce(mine, only_root, op::sum, root);
    same(me, "reduce with recv at root only", only_root, is_root ? sum : std::vector<T>());
    out = mine;
    world.reduce(out, op::sum, root);
    same(me, "reduce in place", out, is_root ? sum : mine);
    out = empty(n);
    world.ireduce(mine, out, op::sum, root).wait();
    same(me, "ireduce", out, at_root);
    out = mine;
    world.ireduce(out, op::sum, root).wait();
    same(me, "ireduce in place", out, is_root ? sum : mine);
  }

  void scattered_reductions() {
    const std::vector<T> sum = sums<T>(ranks, all), own = part(sum, n * world.rank(), n);
    std::vector<T> out = empty(n);
    world.reduce_scatter(whole, out, op::sum);
    same(me, "reduce_scatter", out, own);
    out = empty(n);
    world.ireduce_scatter(whole, out, op::sum).wait();
    same(me, "ireduce_scatter", out, own);
    std::vector<T> buffer = whole;
    world.reduce_scatter(buffer, op::sum);
    same(me, "reduce_scatter in place", part(buffer, n * world.rank(), n), own);
    buffer = whole;
    world.ireduce_scatter(buffer, op::sum).wait();
    same(me, "ireduce_scatter in place", part(buffer, n * world.rank(), n), own);
  }

  void moves() {
    std::vector<T> gathered, exchanged;
    for (int r = 0; r < ranks; r++) {
      const std::vector<T> block = input<T>(r, n), to_me = part(input<T>(r, all), n * world.rank(), n);
      gathered.insert(gathered.end(), block.begin(), block.end());
      exchanged.insert(exchanged.end(), to_me.begin(), to_me.end());
    }
    std::vector<T> out = empty(all), in_place = empty(all);
    std::copy(mine.begin(), mine.end(), in_place.begin() + static_cast<ptrdiff_t>(n * world.rank()));
    world.allgather(mine, out);
    same(me, "allgather", out, gathered);
    out = in_place;
    world.allgather(out);
    same(me, "allgather in place", out, gathered);
    out = empty(all);
    world.iallgather(mine, out).wait();
    same(me, "iallgather", out, gathered);
    out = in_place;
    world.iallgather(out).wait();
    same(me, "iallgather in place", out, gathered);

    out = empty(all);
    world.alltoall(whole, out);
    same(me, "alltoall", out, exchanged);
    out = whole;
    world.alltoall(out);
    same(me, "alltoall in place", out, exchanged);
    out = empty(all);
    world.ialltoall(whole, out).wait();
    same(me, "ialltoall", out, exchanged);
    out = whole;
    world.ialltoall(out).wait();
    same(me, "ialltoall in place", out, exchanged);
  }

  void rooted_moves(uint32_t root) {
    const bool is_root = world.rank() == root;
    std::vector<T> gathered;
    for (int r = 0; r < ranks; r++) {
      const std::vector<T> block = input<T>(r, n);
      gathered.insert(gathered.end(), block.begin(), block.end());
    }
    const std::vector<T> of_root = input<T>(static_cast<int>(root), n),
                         all_of_root = input<T>(static_cast<int>(root), all),
                         own = part(all_of_root, n * world.rank(), n);
    std::vector<T> out = mine;
    world.broadcast(out, root);
    same(me, "broadcast", out, of_root);
    out = mine;
    world.ibroadcast(out, root).wait();
    same(me, "ibroadcast", out, of_root);

    out = empty(is_root ? all : 0);
    world.gather(mine, out, root);
    same(me, "gather", out, is_root ? gathered : std::vector<T>());
    out = empty(is_root ? all : 0);
    world.igather(mine, out, root).wait();
    same(me, "igather", out, is_root ? gathered : std::vector<T>());
    std::vector<T> in_place = mine;
    if (is_root) {
      in_place = empty(all);
      std::copy(mine.begin(), mine.end(), in_place.begin() + static_cast<ptrdiff_t>(n * root));
    }
    out = in_place;
    world.gather(out, root);
    same(me, "gather in place", out, is_root ? gathered : mine);
    out = in_place;
    world.igather(out, root).wait();
    same(me, "igather in place", out, is_root ? gathered : mine);

    const std::vector<T> from = is_root ? all_of_root : std::vector<T>();
    out = empty(n);
    world.scatter(from, out, root);
    same(me, "scatter", out, own);
    out = empty(n);
    world.iscatter(from, out, root).wait();
    same(me, "iscatter", out, own);
    out = is_root ? all_of_root : empty(n);
    world.scatter(out, root);
    same(me, "scatter in place", out, is_root ? all_of_root : own);
    out = is_root ? all_of_root : empty(n);
    world.iscatter(out, root).wait();
    same(me, "iscatter in place", out, is_root ? all_of_root : own);
  }

  void messages() {
    const uint32_t next = (world.rank() + 1) % world.ranks(),
                   previous = (world.rank() + world.ranks() - 1) % world.ranks();
    const std::vector<T> expected = input<T>(static_cast<int>(previous), n);
    std::vector<T> out = empty(n);
    request sent = world.isend(mine, next, 3);
    world.recv(out, previous, 3);
    sent.wait();
    same(me, "isend and recv", out, expected);
    out = empty(n);
    request received = world.irecv(out, previous);
    world.send(mine, next);
    received.wait();
    same(me, "irecv and send", out, expected);
  }
};

/* ---- vector variants: rank r has a block of n + r elements ---- */

template <typename T>
struct Vectors {
  Player &me;
  const comm &world;
  size_t n;
  bool packed;
  std::vector<size_t> counts, offsets; /* offsets: the blocks in reverse order, with gaps of one element */
  size_t size = 0;                     /* of the longer buffer */
  std::vector<T> mine, whole;

  Vectors(Player &player, const comm &c, size_t block, bool has_no_gaps)
      : me(player), world(c), n(block), packed(has_no_gaps) {
    const size_t ranks = c.ranks();
    offsets.resize(ranks);
    for (size_t r = 0; r < ranks; r++) counts.push_back(n + r);
    if (packed) std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), size_t{0});
    size = packed ? offsets.back() + counts.back() : 0;
    for (size_t r = ranks; !packed && r-- > 0; size += counts[r] + 1) offsets[r] = size;
    mine = input<T>(me.rank, own());
    whole = input<T>(me.rank, size);
  }

  size_t own() const { return counts[world.rank()]; }
  size_t own_offset() const { return offsets[world.rank()]; }
  tutti::blocks at() const { return packed ? tutti::blocks{counts} : tutti::blocks{counts, offsets}; }
  std::vector<T> empty(size_t elements) const { return std::vector<T>(elements, T{99}); }
  static void put(std::vector<T> &buffer, size_t first, const std::vector<T> &block) {
    std::copy(block.begin(), block.end(), buffer.begin() + static_cast<ptrdiff_t>(first));
  }

  void moves() {
    std::vector<T> gathered = empty(size), in_place = empty(size), out = empty(size);
    for (size_t r = 0; r < counts.size(); r++) put(gathered, offsets[r], input<T>(static_cast<int>(r), counts[r]));
    put(in_place, own_offset(), mine);
    world.allgatherv(mine, out, at());
    same(me, "allgatherv", out, gathered);
    out = in_place;
    world.allgatherv(out, at());
    same(me, "allgatherv in place", out, gathered);
    out = empty(size);
    world.iallgatherv(mine, out, at()).wait();
    same(me, "iallgatherv", out, gathered);
    out = in_place;
    world.iallgatherv(out, at()).wait();
    same(me, "iallgatherv in place", out, gathered);

    for (uint32_t root = 0; root < world.ranks(); root++) {
      const bool is_root = world.rank() == root;
      const tutti::blocks of_root = is_root ? at() : tutti::blocks();
      const std::vector<T> at_root = is_root ? gathered : std::vector<T>();
      out = empty(is_root ? size : 0);
      world.gatherv(mine, out, of_root, root);
      same(me, "gatherv", out, at_root);
      out = empty(is_root ? size : 0);
      world.igatherv(mine, out, of_root, root).wait();
      same(me, "igatherv", out, at_root);
      out = is_root ? in_place : mine;
      world.gatherv(out, of_root, root);
      same(me, "gatherv in place", out, is_root ? gathered : mine);
      out = is_root ? in_place : mine;
      world.igatherv(out, of_root, root).wait();
      same(me, "igatherv in place", out, is_root ? gathered : mine);

      const std::vector<T> all = input<T>(static_cast<int>(root), size), block = part(all, own_offset(), own());
      const std::vector<T> from = is_root ? all : std::vector<T>();
      out = empty(own());
      world.scatterv(from, out, of_root, root);
      same(me, "scatterv", out, block);
      out = empty(own());
      world.iscatterv(from, out, of_root, root).wait();
      same(me, "iscatterv", out, block);
      out = is_root ? all : empty(own());
      world.scatterv(out, of_root, root);
      same(me, "scatterv in place", out, is_root ? all : block);
      out = is_root ? all : empty(own());
      world.iscatterv(out, of_root, root).wait();
      same(me, "iscatterv in place", out, is_root ? all : block);
    }
  }

  void reductions() {
    const std::vector<T> expected = part(sums<T>(me.ranks, size), own_offset(), own());
    std::vector<T> out = empty(own()), buffer = whole;
    world.reduce_scatterv(whole, out, at(), op::sum);
    same(me, "reduce_scatterv", out, expected);
    out = empty(own());
    world.ireduce_scatterv(whole, out, at(), op::sum).wait();
    same(me, "ireduce_scatterv", out, expected);
    world.reduce_scatterv(buffer, at(), op::sum);
    same(me, "reduce_scatterv in place", part(buffer, own_offset(), own()), expected);
    buffer = whole;
    world.ireduce_scatterv(buffer, at(), op::sum).wait();
    same(me, "ireduce_scatterv in place", part(buffer, own_offset(), own()), expected);
  }

  /* Rank r sends n + r elements to every rank, so it receives blocks of `counts`. */
  void exchanges() {
    const size_t ranks = counts.size();
    const std::vector<size_t> sent(ranks, own());
    std::vector<T> out = empty(size), expected = empty(size);
    const std::vector<T> from = input<T>(me.rank, ranks * own());
    for (size_t r = 0; r < ranks; r++) {
      const std::vector<T> all = input<T>(static_cast<int>(r), ranks * counts[r]);
      put(expected, offsets[r], part(all, counts[r] * world.rank(), counts[r]));
    }
    world.alltoallv(from, {sent}, out, at());
    same(me, "alltoallv", out, expected);
    out = empty(size);
    world.ialltoallv(from, {sent}, out, at()).wait();
    same(me, "ialltoallv", out, expected);

    /* In place, rank r and rank s exchange blocks of n + (r + s) % 2 elements. */
    std::vector<size_t> both(ranks), first(ranks);
    for (size_t r = 0; r < ranks; r++) both[r] = n + (world.rank() + r) % 2;
    std::exclusive_scan(both.begin(), both.end(), first.begin(), size_t{0});
    const size_t total = first.back() + both.back();
    std::vector<T> buffer = input<T>(me.rank, total), exchanged(total);
    for (size_t r = 0; r < ranks; r++) {
      size_t there = 0;
      for (size_t i = 0; i < world.rank(); i++) there += n + (r + i) % 2;
      put(exchanged, first[r], part(input<T>(static_cast<int>(r), there + both[r]), there, both[r]));
    }
    world.alltoallv(buffer, {both});
    same(me, "alltoallv in place", buffer, exchanged);
    buffer = input<T>(me.rank, total);
    world.ialltoallv(buffer, {both, first}).wait();
    same(me, "ialltoallv in place", buffer, exchanged);
  }
};

/* bools: a value, an array, in place. */
static void bools(Player &me) {
  const comm world = copy_of_world(me);
  const bool last = me.rank + 1 == static_cast<int>(world.ranks());
  static_assert(tutti::datatype_of<bool> == TUTTI_BOOL);
  me.check(world.allreduce(last, op::lor) && world.allreduce(true, op::land), "lor and land");
  me.check(world.allreduce(last, op::land) == (world.ranks() == 1), "land of different values");
  std::array<bool, 3> flags = {last, true, false};
  world.allreduce(flags, op::sum);
  me.check(flags[0] && flags[1] && !flags[2], "the sum of bools");
  std::array<bool, 1> one = {true};
  std::array<bool, 16> all = {};
  const size_t ranks = world.ranks();
  world.allgather(one, tutti::span<bool>(all.data(), ranks));
  for (size_t r = 0; r < all.size(); r++) me.check(all[r] == (r < ranks), "allgather: element %zu", r);
}

template <typename T>
static void calls_of(Player &me) {
  const comm world = copy_of_world(me);
  for (size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}}) {
    Calls<T> calls(me, world, n);
    calls.reductions();
    calls.scattered_reductions();
    calls.moves();
    calls.messages();
    for (uint32_t root = 0; root < world.ranks(); root++) {
      calls.rooted_reductions(root);
      calls.rooted_moves(root);
    }
    for (bool packed : {false, true}) {
      Vectors<T> vectors(me, world, n, packed);
      vectors.moves();
      vectors.reductions();
      vectors.exchanges();
    }
  }
  world.barrier();
  world.ibarrier().wait();
}

/* ---- buffers ---- */

static void buffers(Player &me) {
  const comm world = copy_of_world(me);
  const double ranks = me.ranks;
  const std::vector<double> vector{1, 2, 3};
  const std::vector<double> expected{ranks, 2 * ranks, 3 * ranks};
  const std::array<double, 3> array{1, 2, 3};
  const double plain[3] = {1, 2, 3};
  double out[3] = {}, other[5] = {};
  std::array<double, 3> out_array{};
  world.allreduce(vector, out, op::sum);
  same(me, "from a vector to a C array", out, expected);
  world.allreduce(plain, out_array, op::sum);
  same(me, "from a C array to an array", out_array, expected);
  world.allreduce(array, tutti::span(other + 1, 3), op::sum);
  same(me, "from an array to a pointer and a size", tutti::span(other).subspan(1, 3), expected);
  me.check(other[0] == 0 && other[4] == 0, "elements beside a span are changed");
  world.allreduce(std::vector<double>{1, 2, 3}, out, op::sum);
  same(me, "from a temporary", out, expected);
  double one = 1;
  world.allreduce(tutti::span(&one, 1), op::sum);
  me.check(one == ranks, "the sum is %g; expected %g", one, ranks);
  tutti::memory<double> shared(world, 3);
  std::copy(vector.begin(), vector.end(), shared.begin());
  world.allreduce(shared, op::sum);
  same(me, "tutti::memory", shared, expected);
  std::string text = me.rank == 0 ? "hello" : "-----";
  world.broadcast(text, 0);
  me.check(text == "hello", "the string is %s", text.c_str());
  std::vector<bf16> halves(4, bf16{0x3f80}); /* 1.0 */
  world.allreduce(halves, op::max);
  me.check(halves[3].bits == 0x3f80, "a datatype of the program: 0x%x", halves[3].bits);
#ifdef __cpp_lib_span
  const std::span<const double> from(vector);
  world.allreduce(from, std::span<double>(out), op::sum);
  same(me, "std::span", out, expected);
  world.iallreduce(from, std::span<double>(out_array), op::sum).wait();
  same(me, "std::span, non-blocking", out_array, expected);
  me.check(tutti::span<double>(std::span<double>(out)).data() == out, "std::span to tutti::span");
#endif
  const tutti::span<double> whole(out), empty;
  me.check(whole.size() == 3 && whole.begin() == out && whole.end() == out + 3 && whole[2] == out[2] && !whole.empty(),
           "span: members");
  me.check(empty.empty() && empty.data() == nullptr, "span: empty");
  me.check(tutti::detail::in_place() == TUTTI_IN_PLACE, "in_place() is not TUTTI_IN_PLACE");
}

static void memory(Player &me) {
  const comm world = copy_of_world(me);
  tutti::memory<int> none, m(world, 5), zero(world, 0);
  me.check(none.empty() && none.data() == nullptr && zero.empty() && m.size() == 5, "sizes");
  m[4] = 7;
  const int *address = m.data();
  tutti::memory<int> moved(std::move(m));
  me.check(m.empty() && m.data() == nullptr && moved.data() == address, "move constructor");
  none = std::move(moved);
  me.check(moved.empty() && none.data() == address && none[4] == 7 && none.end() - none.begin() == 5,
           "move assignment");
  tutti::memory<int> &alias = none;
  none = std::move(alias);
  me.check(none.size() == 5, "self-assignment");
  throws(me, "too much", TUTTI_ERR_MEMORY, "elements", [&] { tutti::memory<int>(world, SIZE_MAX); });
  throws(me, "too much", TUTTI_ERR_MEMORY, "", [&] { tutti::memory<char>(world, SIZE_MAX / 2); });
  throws(me, "no communicator", TUTTI_ERR_ARGUMENT, "tutti_alloc", [] { tutti::memory<int>(tutti::comm_view(), 1); });
  world.barrier(); /* the communicator is still usable */
}

/* ---- operations ---- */

/* Two functions x -> a x + b after each other, modulo 2^16: associative, not commutative. a is the upper half. */
static uint32_t compose(uint32_t first, uint32_t second) {
  const uint32_t a = first >> 16, b = first & 0xffff, c = second >> 16, d = second & 0xffff;
  return (c * a) << 16 | ((c * b + d) & 0xffff);
}

static const op composition = tutti::make_op<uint32_t>(compose, false, "composition");
static const op absmax =
    tutti::make_op<double>([](double a, double b) { return std::max(a < 0 ? -a : a, b < 0 ? -b : b); }, true, "absmax");
static const op small_sum = tutti::make_op<int8_t>([](int8_t a, int8_t b) { return a + b; }, true, "small");

static void operations(Player &me) {
  const comm world = copy_of_world(me);
  const std::pair<op, tutti_op> names[] = {
      {op::sum, TUTTI_SUM}, {op::prod, TUTTI_PROD}, {op::min, TUTTI_MIN},   {op::max, TUTTI_MAX},
      {op::avg, TUTTI_AVG}, {op::band, TUTTI_BAND}, {op::bor, TUTTI_BOR},   {op::bxor, TUTTI_BXOR},
      {op::lor, TUTTI_LOR}, {op::land, TUTTI_LAND}, {op::lxor, TUTTI_LXOR}, {op::premul_sum(2), TUTTI_PREMUL_SUM}};
  for (const auto &[operation, id] : names) me.check(operation.id() == id, "operation %s", tutti_op_name(id));
  std::vector<double> x{me.rank + 1.0};
  world.allreduce(x, op::premul_sum(0.5));
  me.check(x[0] == me.ranks * (me.ranks + 1) / 4.0, "premul_sum: %g", x[0]);
  x[0] = 3;
  world.allreduce(x, op::premul_sum(me.rank)); /* each rank has its own factor */
  me.check(x[0] == 3 * me.ranks * (me.ranks - 1) / 2.0, "premul_sum: %g", x[0]);
  me.check(world.allreduce(2.0, TUTTI_PREMUL_SUM) == 2 * me.ranks, "premul_sum without a factor");
  x[0] = me.rank;
  world.allreduce(x, op::max);
  me.check(x[0] == me.ranks - 1, "max: %g", x[0]);

  std::vector<double> y(9), most(9);
  for (size_t i = 0; i < y.size(); i++) y[i] = (me.rank % 2 ? -1.0 : 1.0) * static_cast<double>(i) * (me.rank + 1);
  world.allreduce(y, most, absmax);
  for (size_t i = 0; i < y.size(); i++) me.check(most[i] == static_cast<double>(i) * me.ranks, "absmax: %g", most[i]);
  std::vector<int8_t> z(5, 4);
  world.iallreduce(z, small_sum).wait();
  me.check(z[4] == 4 * me.ranks, "an operation whose callable returns int: %d", z[4]);

  std::vector<uint32_t> f(100), g(100);
  const auto function = [](int rank, size_t i) {
    return (static_cast<uint32_t>(rank) + 3) << 16 | static_cast<uint32_t>(i);
  };
  for (size_t i = 0; i < f.size(); i++) f[i] = function(me.rank, i);
  world.allreduce(f, g, composition);
  for (size_t i = 0; i < f.size(); i++) {
    uint32_t expected = function(0, i);
    for (int r = 1; r < me.ranks; r++) expected = compose(expected, function(r, i));
    me.check(g[i] == expected, "composition: %x; expected %x", g[i], expected);
  }
  me.check(std::strcmp(tutti_op_name(composition.id()), "composition") == 0, "the name of an operation");
  std::vector<float> floats(1);
  me.barrier(); /* on the world of all cases: no rank is still in the call, which the next one would fail */
  throws(me, "an operation for another type", TUTTI_ERR_ARGUMENT, "absmax|f64|found f32",
         [&] { world.allreduce(floats, absmax); });
}

/* Runs an operation in a child process, which must end with a message. */
template <typename T, typename F>
static void ends_process(Player &me, F function, tutti_datatype type, const char *words) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    tutti::detail::operation<T, F> operation{function, "faulty"};
    T a[2] = {}, b[2] = {}, c[2] = {};
    tutti::detail::operation<T, F>::apply(c, a, b, 2, type, &operation);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char chunk[200];
  for (ssize_t got; (got = read(ends[0], chunk, sizeof chunk)) > 0;) text.append(chunk, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  me.check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "the process has not aborted: status %d", status);
  me.check(text.find("operation faulty") != std::string::npos && test_contains(text.c_str(), words),
           "'%s' is not in: %s", words, text.c_str());
}

static void faulty_operations(Player &me) {
  ends_process<int>(
      me, [](int, int) -> int { throw std::runtime_error("too hot"); }, TUTTI_I32, "too hot");
  ends_process<int>(
      me, [](int, int) -> int { throw 3; }, TUTTI_I32, "exception");
  ends_process<int>(
      me, [](int a, int) { return a; }, TUTTI_F32, "datatype|f32");
}

/* ---- communicators ---- */

static void communicators(Player &me) {
  comm world = copy_of_world(me);
  me.check(world.rank() == static_cast<uint32_t>(me.rank) && world.ranks() == static_cast<uint32_t>(me.ranks),
           "rank or ranks");
  tutti_comm *raw = world.get();
  comm moved(std::move(world));
  me.check(!world && moved && moved.get() == raw && world.get() == nullptr, "move constructor");
  comm target = moved.dup();
  target = std::move(moved); /* closes the copy */
  me.check(!moved && target.get() == raw, "move assignment");
  comm &alias = target;
  target = std::move(alias);
  me.check(target.get() == raw, "self-assignment");
  world = comm(target.release());
  me.check(!target && world.get() == raw, "release");

  const std::optional<comm> half = world.split(me.rank % 2, -me.rank);
  me.check(half && half->ranks() == static_cast<uint32_t>((me.ranks + 1 - me.rank % 2) / 2), "split: number of ranks");
  int32_t sum = me.rank, expected = 0;
  half->allreduce(tutti::span(&sum, 1), op::sum);
  for (int r = me.rank % 2; r < me.ranks; r += 2) expected += r;
  me.check(sum == expected, "split: sum %d; expected %d", sum, expected);
  me.check(half->rank() == half->ranks() - 1 - static_cast<uint32_t>(me.rank / 2), "split: order by key");
  std::optional<int> color;
  if (me.rank == 0) color = 4;
  const std::optional<comm> first = world.split(color);
  me.check(first.has_value() == (me.rank == 0), "split without a colour");

  const comm alone = world.self();
  me.check(alone.ranks() == 1 && alone.rank() == 0, "self");
  alone.barrier();

  std::vector<uint32_t> members;
  for (int r = me.ranks - 1; r >= 0; r -= 2) members.push_back(static_cast<uint32_t>(r));
  const auto found = std::find(members.begin(), members.end(), static_cast<uint32_t>(me.rank));
  if (found != members.end()) {
    const comm some = world.create(members, 17);
    me.check(some.rank() == static_cast<uint32_t>(found - members.begin()) && some.ranks() == members.size(), "create");
    some.barrier();
  }
  throws(me, "create from an empty list", TUTTI_ERR_ARGUMENT, "", [&] { (void)world.create({}, 1); });
  world.barrier();

  tutti::options options;
  options.ranks = 1;
  const comm other = comm::init(options);
  me.check(other.ranks() == 1, "init with options");
  options.rank = 3;
  throws(me, "init with wrong options", TUTTI_ERR_ARGUMENT, "rank", [&] { (void)comm::init(options); });

  comm together = world.dup();
  together.free();
  me.check(!together, "free leaves a communicator");
  comm closed = world.dup();
  closed.close();
  me.check(!closed, "close leaves a communicator");
}

static void statistics(Player &me) {
  const comm world = copy_of_world(me);
  std::vector<int> x(3), y(3);
  const uint32_t next = static_cast<uint32_t>((me.rank + 1) % me.ranks);
  const uint32_t before = static_cast<uint32_t>((me.rank + me.ranks - 1) % me.ranks);
  world.allreduce(x, op::sum);
  world.barrier();
  request sent = world.isend(x, next);
  world.recv(y, before);
  sent.wait();
  me.barrier(); /* on the world of all cases: every rank has made its calls */
  for (uint32_t r = 0; r < world.ranks(); r++) {
    const tutti_rank_stats known = world.stats(r);
    me.check(known.calls == 2, "rank %u: %llu calls", r, static_cast<unsigned long long>(known.calls));
    me.check(known.messages == 2 && known.message_bytes == 2 * sizeof(int) * x.size(), "rank %u: %llu messages", r,
             static_cast<unsigned long long>(known.messages));
    me.check(known.awaited_ns >= known.awaited_here_ns, "rank %u: awaited", r);
  }
  throws(me, "stats of no rank", TUTTI_ERR_ARGUMENT, "tutti_stats|rank", [&] { (void)world.stats(me.ranks); });
  throws(me, "stats of rank -1", TUTTI_ERR_ARGUMENT, "tutti_stats|rank", [&] { (void)world.stats(-1); });
  me.barrier();
  world.barrier(); /* the communicator has not failed */
}

static void empty_communicators(Player &me) {
  const char *words = "is empty";
  const comm none;
  std::vector<int> x(1);
  throws(me, "rank", TUTTI_ERR_ARGUMENT, words, [&] { (void)none.rank(); });
  throws(me, "ranks", TUTTI_ERR_ARGUMENT, words, [&] { (void)none.ranks(); });
  throws(me, "barrier", TUTTI_ERR_ARGUMENT, words, [&] { none.barrier(); });
  throws(me, "allreduce", TUTTI_ERR_ARGUMENT, words, [&] { none.allreduce(x, op::sum); });
  throws(me, "gather", TUTTI_ERR_ARGUMENT, words, [&] { none.gather(x, 0); });
  throws(me, "isend", TUTTI_ERR_ARGUMENT, words, [&] { none.isend(x, 0).wait(); });
  throws(me, "dup", TUTTI_ERR_ARGUMENT, words, [&] { (void)none.dup(); });
  throws(me, "split", TUTTI_ERR_ARGUMENT, words, [&] { (void)none.split(0); });
  throws(me, "create", TUTTI_ERR_ARGUMENT, words, [&] { (void)none.create({}, 0); });
  throws(me, "abort", TUTTI_ERR_ARGUMENT, words, [&] { none.abort("reason"); });
  throws(me, "set_timeout", TUTTI_ERR_ARGUMENT, words, [&] { none.set_timeout(1); });
  throws(me, "stats", TUTTI_ERR_ARGUMENT, words, [&] { (void)none.stats(0); });
}

/* Rank 0 ends a communicator before the other ranks may end theirs. */
static void destructors_do_not_wait(Player &me) {
  const comm world = copy_of_world(me);
  int token = me.rank;
  {
    comm brief = world.dup();
    brief.allreduce(tutti::span(&token, 1), op::max);
    if (me.rank > 0) world.recv(tutti::span(&token, 1), 0, 1);
  }
  for (int r = 1; r < me.ranks && me.rank == 0; r++) world.send(tutti::span(&token, 1), static_cast<uint32_t>(r), 1);
  me.check(token == me.ranks - 1, "token %d", token);
}

/* A rank of a job of its own: the destructor ends the world, and the process ends, before the last rank has received.
 * */
static int end_world_early() {
  try {
    const comm world = comm::init();
    const uint32_t rank = world.rank(), ranks = world.ranks();
    std::vector<int> mine(1000, static_cast<int>(rank)), got(1000, -1);
    if (rank == ranks - 1) usleep(200000);
    if (rank + 1 < ranks) world.send(mine, rank + 1);
    if (rank > 0) world.recv(got, rank - 1);
    return rank > 0 && got[999] != static_cast<int>(rank) - 1;
  } catch (const tutti::error &e) {
    printf("  last communicator: %s\n", e.what());
    return 1;
  }
}

static void last_communicator(Player &me) {
  char self[4096] = "", command[8192];
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) std::abort();
  for (int ranks = 2; ranks <= 4; ranks++) {
    snprintf(command, sizeof command, "TUTTI_TUNING=none '%s' run -n %d -- '%s' --as early", BUILD_DIR "/tutti", ranks,
             self);
    fflush(stdout);
    const int status = std::system(command);
    me.check(status == 0, "%d ranks end with status %d", ranks, status);
  }
}

/* ---- requests ---- */

static void requests(Player &me) {
  const comm world = copy_of_world(me);
  const uint32_t next = static_cast<uint32_t>(me.after()), previous = static_cast<uint32_t>(me.after(-1));
  request none;
  me.check(!none && none.test(), "an empty request is complete");
  none.wait();

  int in = me.rank, out = -1;
  request sum = world.iallreduce(tutti::span(&in, 1), tutti::span(&out, 1), op::sum);
  while (!sum.test()) continue;
  me.check(!sum && out == me.ranks * (me.ranks - 1) / 2, "test");

  std::vector<int> got(3, -1);
  std::vector<request> open;
  for (uint32_t tag = 0; tag < 3; tag++) open.push_back(world.irecv(tutti::span(&got[tag], 1), previous, tag));
  std::array<request, 3> sent;
  for (uint32_t tag = 0; tag < 3; tag++) sent[tag] = world.isend(tutti::span(&in, 1), next, tag);
  tutti::wait_all(open);
  tutti::wait_all(sent);
  same(me, "wait_all", got, std::vector<int>(3, me.after(-1)));
  me.check(!open[0] && !open[2] && !sent[1], "wait_all leaves a request open");

  const comm apart = world.dup(); /* without the messages of other ranks */
  apart.send(tutti::span(&in, 1), me.rank, 5);
  const std::optional<tutti_message> found = apart.probe(tutti::any_rank, tutti::any_tag, 5000);
  me.check(found && static_cast<int>(found->rank) == me.rank && found->tag == 5 && found->bytes == sizeof in, "probe");
  const tutti_message came = apart.recv(tutti::span(&out, 1), tutti::any_rank, tutti::any_tag);
  me.check(came.tag == 5 && static_cast<int>(came.rank) == me.rank && out == in, "a message of any rank");
  me.check(!apart.probe(me.rank), "a probe finds a message that was received");

  request first = world.irecv(tutti::span(&got[0], 1), previous, 7),
          second = world.irecv(tutti::span(&got[1], 1), previous, 8);
  tutti_request *raw = first.get();
  request moved(std::move(first));
  me.check(!first && moved.get() == raw, "move constructor");
  int a = 10 + me.rank, b = 20 + me.rank;
  request to[2] = {world.isend(tutti::span(&a, 1), next, 7), world.isend(tutti::span(&b, 1), next, 8)};
  moved = std::move(second); /* waits for the first message */
  me.check(got[0] == 10 + me.after(-1), "a move assignment has not waited: %d", got[0]);
  request &alias = moved;
  moved = std::move(alias);
  request adopted(moved.release());
  me.check(!moved, "release");
  adopted.wait();
  me.check(got[1] == 20 + me.after(-1), "a request that was released and adopted: %d", got[1]);
  tutti::wait_all(to);

  got.assign(1, -1);
  request late = world.isend(tutti::span(&in, 1), next, 9);
  { request waits = world.irecv(got, previous, 9); }
  me.check(got[0] == me.after(-1), "a destructor has not waited: %d", got[0]);
}

/* ---- calls that are described by a struct ---- */

static void described_calls(Player &me) {
  const comm world = copy_of_world(me);
  int in[4] = {1, 2, 3, 4}, out[4] = {};
  tutti::call call;
  call.collective = TUTTI_ALLREDUCE;
  call.send = in;
  call.recv = out;
  call.count = 4;
  call.type = tutti::datatype_of<int>;
  call.op = op::max;
  call.algorithm = "ring";
  world.run(call);
  me.check(out[3] == 4, "run: %d", out[3]);
  call.op = TUTTI_SUM;
  world.start(call).wait();
  me.check(out[3] == 4 * me.ranks, "start: %d", out[3]);

  int got = -1;
  std::vector<tutti::call> exchange(2);
  exchange[0].collective = TUTTI_SEND;
  exchange[0].send = &me.rank;
  exchange[0].peer = me.after();
  exchange[1].collective = TUTTI_RECV;
  exchange[1].recv = &got;
  exchange[1].peer = me.after(-1);
  for (tutti::call &each : exchange) each.count = 1, each.type = TUTTI_I32, each.tag = 7;
  world.start_all(exchange).wait();
  me.check(got == me.after(-1), "start_all: %d", got);

  const std::vector<size_t> counts(world.ranks(), 1), one_more(world.ranks() + 1, 1);
  std::vector<int> all(world.ranks());
  tutti::call vector;
  vector.collective = TUTTI_ALLGATHERV;
  vector.send = &me.rank;
  vector.recv = all.data();
  vector.type = TUTTI_I32;
  vector.counts = counts;
  world.run(vector);
  me.check(all.back() == me.ranks - 1, "allgatherv: %d", all.back());

  const auto refused = [&](const char *words, const tutti::call &bad) { /* on a communicator of its own */
                                                                        const comm refusing = copy_of_world(me);
                                                                        throws(me, words, TUTTI_ERR_ARGUMENT, words,
                                                                               [&] { refusing.run(bad); });
  };
  call.algorithm = "no such algorithm";
  refused("no such algorithm", call);
  call.algorithm = nullptr;
  call.op = absmax;
  refused("absmax|f64|found i32", call);
  vector.counts = one_more;
  refused(
      ("allgatherv: |counts|found " + std::to_string(me.ranks + 1) + "|expected " + std::to_string(me.ranks)).c_str(),
      vector);
}

static void addresses_of_blocks(Player &me) {
  const comm world = copy_of_world(me);
  std::vector<int> apart(2 * world.ranks()); /* the blocks, in reverse order, in every second element */
  std::vector<void *> addresses;
  for (size_t i = 0; i < world.ranks(); i++) addresses.push_back(&apart[apart.size() - 2 * i - 2]);
  tutti::call pointed;
  pointed.collective = TUTTI_ALLGATHER;
  pointed.send = &me.rank;
  pointed.recv_blocks = addresses;
  pointed.count = 1;
  pointed.type = TUTTI_I32;
  world.run(pointed);
  me.check(apart.front() == me.ranks - 1, "addresses of blocks: %d", apart.front());
  me.barrier(); /* on the world of all cases: no rank is still in the call, which the next one would fail */
  addresses.push_back(&apart[1]);
  pointed.recv_blocks = addresses;
  const std::string words = "allgather: |recv_blocks|found " + std::to_string(me.ranks + 1);
  throws(me, "addresses of blocks", TUTTI_ERR_ARGUMENT, words.c_str(), [&] { world.run(pointed); });
}

static_assert(std::is_aggregate_v<tutti::call> && std::is_aggregate_v<tutti::options> &&
              std::is_aggregate_v<tutti::settings> && std::is_aggregate_v<tutti::blocks>);
static_assert(sizeof(tutti::options) == sizeof(tutti_options), "tutti::options lacks a field of tutti_options");
static_assert(sizeof(void *) != 8 || sizeof(tutti_call) == 224,
              "tutti_call has a new field: add it to tutti::call, to comm_view::lowered, and below");

/* Shows what comm_view makes of a call. */
struct Lowering : comm {
  explicit Lowering(const Player &player) : comm(copy_of_world(player)) {}
  using comm::lowered;
};

/* Every field of the structs of C++ reaches the struct of C: the library reads a field, or refuses it. */
static void fields(Player &me) {
  const Lowering world(me);
  const std::vector<size_t> a(world.ranks()), b(a), c(a), d(a);
  const auto *plan = reinterpret_cast<const tutti_plan *>(&a);
  tutti_tensor in{}, out{};
  tutti_message got{};
  int x = 0, y = 0, z = 0;
  const std::vector<const void *> from(world.ranks());
  const std::vector<void *> to(world.ranks());
  const tutti::call full = {TUTTI_ALLTOALLV,
                            &x,
                            &y,
                            5,
                            TUTTI_F64,
                            op::premul_sum(3),
                            6,
                            7,
                            8,
                            a,
                            b,
                            c,
                            d,
                            "ring",
                            plan,
                            9,
                            &in,
                            &out,
                            10,
                            11,
                            true,
                            12,
                            [](void *, size_t, size_t) {},
                            &z,
                            &got,
                            from,
                            to,
                            &x,
                            13,
                            14,
                            TUTTI_ORDER_CANONICAL,
                            15,
                            true};
  const tutti_call made = world.lowered(full);
  me.check(made.collective == TUTTI_ALLTOALLV && made.send == &x && made.recv == &y && made.count == 5, "buffers");
  me.check(made.op == TUTTI_PREMUL_SUM && made.scale == 3 && made.op_context == &x, "operation");
  me.check(made.type == TUTTI_F64 && made.element_bytes == 13 && made.message == &got, "type, message");
  me.check(made.root == 6 && made.peer == 7 && made.tag == 8, "root, peer, tag");
  me.check(made.counts == a.data() && made.offsets == b.data() && made.recv_counts == c.data(), "counts, offsets");
  me.check(made.recv_offsets == d.data() && made.plan == plan && made.timeout_ms == 9, "plan");
  me.check(std::strcmp(made.algorithm, "ring") == 0, "algorithm");
  me.check(made.in == &in && made.out == &out && made.dim == 10 && made.out_dim == 11 && made.has_out_dim, "tensors");
  me.check(made.flags == 14 && made.order == TUTTI_ORDER_CANONICAL && made.leaves == 15 && made.folded,
           "order, leaves");
  me.check(made.in_parts && made.lanes == 12 && made.on_ready && made.on_ready_context == &z, "parts, lanes");
  me.check(made.send_blocks == from.data() && made.recv_blocks == to.data(), "blocks");
}

static void defaults(Player &me) {
  const tutti_call none = Lowering(me).lowered({});
  me.check(none.op == 0 && !none.has_out_dim && none.counts == nullptr && none.type == 0, "the defaults");
}

/* Two leaves of each rank, in one buffer and by a fold, give the same sum. */
static void leaves(Player &me) {
  const comm world = copy_of_world(me);
  const float mine[] = {static_cast<float>(me.rank) + 0.1f, 3.3f, 1e-7f, 1e7f};
  float both[2], folded[2];
  tutti::call sum;
  sum.send = mine;
  sum.recv = both;
  sum.count = 2;
  sum.type = TUTTI_F32;
  sum.op = op::avg;
  sum.leaves = 2;
  world.run(sum);
  tutti::fold fold = world.make_fold(sum);
  fold.add(mine);
  me.check(fold.result() == nullptr, "half a fold has no result");
  fold.add(mine + 2);
  sum.send = fold.result();
  sum.recv = folded;
  sum.folded = true;
  world.run(sum);
  me.check(std::memcmp(both, folded, sizeof both) == 0 && both[1] > 1e6f, "a fold of two leaves");
  sum.type = TUTTI_BFP8;
  throws(me, "make_fold", TUTTI_ERR_ARGUMENT, "tensors", [&] { (void)world.make_fold(sum); });
}

static void settings(Player &me) {
  const comm world = copy_of_world(me);
  tutti::settings how;
  how.lanes = 2;
  how.algorithm = "ring";
  const tutti::comm_view ring = world.with(how);
  me.check(ring.allreduce(1, op::sum) == me.ranks, "a ring of two lanes");
  how.order = TUTTI_ORDER_CANONICAL;
  tutti::call sum;
  sum.type = TUTTI_F32;
  const comm asking = copy_of_world(me);
  if (me.ranks > 4)
    throws(me, "a ring in the canonical order", TUTTI_ERR_ARGUMENT, "canonical order",
           [&] { asking.with(how).check_call(sum); });
  how = {};
  how.algorithm = "no such algorithm";
  const comm refusing = copy_of_world(me);
  throws(me, "with", TUTTI_ERR_ARGUMENT, "no such algorithm", [&] { (void)refusing.with(how).allreduce(1, op::sum); });
  how = {};
  how.timeout_ms = 150;
  const comm slow = copy_of_world(me);
  throws(me, "the time limit", TUTTI_ERR_TIMEOUT, "150 ms", [&] { /* two settings after each other are joined */
                                                                  tutti::settings lanes;
                                                                  lanes.lanes = 1;
                                                                  int x = 0;
                                                                  slow.with(how).with(lanes).recv(tutti::span(&x, 1),
                                                                                                  me.after(), 5);
  });
}

/* ---- single values, bytes, numbers ---- */

static void values(Player &me) {
  const comm world = copy_of_world(me);
  const int rank = me.rank;
  const double half = 0.5;
  me.check(world.allreduce(half, op::sum) == half * me.ranks, "allreduce");
  me.check(world.allreduce(rank, op::max) == me.ranks - 1 && rank == me.rank, "allreduce of an lvalue");
  me.check(world.broadcast(rank * 10, me.ranks - 1) == 10 * (me.ranks - 1), "broadcast");
  me.check(world.scan(rank, op::sum) == rank * (rank + 1) / 2, "scan");
  const std::optional<int> before = world.exscan(rank, op::sum);
  me.check(before.has_value() == (rank > 0) && before.value_or(0) == rank * (rank - 1) / 2, "exscan");
  const std::optional<int> sum = world.reduce(rank, op::sum, 0);
  me.check(sum.has_value() == (rank == 0) && sum.value_or(0) == (rank ? 0 : me.ranks * (me.ranks - 1) / 2), "reduce");
  const std::vector<int> all = world.allgather(rank);
  for (int r = 0; r < me.ranks; r++) me.check(all[static_cast<size_t>(r)] == r, "allgather");
  me.check(world.allreduce(bf16{0x3f80}, op::max).bits == 0x3f80, "a datatype of the program");
}

static void bytes(Player &me) {
  static_assert(tutti::datatype_of<std::byte> == TUTTI_U8 && tutti::datatype_of<unsigned char> == TUTTI_U8);
  const comm world = copy_of_world(me);
  const std::vector<std::byte> mine(3, std::byte(rank_byte(me)));
  std::vector<std::byte> all(3 * world.ranks());
  world.allgather(tutti::span<const std::byte>(mine), all);
  for (size_t i = 0; i < all.size(); i++) me.check(std::to_integer<size_t>(all[i]) == 1 + i / 3, "byte %zu", i);
  const std::vector<unsigned char> chars(3, rank_byte(me));
  std::vector<unsigned char> all_chars(3 * world.ranks());
  world.allgather(tutti::span(chars), all_chars); /* a span of const elements */
  me.check(all_chars.back() == me.ranks, "unsigned char: %d", all_chars.back());
}

static void numbers(Player &me) {
  using tutti::number;
  static_assert(number(-1) == UINT32_MAX && number(UINT64_C(1) << 32) == UINT32_MAX && number(int8_t{5}) == 5);
  static_assert(!number(-1).is_valid() && !number(UINT32_MAX).is_valid() && number(UINT32_MAX - 1).is_valid());
  static_assert(!std::is_convertible_v<bool, number> && !std::is_convertible_v<double, number> &&
                !std::is_convertible_v<tutti_datatype, number> && !std::is_convertible_v<op, number>);
  static_assert(std::is_convertible_v<decltype(TUTTI_SUM), op> && !std::is_convertible_v<int, op> &&
                !std::is_convertible_v<bool, op> && !std::is_convertible_v<tutti_datatype, op> &&
                !std::is_convertible_v<tutti_op, op> && std::is_constructible_v<op, tutti_op> &&
                !std::is_constructible_v<op, bool> && !std::is_constructible_v<op, tutti_datatype>);
  std::vector<int> x(3);
  const auto refused = [&](const char *words, auto call) {
    const comm world = copy_of_world(me);
    throws(me, words, TUTTI_ERR_ARGUMENT, words, [&] { call(world); });
  };
  refused("root|4294967295", [&](const comm &w) { w.broadcast(x, -1); });
  refused("peer|4294967295", [&](const comm &w) { w.send(x, INT64_C(1) << 32); });
  refused("send: |tag|4294967294", [&](const comm &w) { w.send(x, 0, -1); });
  refused("recv: |tag|4294967294", [&](const comm &w) { w.recv(x, 0, TUTTI_ANY_TAG); });
  refused("recv: |peer|any_rank", [&](const comm &w) { w.recv(x, -1); });
  tutti_op handle = 0;
  tutti::check(tutti_op_create(
      [](void *result, const void *left, const void *right, size_t count, tutti_datatype, void *) {
        for (size_t i = 0; i < count; i++)
          static_cast<int *>(result)[i] = static_cast<const int *>(left)[i] + static_cast<const int *>(right)[i];
      },
      nullptr, true, "of C", &handle));
  me.check(copy_of_world(me).allreduce(me.rank, op(handle)) == me.ranks * (me.ranks - 1) / 2, "an operation of C");
}

/* An operation of a communicator on elements of 12 bytes, with a context of its own and one of the call. */
static void operations_of_a_communicator(Player &me) {
  struct triple {
    int32_t a, b, c;
  };
  const comm world = copy_of_world(me);
  tutti_op_options options = {};
  int own = 0, other = 0;
  options.function = [](void *result, const void *left, const void *right, size_t count, tutti_datatype,
                        void *context) {
    const auto *l = static_cast<const triple *>(left), *r = static_cast<const triple *>(right);
    for (size_t i = 0; i < count; i++)
      static_cast<triple *>(result)[i] = {l[i].a + r[i].a, l[i].b > r[i].b ? l[i].b : r[i].b, l[i].c};
    ++*static_cast<int *>(context);
  };
  options.context = &own;
  const op joined = world.create_op(options);
  const triple mine = {1, me.rank, me.rank + 5};
  triple all = {};
  tutti::call call;
  call.send = &mine;
  call.recv = &all;
  call.count = 1;
  call.type = TUTTI_BYTES;
  call.op = joined;
  call.op_context = &other;
  call.element_bytes = sizeof mine;
  world.run(call);
  me.check(all.a == me.ranks && all.b == me.ranks - 1 && all.c == 5 && own == 0, "elements of 12 bytes");
  world.free_op(joined);
  throws(me, "free_op", TUTTI_ERR_ARGUMENT, "tutti_comm_op_free", [&] { world.free_op(joined); });
}

/* ---- errors ---- */

/* A call that is wrong on one rank, and right on the others. */
struct Mistake {
  const char *words;                                                /* in the message */
  std::function<void(const comm &, bool wrong, uint32_t bad)> call; /* bad: the rank that is wrong */
};

static std::vector<int> vec(size_t size) { return std::vector<int>(size); }
static std::vector<size_t> ones(size_t size) { return std::vector<size_t>(size, 1); }

/* Every mistake fails its communicator on all ranks: on the wrong rank with TUTTI_ERR_ARGUMENT. */
static void check_mistakes(Player &me, const std::vector<Mistake> &mistakes) {
  for (const Mistake &mistake : mistakes) {
    const comm world = copy_of_world(me);
    world.set_timeout(20000);
    const uint32_t bad = world.ranks() - 1;
    const bool wrong = world.rank() == bad;
    throws(me, mistake.words, wrong ? TUTTI_ERR_ARGUMENT : TUTTI_ERR_ABORTED, mistake.words, [&] {
      mistake.call(world, wrong, bad);
      if (!wrong) world.barrier(); /* a call can be complete on a rank although it fails on others */
    });
    throws(me, "the communicator has failed", TUTTI_ERR_ABORTED, mistake.words, [&] { world.barrier(); });
  }
}

static void wrong_lengths(Player &me) {
  std::vector<int> a, b;
  const std::vector<Mistake> mistakes = {
      {"allreduce: |recv has 3|expected 4|send",
       [&](const comm &w, bool wrong, uint32_t) { w.allreduce(a = vec(4), b = vec(wrong ? 3 : 4), op::sum); }},
      {"scan: |recv has 1 |expected 4|send",
       [&](const comm &w, bool wrong, uint32_t) { w.scan(a = vec(4), b = vec(wrong ? 1 : 4), op::sum); }},
      {"exscan: |recv has 3|expected 4",
       [&](const comm &w, bool wrong, uint32_t) { w.iexscan(a = vec(4), b = vec(wrong ? 3 : 4), op::sum).wait(); }},
      {"reduce: |recv has 3|expected 4|send",
       [&](const comm &w, bool wrong, uint32_t bad) { w.reduce(a = vec(4), b = vec(wrong ? 3 : 4), op::sum, bad); }},
      {"absmax|f64|found i32",
       [&](const comm &w, bool wrong, uint32_t) { w.allreduce(a = vec(4), wrong ? absmax : op::sum); }},
  };
  check_mistakes(me, mistakes);
}

static void wrong_blocks(Player &me) {
  const size_t n = static_cast<size_t>(me.ranks);
  std::vector<int> a, b;
  const std::string times = std::to_string(n) + " times|2 elements";
  const std::vector<Mistake> mistakes = {
      {times.c_str(),
       [&](const comm &w, bool wrong, uint32_t) { w.allgather(a = vec(2), b = vec(wrong ? 2 * n + 1 : 2 * n)); }},
      {times.c_str(),
       [&](const comm &w, bool wrong, uint32_t bad) { w.gather(a = vec(2), b = vec(wrong ? 2 * n - 1 : 2 * n), bad); }},
      {times.c_str(),
       [&](const comm &w, bool wrong, uint32_t bad) { w.scatter(a = vec(wrong ? 3 * n : 2 * n), b = vec(2), bad); }},
      {times.c_str(),
       [&](const comm &w, bool wrong, uint32_t) { w.reduce_scatter(a = vec(wrong ? 0 : 2 * n), b = vec(2), op::sum); }},
      {"alltoall: |recv",
       [&](const comm &w, bool wrong, uint32_t) { w.alltoall(a = vec(2 * n), b = vec(wrong ? 2 * n + 1 : 2 * n)); }},
  };
  check_mistakes(me, mistakes);
}

static void wrong_counts(Player &me) {
  const size_t n = static_cast<size_t>(me.ranks);
  std::vector<int> a, b;
  std::vector<size_t> c, d;
  const std::vector<Mistake> mistakes = {
      {"allgatherv: |counts|recv|entries",
       [&](const comm &w, bool wrong, uint32_t) {
         w.allgatherv(a = vec(1), b = vec(n), {c = ones(wrong ? n + 1 : n)});
       }},
      {"allgatherv: |send has 2|expected 1 |count of rank",
       [&](const comm &w, bool wrong, uint32_t) { w.allgatherv(a = vec(wrong ? 2 : 1), b = vec(n), {c = ones(n)}); }},
      {"allgatherv: |recv|1 element from",
       [&](const comm &w, bool wrong, uint32_t) {
         w.allgatherv(a = vec(1), b = vec(wrong ? n - 1 : n), {c = ones(n)});
       }},
      {"gatherv: |recv", [&](const comm &w, bool wrong,
                             uint32_t bad) { w.gatherv(a = vec(1), b = vec(wrong ? n - 1 : n), {c = ones(n)}, bad); }},
      {"scatterv: |recv has 2|expected 1 ",
       [&](const comm &w, bool wrong, uint32_t bad) {
         w.scatterv(a = vec(n), b = vec(wrong ? 2 : 1), {c = ones(n)}, bad);
       }},
      {"reduce_scatterv: |buffer",
       [&](const comm &w, bool wrong, uint32_t) {
         w.reduce_scatterv(a = vec(wrong ? n - 1 : n), {c = ones(n)}, op::sum);
       }},
      {"alltoallv: |send",
       [&](const comm &w, bool wrong, uint32_t) {
         w.alltoallv(a = vec(wrong ? n - 1 : n), {c = ones(n)}, b = vec(n), {d = ones(n)});
       }},
  };
  check_mistakes(me, mistakes);
  const std::string entries = "expected " + std::to_string(n) + "|entries";
  const comm world = copy_of_world(me);
  throws(me, "offsets", TUTTI_ERR_ARGUMENT, entries.c_str(), [&] {
    world.allgatherv(a = vec(1), b = vec(2 * n), {c = ones(n), d = ones(n + 1)});
  });
}

/* No whole number of blocks; wrong on all ranks. */
static void parts_of_blocks(Player &me) {
  const size_t n = static_cast<size_t>(me.ranks);
  const std::string multiple = "multiple of " + std::to_string(n) + "|block";
  for (int k = 0; k < 5 && me.ranks > 1; k++) {
    const comm world = copy_of_world(me);
    try {
      std::vector<int> x(2 * n + 1);
      const uint32_t root = world.rank();
      if (k == 0) world.allgather(x);
      if (k == 1) world.alltoall(x);
      if (k == 2) world.reduce_scatter(x, op::sum);
      if (k == 3) world.gather(x, root);
      if (k == 4) world.scatter(x, root);
      me.check(false, "no error");
    } catch (const tutti::error &e) {
      me.check(e.code() == TUTTI_ERR_ARGUMENT && test_contains(e.what(), multiple.c_str()), "'%s' is not in: %s",
               multiple.c_str(), e.what());
    }
  }
}

static void errors(Player &me) {
  std::vector<int> x(3);
  {
    const comm world = copy_of_world(me);
    throws(me, "broadcast", TUTTI_ERR_ARGUMENT, "root 9", [&] { world.broadcast(x, 9); });
    throws(me, "after an error", TUTTI_ERR_ARGUMENT, "root 9", [&] { world.barrier(); });
  }
  {
    const comm world = copy_of_world(me);
    throws(me, "send", TUTTI_ERR_ARGUMENT, "peer 9", [&] { world.send(x, 9); });
  }
  {
    const comm world = copy_of_world(me);
    if (me.rank == 0) world.abort("enough");
    throws(me, "abort", TUTTI_ERR_ABORTED, "rank 0 aborted: enough", [&] {
      for (;;) world.barrier();
    });
  }
  {
    const comm world = copy_of_world(me);
    world.set_timeout(200);
    throws(me, "time limit", TUTTI_ERR_TIMEOUT, "200 ms", [&] {
      std::vector<request> open;
      open.push_back(world.irecv(x, 0, 5));
      tutti::wait_all(open);
    });
  }
  { /* the destructor of a request does not wait for a failed call */
    const comm world = copy_of_world(me);
    request open = world.irecv(x, static_cast<uint32_t>(me.after()), 5);
    me.barrier(); /* on the world of all cases: every rank has started its call */
    world.abort("over");
  }
  /* A communicator that ends with an open request fails. Each rank ends one before the other ranks do. */
  for (int turn = 0; turn < me.ranks; turn++) {
    const comm world = copy_of_world(me);
    comm copy = world.dup();
    tutti::check(tutti_irecv(copy.get(), x.data(), x.size(), TUTTI_I32, static_cast<uint32_t>(me.after()), 5, nullptr));
    me.barrier();
    if (me.rank == turn) throws(me, "close", TUTTI_ERR_ARGUMENT, "still open", [&] { copy.close(); });
    me.check(!copy == (me.rank == turn), "close leaves a communicator");
    me.barrier();
  }
  try {
    tutti::check(tutti_op_create(nullptr, nullptr, true, "none", nullptr));
    me.check(false, "check: no error");
  } catch (const std::runtime_error &e) {
    me.check(std::strstr(e.what(), "tutti_op_create") != nullptr, "check: %s", e.what());
  }
  tutti::check(TUTTI_OK);
}

int main(int argc, char **argv) {
  const std::pair<const char *, void (*)(Player &)> tests[] = {
      {"bools", bools},
      {"operations of a communicator", operations_of_a_communicator},
      {"calls of int32", calls_of<int32_t>},
      {"calls of double", calls_of<double>},
      {"calls of uint8", calls_of<uint8_t>},
      {"calls of long long", calls_of<long long>},
      {"calls of float", calls_of<float>},
      {"buffers", buffers},
      {"memory", memory},
      {"operations", operations},
      {"faulty operations", faulty_operations},
      {"communicators", communicators},
      {"statistics", statistics},
      {"empty communicators", empty_communicators},
      {"destructors do not wait", destructors_do_not_wait},
      {"requests", requests},
      {"described calls", described_calls},
      {"addresses of blocks", addresses_of_blocks},
      {"fields", fields},
      {"defaults", defaults},
      {"settings", settings},
      {"leaves", leaves},
      {"values", values},
      {"bytes", bytes},
      {"numbers", numbers},
      {"wrong lengths", wrong_lengths},
      {"wrong blocks", wrong_blocks},
      {"wrong counts", wrong_counts},
      {"parts of blocks", parts_of_blocks},
      {"errors", errors},
  };
  if (argc > 2 && std::strcmp(argv[2], "early") == 0) return end_world_early();
  std::vector<Case> cases = {{"last communicator", 1, last_communicator, {}}};
  for (int ranks = 1; ranks <= 4; ranks++)
    for (const auto &[name, run] : tests) cases.push_back({name, ranks, run, {}});
  return run_cases(cases, argc, argv);
}
