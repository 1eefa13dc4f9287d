/* program.c: a user's program, compiled with headers that differ from the current ones: frozen headers (tests/abi/0.1),
 * or the current headers with one more field at the end of each struct that may grow (GROWN). It runs with the current
 * library. With the argument "refused", the additional field is not zero, and each call must fail
 * with an error message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/channel.h>
#include <tutti/mesh.h>
#include <tutti/tensor.h>
#include <tutti/topology.h>
#include <tutti/tutti.h>
#include <tutti/window.h>

enum { RANKS = 2, COUNT = 6 };

static int failures;

static void check(bool good, const char *what) {
  if (good) return;
  failures++;
  fprintf(stderr, "program: %s: '%s'\n", what, tutti_error_message(NULL));
}

#if defined(GROWN)
#define GROW(s) (s).grown = grown
static uint64_t grown;
#else
#define GROW(s) (void)(s)
#endif

static tutti_call sum_of(const float *in, float *out) {
  tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = COUNT, .type = TUTTI_F32};
  GROW(call);
  return call;
}

/* ---- calls ---- */

static bool is_sum(const float *out) {
  for (int i = 0; i < COUNT; i++)
    if (out[i] != 2 * i + 1) return false;
  return true;
}

static void run_calls(tutti_comm *world, const float *in) {
  float out[COUNT] = {0}, outs[2][COUNT] = {{0}};
  tutti_request *request = NULL;
  const tutti_call call = sum_of(in, out);
  for (int i = 0; i < 3; i++) check(tutti_run_call(world, &call) == TUTTI_OK && is_sum(out), "tutti_run_call");
  memset(out, 0, sizeof out);
  check(tutti_start(world, &call, &request) == TUTTI_OK && tutti_wait(&request) == TUTTI_OK && is_sum(out),
        "tutti_start");
  const tutti_call calls[2] = {sum_of(in, outs[0]), sum_of(in, outs[1])};
  check(tutti_start_all(world, calls, 2, &request) == TUTTI_OK && tutti_wait(&request) == TUTTI_OK && is_sum(outs[0]) &&
            is_sum(outs[1]),
        "tutti_start_all");
  memset(out, 0, sizeof out);
  check(tutti_prepare(world, &call, &request) == TUTTI_OK && tutti_restart(request) == TUTTI_OK &&
            tutti_wait(&request) == TUTTI_OK && is_sum(out),
        "tutti_prepare");
  tutti_request_free(request);
  memset(out, 0, sizeof out);
  check(tutti_allreduce(world, in, out, COUNT, TUTTI_F32, TUTTI_SUM) == TUTTI_OK && is_sum(out), "tutti_allreduce");
  memset(out, 0, sizeof out);
  check(tutti_iallreduce(world, in, out, COUNT, TUTTI_F32, TUTTI_SUM, &request) == TUTTI_OK &&
            tutti_wait(&request) == TUTTI_OK && is_sum(out),
        "tutti_iallreduce");
  const size_t counts[RANKS] = {COUNT, COUNT};
  float both[RANKS * COUNT];
  check(tutti_allgatherv(world, in, both, counts, NULL, TUTTI_F32) == TUTTI_OK && both[COUNT + 1] == 2,
        "tutti_allgatherv");
}

/* ---- tensors ---- */

static tutti_tensor rows_of(float *data, size_t rows) {
  tutti_tensor tensor;
  const size_t shape[2] = {rows, 3};
  check(tutti_tensor_strided(&tensor, (tutti_tensor_of){data, TUTTI_F32, 2, shape}, NULL) == TUTTI_OK,
        "tutti_tensor_strided");
  GROW(tensor);
  return tensor;
}

static void gather_tensors(tutti_comm *world, float *in) {
  float all[RANKS * COUNT] = {0};
  const tutti_tensor mine = rows_of(in, 2), whole = rows_of(all, 4);
  tutti_call call = {.collective = TUTTI_ALLGATHER, .in = &mine, .out = &whole};
  check(tutti_tensor_bytes(&mine) == COUNT * sizeof(float), "tutti_tensor_bytes");
  check(tutti_run_call(world, &call) == TUTTI_OK && all[COUNT + 2] == 3, "allgather of tensors");
}

static tutti_staging staging_of(float *tile) {
  tutti_staging staging = {.tiles = {tile}, .rows = 1, .cols = 3};
  GROW(staging);
  return staging;
}

static void reach_window(tutti_comm *world, float *in) {
  tutti_window *window;
  check(tutti_window_create(world, NULL, 4096, &window) == TUTTI_OK, "tutti_window_create");
  uint32_t rank = tutti_rank(world), next = (rank + 1) % RANKS;
  float *there = tutti_window_address(window, next), *here = tutti_window_address(window, rank);
  const tutti_tensor from = rows_of(in, 2), to = rows_of(there, 2);
  float tile[3] = {0};
  const tutti_staging staging = staging_of(tile);
  check(tutti_put(&from, &to, &staging, NULL) == TUTTI_OK, "tutti_put");
  check(tutti_barrier(world) == TUTTI_OK && here[1] == (float)(1 + next), "the put of the other rank");
  check(tutti_barrier(world) == TUTTI_OK, "tutti_barrier");
  if (rank == 0) {
    float sums[COUNT];
    const tutti_tensor tensors[RANKS] = {rows_of(here, 2), rows_of(there, 2)}, result = rows_of(sums, 2);
    const tutti_onesided_group group = {tensors, RANKS, 0};
    check(tutti_onesided_reduce(&group, &result, TUTTI_SUM, NULL, &staging, NULL) == TUTTI_OK && is_sum(sums),
          "tutti_onesided_reduce");
  }
  check(tutti_window_free(window) == TUTTI_OK, "tutti_window_free");
}

static void use_channel(tutti_comm *world) {
  tutti_channel *channel;
  tutti_channel_message message;
  void *slot;
  tutti_channel_options options = {.slots = 1, .slot_bytes = 64, .ending = TUTTI_CHANNEL_COUNTED, .messages = 1};
  options.link = 3, options.timeout_ms = 20000;
  GROW(options);
  bool sends = tutti_rank(world) == 0;
  tutti_channel_direction direction = sends ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  check(tutti_channel_open(world, sends, direction, &options, &channel) == TUTTI_OK, "tutti_channel_open");
  if (sends)
    check(tutti_channel_acquire(channel, 0, &slot) == TUTTI_OK && memcpy(slot, "hello", 6) &&
              tutti_channel_commit(channel, 6, false) == TUTTI_OK,
          "tutti_channel_commit");
  else
    check(tutti_channel_peek(channel, 0, 0, &message) == TUTTI_OK && message.bytes == 6 && message.last &&
              strcmp(message.data, "hello") == 0 && tutti_channel_release(channel) == TUTTI_OK,
          "tutti_channel_peek");
  check(tutti_channel_close(channel, 0) == TUTTI_OK, "tutti_channel_close");
}

static void reshard_mesh(tutti_comm *world, float *in) {
  tutti_mesh *mesh;
  const uint32_t extents[1] = {RANKS};
  const size_t shape[2] = {4, 3};
  float whole[RANKS * COUNT] = {0};
  const tutti_spread sharded = {TUTTI_SHARDED, 0, 0}, replicated = {.kind = TUTTI_REPLICATED};
  struct {
    tutti_mesh_tensor tensor;
    uint64_t guard;
  } from = {.guard = 7}, to = {.guard = 7};
  check(tutti_mesh_create(world, 1, extents, &mesh) == TUTTI_OK, "tutti_mesh_create");
  const tutti_tensor local = rows_of(in, 2);
  check(tutti_mesh_tensor_wrap(&from.tensor, mesh, 2, shape, &sharded, &local) == TUTTI_OK, "tutti_mesh_tensor_wrap");
  check(tutti_mesh_tensor_strided(&to.tensor, mesh, (tutti_tensor_of){whole, TUTTI_F32, 2, shape}, &replicated) ==
            TUTTI_OK,
        "tutti_mesh_tensor_strided");
  check(from.guard == 7 && to.guard == 7, "memory after a mesh tensor");
  check(tutti_reshard(&from.tensor, &to.tensor) == TUTTI_OK && whole[COUNT + 1] == 2, "tutti_reshard");
  check(tutti_mesh_free(mesh) == TUTTI_OK, "tutti_mesh_free");
}

/* ---- fields that the library does not know ---- */

#if defined(GROWN)
static void refused(tutti_err err, const char *function, const char *what) {
  const char *text = tutti_error_message(NULL);
  check(err == TUTTI_ERR_ARGUMENT && strstr(text, function) && strstr(text, "not zero"), what);
}

/* A tensor with an unknown field is refused by each kind of function that reads a tensor. */
static void refuse_tensors(float *in, float *out) {
  tutti_comm *world;
  tutti_mesh *mesh;
  tutti_mesh_tensor wrapped;
  const uint32_t extents[1] = {1};
  const size_t shape[2] = {2, 3};
  const tutti_spread replicated = {.kind = TUTTI_REPLICATED};
  check(tutti_init(NULL, &world) == TUTTI_OK && tutti_mesh_create(world, 1, extents, &mesh) == TUTTI_OK, "tutti_init");
  const tutti_tensor good = rows_of(out, 2);
  grown = 1;
  const tutti_tensor tensor = rows_of(in, 2);
  grown = 0;
  refused(tutti_tensor_to_f32(&tensor, out), "tutti_tensor_to_f32", "tutti_tensor_to_f32");
  check(tutti_tensor_bytes(&tensor) == 0, "tutti_tensor_bytes");
  const size_t index[TUTTI_DIMS] = {0};
  check(tutti_tensor_offset(&tensor, index) == SIZE_MAX, "tutti_tensor_offset");
  refused(tutti_put(&tensor, &good, NULL, NULL), "tutti_put", "tutti_put");
  refused(tutti_get(&good, &tensor, NULL, NULL), "tutti_get", "tutti_get");
  const tutti_onesided_group group = {&tensor, 1, 0};
  refused(tutti_onesided_gather(&group, &good, NULL, NULL), "tutti_onesided_gather", "tutti_onesided_gather");
  refused(tutti_mesh_tensor_wrap(&wrapped, mesh, 2, shape, &replicated, &tensor), "tutti_mesh_tensor_wrap",
          "tutti_mesh_tensor_wrap");
  check(tutti_mesh_tensor_wrap(&wrapped, mesh, 2, shape, &replicated, &good) == TUTTI_OK, "tutti_mesh_tensor_wrap");
  wrapped.local = tensor;
  refused(tutti_reshard(&wrapped, &wrapped), "tutti_reshard", "tutti_reshard");
  tutti_call call = {.collective = TUTTI_ALLREDUCE, .in = &tensor, .out = &good};
  refused(tutti_run_call(world, &call), "in", "tutti_run_call with a tensor");
  (void)!tutti_mesh_free(mesh); /* both have failed */
  (void)tutti_comm_free(world);
}

static void refuse_options(tutti_comm *world) {
  tutti_channel *channel;
  tutti_channel_builder *builder;
  tutti_channel_options options = {0};
  GROW(options);
  refused(tutti_channel_builder_create(world, &options, &builder), "tutti_channel_builder_create",
          "options of a builder");
  refused(tutti_channel_open(world, 0, TUTTI_CHANNEL_SENDS, &options, &channel), "tutti_channel_open",
          "options of a channel");
}

static void refuse_stagings(tutti_comm *world, float *out) {
  tutti_window *window;
  check(tutti_window_create(world, NULL, 4096, &window) == TUTTI_OK, "tutti_window_create");
  const tutti_tensor there = rows_of(tutti_window_address(window, 0), 2), here = rows_of(out, 2);
  const tutti_onesided_group group = {&there, 1, 0};
  float tile[3];
  grown = 1;
  const tutti_staging s = staging_of(tile);
  grown = 0;
  refused(tutti_put(&here, &there, &s, NULL), "tutti_put", "tutti_put with staging");
  refused(tutti_get(&there, &here, &s, NULL), "tutti_get", "tutti_get with staging");
  refused(tutti_put_add(&here, &there, &s, NULL), "tutti_put_add", "tutti_put_add with staging");
  refused(tutti_onesided_gather(&group, &here, &s, NULL), "tutti_onesided_gather", "gather with staging");
  refused(tutti_onesided_scatter(&group, &here, &s, NULL), "tutti_onesided_scatter", "scatter with staging");
  refused(tutti_onesided_broadcast(&group, &here, &s, NULL), "tutti_onesided_broadcast", "broadcast with staging");
  refused(tutti_onesided_reduce(&group, &here, TUTTI_SUM, NULL, &s, NULL), "tutti_onesided_reduce",
          "reduce with staging");
  check(tutti_window_free(window) == TUTTI_OK, "tutti_window_free");
}

static void refuse_all(float *in) {
  tutti_comm *world;
  tutti_options options = {0};
  tutti_request *request;
  float out[COUNT];
  grown = 1;
  GROW(options);
  refused(tutti_init(&options, &world), "tutti_init", "options with an unknown field");
  grown = 0;
  for (int i = 0; i < 4; i++) { /* each error fails its communicator, so each call gets a new one */
    check(tutti_init(NULL, &world) == TUTTI_OK, "tutti_init");
    grown = 1;
    const tutti_call call = sum_of(in, out);
    if (i == 0) refused(tutti_run_call(world, &call), "tutti_run_call", "tutti_run_call");
    if (i == 1) refused(tutti_start(world, &call, &request), "tutti_start", "tutti_start");
    if (i == 2) refused(tutti_start_all(world, &call, 1, &request), "tutti_start_all", "tutti_start_all");
    if (i == 3) refused(tutti_prepare(world, &call, &request), "tutti_prepare", "tutti_prepare");
    grown = 0;
    (void)tutti_comm_free(world);
  }
  refuse_tensors(in, out);
  check(tutti_init(NULL, &world) == TUTTI_OK, "tutti_init");
  grown = 1;
  refuse_options(world);
  grown = 0;
  refuse_stagings(world, in);
  check(tutti_comm_free(world) == TUTTI_OK, "tutti_comm_free");
}
#endif

int main(int argc, char **argv) {
  tutti_comm *world;
  float in[COUNT];
#if defined(GROWN)
  if (argc > 1 && strcmp(argv[1], "refused") == 0) {
    refuse_all(in);
    return failures > 0;
  }
#endif
  (void)argc, (void)argv;
  tutti_options options = {.timeout_ms = 20000};
  GROW(options);
  check(tutti_init(&options, &world) == TUTTI_OK && tutti_ranks(world) == RANKS, "tutti_init");
  if (failures) return 1;
  for (int i = 0; i < COUNT; i++) in[i] = (float)(i + (int)tutti_rank(world));
  run_calls(world, in);
  gather_tensors(world, in);
  reach_window(world, in);
  use_channel(world);
  reshard_mesh(world, in);
  check(tutti_comm_free(world) == TUTTI_OK, "tutti_comm_free");
  return failures > 0;
}
