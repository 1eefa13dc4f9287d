/* test: timeout=300 */
/* pto_cases_test.cpp: the PTO instructions, with real processes: every row of ../shared/seeds/pto_cases.csv, if that
 * file existed at build time (pto_cases.awk translates it to C++), of tests/data/pto_cases.csv, and of the table
 * own_rows. */
#include "pto_world.hpp"

using namespace pto;
using comm::NotifyOp;
using comm::ReduceOp;
using comm::Signal;
using comm::Signal2D;
using comm::WaitCmp;

/* ---- values, tiles, tensors ---- */

template <typename T>
static T value_of(int64_t i, int64_t rank, int64_t step) {
  return static_cast<T>(i + rank * step);
}
/* Returns the difference between values of neighbouring ranks. It is small for several rows, so that 8-bit types differ
 * from element to element, too. */
static int64_t step_of(int rows) { return rows == 1 ? 10000 : 100; }

template <typename T>
static void fill(T *data, size_t count, int64_t rank, int64_t step) {
  for (size_t i = 0; i < count; i++) data[i] = value_of<T>(static_cast<int64_t>(i), rank, step);
}
template <typename T>
static void check_filled(Player &me, const T *data, size_t count, int64_t rank, int64_t step, const char *where) {
  for (size_t i = 0; i < count; i++) {
    const T wanted = value_of<T>(static_cast<int64_t>(i), rank, step);
    me.check(data[i] == wanted, "%s: element %zu, of rank %ld, is %g, expected %g", where, i, static_cast<long>(rank),
             static_cast<double>(data[i]), static_cast<double>(wanted));
  }
}
template <typename T>
static void check_untouched(Player &me, const T *data, size_t count, const char *where) {
  for (size_t i = 0; i < count; i++)
    me.check(data[i] == static_cast<T>(-1), "%s: element %zu was overwritten with %g", where, i,
             static_cast<double>(data[i]));
}

/* Returns the columns of a tile's row, which has a multiple of 32 bytes. */
template <typename T>
static constexpr int padded(int cols) {
  constexpr int unit = 32 / static_cast<int>(sizeof(T));
  return (cols + unit - 1) / unit * unit;
}
template <typename T, int rows, int cols>
using TileOf = Tile<TileType::Vec, T, rows, padded<T>(cols), BLayout::RowMajor, DYNAMIC, DYNAMIC>;

template <typename T, int rows, int cols>
using Matrix = GlobalTensor<T, Shape<1, 1, 1, rows, cols>, BaseShape2D<T, rows, cols>>;
/* A matrix whose number of rows is known only at run time. */
template <typename T, int cols>
struct Rows : GlobalTensor<T, Shape<1, 1, 1, DYNAMIC, cols>, BaseShape2D<T, DYNAMIC, cols>> {
  Rows() = default;
  Rows(T *data, int64_t rows)
      : GlobalTensor<T, Shape<1, 1, 1, DYNAMIC, cols>, BaseShape2D<T, DYNAMIC, cols>>(data, {rows}, {rows, cols}) {}
};

/* Returns one tensor per rank, at the same position of each rank's part of the window. */
template <typename Global, typename Make>
static std::vector<Global> tensors_of(const Player &me, Make make) {
  std::vector<Global> tensors;
  for (int r = 0; r < me.ranks; r++) tensors.push_back(make(r));
  return tensors;
}

/* Calls `call` with one tile or two. */
template <typename T, int tile_rows, int tile_cols, int tiles, typename Call>
static void with_tiles(Call call) {
  TileOf<T, tile_rows, tile_cols> ping(tile_rows, tile_cols), pong(tile_rows, tile_cols);
  if constexpr (tiles == 2) call(ping, pong);
  else call(ping);
}

/* ---- collectives that only the root calls ---- */

/* Gathers; a row behind the result must stay unchanged. */
template <typename T, int rows, int cols, int tile_rows, int tile_cols, int tiles>
static void gather(Player &me) {
  constexpr size_t count = size_t{rows} * cols;
  const int root = static_cast<int>(me.number(0, 0));
  const size_t total = count * static_cast<size_t>(me.ranks);
  Memory memory(me, count * sizeof(T));
  fill(memory.mine<T>(), count, me.rank, step_of(rows));
  me.barrier();
  if (me.rank == root) {
    auto tensors = tensors_of<Matrix<T, rows, cols>>(me, [&](int r) { return memory.at<T>(r); });
    std::vector<T> result(total + cols, static_cast<T>(-1));
    comm::ParallelGroup group(tensors.data(), me.ranks, me.rank);
    Rows<T, cols> target(result.data(), me.ranks * rows + 1);
    with_tiles<T, tile_rows, tile_cols, tiles>([&](auto &...tile) { comm::TGATHER(group, target, tile...); });
    for (int r = 0; r < me.ranks; r++)
      check_filled(me, result.data() + count * static_cast<size_t>(r), count, r, step_of(rows), "gathered");
    check_untouched(me, result.data() + total, cols, "behind the result");
  }
  me.barrier();
  check_filled(me, memory.mine<T>(), count, me.rank, step_of(rows), "a source");
}

template <typename T, int count>
static void gather_nothing(Player &me) {
  Memory memory(me, count * sizeof(T));
  me.barrier();
  if (me.rank == me.number(0, 0)) {
    auto tensors = tensors_of<Rows<T, count>>(me, [&](int r) { return Rows<T, count>(memory.at<T>(r), 0); });
    std::vector<T> result(count, static_cast<T>(-1));
    comm::ParallelGroup group(tensors.data(), me.ranks, me.rank);
    Rows<T, count> target(result.data(), 0);
    TileOf<T, 1, count> tile(1, count);
    comm::TGATHER(group, target, tile);
    check_untouched(me, result.data(), count, "the target");
  }
  me.barrier();
}

template <typename T, int rows, int cols, int tile_rows, int tile_cols, int tiles>
static void scatter(Player &me) {
  constexpr size_t count = size_t{rows} * cols;
  const int root = static_cast<int>(me.number(0, 0));
  Memory memory(me, (count + 1) * sizeof(T));
  for (size_t i = 0; i <= count; i++) memory.mine<T>()[i] = static_cast<T>(-1);
  me.barrier();
  if (me.rank == root) {
    auto tensors = tensors_of<Matrix<T, rows, cols>>(me, [&](int r) { return memory.at<T>(r); });
    std::vector<T> source(count * static_cast<size_t>(me.ranks));
    for (int r = 0; r < me.ranks; r++) fill(source.data() + count * static_cast<size_t>(r), count, r, step_of(rows));
    comm::ParallelGroup group(tensors.data(), me.ranks, me.rank);
    Rows<T, cols> from(source.data(), me.ranks * rows);
    with_tiles<T, tile_rows, tile_cols, tiles>([&](auto &...tile) { comm::TSCATTER(group, from, tile...); });
  }
  me.barrier();
  check_filled(me, memory.mine<T>(), count, me.rank, step_of(rows), "scattered");
  check_untouched(me, memory.mine<T>(count), 1, "behind the target");
}

template <typename T, int count>
static void scatter_nothing(Player &me) {
  Memory memory(me, count * sizeof(T));
  for (int i = 0; i < count; i++) memory.mine<T>()[i] = static_cast<T>(-1);
  me.barrier();
  if (me.rank == me.number(0, 0)) {
    auto tensors = tensors_of<Rows<T, count>>(me, [&](int r) { return Rows<T, count>(memory.at<T>(r), 0); });
    std::vector<T> source(count);
    comm::ParallelGroup group(tensors.data(), me.ranks, me.rank);
    Rows<T, count> from(source.data(), 0);
    TileOf<T, 1, count> tile(1, count);
    comm::TSCATTER(group, from, tile);
  }
  me.barrier();
  check_untouched(me, memory.mine<T>(), count, "the target");
}

template <typename T, int rows, int cols, int tile_rows, int tile_cols, int tiles>
static void broadcast(Player &me) {
  constexpr size_t count = size_t{rows} * cols;
  const int root = static_cast<int>(me.number(0, 0));
  Memory memory(me, (count + 1) * sizeof(T));
  for (size_t i = 0; i <= count; i++) memory.mine<T>()[i] = static_cast<T>(-1);
  me.barrier();
  if (me.rank == root) {
    auto tensors = tensors_of<Matrix<T, rows, cols>>(me, [&](int r) { return memory.at<T>(r); });
    std::vector<T> source(count);
    fill(source.data(), count, root, 100);
    comm::ParallelGroup group(tensors.data(), me.ranks, me.rank);
    Matrix<T, rows, cols> from(source.data());
    with_tiles<T, tile_rows, tile_cols, tiles>([&](auto &...tile) { comm::TBROADCAST(group, from, tile...); });
  }
  me.barrier();
  check_filled(me, memory.mine<T>(), count, root, 100, "broadcast");
  check_untouched(me, memory.mine<T>(count), 1, "behind the target");
}

template <typename T>
static T combine(ReduceOp op, T a, T b) {
  return op == ReduceOp::Sum ? static_cast<T>(a + b) : op == ReduceOp::Max ? std::max(a, b) : std::min(a, b);
}

/* Reduces in the prescribed order: the root's operand, then those of the other ranks. */
template <typename T, int rows, int cols, int tile_rows, int tile_cols, int tiles, ReduceOp op>
static void reduce(Player &me) {
  constexpr size_t count = size_t{rows} * cols;
  const int root = static_cast<int>(me.number(0, 0));
  Memory memory(me, count * sizeof(T));
  fill(memory.mine<T>(), count, me.rank, 100);
  me.barrier();
  if (me.rank == root) {
    auto tensors = tensors_of<Matrix<T, rows, cols>>(me, [&](int r) { return memory.at<T>(r); });
    std::vector<T> result(count, static_cast<T>(-1));
    comm::ParallelGroup group(tensors.data(), me.ranks, me.rank);
    Matrix<T, rows, cols> target(result.data());
    TileOf<T, tile_rows, tile_cols> accumulator(tile_rows, tile_cols);
    with_tiles<T, tile_rows, tile_cols, tiles>(
        [&](auto &...tile) { comm::TREDUCE(group, target, accumulator, tile..., op); });
    for (size_t i = 0; i < count; i++) {
      T wanted = value_of<T>(static_cast<int64_t>(i), root, 100);
      for (int r = 0; r < me.ranks; r++)
        if (r != root) wanted = combine(op, wanted, value_of<T>(static_cast<int64_t>(i), r, 100));
      me.check(result[i] == wanted, "element %zu is %g, expected %g", i, static_cast<double>(result[i]),
               static_cast<double>(wanted));
    }
  }
  me.barrier();
  check_filled(me, memory.mine<T>(), count, me.rank, 100, "a source");
}

template <typename T, int count, ReduceOp op>
static void reduce_nothing(Player &me) {
  Memory memory(me, count * sizeof(T));
  me.barrier();
  if (me.rank == me.number(0, 0)) {
    auto tensors = tensors_of<Rows<T, count>>(me, [&](int r) { return Rows<T, count>(memory.at<T>(r), 0); });
    std::vector<T> result(count, static_cast<T>(-1));
    comm::ParallelGroup group(tensors.data(), me.ranks, me.rank);
    Rows<T, count> target(result.data(), 0);
    TileOf<T, 1, count> accumulator(1, count), tile(1, count);
    comm::TREDUCE(group, target, accumulator, tile, op);
    check_untouched(me, result.data(), count, "the target");
  }
  me.barrier();
}

/* Gathers tensors of five dimensions with gaps between rows, then scatters the result back. In each of the outer
 * dimensions, rank r's rows come behind rank r-1's. Nothing is written between rows. */
template <typename T, int d0, int d1, int d2, int rows, int cols, int tile_rows, int tile_cols, int tiles>
static void gather_scatter_5d(Player &me) {
  constexpr int pitch = cols + 3, block = rows * pitch + 5, outer = d0 * d1 * d2;
  using Source = GlobalTensor<T, Shape<d0, d1, d2, rows, cols>, Stride<d1 * d2 * block, d2 * block, block, pitch, 1>>;
  using Long = GlobalTensor<T, Shape<d0, d1, d2, DYNAMIC, cols>, Stride<DYNAMIC, DYNAMIC, DYNAMIC, cols, 1>>;
  const int root = me.ranks - 1, all = me.ranks * rows;
  constexpr size_t span = size_t{outer} * block;
  Memory memory(me, 2 * span * sizeof(T)); /* source of the gather, target of the scatter */
  for (size_t i = 0; i < 2 * span; i++) memory.mine<T>()[i] = static_cast<T>(-1);
  const auto index = [&](int o, int row, int col) { return static_cast<size_t>(o * block + row * pitch + col); };
  const auto value = [&](int r, int o, int row, int col) {
    return static_cast<T>(((r * outer + o) * rows + row) * 31 + col);
  };
  for (int o = 0; o < outer; o++)
    for (int row = 0; row < rows; row++)
      for (int col = 0; col < cols; col++) memory.mine<T>()[index(o, row, col)] = value(me.rank, o, row, col);
  me.barrier();
  if (me.rank == root) {
    std::vector<T> result(static_cast<size_t>(outer * all * cols), static_cast<T>(-1));
    Long whole(result.data(), {all}, {d1 * d2 * all * cols, d2 * all * cols, all * cols});
    auto from = tensors_of<Source>(me, [&](int r) { return memory.at<T>(r); });
    auto to = tensors_of<Source>(me, [&](int r) { return memory.at<T>(r, span); });
    comm::ParallelGroup sources(from.data(), me.ranks, root), targets(to.data(), me.ranks, root);
    with_tiles<T, tile_rows, tile_cols, tiles>([&](auto &...tile) {
      comm::TGATHER(sources, whole, tile...);
      comm::TSCATTER(targets, whole, tile...);
    });
    for (int o = 0; o < outer; o++)
      for (int row = 0; row < all; row++)
        for (int col = 0; col < cols; col++)
          me.check(result[static_cast<size_t>((o * all + row) * cols + col)] == value(row / rows, o, row % rows, col),
                   "row %d, column %d of matrix %d is wrong", row, col, o);
  }
  me.barrier();
  me.check(memcmp(memory.mine<T>(), memory.mine<T>(span), span * sizeof(T)) == 0,
           "scattered data differs from the gathered data");
}

/* ---- put and get ---- */

/* Each rank writes to the rank before it. */
template <typename T, int tile_rows, int tile_cols, int tiles, typename Global>
static void put_to_neighbour(Player &me, size_t count) {
  Memory memory(me, (count + 1) * sizeof(T));
  memory.mine<T>()[count] = static_cast<T>(-1);
  std::vector<T> source(count);
  fill(source.data(), count, me.rank, 10000);
  me.barrier();
  Global from(source.data()), to(memory.at<T>(me.after(-1)));
  with_tiles<T, tile_rows, tile_cols, tiles>([&](auto &...tile) { comm::TPUT(to, from, tile...); });
  me.barrier();
  check_filled(me, memory.mine<T>(), count, me.after(), 10000, "put");
  check_untouched(me, memory.mine<T>(count), 1, "behind the target");
}

/* Each rank reads from the rank behind it. */
template <typename T, int tile_rows, int tile_cols, int tiles, typename Global>
static void get_from_neighbour(Player &me, size_t count) {
  Memory memory(me, count * sizeof(T));
  fill(memory.mine<T>(), count, me.rank, 10000);
  me.barrier();
  std::vector<T> result(count + 1, static_cast<T>(-1));
  Global from(memory.at<T>(me.after())), to(result.data());
  with_tiles<T, tile_rows, tile_cols, tiles>([&](auto &...tile) { comm::TGET(to, from, tile...); });
  check_filled(me, result.data(), count, me.after(), 10000, "got");
  check_untouched(me, result.data() + count, 1, "behind the target");
  me.barrier();
}

template <typename T, int rows, int cols, int tile_rows, int tile_cols, int tiles>
static void put_ring(Player &me) {
  put_to_neighbour<T, tile_rows, tile_cols, tiles, Matrix<T, rows, cols>>(me, size_t{rows} * cols);
}
template <typename T, int rows, int cols, int tile_rows, int tile_cols, int tiles>
static void get_ring(Player &me) {
  get_from_neighbour<T, tile_rows, tile_cols, tiles, Matrix<T, rows, cols>>(me, size_t{rows} * cols);
}

template <typename T, int d0, int d1, int d2, int d3, int cols>
using Dense =
    GlobalTensor<T, Shape<d0, d1, d2, d3, cols>, Stride<d1 * d2 * d3 * cols, d2 * d3 * cols, d3 * cols, cols, 1>>;
template <typename T, int d0, int d1, int d2, int d3, int cols, int tile_rows>
static void put_ring_5d(Player &me) {
  put_to_neighbour<T, tile_rows, cols, 1, Dense<T, d0, d1, d2, d3, cols>>(me, size_t{d0} * d1 * d2 * d3 * cols);
}
template <typename T, int d0, int d1, int d2, int d3, int cols, int tile_rows>
static void get_ring_5d(Player &me) {
  get_from_neighbour<T, tile_rows, cols, 1, Dense<T, d0, d1, d2, d3, cols>>(me, size_t{d0} * d1 * d2 * d3 * cols);
}

/* All ranks add to rank 0 at the same time, three times, by each form of the instruction. */
template <typename T, int count>
static void put_add(Player &me) {
  Memory memory(me, 3 * count * sizeof(T));
  std::vector<T> source(count);
  fill(source.data(), count, me.rank, 10000);
  me.barrier();
  Matrix<T, 1, count> from(source.data()), first(memory.at<T>(0)), second(memory.at<T>(0, count)),
      third(memory.at<T>(0, 2 * count));
  TileOf<T, 1, count> ping(1, count), pong(1, count);
  comm::TPUT<AtomicType::AtomicAdd>(first, from, ping);
  comm::TPUT(second, from, ping, AtomicType::AtomicAdd);
  comm::TPUT<AtomicType::AtomicAdd>(third, from, ping, pong);
  me.barrier();
  if (me.rank == 0)
    for (int i = 0; i < 3 * count; i++) {
      const T wanted = static_cast<T>(me.ranks * (i % count) + 10000 * me.ranks * (me.ranks - 1) / 2);
      me.check(memory.mine<T>()[i] == wanted, "element %d is %g, expected %g", i,
               static_cast<double>(memory.mine<T>()[i]), static_cast<double>(wanted));
    }
  me.barrier();
}

/* ---- asynchronous instructions ---- */

template <typename T>
using Flat = GlobalTensor<T, Shape<1, 1, 1, 1, DYNAMIC>, Stride<DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC, 1>>;
template <typename T>
static Flat<T> flat(T *data, int64_t count) {
  return Flat<T>(data, {count}, {count, count, count, count});
}

/* Rank 0 puts to all other ranks, and waits for the last put. */
template <typename T, int count>
static void put_async(Player &me) {
  Memory memory(me, count * sizeof(T));
  std::vector<T> source(count);
  fill(source.data(), count, 0, 10000);
  me.barrier();
  if (me.rank == 0) {
    comm::AsyncSession session;
    comm::AsyncEvent last;
    Flat<T> from = flat(source.data(), count);
    for (int r = 1; r < me.ranks; r++) {
      Flat<T> to = flat(memory.at<T>(r), count);
      last = comm::TPUT_ASYNC(to, from, session);
      me.check(last.valid(), "the event of the put to %d is not valid", r);
    }
    me.check(last.Wait(session), "Wait returned false");
  }
  me.barrier();
  if (me.rank > 0) check_filled(me, memory.mine<T>(), count, 0, 10000, "put");
  me.barrier();
}

/* Rank 0 gets from all other ranks, and waits for the last get. */
template <typename T, int count>
static void get_async(Player &me) {
  Memory memory(me, count * sizeof(T));
  fill(memory.mine<T>(), count, me.rank, 10000);
  me.barrier();
  if (me.rank == 0) {
    std::vector<T> result(size_t{count} * static_cast<size_t>(me.ranks));
    comm::AsyncSession session;
    comm::AsyncEvent last;
    for (int r = 1; r < me.ranks; r++) {
      Flat<T> from = flat(memory.at<T>(r), count), to = flat(result.data() + r * count, count);
      last = comm::TGET_ASYNC(to, from, session);
    }
    last.Wait();
    for (int r = 1; r < me.ranks; r++) check_filled(me, result.data() + r * count, count, r, 10000, "got");
  }
  me.barrier();
}

/* Returns a configuration: bytes per block, byte offset added to both addresses, number of queues. */
static comm::AsyncConfig config_of(const Player &me) {
  comm::AsyncConfig config;
  config.block_bytes = static_cast<uint64_t>(me.number(0, 1 << 20));
  config.comm_block_offset = static_cast<uint64_t>(me.number(1, 0));
  config.queue_num = static_cast<uint32_t>(me.number(2, 1));
  return config;
}

template <typename T, int count>
static void put_async_configured(Player &me) {
  const comm::AsyncConfig config = config_of(me);
  const size_t offset = static_cast<size_t>(config.comm_block_offset) / sizeof(T), all = offset + count;
  Memory memory(me, (all + 1) * sizeof(T));
  for (size_t i = 0; i <= all; i++) memory.mine<T>()[i] = static_cast<T>(-1);
  std::vector<T> source(all);
  fill(source.data() + offset, count, me.rank, 10000);
  me.barrier();
  if (me.rank == 0) {
    comm::AsyncSession session(config);
    comm::AsyncEvent last;
    Flat<T> from = flat(source.data(), count);
    for (int r = 1; r < me.ranks; r++) {
      Flat<T> to = flat(memory.at<T>(r), count);
      last = comm::TPUT_ASYNC(to, from, session);
    }
    last.Wait(session);
  }
  me.barrier();
  if (me.rank > 0) {
    check_untouched(me, memory.mine<T>(), offset, "before the offset");
    check_filled(me, memory.mine<T>(offset), count, 0, 10000, "put");
  }
  check_untouched(me, memory.mine<T>(all), 1, "behind the target");
  me.barrier();
}

template <typename T, int count>
static void get_async_configured(Player &me) {
  const comm::AsyncConfig config = config_of(me);
  const size_t offset = static_cast<size_t>(config.comm_block_offset) / sizeof(T), all = offset + count;
  Memory memory(me, all * sizeof(T));
  fill(memory.mine<T>(offset), count, me.rank, 10000);
  me.barrier();
  if (me.rank == 0) {
    std::vector<T> result(all * static_cast<size_t>(me.ranks), static_cast<T>(-1));
    comm::AsyncSession session(config);
    comm::AsyncEvent last;
    for (int r = 1; r < me.ranks; r++) {
      Flat<T> from = flat(memory.at<T>(r), count), to = flat(result.data() + all * static_cast<size_t>(r), count);
      last = comm::TGET_ASYNC(to, from, session);
    }
    last.Wait(session);
    for (int r = 1; r < me.ranks; r++) {
      check_untouched(me, result.data() + all * static_cast<size_t>(r), offset, "before the offset");
      check_filled(me, result.data() + all * static_cast<size_t>(r) + offset, count, r, 10000, "got");
    }
  }
  me.barrier();
}

/* Simulates cores as turns of a loop, each with its own session. All begin before any waits, and the last one waits
 * first. The case's numbers: number of cores; whether each moves all elements to an offset of its own, or they share
 * the elements. */
template <typename Core>
static void with_cores(int cores, Core core) {
  std::vector<comm::AsyncSession> sessions(static_cast<size_t>(cores));
  std::vector<comm::AsyncEvent> last;
  for (int c = 0; c < cores; c++) last.push_back(core(sessions[static_cast<size_t>(c)], c));
  for (int c = cores; c-- > 0;) last[static_cast<size_t>(c)].Wait(sessions[static_cast<size_t>(c)]);
}

template <typename T, int count>
static void put_async_cores(Player &me) {
  const int cores = static_cast<int>(me.number(0, 1));
  const bool alone = me.number(1, 0) != 0;
  const int each = alone ? count : count / cores, all = each * cores;
  Memory memory(me, static_cast<size_t>(all) * sizeof(T));
  std::vector<T> source(static_cast<size_t>(all));
  fill(source.data(), source.size(), 0, 10000);
  me.barrier();
  if (me.rank == 0)
    with_cores(cores, [&](const comm::AsyncSession &session, int core) {
      comm::AsyncEvent last;
      Flat<T> from = flat(source.data() + core * each, each);
      for (int r = 1; r < me.ranks; r++) {
        Flat<T> to = flat(memory.at<T>(r) + core * each, each);
        last = comm::TPUT_ASYNC(to, from, session);
      }
      return last;
    });
  me.barrier();
  if (me.rank > 0) check_filled(me, memory.mine<T>(), source.size(), 0, 10000, "put");
  me.barrier();
}

template <typename T, int count>
static void get_async_cores(Player &me) {
  const int cores = static_cast<int>(me.number(0, 1));
  const bool alone = me.number(1, 0) != 0;
  const int each = alone ? count : count / cores, all = each * cores;
  Memory memory(me, static_cast<size_t>(all) * sizeof(T));
  fill(memory.mine<T>(), static_cast<size_t>(all), me.rank, 10000);
  me.barrier();
  if (me.rank == 0) {
    std::vector<T> result(static_cast<size_t>(all * me.ranks));
    with_cores(cores, [&](const comm::AsyncSession &session, int core) {
      comm::AsyncEvent last;
      for (int r = 1; r < me.ranks; r++) {
        Flat<T> from = flat(memory.at<T>(r) + core * each, each),
                to = flat(&result[static_cast<size_t>(r * all + core * each)], each);
        last = comm::TGET_ASYNC(to, from, session);
      }
      return last;
    });
    for (int r = 1; r < me.ranks; r++)
      check_filled(me, result.data() + r * all, static_cast<size_t>(all), r, 10000, "got");
  }
  me.barrier();
}

/* Every rank exchanges data with every rank, with one core per target, again and again. Slot s of each rank holds what
 * rank s sent. Sessions are kept, or created anew each time. Data changes from time to time. */
template <typename T, int count, typename Exchange>
static void all_to_all(Player &me, size_t slots, Exchange exchange) {
  const long times = me.number(0, 1);
  const bool fresh = me.number(1, 0) != 0;
  Memory memory(me, slots * count * sizeof(T));
  std::vector<comm::AsyncSession> kept(static_cast<size_t>(me.ranks));
  for (long time = 0; time < times; time++) {
    std::vector<comm::AsyncSession> made(fresh ? static_cast<size_t>(me.ranks) : 0);
    exchange(memory, fresh ? made : kept, time);
  }
}

template <typename T, int count>
static void put_async_all_to_all(Player &me) {
  std::vector<T> source(count);
  const auto slot = [](int r) { return static_cast<size_t>(r) * count; };
  all_to_all<T, count>(me, static_cast<size_t>(me.ranks), [&](Memory &memory, auto &cores, long time) {
    fill(source.data(), count, me.rank + time, 10000);
    me.barrier();
    std::vector<comm::AsyncEvent> last(cores.size());
    for (int r = 0; r < me.ranks; r++) {
      Flat<T> from = flat(source.data(), count), to = flat(memory.at<T>(r, slot(me.rank)), count);
      last[static_cast<size_t>(r)] = comm::TPUT_ASYNC(to, from, cores[static_cast<size_t>(r)]);
    }
    for (const comm::AsyncEvent &event : last) event.Wait();
    me.barrier();
    for (int r = 0; r < me.ranks; r++) check_filled(me, memory.mine<T>(slot(r)), count, r + time, 10000, "put");
  });
}

template <typename T, int count>
static void get_async_all_to_all(Player &me) {
  std::vector<T> result(static_cast<size_t>(me.ranks) * count);
  all_to_all<T, count>(me, 1, [&](Memory &memory, auto &cores, long time) {
    fill(memory.mine<T>(), count, me.rank + time, 10000);
    me.barrier();
    std::vector<comm::AsyncEvent> last(cores.size());
    for (int r = 0; r < me.ranks; r++) {
      Flat<T> from = flat(memory.at<T>(r), count), to = flat(result.data() + r * count, count);
      last[static_cast<size_t>(r)] = comm::TGET_ASYNC(to, from, cores[static_cast<size_t>(r)]);
    }
    for (const comm::AsyncEvent &event : last) event.Wait();
    for (int r = 0; r < me.ranks; r++) check_filled(me, result.data() + r * count, count, r + time, 10000, "got");
    me.barrier();
  });
}

/* Posts of 1,024 elements from rank 0 to each other rank, or from each, one block per queue. They are waited for at
 * once, or all at the end, or only the last one is, which is shorter than a block. The case's numbers: posts,
 * queues. */
enum class Waits { AT_ONCE, LATER, ONLY_LAST };
enum { POST = 1024 };

template <typename Post>
static void post(Player &me, Waits waits, Post begin) {
  const long posts = me.number(0, 1);
  comm::AsyncConfig config;
  config.queue_num = static_cast<uint32_t>(me.number(1, 1));
  config.block_bytes = POST * sizeof(int32_t) / config.queue_num;
  comm::AsyncSession session(config);
  std::vector<comm::AsyncEvent> events;
  for (long p = 0; p < posts; p++)
    for (int r = 1; r < me.ranks; r++) {
      const int64_t count = waits == Waits::ONLY_LAST && p == posts - 1 ? POST / 8 : POST;
      events.push_back(begin(r, p, count, session));
      if (waits == Waits::AT_ONCE) events.back().Wait(session);
    }
  if (waits == Waits::LATER)
    for (const comm::AsyncEvent &event : events) event.Wait(session);
  if (waits == Waits::ONLY_LAST) events.back().Wait(session);
}

static void check_posts(Player &me, const int32_t *data, Waits waits, int64_t rank) {
  const long posts = me.number(0, 1);
  for (long p = 0; p < posts; p++) {
    const size_t count = waits == Waits::ONLY_LAST && p == posts - 1 ? POST / 8 : POST;
    check_filled(me, data + p * POST, count, rank + 8 * p, 10000, "posted");
    for (size_t i = count; i < POST; i++)
      me.check(data[p * POST + static_cast<long>(i)] == 0, "element %zu was written", i);
  }
}

template <Waits waits>
static void put_posts(Player &me) {
  const size_t all = static_cast<size_t>(me.number(0, 1)) * POST;
  Memory memory(me, all * sizeof(int32_t));
  std::vector<int32_t> source(all);
  for (long p = 0; p < me.number(0, 1); p++) fill(source.data() + p * POST, POST, 8 * p, 10000);
  if (me.rank == 0)
    post(me, waits, [&](int r, long p, int64_t count, const comm::AsyncSession &session) {
      auto from = flat(source.data() + p * POST, count), to = flat(memory.at<int32_t>(r) + p * POST, count);
      return comm::TPUT_ASYNC(to, from, session);
    });
  me.barrier();
  if (me.rank > 0) check_posts(me, memory.mine<int32_t>(), waits, 0);
  me.barrier();
}
template <Waits waits>
static void get_posts(Player &me) {
  const size_t all = static_cast<size_t>(me.number(0, 1)) * POST;
  Memory memory(me, all * sizeof(int32_t));
  for (long p = 0; p < me.number(0, 1); p++) fill(memory.mine<int32_t>() + p * POST, POST, me.rank + 8 * p, 10000);
  me.barrier();
  if (me.rank == 0) {
    std::vector<std::vector<int32_t>> result(static_cast<size_t>(me.ranks), std::vector<int32_t>(all));
    post(me, waits, [&](int r, long p, int64_t count, const comm::AsyncSession &session) {
      auto from = flat(memory.at<int32_t>(r) + p * POST, count);
      auto to = flat(result[static_cast<size_t>(r)].data() + p * POST, count);
      return comm::TGET_ASYNC(to, from, session);
    });
    for (int r = 1; r < me.ranks; r++) check_posts(me, result[static_cast<size_t>(r)].data(), waits, r);
  }
  me.barrier();
}
static constexpr auto put_async_posts_each = put_posts<Waits::AT_ONCE>;
static constexpr auto put_async_posts_later = put_posts<Waits::LATER>;
static constexpr auto put_async_posts_last = put_posts<Waits::ONLY_LAST>;
static constexpr auto get_async_posts_each = get_posts<Waits::AT_ONCE>;
static constexpr auto get_async_posts_later = get_posts<Waits::LATER>;
static constexpr auto get_async_posts_last = get_posts<Waits::ONLY_LAST>;

/* ---- signals ---- */

static void notify_atomicadd(Player &me) {
  Memory memory(me, sizeof(int32_t));
  Signal signal(memory.at<int32_t>(0));
  comm::TNOTIFY(signal, 1, NotifyOp::AtomicAdd);
  me.barrier();
  me.check(memory.read<int32_t>(0) == me.ranks, "the signal is %d, expected %d", memory.read<int32_t>(0), me.ranks);
  me.barrier();
}

static void notify_set(Player &me) {
  Memory memory(me, sizeof(int32_t));
  Signal signal(memory.at<int32_t>(me.after()));
  comm::TNOTIFY(signal, me.rank + 100, NotifyOp::Set);
  me.barrier();
  me.check(*memory.mine<int32_t>() == me.after(-1) + 100, "the signal is %d", *memory.mine<int32_t>());
  me.barrier();
}

template <int slots>
static void notify_scoreboard(Player &me) {
  Memory memory(me, slots * sizeof(int32_t));
  Signal signal(memory.at<int32_t>(0, static_cast<size_t>(me.rank)));
  comm::TNOTIFY(signal, me.rank + 1000, NotifyOp::Set);
  me.barrier();
  for (int r = 0; r < slots; r++) {
    const int32_t wanted = r < me.ranks ? r + 1000 : 0;
    me.check(memory.read<int32_t>(0, static_cast<size_t>(r)) == wanted, "slot %d is %d, expected %d", r,
             memory.read<int32_t>(0, static_cast<size_t>(r)), wanted);
  }
  me.barrier();
}

static void notify_runtimeop(Player &me) {
  Memory memory(me, sizeof(int32_t));
  const NotifyOp op = me.number(0, 0) ? NotifyOp::AtomicAdd : NotifyOp::Set;
  Signal signal(memory.at<int32_t>(0));
  comm::TNOTIFY(signal, me.rank + 1, op);
  me.barrier();
  const int32_t got = memory.read<int32_t>(0);
  if (op == NotifyOp::Set) me.check(got >= 1 && got <= me.ranks, "the signal is %d", got);
  else me.check(got == me.ranks * (me.ranks + 1) / 2, "the signals sum up to %d", got);
  me.barrier();
}

static void wait_for(Player &me, int32_t set, int32_t value, WaitCmp compare) {
  Memory memory(me, sizeof(int32_t));
  Signal signal(memory.at<int32_t>(0));
  if (me.rank == 1) comm::TNOTIFY(signal, set, NotifyOp::Set);
  if (me.rank == 0) {
    comm::TWAIT(signal, value, compare);
    me.check(*memory.mine<int32_t>() == set, "the signal is %d", *memory.mine<int32_t>());
  }
  me.barrier();
}
static void wait_basic(Player &me) { wait_for(me, 42, 42, WaitCmp::EQ); }
static void wait_compare(Player &me) { wait_for(me, static_cast<int32_t>(me.number(0, 0)), 100, WaitCmp::GE); }

static void wait_atomic(Player &me) {
  enum { EACH = 50 };
  Memory memory(me, sizeof(int32_t));
  Signal signal(memory.at<int32_t>(0));
  if (me.rank == 0) comm::TWAIT(signal, (me.ranks - 1) * EACH, WaitCmp::GE);
  else
    for (int i = 0; i < EACH; i++) comm::TNOTIFY(signal, 1, NotifyOp::AtomicAdd);
  me.barrier();
  me.check(memory.read<int32_t>(0) == (me.ranks - 1) * EACH, "the signal is %d", memory.read<int32_t>(0));
  me.barrier();
}

/* Data put before the signals has arrived when the signals are seen. */
template <int rows, int cols>
static void wait_matrix(Player &me) {
  enum { COUNT = rows * cols };
  Memory memory(me, 2 * COUNT * sizeof(int32_t));
  if (me.rank == 1) {
    std::vector<int32_t> source(COUNT);
    fill(source.data(), COUNT, 7, 100);
    Matrix<int32_t, 1, COUNT> from(source.data()), to(memory.at<int32_t>(0, COUNT));
    TileOf<int32_t, 1, 16> tile(1, 16);
    comm::TPUT(to, from, tile);
    for (size_t i = 0; i < COUNT; i++) {
      Signal signal(memory.at<int32_t>(0, i));
      comm::TNOTIFY(signal, 1, NotifyOp::Set);
    }
  }
  if (me.rank == 0) {
    Signal2D<rows, cols> signals(memory.mine<int32_t>());
    comm::TWAIT(signals, 1, WaitCmp::EQ);
    check_filled(me, memory.mine<int32_t>(COUNT), COUNT, 7, 100, "put before");
  }
  me.barrier();
}

static void wait_multiphase(Player &me) {
  const struct {
    int32_t set;
    WaitCmp compare;
  } phases[] = {{1, WaitCmp::EQ}, {3, WaitCmp::GE}, {5, WaitCmp::EQ}};
  Memory memory(me, sizeof(int32_t));
  Signal signal(memory.at<int32_t>(0));
  for (const auto &phase : phases) {
    if (me.rank == 1) comm::TNOTIFY(signal, phase.set, NotifyOp::Set);
    if (me.rank == 0) comm::TWAIT(signal, phase.set, phase.compare);
    me.barrier();
  }
}

/* A part of rows x cols signals within a wider grid, from row 2 and column 4 on. The signals around it are never
 * set. */
template <int grid_cols, int rows, int cols>
struct Part {
  enum { GRID_ROWS = rows + 4, CELLS = GRID_ROWS * grid_cols };
  static size_t cell(int row, int col) { return static_cast<size_t>((row + 2) * grid_cols + col + 4); }
  static_assert(cols + 4 <= grid_cols);

  static void set_all(const Memory &memory) {
    for (int row = 0; row < rows; row++)
      for (int col = 0; col < cols; col++) {
        Signal signal(memory.at<int32_t>(0, cell(row, col)));
        comm::TNOTIFY(signal, 1, NotifyOp::Set);
      }
  }
};

template <int grid_cols, int rows, int cols>
static void wait_part(Player &me) {
  using Grid = Part<grid_cols, rows, cols>;
  Memory memory(me, Grid::CELLS * sizeof(int32_t));
  if (me.rank == 1) Grid::set_all(memory);
  if (me.rank == 0) {
    Signal2D<rows, cols> part(memory.mine<int32_t>(Grid::cell(0, 0)), grid_cols);
    comm::TWAIT(part, 1, WaitCmp::EQ);
    Signal2D<rows, cols + 1> wider(memory.mine<int32_t>(Grid::cell(0, -1)), grid_cols);
    me.check(!comm::TTEST(wider, 1, WaitCmp::EQ), "a column beside the part is set, too");
  }
  me.barrier();
}

template <int grid_cols, int rows, int cols>
static void test_part(Player &me) {
  using Grid = Part<grid_cols, rows, cols>;
  Memory memory(me, Grid::CELLS * sizeof(int32_t));
  Signal2D<rows, cols> part(memory.mine<int32_t>(Grid::cell(0, 0)), grid_cols);
  if (me.rank == 0) me.check(!comm::TTEST(part, 1, WaitCmp::EQ), "TTEST is true, but no signal is set");
  me.barrier();
  if (me.rank == 1) Grid::set_all(memory);
  me.barrier();
  if (me.rank == 0) {
    me.check(comm::TTEST(part, 1, WaitCmp::EQ), "TTEST is false, but all signals are set");
    *memory.mine<int32_t>(Grid::cell(rows - 1, cols - 1)) = 2;
    me.check(!comm::TTEST(part, 1, WaitCmp::EQ), "TTEST is true, but the last signal has another value");
  }
  me.barrier();
}

/* Compares a signal once. The case's numbers: signal, value, expected answer. */
template <WaitCmp compare>
static void test_once(Player &me) {
  Memory memory(me, sizeof(int32_t));
  Signal signal(memory.at<int32_t>(0));
  if (me.rank == 1) comm::TNOTIFY(signal, static_cast<int32_t>(me.number(0, 0)), NotifyOp::Set);
  me.barrier();
  if (me.rank == 0)
    me.check(comm::TTEST(signal, static_cast<int32_t>(me.number(1, 0)), compare) == (me.number(2, 0) != 0),
             "TTEST of %ld with %ld: expected %ld", me.number(0, 0), me.number(1, 0), me.number(2, 0));
  me.barrier();
}

/* Compares a smaller, an equal and a greater signal, with each comparison; where it holds, TWAIT returns. */
static void compare_all(Player &me) {
  const struct {
    WaitCmp compare;
    bool less, equal, greater;
  } table[] = {{WaitCmp::EQ, false, true, false}, {WaitCmp::NE, true, false, true},  {WaitCmp::GT, false, false, true},
               {WaitCmp::GE, false, true, true},  {WaitCmp::LT, true, false, false}, {WaitCmp::LE, true, true, false}};
  Memory memory(me, sizeof(int32_t));
  Signal signal(memory.at<int32_t>(0));
  for (int32_t set = -8; set <= -6; set++) {
    if (me.rank == 1) comm::TNOTIFY(signal, set, NotifyOp::Set);
    me.barrier();
    for (const auto &row : table) {
      const bool holds = set < -7 ? row.less : set == -7 ? row.equal : row.greater;
      if (me.rank != 0) continue;
      me.check(comm::TTEST(signal, -7, row.compare) == holds, "%d and -7: comparison %d does not %s", set,
               static_cast<int>(row.compare), holds ? "hold" : "fail");
      if (holds) comm::TWAIT(signal, -7, row.compare);
    }
    me.barrier();
  }
}

/* Rank 1 sets the signal after rank 0 has tested it without success. */
static void test_until(Player &me) {
  Memory memory(me, sizeof(int32_t));
  Signal asked(memory.at<int32_t>(1)), answer(memory.at<int32_t>(0));
  if (me.rank == 1) {
    comm::TWAIT(asked, 1, WaitCmp::EQ);
    comm::TNOTIFY(answer, 999, NotifyOp::Set);
  }
  if (me.rank == 0) {
    me.check(!comm::TTEST(answer, 999, WaitCmp::EQ), "TTEST is true before the signal was set");
    comm::TNOTIFY(asked, 1, NotifyOp::Set);
    while (!comm::TTEST(answer, 999, WaitCmp::EQ)) continue;
  }
  me.barrier();
}

/* Rank 1 sets the signal only after rank 0's last test. */
static void test_in_vain(Player &me) {
  Memory memory(me, sizeof(int32_t));
  Signal signal(memory.at<int32_t>(0));
  for (int i = 0; me.rank == 0 && i < 1000; i++)
    me.check(!comm::TTEST(signal, 999, WaitCmp::EQ), "TTEST number %d is true before the signal was set", i);
  me.barrier();
  if (me.rank == 1) comm::TNOTIFY(signal, 999, NotifyOp::Set);
  me.barrier();
  if (me.rank == 0) me.check(comm::TTEST(signal, 999, WaitCmp::EQ), "TTEST is false, but the signal is set");
  me.barrier();
}

/* ---- the rows ---- */

#define SEED_ROW(name, ranks, ...) SEED_CASE(name, ranks, __VA_ARGS__)
#define SEED_CASE(name, ranks, function, ...) {name, ranks, function, __VA_ARGS__},
static const std::vector<Case> rows_of_the_file = {
#include "pto_cases.inc"
};
static const std::vector<Case> rows_of_our_file = {
#include "pto_own_cases.inc"
};

static const std::vector<Case> own_rows = {
    {"own: gather 5 rows of 16, tile of 2", 3, gather<int16_t, 5, 16, 2, 16, 1>, {2}},
    {"own: gather, tile larger than the data", 3, gather<double, 3, 4, 8, 8, 1>, {}},
    {"own: gather, slides both ways", 5, gather<float, 13, 70, 4, 24, 1>, {4}},
    {"own: gather, slides both ways, two tiles", 5, gather<int8_t, 13, 70, 4, 24, 2>, {1}},
    {"own: gather of one rank", 1, gather<int32_t, 9, 10, 2, 3, 2>, {}},
    {"own: gather one element", 8, gather<uint64_t, 1, 1, 1, 1, 1>, {5}},
    {"own: gather nothing", 3, gather_nothing<int32_t, 8>, {1}},
    {"own: gather and scatter 5-D", 3, gather_scatter_5d<int32_t, 2, 3, 2, 5, 11, 2, 4, 1>, {}},
    {"own: gather and scatter 5-D, two tiles", 2, gather_scatter_5d<float, 3, 1, 2, 4, 9, 3, 16, 2>, {}},
    {"own: scatter 7 rows of 12, tile of 3", 3, scatter<int64_t, 7, 12, 3, 12, 1>, {1}},
    {"own: scatter, slides both ways, two tiles", 5, scatter<uint16_t, 11, 50, 4, 16, 2>, {2}},
    {"own: scatter of one rank", 1, scatter<float, 2, 5, 1, 8, 1>, {}},
    {"own: scatter nothing", 3, scatter_nothing<uint8_t, 32>, {2}},
    {"own: broadcast, slides both ways", 3, broadcast<float, 9, 33, 4, 8, 1>, {2}},
    {"own: broadcast, slides both ways, two tiles", 5, broadcast<double, 9, 33, 4, 8, 2>, {3}},
    {"own: broadcast of one rank", 1, broadcast<int32_t, 3, 3, 2, 2, 1>, {}},
    {"own: sum, slides both ways", 3, reduce<float, 9, 33, 4, 8, 1, ReduceOp::Sum>, {1}},
    {"own: max of signed bytes, two tiles", 5, reduce<int8_t, 6, 40, 4, 32, 2, ReduceOp::Max>, {4}},
    {"own: min of doubles", 3, reduce<double, 5, 6, 2, 4, 1, ReduceOp::Min>, {2}},
    {"own: sum of one rank", 1, reduce<int32_t, 5, 6, 2, 4, 2, ReduceOp::Sum>, {}},
    {"own: min of nothing", 3, reduce_nothing<int32_t, 16, ReduceOp::Min>, {1}},
    {"own: put in a ring of 3", 3, put_ring<int16_t, 7, 19, 3, 8, 1>, {}},
    {"own: put in a ring of 5, two tiles", 5, put_ring<float, 33, 17, 8, 8, 2>, {}},
    {"own: put 5-D", 3, put_ring_5d<int8_t, 2, 1, 3, 5, 32, 2>, {}},
    {"own: put to itself", 1, put_ring<float, 8, 8, 4, 8, 1>, {}},
    {"own: add floats from 8", 8, put_add<float, 64>, {}},
    {"own: add 64-bit numbers from 3", 3, put_add<int64_t, 100>, {}},
    {"own: get in a ring of 3", 3, get_ring<uint16_t, 7, 19, 3, 8, 1>, {}},
    {"own: get in a ring of 5, two tiles", 5, get_ring<double, 33, 17, 8, 8, 2>, {}},
    {"own: get 5-D", 3, get_ring_5d<float, 2, 3, 1, 7, 8, 4>, {}},
    {"own: begin puts to two others", 3, put_async<int8_t, 777>, {}},
    {"own: begin gets from two others", 3, get_async<double, 777>, {}},
    {"own: begin puts of blocks that do not divide, over 3 queues", 3, put_async_configured<float, 1000>, {999, 0, 3}},
    {"own: begin gets of blocks that do not divide, over 3 queues",
     3,
     get_async_configured<int16_t, 1000>,
     {999, 64, 3}},
    {"own: four cores share a put", 3, put_async_cores<int32_t, 4000>, {4, 0}},
    {"own: four cores get each for itself", 3, get_async_cores<float, 100>, {4, 1}},
    {"own: all to all by puts", 3, put_async_all_to_all<int32_t, 500>, {3, 1}},
    {"own: all to all by gets", 3, get_async_all_to_all<int32_t, 500>, {3, 0}},
    {"own: 20 puts, waited for late", 3, put_async_posts_later, {20, 2}},
    {"own: 20 gets, only the last waited for", 3, get_async_posts_last, {20, 4}},
    {"own: 3 count", 3, notify_atomicadd, {}},
    {"own: 5 set in a ring", 5, notify_set, {}},
    {"own: 5 on a scoreboard of 6", 5, notify_scoreboard<6>, {}},
    {"own: an operation chosen as it runs", 3, notify_runtimeop, {1}},
    {"own: wait for one value", 3, wait_basic, {}},
    {"own: wait for at least 100, which is 100", 3, wait_compare, {100}},
    {"own: wait in three phases", 3, wait_multiphase, {}},
    {"own: wait for 7 others' counts", 8, wait_atomic, {}},
    {"own: wait for a matrix of 3 x 5", 3, wait_matrix<3, 5>, {}},
    {"own: wait for a part of a grid", 3, wait_part<11, 2, 3>, {}},
    {"own: test a part of a grid", 3, test_part<11, 2, 3>, {}},
    {"own: ask until it is there", 3, test_until, {}},
    {"own: ask in vain", 3, test_in_vain, {}},
    {"own: every comparison", 2, compare_all, {}},
    {"own: is 7 not 7", 2, test_once<WaitCmp::NE>, {7, 7, 0}},
    {"own: is 7 at least 8", 2, test_once<WaitCmp::GE>, {7, 8, 0}},
    {"own: is 8 at most 7", 2, test_once<WaitCmp::LE>, {8, 7, 0}},
    {"own: is -5 less than 3", 2, test_once<WaitCmp::LT>, {-5, 3, 1}},
};

int main(int argc, char **argv) {
  std::vector<Case> all = rows_of_the_file;
  all.insert(all.end(), rows_of_our_file.begin(), rows_of_our_file.end());
  all.insert(all.end(), own_rows.begin(), own_rows.end());
  if (argc == 1) {
    printf("%zu rows of ../shared/seeds/pto_cases.csv, %zu of tests/data/pto_cases.csv, %zu others\n",
           rows_of_the_file.size(), rows_of_our_file.size(), own_rows.size());
    if (rows_of_our_file.empty()) return printf("FAILED tests/data/pto_cases.csv has no rows\n0 passed, 1 failed\n"), 1;
    if (rows_of_the_file.empty()) printf("  skipped: no file ../shared/seeds/pto_cases.csv\nskipped its rows\n");
  }
  return run_cases(all, argc, argv, rows_of_the_file.empty());
}
