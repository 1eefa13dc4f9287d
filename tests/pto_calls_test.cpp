/* test: timeout=120 */
/* pto_calls_test.cpp: parts of pto_comm_inst.hpp that the rows of pto_cases_test.cpp do not test: compile-time
 * properties, errors, events, the order of a reduction, layouts, user-defined types. At the end: two ways to gather, as
 * user code. */
#include <algorithm>
#include <cmath>
#include <functional>

#include "pto_world.hpp"

using namespace pto;
using comm::ParallelGroup;
using comm::ReduceOp;

/* ---- properties known at compile time ---- */

using Known = Shape<1, 2, 3, 4, 5>;
using Half = Shape<1, DYNAMIC, 3, DYNAMIC, 5>;
static_assert(DYNAMIC == -1 && DIM_0 == 0 && DIM_4 == 4 && TOTAL_DIM == 5);
static_assert(Known()[3] == 4 && Half()[1] == 1 && Half(7, 8)[1] == 7 && Half(7, 8)[3] == 8 && Half(7, 8)[4] == 5);
static_assert(Half(1, 7, 3, 8, 5)[3] == 8 && Shape<>(9, 8, 7, 6, 5)[2] == 7 && Shape<>()[0] == 1);

using Nd = BaseShape2D<float, 6, 10>;
using Dn = BaseShape2D<float, 6, 10, Layout::DN>;
static_assert(Nd()[0] == 60 && Nd()[2] == 60 && Nd()[3] == 10 && Nd()[4] == 1);
static_assert(Dn()[0] == 60 && Dn()[2] == 60 && Dn()[3] == 1 && Dn()[4] == 6);
static_assert(BaseShape2D<float, DYNAMIC, 10>(4, 10)[2] == 40 && BaseShape2D<float, DYNAMIC, 10>(4, 10)[3] == 10);
static_assert(BaseShape2D<float>(4, 9)[2] == 36 && BaseShape2D<float, DYNAMIC, DYNAMIC, Layout::DN>(4, 9)[4] == 4);

using Fixed = GlobalTensor<const float, Known, Stride<120, 60, 20, 5, 1>>;
static_assert(std::is_same_v<Fixed::RawDType, float> && std::is_same_v<Fixed::DType, float>);
static_assert(Fixed::GetShape<DIM_3>() == 4 && Fixed::GetStride<DIM_1>() == 60 && Fixed::layout == Layout::ND);
static_assert(Fixed().GetShape(DIM_4) == 5 && Fixed().GetStride(DIM_0) == 120 && Fixed().data() == nullptr);
static_assert(Fixed().GetShape(5) == -1 && Fixed().GetShape(-1) == -1 && Fixed().GetStride(5) == -1);

static_assert(DataType<int8_t>::value == TUTTI_I8 && DataType<uint8_t>::value == TUTTI_U8);
static_assert(DataType<int16_t>::value == TUTTI_I16 && DataType<uint16_t>::value == TUTTI_U16);
static_assert(DataType<int32_t>::value == TUTTI_I32 && DataType<uint32_t>::value == TUTTI_U32);
static_assert(DataType<int64_t>::value == TUTTI_I64 && DataType<uint64_t>::value == TUTTI_U64);
static_assert(DataType<long long>::value == TUTTI_I64 && DataType<float>::value == TUTTI_F32);
static_assert(DataType<double>::value == TUTTI_F64);

using Static = Tile<TileType::Vec, float, 4, 8>;
using Dynamic = Tile<TileType::Vec, float, 4, 8, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
using RowsDynamic = Tile<TileType::Vec, float, 4, 8, BLayout::RowMajor, DYNAMIC, 7>;
static_assert(Static::Rows == 4 && Static::Cols == 8 && Static::ValidRow == 4 && Static::ValidCol == 8);
static_assert(Dynamic::ValidRow == DYNAMIC && Static::bytes == 128 && Static::isRowMajor);

struct bf16 {
  uint16_t bits;
};
template <>
struct pto::DataType<bf16> {
  static constexpr tutti_datatype value = TUTTI_BF16;
};

/* ---- small helpers ---- */

/* Checks that the call throws an error whose message begins with the instruction and contains `words`. */
static void refused(Player &me, const char *instruction, const char *words, const std::function<void()> &call,
                    tutti_err code = TUTTI_ERR_ARGUMENT) {
  try {
    call();
  } catch (const Error &e) {
    const std::string text = e.what();
    me.check(e.code() == code, "%s: %s: %s", instruction, tutti_err_name(e.code()), e.what());
    me.check(text.rfind(std::string(instruction) + ": ", 0) == 0, "the message does not begin with '%s: ': %s",
             instruction, e.what());
    me.check(test_contains(e.what(), words), "'%s' is not in: %s", words, e.what());
    return;
  }
  me.check(false, "%s did not fail; expected: %s", instruction, words);
}

template <int rows, int cols>
using Floats = GlobalTensor<float, Shape<1, 1, 1, rows, cols>, BaseShape2D<float, rows, cols>>;
using FloatsOf = GlobalTensor<float, Shape<1, 1, 1, DYNAMIC, DYNAMIC>, Stride<DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC, 1>>;
static FloatsOf floats(float *data, int64_t rows, int64_t cols, int64_t pitch) {
  return FloatsOf(data, {rows, cols}, {rows * pitch, rows * pitch, rows * pitch, pitch});
}

/* A matrix of 6 x 8 at each rank, in the first half of its part of the window. Element i of rank r is r * 1000 + i. */
struct Sources {
  enum { ROWS = 6, COLS = 8, COUNT = ROWS * COLS };
  Memory memory;
  std::vector<Floats<ROWS, COLS>> tensors;
  std::vector<float> result;

  explicit Sources(Player &me)
      : memory(me, 2 * COUNT * sizeof(float)), result(static_cast<size_t>(COUNT * me.ranks), -1) {
    for (int i = 0; i < COUNT; i++) memory.mine<float>()[i] = static_cast<float>(me.rank * 1000 + i);
    for (int r = 0; r < me.ranks; r++) tensors.emplace_back(memory.at<float>(r));
    me.barrier();
  }
  ParallelGroup<Floats<ROWS, COLS>> group(const Player &me) { return {tensors.data(), me.ranks, me.rank}; }
  FloatsOf target(const Player &me) { return floats(result.data(), ROWS * me.ranks, COLS, COLS); }
  void check_gathered(Player &me) {
    for (int i = 0; i < COUNT * me.ranks; i++) {
      const float wanted = static_cast<float>(i / COUNT * 1000 + i % COUNT);
      me.check(result[static_cast<size_t>(i)] == wanted, "element %d is %g, expected %g", i,
               static_cast<double>(result[static_cast<size_t>(i)]), static_cast<double>(wanted));
    }
  }
};

/* ---- tiles ---- */

static void tiles(Player &me) {
  Dynamic all, part(3, 5), copy = part;
  RowsDynamic rows(2);
  me.check(all.GetValidRow() == 4 && all.GetValidCol() == 8, "a tile without sizes is not wholly valid");
  me.check(part.GetValidRow() == 3 && part.GetValidCol() == 5, "valid sizes differ from the given ones");
  me.check(rows.GetValidRow() == 2 && rows.GetValidCol() == 7, "the static valid size is wrong");
  me.check(Static().GetValidRow() == 4 && Static().GetValidCol() == 8, "static valid sizes are wrong");
  me.check(copy.data() == part.data() && copy.data() != all.data(),
           "a copy does not share its original's memory, or shares another's");
  me.check(reinterpret_cast<uintptr_t>(all.data()) % 32 == 0, "a tile is not aligned");
  TASSIGN(part, 128);
  TASSIGN(all, 0);
  me.check(part.data() - all.data() == 32, "tiles are %td elements apart", part.data() - all.data());
  me.check(copy.data() != part.data(), "TASSIGN moved a copy of the tile");
  TASSIGN(all, (256 << 10) - 128);
  refused(me, "TASSIGN", "unified buffer", [&] { TASSIGN(all, (256 << 10) - 124); });
  refused(me, "TASSIGN", "unified buffer", [&] { TASSIGN(all, UINT64_MAX - 3); });
  refused(me, "TASSIGN", "whole element", [&] { TASSIGN(all, 2); });
  refused(me, "pto", "number 1 is 7|8", [&] { RowsDynamic(2, 8); });
  refused(me, "pto", "number 2 is 3|given as 4", [&] { (void)Half(1, 2, 4, 4, 5); });
}

/* ---- errors ---- */

static void refuse_groups(Player &me) {
  Sources s(me);
  auto target = s.target(me);
  auto group = s.group(me);
  Dynamic tile(2, 8), other(2, 8);
  if (me.rank == 0) {
    using Group = decltype(group);
    Group stranger(s.tensors.data(), me.ranks, 1), rootless(s.tensors.data(), me.ranks, -1), none(nullptr, 2, 0),
        empty(s.tensors.data(), 0, 0), late(s.tensors.data(), me.ranks, me.ranks);
    refused(me, "TGATHER", "root", [&] { comm::TGATHER(stranger, target, tile); });
    refused(me, "TSCATTER", "root", [&] { comm::TSCATTER(stranger, target, tile); });
    refused(me, "TBROADCAST", "root", [&] { comm::TBROADCAST(stranger, s.tensors[0], tile); });
    refused(me, "TREDUCE", "root", [&] { comm::TREDUCE(stranger, s.tensors[0], other, tile, ReduceOp::Sum); });
    refused(me, "TGATHER", "root", [&] { comm::TGATHER(late, target, tile); });
    refused(me, "TGATHER", "rootIdx -1", [&] { comm::TGATHER(rootless, target, tile); });
    refused(me, "TGATHER", "nranks of 1|found nranks 0", [&] { comm::TGATHER(none, target, tile); });
    refused(me, "TGATHER", "nranks of 1|found nranks 0", [&] { comm::TGATHER(empty, target, tile); });

    auto shorter = floats(s.result.data(), 6 * me.ranks - 1, 8, 8),
         narrower = floats(s.result.data(), 6 * me.ranks, 7, 8);
    refused(me, "TGATHER", "row", [&] { comm::TGATHER(group, shorter, tile); });
    refused(me, "TSCATTER", "row", [&] { comm::TSCATTER(group, shorter, tile); });
    refused(me, "TGATHER", "dimension 3", [&] { comm::TGATHER(group, narrower, tile); });

    std::vector<FloatsOf> uneven;
    for (int r = 0; r < me.ranks; r++) uneven.push_back(floats(s.memory.at<float>(r), 6, 8, 8));
    ParallelGroup mixed(uneven.data(), me.ranks, 0);
    uneven[1] = floats(s.memory.at<float>(1), 5, 8, 8);
    refused(me, "TGATHER", "equal", [&] { comm::TGATHER(mixed, target, tile); });
    uneven[1] = floats(s.memory.at<float>(1), 6, 8, 9);
    refused(me, "TGATHER", "strides", [&] { comm::TGATHER(mixed, target, tile); });
    uneven[1] = floats(s.memory.at<float>(0), 6, 8, 8); /* in rank 0's part */
    refused(me, "TGATHER", "two tensors", [&] { comm::TGATHER(mixed, target, tile); });
    uneven[1] = floats(s.result.data(), 6, 8, 8); /* in no window */
    refused(me, "TGATHER", "no window", [&] { comm::TGATHER(mixed, target, tile); });
    uneven[1] = floats(s.memory.at<float>(1), -6, 8, 8);
    refused(me, "TGATHER", "negative", [&] { comm::TGATHER(mixed, target, tile); });
    uneven[1] = floats(s.memory.at<float>(1), 6, 8, -8);
    refused(me, "TGATHER", "negative", [&] { comm::TGATHER(mixed, target, tile); });

    refused(me, "TREDUCE", "sum, min",
            [&] { comm::TREDUCE(group, s.tensors[0], other, tile, static_cast<ReduceOp>(3)); });
    me.check(s.result[0] == -1, "a failed call has written");
    comm::TGATHER(group, target, tile); /* the window works as before */
    s.check_gathered(me);
  }
  me.barrier();
}

static void refuse_tiles(Player &me) {
  Sources s(me);
  if (me.rank == 0) {
    auto target = s.target(me);
    auto group = s.group(me);
    Dynamic ping(2, 8), pong(2, 8), same = ping, other(3, 8), low(5, 8), wide(2, 9), none(0, 8), minus(2, -1);
    refused(me, "TGATHER", "overlap", [&] { comm::TGATHER(group, target, ping, same); });
    refused(me, "TGATHER", "overlap", [&] { comm::TGATHER(group, target, ping, ping); });
    refused(me, "TREDUCE", "overlap", [&] { comm::TREDUCE(group, s.tensors[0], ping, ping, ReduceOp::Max); });
    refused(me, "TGATHER", "2 x 8|3 x 8", [&] { comm::TGATHER(group, target, ping, other); });
    refused(me, "TREDUCE", "2 x 8|3 x 8",
            [&] { comm::TREDUCE(group, s.tensors[0], other, ping, pong, ReduceOp::Max); });
    refused(me, "TGATHER", "5x8 valid", [&] { comm::TGATHER(group, target, low); });
    refused(me, "TGATHER", "2x9 valid", [&] { comm::TGATHER(group, target, wide); });
    refused(me, "TGATHER", "0 x 8", [&] { comm::TGATHER(group, target, none); });
    refused(me, "TGATHER", "2 x -1", [&] { comm::TGATHER(group, target, minus); });
    TASSIGN(ping, 0);
    TASSIGN(pong, 64); /* overlaps by half a tile */
    refused(me, "TGATHER", "overlap", [&] { comm::TGATHER(group, target, ping, pong); });
    TASSIGN(pong, 128);
    comm::TGATHER(group, target, ping, pong);
    s.check_gathered(me);

    Static four; /* 6 rows do not divide into tiles of 4 rows */
    Tile<TileType::Vec, float, 2, 8, BLayout::RowMajor, 2, 5> five;
    Tile<TileType::Vec, float, 3, 8> three;
    Tile<TileType::Vec, float, 8, 16> large; /* one tile holds all data, so sizes need not divide */
    refused(me, "TGATHER", "fixed", [&] { comm::TGATHER(group, target, four); });
    refused(me, "TSCATTER", "fixed", [&] { comm::TSCATTER(group, target, five); });
    for (int i = 0; i < 2; i++) {
      s.result.assign(s.result.size(), -1);
      if (i == 0) comm::TGATHER(group, target, three);
      else comm::TGATHER(group, target, large);
      s.check_gathered(me);
    }
  }
  me.barrier();
}

static void refuse_pairs(Player &me) {
  Sources s(me);
  if (me.rank == 0) {
    Dynamic tile(2, 8), same = tile;
    std::vector<float> mine(Sources::COUNT);
    auto local = floats(mine.data(), 6, 8, 8), also = floats(s.result.data(), 6, 8, 8);
    auto small = floats(mine.data(), 5, 8, 8), null = floats(nullptr, 6, 8, 8);
    auto stacked = floats(mine.data(), 6, 8, 4);
    FloatsOf beyond = floats(s.memory.at<float>(1), 13, 8, 8);
    Floats<6, 8> &remote = s.tensors[1];
    refused(me, "TPUT", "no window", [&] { comm::TPUT(also, local, tile); });
    refused(me, "TGET", "no window", [&] { comm::TGET(local, also, tile); });
    refused(me, "TPUT", "equal", [&] { comm::TPUT(remote, small, tile); });
    refused(me, "TGET", "equal", [&] { comm::TGET(small, remote, tile); });
    refused(me, "TPUT", "NULL", [&] { comm::TPUT(remote, null, tile); });
    refused(me, "TGET", "strides", [&] { comm::TGET(stacked, remote, tile); });
    refused(me, "TGET", "overlap", [&] { comm::TGET(local, remote, tile, same); });
    std::vector<float> much(13 * 8);
    auto plenty = floats(much.data(), 13, 8, 8);
    refused(me, "TPUT", "part of", [&] { comm::TPUT(beyond, plenty, tile); });
    refused(me, "TPUT", "no window", [&] { comm::TPUT<AtomicType::AtomicAdd>(also, local, tile); });
    refused(me, "TPUT", "atomicType is unknown", [&] { comm::TPUT(remote, local, tile, static_cast<AtomicType>(2)); });
    comm::TGET(local, remote, tile);
    me.check(mine[5] == 1005, "a valid TGET after the failed calls is wrong");
  }
  me.barrier();
}

static void refuse_signals(Player &me) {
  Memory memory(me, 64 * sizeof(int32_t));
  if (me.rank == 0) {
    int32_t mine = 0;
    comm::Signal local(&mine), theirs(memory.at<int32_t>(1)), null(nullptr), good(memory.mine<int32_t>());
    comm::Signal2D<4, 8> many(memory.at<int32_t>(1)), beyond(memory.mine<int32_t>(33));
    refused(me, "TNOTIFY", "no window", [&] { comm::TNOTIFY(local, 1, comm::NotifyOp::Set); });
    refused(me, "TNOTIFY", "no window", [&] { comm::TNOTIFY(local, 1, comm::NotifyOp::AtomicAdd); });
    refused(me, "TNOTIFY", "no window", [&] { comm::TNOTIFY(null, 1, comm::NotifyOp::Set); });
    refused(me, "TNOTIFY", "one signal", [&] { comm::TNOTIFY(many, 1, comm::NotifyOp::Set); });
    refused(me, "TWAIT", "no window", [&] { comm::TWAIT(local, 0, comm::WaitCmp::EQ); });
    refused(me, "TWAIT", "own part", [&] { comm::TWAIT(theirs, 0, comm::WaitCmp::EQ); });
    refused(me, "TTEST", "no window", [&] { comm::TTEST(local, 0, comm::WaitCmp::EQ); });
    refused(me, "TTEST", "part of", [&] { comm::TTEST(beyond, 0, comm::WaitCmp::EQ); });
    refused(me, "TNOTIFY", "op is unknown", [&] { comm::TNOTIFY(theirs, 1, static_cast<comm::NotifyOp>(2)); });
    refused(me, "TTEST", "compar", [&] { comm::TTEST(good, 0, static_cast<comm::WaitCmp>(6)); });
    refused(me, "TWAIT", "compar", [&] { comm::TWAIT(good, 0, static_cast<comm::WaitCmp>(-1)); });
    me.check(comm::TTEST(good, 0, comm::WaitCmp::EQ), "a valid TTEST after the failed calls is wrong");
  }
  me.barrier();
}

static void refuse_begun(Player &me) {
  Sources s(me);
  if (me.rank == 0) {
    std::vector<float> mine(Sources::COUNT);
    auto local = floats(mine.data(), 6, 8, 8), gaps = floats(s.result.data(), 6, 4, 8), null = floats(nullptr, 6, 8, 8);
    auto less = floats(mine.data(), 5, 8, 8), also = floats(s.result.data(), 6, 8, 8);
    auto &remote = s.tensors[1];
    comm::AsyncSession session;
    comm::AsyncConfig config;
    refused(me, "TPUT_ASYNC", "contiguous", [&] { comm::TPUT_ASYNC(remote, gaps, session); });
    refused(me, "TGET_ASYNC", "contiguous", [&] { comm::TGET_ASYNC(gaps, remote, session); });
    refused(me, "TPUT_ASYNC", "same shape", [&] { comm::TPUT_ASYNC(remote, less, session); });
    refused(me, "TGET_ASYNC", "NULL", [&] { comm::TGET_ASYNC(null, remote, session); });
    refused(me, "TPUT_ASYNC", "no window", [&] { comm::TPUT_ASYNC(also, local, session); });
    using Endless = GlobalTensor<float, Shape<>, Stride<>>;
    const int64_t large = int64_t{1} << 32;
    Endless endless(mine.data(), {1, 1, large, large, 4}, {1, 1, 4 * large, 4, 1});
    refused(me, "TGET_ASYNC", "address space", [&] { comm::TGET_ASYNC(endless, endless, session); });
    Endless nothing(nullptr, {1, 3, 0, 5, 2}, {1, 7, 7, 7, 1});
    comm::TGET_ASYNC(nothing, nothing, session).Wait();
    config.queue_num = 0;
    refused(me, "AsyncSession", "queue_num", [&] { comm::AsyncSession wrong(config); });
    config.queue_num = 1, config.block_bytes = 0;
    refused(me, "AsyncSession", "block_bytes", [&] { comm::AsyncSession wrong(config); });
    config.block_bytes = 64, config.comm_block_offset = 3 * Sources::COUNT * sizeof(float);
    comm::AsyncSession far(config);
    refused(me, "TGET_ASYNC", "no window", [&] { comm::TGET_ASYNC(local, remote, far); });
    me.check(comm::TGET_ASYNC(local, remote, session).Wait(session) && mine[3] == 1003, "a valid TGET_ASYNC is wrong");
    me.check(!comm::AsyncEvent().valid(), "an empty event is valid");
  }
  me.barrier();
}

/* ---- events ---- */

/* Each instruction waits for a get that was begun before: for its event, or for the event of another instruction that
 * waited for it. */
static void events(Player &me) {
  Sources s(me);
  std::vector<float> begun(Sources::COUNT), other(Sources::COUNT);
  auto here = floats(begun.data(), 6, 8, 8), there = floats(other.data(), 6, 8, 8);
  auto &remote = s.tensors[static_cast<size_t>(me.after())];
  Dynamic tile(4, 8), accumulator(4, 8), pong(4, 8);
  comm::AsyncSession session, second;
  comm::AsyncConfig several;
  several.block_bytes = 20, several.queue_num = 3; /* every queue gets a part of the get */
  comm::AsyncSession queues(several);
  const auto waits = [&](const char *name, const std::function<void(const comm::AsyncEvent &)> &call) {
    for (const comm::AsyncSession *on : {&session, &queues}) {
      begun.assign(begun.size(), -1);
      call(comm::TGET_ASYNC(here, remote, *on));
      for (size_t i = 0; i < begun.size(); i++)
        me.check(begun[i] == static_cast<float>(me.after() * 1000) + static_cast<float>(i),
                 "%s did not wait for element %zu", name, i);
    }
  };
  const RecordEvent over;
  comm::Signal own(s.memory.mine<int32_t>(Sources::COUNT + static_cast<size_t>(Sources::COUNT) / 2));
  Floats<6, 8> spare(s.memory.mine<float>(Sources::COUNT)); /* own memory, behind the part that the others read */
  waits("Wait", [&](const comm::AsyncEvent &e) { e.Wait(); });
  waits("TGET", [&](const comm::AsyncEvent &e) { comm::TGET(there, remote, tile, over, e).Wait(); });
  waits("TGET with two tiles", [&](const comm::AsyncEvent &e) { comm::TGET(there, remote, tile, pong, e); });
  waits("TGET_ASYNC", [&](const comm::AsyncEvent &e) { comm::TGET_ASYNC(there, remote, second, e); });
  me.barrier();
  if (me.rank == 0) { /* only rank 0 continues from here on */
    auto group = s.group(me);
    auto target = s.target(me);
    waits("TGATHER", [&](const comm::AsyncEvent &e) { comm::TGATHER(group, target, tile, e, over); });
    waits("TGATHER with two tiles", [&](const comm::AsyncEvent &e) { comm::TGATHER(group, target, tile, pong, e); });
    waits("TREDUCE",
          [&](const comm::AsyncEvent &e) { comm::TREDUCE(group, there, accumulator, tile, ReduceOp::Max, e); });
    waits("TREDUCE with two tiles",
          [&](const comm::AsyncEvent &e) { comm::TREDUCE(group, there, accumulator, tile, pong, ReduceOp::Max, e); });
    me.check(other[9] == static_cast<float>((me.ranks - 1) * 1000 + 9), "the maximum is %g",
             static_cast<double>(other[9]));
    s.check_gathered(me);
    waits("TSCATTER", [&](const comm::AsyncEvent &e) { comm::TSCATTER(group, target, tile, e); });
    waits("TSCATTER with two tiles", [&](const comm::AsyncEvent &e) { comm::TSCATTER(group, target, tile, pong, e); });
    waits("TPUT", [&](const comm::AsyncEvent &e) { comm::TPUT(spare, there, tile, e); });
    waits("TPUT with two tiles", [&](const comm::AsyncEvent &e) { comm::TPUT(spare, there, tile, pong, e); });
    waits("TPUT of a type",
          [&](const comm::AsyncEvent &e) { comm::TPUT(spare, there, tile, AtomicType::AtomicNone, e); });
    waits("TPUT_ASYNC", [&](const comm::AsyncEvent &e) { comm::TPUT_ASYNC(spare, there, second, e); });
    waits("TNOTIFY", [&](const comm::AsyncEvent &e) { comm::TNOTIFY(own, 3, comm::NotifyOp::Set, e, over); });
    waits("TNOTIFY that adds", [&](const comm::AsyncEvent &e) { comm::TNOTIFY(own, 2, comm::NotifyOp::AtomicAdd, e); });
    waits("TWAIT", [&](const comm::AsyncEvent &e) { comm::TWAIT(own, 0, comm::WaitCmp::GT, e); });
    waits("TTEST", [&](const comm::AsyncEvent &e) {
      me.check(comm::TTEST(own, 7, comm::WaitCmp::EQ, e), "the signal is not 7");
    });
    std::vector<Floats<6, 8>> spares;
    for (int r = 0; r < me.ranks; r++) spares.emplace_back(s.memory.at<float>(r, Sources::COUNT));
    ParallelGroup all(spares.data(), me.ranks, 0);
    waits("TBROADCAST", [&](const comm::AsyncEvent &e) { comm::TBROADCAST(all, there, tile, e); });
    waits("TBROADCAST with two tiles", [&](const comm::AsyncEvent &e) { comm::TBROADCAST(all, there, tile, pong, e); });
  }
  me.barrier();
}

/* A get of 10 blocks of 20 bytes over three queues: the first queue gets four blocks, the others three. The next get
 * begins in the second queue. When a later event is complete, all earlier blocks in all queues are complete, too. */
static void queues(Player &me) {
  Sources s(me);
  if (me.rank == 0) {
    std::vector<float> got(Sources::COUNT, -1), more(Sources::COUNT, -1);
    auto here = floats(got.data(), 6, 8, 8), there = floats(more.data(), 1, 8, 8),
         from = floats(s.memory.at<float>(1), 1, 8, 8);
    comm::AsyncConfig config;
    config.block_bytes = 20, config.queue_num = 3;
    comm::AsyncSession session(config);
    const comm::AsyncEvent first = comm::TGET_ASYNC(here, s.tensors[1], session); /* 192 bytes: 10 blocks */
    const comm::AsyncEvent second = comm::TGET_ASYNC(there, from, session);       /* 32 bytes: 2 blocks */
    const uint64_t after_first[] = {4, 3, 3}, after_second[] = {4, 4, 4};
    me.check(first.queues().size() == 3 && second.queues().size() == 3, "the events do not have three queues");
    for (size_t q = 0; q < 3; q++) {
      me.check(first.queues()[q].number == after_first[q] && second.queues()[q].number == after_second[q],
               "queue %zu has begun %llu, then %llu blocks", q,
               static_cast<unsigned long long>(first.queues()[q].number),
               static_cast<unsigned long long>(second.queues()[q].number));
      me.check(q == 0 || first.queues()[q].session != first.queues()[q - 1].session, "two queues are the same");
    }
    second.Wait(session);
    for (size_t i = 0; i < got.size(); i++)
      me.check(got[i] == 1000 + static_cast<float>(i), "element %zu of the first get is %g", i,
               static_cast<double>(got[i]));
    for (size_t i = 0; i < 8; i++)
      me.check(more[i] == 1000 + static_cast<float>(i), "element %zu of the second get is %g", i,
               static_cast<double>(more[i]));
  }
  me.barrier();
}

/* ---- the order of a reduction, layouts, types ---- */

/* The root's own operand is added first, then those of ranks 0, 1, and so on. 1 is lost if it is added to 2^24 alone,
 * so the result shows the order. */
static void order_of_reduction(Player &me) {
  Memory memory(me, 8 * sizeof(float));
  const float big = 16777216;
  const float values[] = {1, 1, big, -big};
  for (int i = 0; i < 8; i++) memory.mine<float>()[i] = values[me.rank];
  me.barrier();
  for (int root = 0; root < me.ranks; root++) {
    if (me.rank == root) {
      std::vector<Floats<1, 8>> tensors;
      for (int r = 0; r < me.ranks; r++) tensors.emplace_back(memory.at<float>(r));
      float result[8], wanted = values[root];
      for (int r = 0; r < me.ranks; r++)
        if (r != root) wanted += values[r];
      ParallelGroup group(tensors.data(), me.ranks, root);
      Floats<1, 8> target(result);
      Tile<TileType::Vec, float, 1, 8> accumulator, tile;
      comm::TREDUCE(group, target, accumulator, tile, ReduceOp::Sum);
      me.check(result[7] == wanted, "root %d: the sum is %g, expected %g", root, static_cast<double>(result[7]),
               static_cast<double>(wanted));
    }
    me.barrier();
  }
}

/* Gathers column-major sources into a row-major target. */
static void columns_to_rows(Player &me) {
  using Source = GlobalTensor<int16_t, Shape<1, 1, 1, 5, 7>, BaseShape2D<int16_t, 5, 7, Layout::DN>, Layout::DN>;
  Memory memory(me, 35 * sizeof(int16_t));
  for (int i = 0; i < 35; i++) memory.mine<int16_t>()[i] = static_cast<int16_t>(me.rank * 100 + i);
  me.barrier();
  if (me.rank == 1) {
    using Target = GlobalTensor<int16_t, Shape<1, 1, 1, DYNAMIC, 7>, BaseShape2D<int16_t, DYNAMIC, 7>>;
    std::vector<Source> tensors;
    for (int r = 0; r < me.ranks; r++) tensors.emplace_back(memory.at<int16_t>(r));
    std::vector<int16_t> result(static_cast<size_t>(35 * me.ranks));
    ParallelGroup group(tensors.data(), me.ranks, 1);
    Target target(result.data(), {5 * me.ranks}, {5 * me.ranks, 7});
    Tile<TileType::Vec, int16_t, 3, 16, BLayout::RowMajor, DYNAMIC, DYNAMIC> tile(3, 4);
    comm::TGATHER(group, target, tile);
    for (int row = 0; row < 5 * me.ranks; row++)
      for (int col = 0; col < 7; col++)
        me.check(result[static_cast<size_t>(row * 7 + col)] == row / 5 * 100 + col * 5 + row % 5,
                 "row %d, column %d is %d", row, col, result[static_cast<size_t>(row * 7 + col)]);
  }
  me.barrier();
}

/* A user-defined type with its own DataType. */
static void type_of_ones_own(Player &me) {
  using Matrix = GlobalTensor<bf16, Shape<1, 1, 1, 2, 16>, BaseShape2D<bf16, 2, 16>>;
  Memory memory(me, 32 * sizeof(bf16));
  for (int i = 0; i < 32; i++) memory.mine<bf16>()[i].bits = 0x3f80; /* 1 in bf16 */
  me.barrier();
  if (me.rank == 0) {
    std::vector<Matrix> tensors;
    for (int r = 0; r < me.ranks; r++) tensors.emplace_back(memory.at<bf16>(r));
    bf16 result[32] = {};
    ParallelGroup group(tensors.data(), me.ranks, 0);
    Matrix target(result);
    Tile<TileType::Vec, bf16, 2, 16> accumulator, tile;
    comm::TREDUCE(group, target, accumulator, tile, ReduceOp::Sum);
    const uint16_t sums[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080};
    me.check(result[31].bits == sums[me.ranks], "%d times 1 is %x", me.ranks, result[31].bits);
  }
  me.barrier();
}

/* Every instruction that slides over its data uses both tiles if two are given. */
static void both_tiles(Player &me) {
  Sources s(me);
  if (me.rank == 0) {
    auto group = s.group(me);
    auto target = s.target(me), back = floats(s.memory.at<float>(1, Sources::COUNT), 6, 8, 8);
    Dynamic ping(2, 8), pong(2, 8), accumulator(2, 8);
    const auto uses_both = [&](const char *instruction, const std::function<void()> &call) {
      std::fill_n(ping.data(), 32, -77.0f);
      std::fill_n(pong.data(), 32, -77.0f);
      call();
      me.check(ping.data()[0] != -77, "%s: the first tile was not used", instruction);
      me.check(pong.data()[0] != -77, "%s: the second tile was not used", instruction);
    };
    uses_both("TGATHER", [&] { comm::TGATHER(group, target, ping, pong); });
    s.check_gathered(me);
    uses_both("TSCATTER", [&] { comm::TSCATTER(group, target, ping, pong); });
    uses_both("TBROADCAST", [&] {
      auto mine = floats(s.result.data(), 6, 8, 8);
      comm::TBROADCAST(group, mine, ping, pong);
    });
    uses_both("TREDUCE", [&] { comm::TREDUCE(group, target, accumulator, ping, pong, ReduceOp::Sum); });
    uses_both("TPUT", [&] {
      auto mine = floats(s.result.data(), 6, 8, 8);
      comm::TPUT(back, mine, ping, pong);
    });
    uses_both("TGET", [&] {
      auto mine = floats(s.result.data(), 6, 8, 8);
      comm::TGET(mine, back, ping, pong);
    });
  }
  me.barrier();
}

/* half and bfloat16_t against the library's own conversions: every value there and back, floats around every rounding
 * boundary, and a sum. */
template <typename T>
static void narrow(Player &me) {
  using Matrix = GlobalTensor<T, Shape<1, 1, 1, 2, 16>, BaseShape2D<T, 2, 16>>;
  const size_t one[] = {1};
  const auto of = [&](void *data) {
    tutti_tensor t;
    me.good(tutti_tensor_strided(&t, tutti_tensor_of{data, DataType<T>::value, 1, one}, nullptr));
    return t;
  };
  T mine, theirs;
  float theirs_as_float;
  const tutti_tensor tensor = of(&theirs);
  const auto convert = [&](float value) {
    me.good(tutti_tensor_from_f32(&tensor, &value));
    mine = T(value);
    me.check(mine.bits == theirs.bits || value != value, "%a becomes %x, expected %x", static_cast<double>(value),
             mine.bits, theirs.bits);
    if (value != value) me.check(static_cast<float>(mine) != static_cast<float>(mine), "a NaN became a number");
  };
  for (uint32_t bits = 0; bits <= 0xffff && me.rank == 0 && me.failures == 0; bits++) {
    theirs.bits = mine.bits = static_cast<uint16_t>(bits);
    me.good(tutti_tensor_to_f32(&tensor, &theirs_as_float));
    const float value = mine;
    me.check(std::memcmp(&value, &theirs_as_float, sizeof value) == 0 || value != value, "%x is %a, expected %a", bits,
             static_cast<double>(value), static_cast<double>(theirs_as_float));
    T next = mine;
    next.bits++;
    const float half_way = value + (static_cast<float>(next) - value) / 2;
    for (float f : {value, half_way, std::nextafter(half_way, -INFINITY), std::nextafter(half_way, INFINITY)})
      convert(f);
  }
  Memory memory(me, 32 * sizeof(T));
  for (int i = 0; i < 32; i++) memory.mine<T>()[i] = static_cast<T>(me.rank + i);
  me.barrier();
  if (me.rank == 0) {
    std::vector<Matrix> tensors;
    for (int r = 0; r < me.ranks; r++) tensors.emplace_back(memory.at<T>(r));
    T result[32] = {};
    ParallelGroup group(tensors.data(), me.ranks, 0);
    Matrix target(result);
    Tile<TileType::Vec, T, 2, 16> accumulator, tile;
    comm::TREDUCE(group, target, accumulator, tile, ReduceOp::Sum);
    const float wanted = static_cast<float>(31 * me.ranks + me.ranks * (me.ranks - 1) / 2);
    me.check(result[31] == wanted, "the sum is %g", static_cast<double>(static_cast<float>(result[31])));
  }
  me.barrier();
}

/* Groups of some ranks in any order: {3, 1} and {2, 0} at the same time, then all ranks in reverse order. */
static void some_ranks(Player &me) {
  Sources s(me);
  Dynamic ping(2, 8), pong(2, 8), accumulator(2, 8);
  const std::vector<std::vector<int>> groups = {{3, 1}, {2, 0}, {3, 2, 1, 0}};
  for (size_t g = 0; g < groups.size(); g++) {
    const int size = static_cast<int>(groups[g].size()), root = size - 1;
    std::vector<Floats<6, 8>> tensors;
    for (int rank : groups[g]) tensors.emplace_back(s.memory.at<float>(rank));
    if (me.rank == groups[g][static_cast<size_t>(root)]) {
      ParallelGroup group(tensors.data(), size, root);
      auto target = floats(s.result.data(), 6 * size, 8, 8), sum = floats(s.result.data(), 6, 8, 8);
      comm::TGATHER(group, target, ping, pong);
      for (int i = 0; i < Sources::COUNT * size; i++) {
        const float wanted =
            static_cast<float>(groups[g][static_cast<size_t>(i / Sources::COUNT)] * 1000 + i % Sources::COUNT);
        me.check(s.result[static_cast<size_t>(i)] == wanted, "group %zu: element %d is %g, expected %g", g, i,
                 static_cast<double>(s.result[static_cast<size_t>(i)]), static_cast<double>(wanted));
      }
      comm::TREDUCE(group, sum, accumulator, ping, pong, ReduceOp::Sum);
      float wanted = 0;
      for (int rank : groups[g]) wanted += static_cast<float>(rank * 1000 + 47);
      me.check(s.result[47] == wanted, "group %zu: the sum is %g", g, static_cast<double>(s.result[47]));
      std::fill(s.result.begin(), s.result.end(), -1.0f);
    }
    if (g > 0) me.barrier();
  }
}

/* ---- as user code: sizes known at compile time, with one tile and with two ---- */

template <typename T, int ranks, int rows, int cols, int tile_rows, int tile_cols, bool two>
static void collect(__gm__ T *const blocks[], __gm__ T *all, int root) {
  using Part = GlobalTensor<T, Shape<1, 1, 1, rows, cols>, BaseShape2D<T, rows, cols, Layout::ND>, Layout::ND>;
  using Whole = GlobalTensor<T, Shape<1, 1, 1, ranks * rows, cols>, BaseShape2D<T, ranks * rows, cols>>;
  using Buffer = Tile<TileType::Vec, T, tile_rows, tile_cols, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  Part parts[ranks];
  for (int r = 0; r < ranks; r++) parts[r] = Part(blocks[r]);
  auto group = ParallelGroup<Part>::Create(parts, ranks, root);
  Whole whole(all);
  Buffer first(tile_rows, tile_cols), second(tile_rows, tile_cols);
  if (two) comm::TGATHER(group, whole, first, second);
  else comm::TGATHER(group, whole, first);
}

template <int ranks, int rows, int cols, int tile_rows, int tile_cols>
static void as_a_user(Player &me) {
  constexpr int count = rows * cols;
  Memory memory(me, count * sizeof(int32_t));
  for (int i = 0; i < count; i++) memory.mine<int32_t>()[i] = me.rank * 100000 + i;
  me.barrier();
  int32_t *blocks[ranks];
  for (int r = 0; r < ranks; r++) blocks[r] = memory.at<int32_t>(r);
  for (int root = 0; root < ranks; root++) {
    if (me.rank == root) {
      std::vector<int32_t> one(ranks * count), two(ranks * count);
      collect<int32_t, ranks, rows, cols, tile_rows, tile_cols, false>(blocks, one.data(), root);
      collect<int32_t, ranks, rows, cols, tile_rows, tile_cols, true>(blocks, two.data(), root);
      for (int i = 0; i < ranks * count; i++)
        me.check(one[static_cast<size_t>(i)] == i / count * 100000 + i % count, "element %d is %d", i,
                 one[static_cast<size_t>(i)]);
      me.check(one == two, "two tiles and one tile give different results");
    }
    me.barrier();
  }
}

int main(int argc, char **argv) {
  return run_cases({{"tiles", 1, tiles, {}},
                    {"refused: groups", 2, refuse_groups, {}},
                    {"refused: groups", 3, refuse_groups, {}},
                    {"refused: tiles", 2, refuse_tiles, {}},
                    {"refused: pairs", 2, refuse_pairs, {}},
                    {"refused: signals", 2, refuse_signals, {}},
                    {"refused: what is begun", 2, refuse_begun, {}},
                    {"events", 2, events, {}},
                    {"events", 4, events, {}},
                    {"queues", 2, queues, {}},
                    {"order of a reduction", 4, order_of_reduction, {}},
                    {"columns to rows", 3, columns_to_rows, {}},
                    {"a type of one's own", 2, type_of_ones_own, {}},
                    {"a type of one's own", 4, type_of_ones_own, {}},
                    {"both tiles", 2, both_tiles, {}},
                    {"half", 2, narrow<half>, {}},
                    {"bfloat16_t", 3, narrow<bfloat16_t>, {}},
                    {"some ranks", 4, some_ranks, {}},
                    {"as a user: tile smaller", 2, as_a_user<2, 9, 20, 4, 8>, {}},
                    {"as a user: tile smaller", 3, as_a_user<3, 9, 20, 4, 8>, {}},
                    {"as a user: tile smaller", 4, as_a_user<4, 9, 20, 4, 8>, {}},
                    {"as a user: tile larger", 2, as_a_user<2, 9, 20, 16, 32>, {}},
                    {"as a user: tile larger", 3, as_a_user<3, 9, 20, 16, 32>, {}},
                    {"as a user: tile larger", 4, as_a_user<4, 9, 20, 16, 32>, {}}},
                   argc, argv);
}
