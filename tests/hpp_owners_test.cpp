/* test: timeout=120 */
/* hpp_owners_test.cpp: tests the owners of the headers for C++ on 1 to 4 ranks: persistent requests, plans, windows,
 * meshes, channels, registered memory and clusters; what destructors do in order, and after an exception. */
#include <unistd.h>

#include <fstream>
#include <memory>
#include <tutti/channel.hpp>
#include <tutti/mesh.hpp>
#include <tutti/topology.hpp>
#include <tutti/window.hpp>

#include "hpp_world.hpp"

using tutti::comm;
using tutti::op;

template <typename T>
constexpr bool is_owner =
    std::is_nothrow_move_constructible_v<T> &&std::is_nothrow_move_assignable_v<T> &&std::is_nothrow_destructible_v<T>
        &&std::is_default_constructible_v<T> && !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(is_owner<comm> && is_owner<tutti::request> && is_owner<tutti::persistent_request>);
static_assert(is_owner<tutti::plan> && is_owner<tutti::memory<int>> && is_owner<tutti::registration>);
static_assert(is_owner<tutti::window> && is_owner<tutti::session> && is_owner<tutti::mesh>);
static_assert(is_owner<tutti::channel> && is_owner<tutti::channel_builder>);
static_assert(is_owner<tutti::cluster> && is_owner<tutti::soc>);

/* Makes an object on all ranks, then throws an exception on this rank, and returns after it. On the other ranks the
 * object must be complete before, so they call me.barrier() after they have made theirs. */
template <typename Calls>
static void throw_after(Player &me, Calls calls) {
  try {
    const auto made = calls();
    me.barrier();
    throw std::runtime_error("thrown by the test");
  } catch (const std::runtime_error &) {}
}

/* Moves an owner in every way. It must have its handle afterwards. */
template <typename Owner>
static void moves(Player &me, const char *what, Owner &owner) {
  const auto *raw = owner.get();
  Owner made(std::move(owner)), empty;
  me.check(!owner && made.get() == raw, "%s: move constructor", what);
  empty = std::move(made);
  me.check(!made && empty.get() == raw, "%s: move assignment", what);
  Owner &alias = empty;
  empty = std::move(alias);
  me.check(empty.get() == raw, "%s: self-assignment", what);
  owner = std::move(empty);
  me.check(owner && owner.get() == raw, "%s: moved back", what);
}

/* ---- requests and plans ---- */

static tutti::call sum_of(const int &in, int &out) {
  tutti::call sum;
  sum.send = &in;
  sum.recv = &out;
  sum.count = 1;
  sum.type = TUTTI_I32;
  return sum;
}

static void persistent_requests(Player &me) {
  const comm world = copy_of_world(me);
  int in = 0, out = 0;
  tutti::persistent_request sum = world.prepare(sum_of(in, out));
  moves(me, "persistent_request", sum);
  for (int i = 1; i < 4; i++) {
    in = i;
    sum.start();
    if (i == 2) {
      while (!sum.test()) continue;
    } else {
      sum.wait();
    }
    me.check(out == i * me.ranks && sum, "start %d: %d", i, out);
  }
  std::vector<tutti::persistent_request> both;
  int second = 0;
  both.push_back(world.prepare(sum_of(in, out)));
  both.push_back(world.prepare(sum_of(in, second)));
  for (auto &each : both) each.start();
  tutti::wait_all(both);
  me.check(second == 3 * me.ranks, "wait_all: %d", second);
  out = 0;
  { /* the destructor waits for an open call; one that was never started ends at once */
    const tutti::persistent_request never = world.prepare(sum_of(in, second));
    tutti::persistent_request open = world.prepare(sum_of(in, out));
    open.start();
  }
  me.check(out == 3 * me.ranks, "a destructor has not waited: %d", out);
  world.barrier();
  const comm refusing = copy_of_world(me);
  tutti::call wrong = sum_of(in, out);
  wrong.algorithm = "no such algorithm";
  throws(me, "prepare", TUTTI_ERR_ARGUMENT, "no such algorithm", [&] { (void)refusing.prepare(wrong); });
}

/* Waits that give up, lists, and queries. The messages of a communicator of one rank are its own. */
static void waits(Player &me) {
  const comm world = copy_of_world(me), self = world.self(), fails = world.self();
  int got[3][1] = {}, sent[1] = {5};
  std::vector<tutti::request> all(4);
  for (int i = 0; i < 3; i++) all[i] = self.irecv(got[i], 0, i);
  me.check(all[3].done() && !all[0].done() && !all[0].wait_for(0) && !all[0].wait_for(1), "a wait does not give up");
  me.check(tutti::test_some(all).empty() && all[0], "a request that is open is found");
  self.send(sent, 0, 2);
  self.send(sent, 0, 0);
  me.check(tutti::test_some(all) == std::vector<std::size_t>({0, 2}) && !all[0] && all[1] && !all[2], "test_some");
  self.send(sent, 0, 1);
  me.check(all[1].wait_for(TUTTI_NO_TIMEOUT) && !all[1] && got[1][0] == 5, "wait_for");
  std::vector<tutti::persistent_request> one;
  one.push_back(self.prepare(sum_of(sent[0], got[0][0])));
  me.check(one[0].done() && tutti::test_some(one).empty(), "a request that was not started");
  one[0].start();
  me.check(one[0].done() && tutti::test_some(one).size() == 1 && one[0], "a persistent request");
  all[0] = fails.irecv(got[0], 0);
  all[1] = self.ibarrier();
  fails.set_user(&me);
  me.check(fails.user() == &me && !self.user(), "set_user");
  tutti_abort(fails.get(), "for the test");
  me.check(all[0].done(), "a request has failed");
  throws(me, "test_some", TUTTI_ERR_ABORTED, "for the test", [&] { (void)tutti::test_some(all); });
  me.check(!all[0] && all[1] && tutti::test_some(all).size() == 1, "what is behind a request that has failed");
}

static void checks(Player &me) {
  const comm world = copy_of_world(me);
  const std::vector<std::size_t> counts(static_cast<std::size_t>(me.ranks) + 1);
  int in = 1, out = 0;
  const tutti::call good = sum_of(in, out);
  tutti::call wrong = good, blocks = good;
  world.check_call(good);
  wrong.algorithm = "no such algorithm";
  blocks.collective = TUTTI_ALLGATHERV;
  blocks.counts = counts; /* one too many */
  throws(me, "check_call", TUTTI_ERR_ARGUMENT, "no such algorithm", [&] { world.check_call(wrong); });
  tutti::settings forced;
  forced.algorithm = wrong.algorithm;
  throws(me, "check_call", TUTTI_ERR_ARGUMENT, "no such algorithm", [&] { world.with(forced).check_call(good); });
  throws(me, "check_call", TUTTI_ERR_ARGUMENT, "counts", [&] { world.check_call(blocks); });
  world.run(good);
  me.check(out == me.ranks, "the communicator is not usable after checks: %d", out);
}

static void plans(Player &me) {
  const comm world = copy_of_world(me);
  const std::string path = "/tmp/hpp_owners_test." + std::to_string(world.broadcast(getpid(), 0)) + ".plan";
  if (me.rank == 0) {
    const std::string command =
        std::string(BUILD_DIR "/tutti plan allreduce.ring -n ") + std::to_string(me.ranks) + " --in-place > " + path;
    me.check(std::system(command.c_str()) == 0, "%s", command.c_str());
  }
  world.barrier();
  tutti::plan plan = tutti::plan::load(path);
  moves(me, "plan", plan);
  tutti::settings how;
  how.plan = plan.get();
  me.check(world.with(how).allreduce(me.rank, op::sum) == me.ranks * (me.ranks - 1) / 2, "a call with a plan");
  world.barrier();
  if (me.rank == 0) unlink(path.c_str());
  throws(me, "no file", TUTTI_ERR_SYSTEM, "no such file", [] { (void)tutti::plan::load("/no such file"); });
}

/* ---- windows ---- */

static void windows(Player &me) {
  const comm world = copy_of_world(me);
  tutti::window window(world, sizeof(int) * world.ranks());
  moves(me, "window", window);
  for (int r = 0; r < me.ranks; r++) window.part<int>(r)[static_cast<size_t>(me.rank)] = 10 * me.rank;
  world.barrier();
  const tutti::span<int> mine = window.part<int>(me.rank);
  me.check(mine.size() == world.ranks() && mine[mine.size() - 1] == 10 * (me.ranks - 1), "the part of this rank");
  me.check(window.memory<int>(me.rank).data() == mine.data(), "the memory of a part");
  me.check(window.part<int>(me.ranks).empty() && window.part<int>(-1).empty(), "the part of no rank");
  window.free();
  me.check(!window, "free leaves a window");

  tutti::memory<double> memory(world, 3);
  {
    const tutti::window of_memory(world, memory.data(), 3 * sizeof(double));
    me.check(of_memory.part<double>(me.rank).data() == memory.data(), "a window of tutti::memory");
  } /* the destructor is collective */
  memory.free();
  me.check(memory.empty(), "free leaves memory");
  double other[3] = {};
  throws(me, "private memory", TUTTI_ERR_ARGUMENT, "tutti_window_create",
         [&] { tutti::window(world, other, sizeof other); });
  tutti::session session = tutti::session::create();
  moves(me, "session", session);
  session.free();
  world.barrier();
}

static void windows_after_an_exception(Player &me) {
  const comm world = copy_of_world(me);
  const char *words = "exception|tutti::window";
  if (me.rank == 0) {
    throw_after(me, [&] { return tutti::window(world, 64); });
    throws(me, "the next call", TUTTI_ERR_ABORTED, words, [&] { world.barrier(); });
    return;
  }
  tutti::window window(world, 64);
  me.barrier();
  throws(me, "a barrier", TUTTI_ERR_ABORTED, words, [&] { world.barrier(); });
  throws(me, "free", TUTTI_ERR_ABORTED, words, [&] { window.free(); });
  me.check(!window, "free leaves a window after an error");
}

/* An object that is made and ended within a destructor that runs because of an exception ends in order. */
static void windows_within_an_exception(Player &me) {
  const comm world = copy_of_world(me);
  struct Last {
    const comm &world;
    ~Last() { tutti::window(world, 64).part<char>(0)[0] = 1; }
  };
  try {
    const Last last{world};
    throw std::runtime_error("thrown by the test");
  } catch (const std::runtime_error &) {}
  world.barrier(); /* the communicator has not failed */
}

/* ---- meshes ---- */

static void meshes(Player &me) {
  tutti::mesh mesh;
  {
    const comm world = copy_of_world(me);
    const uint32_t rows = me.ranks == 4 ? 2 : 1, cols = world.ranks() / rows;
    throws(me, "extents", TUTTI_ERR_ARGUMENT, "tutti_mesh_create", [&] { tutti::mesh(world, {world.ranks() + 1}); });
    mesh = tutti::mesh(world, {rows, cols});
  } /* the mesh needs its communicator no longer */
  moves(me, "mesh", mesh);
  me.check(mesh.axes() == 2 && mesh.extent(0) * mesh.extent(1) == static_cast<uint32_t>(me.ranks), "extents");
  me.check(mesh.extent(2) == 0 && !mesh.line(2), "an axis that does not exist");
  const tutti::comm_view line = mesh.line(1);
  const int cols = static_cast<int>(mesh.extent(1)), first = me.rank / cols * cols;
  me.check(line.allreduce(me.rank, op::sum) == first * cols + cols * (cols - 1) / 2, "a sum along a line");
  mesh.free();
  me.check(!mesh, "free leaves a mesh");
}

/* Reshards along both axes at once, which uses the communicator of the plane. */
static tutti_err reshard_plane(const tutti::mesh &mesh, float *data) {
  const size_t shape[1] = {16};
  const tutti_tensor_of of = {data, TUTTI_F32, 1, shape};
  const tutti_spread partial[2] = {{TUTTI_PARTIAL, 0, TUTTI_SUM}, {TUTTI_PARTIAL, 0, TUTTI_SUM}}, whole[2] = {};
  tutti_mesh_tensor from{}, to{};
  tutti::check(tutti_mesh_tensor_strided(&from, mesh.get(), of, partial));
  tutti::check(tutti_mesh_tensor_strided(&to, mesh.get(), of, whole));
  return tutti_reshard(&from, &to);
}

static void meshes_after_an_exception(Player &me) {
  const comm world = copy_of_world(me);
  const uint32_t rows = me.ranks == 4 ? 2 : 1, cols = world.ranks() / rows;
  const auto make = [&] { return tutti::mesh(world, {rows, cols}); };
  float data[16] = {};
  {
    const tutti::mesh mesh = make();
    data[3] = 1;
    tutti::check(reshard_plane(mesh, data));
    me.check(data[3] == static_cast<float>(me.ranks), "reshard: %g", static_cast<double>(data[3]));
  }
  if (me.rank == 0) {
    throw_after(me, make);
  } else {
    const tutti::mesh mesh = make();
    me.barrier();
    const tutti_err err = reshard_plane(mesh, data);
    me.check(err == TUTTI_ERR_ABORTED || err == TUTTI_ERR_ARGUMENT, "a call on a mesh that has failed: %s",
             tutti_err_name(err));
    throws(me, "a line", TUTTI_ERR_ABORTED, "exception|tutti::mesh", [&] { mesh.line(1).barrier(); });
  }
  world.barrier(); /* the communicator of which the mesh was made has not failed */
}

/* ---- channels ---- */

static void send_message(const tutti::channel &channel, int value, bool last) {
  void *slot = nullptr;
  tutti::check(tutti_channel_acquire(channel.get(), 20000, &slot));
  std::memcpy(slot, &value, sizeof value);
  tutti::check(tutti_channel_commit(channel.get(), sizeof value, last));
}

static int receive_message(const tutti::channel &channel) {
  tutti_channel_message message;
  int value = -1;
  tutti::check(tutti_channel_peek(channel.get(), 0, 20000, &message));
  std::memcpy(&value, message.data, sizeof value);
  tutti::check(tutti_channel_release(channel.get()));
  return value;
}

static void channels(Player &me) {
  const comm world = copy_of_world(me);
  if (me.ranks == 1) {
    throws(me, "to itself", TUTTI_ERR_ARGUMENT, "channel|rank 0",
           [&] { tutti::channel(world, 0, TUTTI_CHANNEL_SENDS); });
    return;
  }
  tutti::channel_options options;
  options.slots = 3;
  options.timeout_ms = 20000;
  if (me.rank < 2) { /* one channel, from rank 0 to rank 1 */
    tutti::channel one(world, 1 - me.rank, me.rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES, options);
    moves(me, "channel", one);
    throws(me, "close", TUTTI_ERR_ARGUMENT, "stream|not over", [&] { one.close(); });
    me.check(static_cast<bool>(one), "a close that is refused loses the channel");
    if (me.rank == 0) send_message(one, 17, true);
    else me.check(receive_message(one) == 17, "a message");
    one.close(20000);
    me.check(!one, "close leaves a channel");
  }
  tutti::channel_builder builder(world, options);
  moves(me, "channel_builder", builder);
  const size_t to = me.rank == 0 ? builder.add_sender(me.after()) : builder.add_receiver(me.after(-1));
  const size_t from = me.rank == 0 ? builder.add_receiver(me.after(-1)) : builder.add_sender(me.after());
  std::vector<tutti::channel> ends = builder.build();
  const size_t out = me.rank == 0 ? to : from, in = me.rank == 0 ? from : to;
  send_message(ends[out], me.rank, true);
  me.check(receive_message(ends[in]) == me.after(-1), "a message round the ring");
  ends.clear(); /* the destructors wait for the release of the slots */
  world.barrier();
}

static void channels_before_their_end(Player &me) {
  if (me.ranks == 1) return;
  const char *words = "tutti::channel|stream";
  const auto open = [&](const comm &world) {
    if (me.rank > 1) return tutti::channel();
    return tutti::channel(world, 1 - me.rank, me.rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES);
  };
  for (const bool by_exception : {false, true}) {
    const comm world = copy_of_world(me);
    if (me.rank == 0 && by_exception) {
      throw_after(me, [&] { /* the stream is over, but rank 1 does not release the slot */
                            tutti::channel made = open(world);
                            send_message(made, 1, true);
                            return made;
      });
    } else {
      tutti::channel channel = open(world);
      me.barrier();
      if (me.rank == 0) channel = tutti::channel(); /* the end of a channel whose stream is not over */
      throws(me, "a barrier", TUTTI_ERR_ABORTED, words, [&] { world.barrier(); });
    }
    throws(me, "a barrier", TUTTI_ERR_ABORTED, words, [&] { world.barrier(); });
  }
  const comm world = copy_of_world(me);
  tutti::channel channel = open(world);
  me.barrier();
  world.abort("enough");
  if (channel) throws(me, "close", TUTTI_ERR_ABORTED, "enough", [&] { channel.close(); });
  me.check(!channel, "close leaves a channel of a failed communicator");
}

/* ---- registered memory, clusters ---- */

static void registrations(Player &me) {
  const comm world = copy_of_world(me);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = 4 * page;
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(page, bytes), &std::free);
  const tutti::span<int> x(static_cast<int *>(memory.get()), bytes / sizeof(int));
  for (int &each : x) each = 1;
  for (int round = 0; round < 2; round++) {
    tutti::registration first(world, memory.get(), bytes);
    throws(me, "twice", TUTTI_ERR_ARGUMENT, "tutti_register", [&] { tutti::registration(world, memory.get(), bytes); });
    tutti::registration moved(std::move(first)), none;
    me.check(!first && moved, "move constructor");
    none = std::move(moved);
    me.check(!moved && none, "move assignment");
    if (round == 0) {
      world.allreduce(x, op::sum);
      me.check(x[0] == me.ranks && x[x.size() - 1] == me.ranks, "a sum in registered memory");
      world.barrier();
      none.free();
      me.check(!none, "free leaves a registration");
      none.free();
    }
  }
  tutti::check(tutti_register(world.get(), memory.get(), bytes)); /* the destructor has deregistered it */
  tutti::check(tutti_deregister(world.get(), memory.get()));
  throws(me, "no pages", TUTTI_ERR_ARGUMENT, "tutti_register",
         [&] { tutti::registration(world, static_cast<char *>(memory.get()) + 1, 5); });
  tutti::memory<int> kept(world, 4);
  me.good(tutti_free(world.get(), kept.data()));
  throws(me, "memory that is freed already", TUTTI_ERR_ARGUMENT, "tutti_free", [&] { kept.free(); });
}

static void clusters(Player &me) {
  tutti::cluster pair = tutti::cluster::load("n300");
  moves(me, "cluster", pair);
  me.check(pair.chips() == 2, "n300 has %u chips", pair.chips());
  me.check(tutti::cluster::load("ring:8", "none").chips() == 8, "a ring of 8 chips");
  throws(me, "cluster", TUTTI_ERR_ARGUMENT, "no-such", [] { (void)tutti::cluster::load("ring:8", "no-such"); });
  throws(me, "soc", TUTTI_ERR_SYSTEM, "no such file", [] { (void)tutti::soc::load("/no such file"); });
  me.check(tutti::soc().channels() == 0, "an empty soc");
}

int main(int argc, char **argv) {
  const std::pair<const char *, void (*)(Player &)> tests[] = {
      {"persistent requests", persistent_requests},
      {"waits", waits},
      {"checks", checks},
      {"plans", plans},
      {"windows", windows},
      {"windows after an exception", windows_after_an_exception},
      {"windows within an exception", windows_within_an_exception},
      {"meshes", meshes},
      {"meshes after an exception", meshes_after_an_exception},
      {"channels", channels},
      {"channels before their end", channels_before_their_end},
      {"registrations", registrations},
      {"clusters", clusters},
  };
  std::vector<Case> cases;
  for (int ranks = 1; ranks <= 4; ranks++)
    for (const auto &[name, run] : tests) cases.push_back({name, ranks, run, {}});
  return run_cases(cases, argc, argv);
}
