/* test: slow timeout=600 */
/* stopped_test.c: a rank is stopped (SIGSTOP) while it moves data into another rank's memory. The other rank gives up,
 * frees the communicator and its buffers, and uses the memory again. When the stopped rank continues, its late writes
 * must not hit memory in use. After it has freed its side, too, all memory can be used again. */
#include <string.h>
#include <tutti/channel.h>
#include <tutti/window.h>

#include "comm/comm.h"
#include "ranks.h"
#include "test.h"

enum { BYTES = 32 << 20, SMALL = 1 << 16, CALL_MS = 150, ROUNDS = 4, STOP_US = 100000 };

/* Way in which data moves when rank 1 is stopped and rank 0 gives up. */
struct road {
  const char *name;
  size_t bytes;
  bool heap; /* rank 0's buffer is from tutti_alloc */
  bool window;
  /* Moves data between rank 1 and rank 0 again and again, until both get an error. */
  void (*move)(const struct road *road, tutti_comm *comm, uint32_t rank, unsigned char *buffer, tutti_window *window);
};

static void store(const struct road *road, tutti_comm *comm, uint32_t rank, unsigned char *buffer,
                  tutti_window *window) {
  (void)window;
  tutti_err err;
  do err = tutti_broadcast(comm, buffer, road->bytes, TUTTI_U8, 1);
  while (err == TUTTI_OK);
  (void)rank;
}

static void fetch(const struct road *road, tutti_comm *comm, uint32_t rank, unsigned char *buffer,
                  tutti_window *window) {
  (void)rank, (void)window;
  tutti_err err;
  do err = tutti_broadcast(comm, buffer, road->bytes, TUTTI_U8, 0);
  while (err == TUTTI_OK);
}

static void gather(const struct road *road, tutti_comm *comm, uint32_t rank, unsigned char *buffer,
                   tutti_window *window) {
  (void)window;
  unsigned char *mine = malloc(road->bytes);
  tutti_err err;
  if (!mine) abort();
  memset(mine, (int)rank + 1, road->bytes);
  do err = tutti_allgather(comm, mine, buffer, road->bytes / 2, TUTTI_U8);
  while (err == TUTTI_OK);
  free(mine);
}

static void put(const struct road *road, tutti_comm *comm, uint32_t rank, unsigned char *buffer, tutti_window *window) {
  (void)buffer;
  const size_t shape[] = {road->bytes};
  unsigned char *mine = rank == 1 ? malloc(road->bytes) : NULL;
  tutti_tensor to, from;
  tutti_err err = TUTTI_OK;
  if (rank == 1 && !mine) abort();
  if (mine) {
    memset(mine, 7, road->bytes);
    const tutti_tensor_of there = {tutti_window_address(window, 0), TUTTI_U8, 1, shape},
                          here = {mine, TUTTI_U8, 1, shape};
    if (tutti_tensor_strided(&to, there, NULL) != TUTTI_OK || tutti_tensor_strided(&from, here, NULL) != TUTTI_OK)
      abort();
  }
  while (err == TUTTI_OK) err = mine ? tutti_put(&from, &to, NULL, NULL) : tutti_barrier(comm);
  free(mine);
}

static void stream(const struct road *road, tutti_comm *comm, uint32_t rank, unsigned char *buffer,
                   tutti_window *window) {
  (void)buffer, (void)window;
  tutti_channel *channel;
  const tutti_channel_options options = {.slots = 4, .slot_bytes = road->bytes / 4, .timeout_ms = 5000};
  const size_t bytes = road->bytes / 4;
  tutti_channel_direction direction = rank == 1 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  tutti_err err = tutti_channel_open(comm, 1 - rank, direction, &options, &channel);
  while (err == TUTTI_OK) {
    void *slot;
    tutti_channel_message message;
    if (rank == 1) err = tutti_channel_acquire(channel, 5000, &slot);
    if (rank == 1 && err == TUTTI_OK) memset(slot, 9, bytes);
    if (rank == 1 && err == TUTTI_OK) err = tutti_channel_commit(channel, bytes, false);
    if (rank == 0) err = tutti_channel_peek(channel, 0, CALL_MS, &message);
    if (rank == 0 && err == TUTTI_OK) err = tutti_channel_release(channel);
  }
  if (rank == 0) tutti_abort(comm, "abort of an endless stream");
  (void)!tutti_channel_close(channel, 100);
}

static const struct road roads[] = {
    {"stored", BYTES, .heap = true, .move = store},
    {"lent", BYTES, .heap = true, .move = fetch},
    {"staged", BYTES, .move = store},
    {"cast", SMALL, .move = gather},
    {"gathered", BYTES, .heap = true, .move = gather},
    {"window", BYTES, .heap = true, .window = true, .move = put},
    {"stream", BYTES, .move = stream},
};

/* ---- one rank ---- */

static bool is_all(const unsigned char *memory, size_t bytes, unsigned char value) {
  return bytes == 0 || (memory[0] == value && memcmp(memory, memory + 1, bytes - 1) == 0);
}

static bool any_held(const struct tu_transport *t) {
  for (const struct tu_range *range = t->ranges; range; range = range->next)
    if (range->held) return true;
  return false;
}

static void await_stage(const struct ranks_world *w, uint32_t rank, uint32_t stage) {
  while (w->shared->rank[rank].stage < stage) ranks_sleep_us(200);
}

/* Uses rank 0's memory again, from the failure until rank 1 has ended, too. */
static int use_again(struct ranks_world *w, tutti_comm *world, const struct road *road, unsigned char *old) {
  enum { BLOCKS = 3 };
  void *blocks[BLOCKS];
  /* Makes late writes visible: the old buffer is still mapped, and held if rank 1 may write to it. */
  if (old) memset(old, 0x5a, road->bytes);
  for (int i = 0; i < BLOCKS; i++) {
    if (tutti_alloc(world, road->bytes, &blocks[i]) != TUTTI_OK) return 10;
    memset(blocks[i], 0xa5, road->bytes);
  }
  w->shared->rank[0].stage = 2;
  await_stage(w, 1, 2);
  for (int i = 0; i < BLOCKS; i++)
    if (!is_all(blocks[i], road->bytes, 0xa5)) return 11;
  bool late = old && !is_all(old, road->bytes, 0x5a);
  for (int i = 0; i < BLOCKS; i++)
    late &= blocks[i] != (void *)old; /* false if the old buffer was not held and is allocated again */
  if (late) w->shared->numbers[0]++;
  for (int i = 0; i < BLOCKS; i++)
    if (tutti_free(world, blocks[i]) != TUTTI_OK) return 12;
  return any_held(world->transport) ? 13 : 0;
}

static int body(struct ranks_world *w, uint32_t rank) {
  const struct road *road = w->context;
  tutti_comm *world, *comm;
  tutti_window *window = NULL;
  void *buffer = NULL;
  if (tutti_init(NULL, &world) != TUTTI_OK || tutti_comm_dup(world, &comm) != TUTTI_OK) return 1;
  if (road->heap && tutti_alloc(world, road->bytes, &buffer) != TUTTI_OK) return 2;
  if (!road->heap && !(buffer = malloc(road->bytes))) return 3;
  memset(buffer, (int)rank, road->bytes);
  if (road->window && tutti_window_create(comm, buffer, road->bytes, &window) != TUTTI_OK) return 4;
  if (tutti_barrier(comm) != TUTTI_OK) return 5;
  if (rank == 0) (void)!tutti_comm_set_timeout(comm, CALL_MS);
  w->shared->rank[rank].stage = 1;
  road->move(road, comm, rank, buffer, window);
  (void)!tutti_window_free(window);
  (void)!tutti_comm_free(comm);
  if (road->heap && tutti_free(world, buffer) != TUTTI_OK) return 6;
  if (!road->heap) free(buffer);
  int status = rank == 0 ? use_again(w, world, road, road->heap ? buffer : NULL) : 0;
  if (rank == 1) w->shared->rank[1].stage = 2;
  if (tutti_comm_free(world) != TUTTI_OK) return 7;
  return status;
}

/* ---- the test ---- */

static void play(const struct road *road, uint64_t *seed, uint64_t *late) {
  struct ranks_world w = {.context = road};
  ranks_start(&w, 2, body);
  await_stage(&w, 0, 1);
  await_stage(&w, 1, 1);
  ranks_sleep_us((unsigned)(ranks_random(seed) % STOP_US));
  kill(w.pids[1], SIGSTOP);
  for (int i = 0; i < 20000 && w.shared->rank[0].stage < 2; i++) ranks_sleep_us(1000);
  kill(w.pids[1], SIGCONT);
  CHECK(ranks_end(&w, 20000), "%s: hangs", road->name);
  for (uint32_t r = 0; r < 2; r++)
    CHECK(w.status[r] == 0, "%s: rank %u ended with %d", road->name, r, WEXITSTATUS(w.status[r]));
  *late += w.shared->numbers[0];
  ranks_fini(&w);
}

static void late_writes_hit_nothing(void) {
  uint64_t seed = test_seed();
  for (size_t i = 0; i < sizeof roads / sizeof roads[0]; i++) {
    uint64_t late = 0;
    uint32_t rounds = test_long() ? 50 * ROUNDS : ROUNDS;
    for (uint32_t k = 0; k < rounds; k++) play(&roads[i], &seed, &late);
    printf("  %s: stopped %u times; wrote late into freed memory in %llu of them\n", roads[i].name, rounds,
           (unsigned long long)late);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"late_writes_hit_nothing", late_writes_hit_nothing}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
