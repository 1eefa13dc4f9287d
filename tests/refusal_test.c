/* test: fast timeout=300 */
/* refusal_test.c: failed allocations. Round n refuses the n-th allocation of a scene, for every n. The call that needs
 * it returns TUTTI_ERR_MEMORY, or succeeds with correct data. The other ranks get the verdict; no rank hangs, ends or
 * leaks memory, and communicators can be freed. The C library's allocator is wrapped when this program is linked
 * (--wrap, see cmake/tests.cmake), so the library needs no hooks. LeakSanitizer finds the leaks. */
#include <pthread.h>
#include <stdatomic.h>
#include <tutti/channel.h>
#include <tutti/mesh.h>
#include <tutti/tensor.h>
#include <tutti/topology.h>
#include <tutti/window.h>

#include "api/comm_create.h"
#include "comm/failure.h"
#include "comm/patience.h"
#include "test.h"
#include "transport/transport.h"

/* ---- the allocator ---- */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

/* of the thread whose allocation is refused: number of allocations up to that one; 0: none is refused */
static _Thread_local uint64_t left;
static _Thread_local bool refused;

static bool refuses(void) {
  if (left == 0 || --left > 0) return false;
  refused = true;
  return true;
}

void *__wrap_malloc(size_t bytes) { return refuses() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) { return refuses() ? NULL : __real_calloc(count, bytes); }
void *__wrap_realloc(void *memory, size_t bytes) { return refuses() ? NULL : __real_realloc(memory, bytes); }
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return refuses() ? NULL : __real_aligned_alloc(alignment, bytes);
}

/* ---- scenes ---- */

enum { RANKS = 4, COUNT = 48, JOIN_MS = 20000, CALL_MS = 20000, SLICE = 64 << 20 };

struct rank {
  tutti_comm *comm;
  uint32_t rank;
  bool victim, went_wrong;
  const struct scene *scene;
  struct tu_transport *endpoint;
  uint64_t n;
  bool refused;
};

struct scene {
  const char *name;
  void (*play)(struct rank *r);
};

/* Returns true if the call succeeded. While an allocation of some rank is refused, only the errors TUTTI_ERR_MEMORY,
 * TUTTI_ERR_PEER and TUTTI_ERR_ABORTED are allowed. */
static bool allowed(struct rank *r, tutti_err err, const char *what) {
  if (err == TUTTI_OK) return true;
  if (err != TUTTI_ERR_MEMORY && err != TUTTI_ERR_PEER && err != TUTTI_ERR_ABORTED) {
    r->went_wrong = true;
    printf("  %s: rank %u%s, allocation %llu: %s: %s: %s\n", r->scene->name, r->rank, r->victim ? ", refused" : "",
           (unsigned long long)r->n, what, tutti_err_name(err), tutti_error_message(NULL));
  }
  return false;
}

static void expect(struct rank *r, bool right, const char *what) {
  if (right) return;
  r->went_wrong = true;
  printf("  %s: rank %u, allocation %llu: %s: wrong data\n", r->scene->name, r->rank, (unsigned long long)r->n, what);
}

static bool sums(struct rank *r, tutti_comm *comm, const char *algorithm) {
  float in[COUNT], out[COUNT] = {0};
  uint32_t ranks = tutti_ranks(comm);
  for (int i = 0; i < COUNT; i++) in[i] = (float)(i + 1);
  const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                           .send = in,
                           .recv = out,
                           .count = COUNT,
                           .type = TUTTI_F32,
                           .algorithm = algorithm};
  tutti_request *request = NULL;
  tutti_err err = tutti_start(comm, &call, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (!allowed(r, err, algorithm ? algorithm : "allreduce")) return false;
  for (int i = 0; i < COUNT; i++) expect(r, out[i] == (float)((uint32_t)(i + 1) * ranks), "allreduce");
  return true;
}

static void play_algorithms(struct rank *r) {
  static const char *const names[] = {NULL,           "direct",          "swing",
                                      "rabenseifner", "rs:pat+ag:bruck", "re:binomial/2+ar:ring+bc:binomial/2"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (!sums(r, r->comm, names[i])) return;
  for (int i = 0; i < 3; i++) { /* the second and third call take the fast path */
    float in = 2, out = 0;
    if (!allowed(r, tutti_allreduce(r->comm, &in, &out, 1, TUTTI_F32, TUTTI_SUM), "short")) return;
    expect(r, out == 2 * RANKS, "short");
  }
}

static void play_vectors(struct rank *r) {
  uint32_t in[RANKS] = {0}, out[RANKS * (RANKS + 1)] = {0};
  size_t counts[RANKS], displacements[RANKS], at = 0;
  for (uint32_t i = 0; i < RANKS; i++) {
    counts[i] = i + 1;
    displacements[i] = at;
    at += i + 1;
    in[i] = r->rank * 10 + i;
  }
  const tutti_call call = {.collective = TUTTI_ALLGATHERV,
                           .send = in,
                           .recv = out,
                           .count = r->rank + 1,
                           .counts = counts,
                           .offsets = displacements,
                           .type = TUTTI_U32};
  tutti_request *request = NULL;
  tutti_err err = tutti_start(r->comm, &call, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (!allowed(r, err, "allgatherv")) return;
  for (uint32_t i = 0; i < RANKS; i++)
    for (uint32_t k = 0; k <= i; k++) expect(r, out[displacements[i] + k] == i * 10 + k, "allgatherv");
}

/* Receives in another order than sent, so that the first message is set aside. */
static void play_messages(struct rank *r) {
  enum { LONG = 4000 };
  static _Thread_local uint32_t a[LONG], b[LONG];
  uint32_t to = (r->rank + 1) % RANKS, from = (r->rank + RANKS - 1) % RANKS;
  for (uint32_t i = 0; i < LONG; i++) a[i] = r->rank + i;
  tutti_request *sent[2] = {NULL, NULL};
  bool good = true;
  for (uint32_t t = 0; t < 2; t++) {
    const tutti_call call = {
        .collective = TUTTI_SEND, .send = a, .count = LONG, .type = TUTTI_U32, .peer = to, .tag = t};
    good = good && allowed(r, tutti_start(r->comm, &call, &sent[t]), "send");
  }
  for (uint32_t t = 2; t-- > 0 && good;) {
    good = allowed(r, tutti_recv(r->comm, b, LONG, TUTTI_U32, from, t), "recv");
    for (uint32_t i = 0; i < LONG && good; i++) expect(r, b[i] == from + i, "recv");
  }
  for (uint32_t t = 0; t < 2; t++)
    if (sent[t]) (void)allowed(r, tutti_wait(&sent[t]), "sent");
}

static void play_tensors(struct rank *r) {
  float in[16 * 8], out[16 * 8 * RANKS] = {0};
  for (int i = 0; i < 16 * 8; i++) in[i] = (float)(i + (int)r->rank * 1000);
  const size_t shape[] = {16, 8}, whole[] = {16, 8 * RANKS};
  tutti_tensor from, to;
  const tutti_tiles tiles = {4, 4, 0, 0};
  if (!allowed(r,
               tutti_tensor_interleaved(
                   &from, (tutti_tensor_of){.data = in, .type = TUTTI_F32, .dims = 2, .shape = shape}, &tiles, 1),
               "tensor") ||
      !allowed(
          r,
          tutti_tensor_strided(&to, (tutti_tensor_of){.data = out, .type = TUTTI_F32, .dims = 2, .shape = whole}, NULL),
          "tensor"))
    return;
  const tutti_call call = {.collective = TUTTI_ALLGATHER, .in = &from, .out = &to, .dim = 1};
  tutti_request *request = NULL;
  tutti_err err = tutti_start(r->comm, &call, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (!allowed(r, err, "allgather of tensors")) return;
  for (int rank = 0; rank < RANKS; rank++) expect(r, out[rank * 8] == (float)(rank * 1000), "allgather of tensors");
}

static void play_communicators(struct rank *r) {
  tutti_comm *half = NULL, *copy = NULL, *self = NULL;
  if (allowed(r, tutti_comm_split(r->comm, (int)r->rank % 2, (int)r->rank, &half), "split")) (void)sums(r, half, NULL);
  if (half) (void)allowed(r, tutti_comm_free(half), "free of the half");
  if (allowed(r, tutti_comm_dup(r->comm, &copy), "dup")) (void)sums(r, copy, "ring");
  if (copy) (void)allowed(r, tutti_comm_free(copy), "free of the copy");
  if (allowed(r, tutti_comm_self(r->comm, &self), "self")) (void)sums(r, self, NULL);
  if (self) (void)allowed(r, tutti_comm_free(self), "free of self");
}

static void play_windows(struct rank *r) {
  tutti_window *window = NULL;
  void *memory = NULL;
  if (!allowed(r, tutti_alloc(r->comm, 8192, &memory), "alloc")) return;
  if (allowed(r, tutti_window_create(r->comm, memory, 8192, &window), "window"))
    expect(r, tutti_window_bytes(window, (r->rank + 1) % RANKS) == 8192, "window");
  (void)allowed(r, tutti_window_free(window), "free of the window");
  (void)allowed(r, tutti_free(r->comm, memory), "free");
}

static void play_channels(struct rank *r) {
  uint32_t to = (r->rank + 1) % RANKS, from = (r->rank + RANKS - 1) % RANKS, index[2];
  tutti_channel_builder *b = NULL;
  tutti_channel *channels[2] = {NULL, NULL};
  if (!allowed(r, tutti_channel_builder_create(r->comm, NULL, &b), "builder")) return;
  if (allowed(r, tutti_channel_add_sender(b, to, 0, &index[0]), "sender") &&
      allowed(r, tutti_channel_add_receiver(b, from, 0, &index[1]), "receiver"))
    (void)allowed(r, tutti_channel_build(b, channels), "build");
  tutti_channel_builder_free(b);
  if (channels[0]) (void)allowed(r, tutti_barrier(r->comm), "all have channels");
  tutti_abort(r->comm, "abort with open streams"); /* so that no rank waits for the end of the streams */
  for (int i = 0; i < 2; i++)
    if (channels[i]) (void)!tutti_channel_close(channels[i], 1000);
}

static void play_mesh(struct rank *r) {
  const uint32_t extents[] = {2, 2};
  const size_t shape[] = {8, 8};
  tutti_mesh *mesh = NULL;
  float mine[64], other[64];
  for (int i = 0; i < 64; i++) mine[i] = (float)i;
  if (!allowed(r, tutti_mesh_create(r->comm, 2, extents, &mesh), "mesh")) return;
  const tutti_spread cut[] = {{.kind = TUTTI_SHARDED, .dim = 0}, {.kind = TUTTI_SHARDED, .dim = 1}},
                     turned[] = {{.kind = TUTTI_SHARDED, .dim = 1}, {.kind = TUTTI_REPLICATED}};
  tutti_mesh_tensor from, to;
  const tutti_tensor_of of = {.type = TUTTI_F32, .dims = 2, .shape = shape};
  tutti_tensor_of mine_of = of, other_of = of;
  mine_of.data = mine;
  other_of.data = other;
  if (allowed(r, tutti_mesh_tensor_strided(&from, mesh, mine_of, cut), "tensor of a mesh") &&
      allowed(r, tutti_mesh_tensor_strided(&to, mesh, other_of, turned), "tensor of a mesh"))
    (void)allowed(r, tutti_reshard(&from, &to), "reshard");
  (void)allowed(r, tutti_mesh_free(mesh), "free of the mesh");
}

/* ---- files, by one rank ---- */

static void play_files(struct rank *r) {
  char text[512];
  snprintf(text, sizeof text, "%s/ring.plan", getenv("REFUSAL_DIR"));
  const char *const plans[] = {text, SOURCE_DIR "/tests/fuzz_seeds/msccl/allgather_ring_4.xml"};
  for (int i = 0; i < 2; i++) {
    tutti_plan *plan = NULL;
    if (allowed(r, tutti_plan_load(plans[i], &plan), plans[i])) tutti_plan_free(plan);
  }
  static const char *const clusters[] = {"t3000", "galaxy-torus", "fat-tree:4x3", "hosts:4x4", NULL};
  for (int i = 0; i < 5; i++) {
    char path[512];
    tutti_cluster *cluster = NULL;
    snprintf(path, sizeof path, "%s/cluster.yaml", getenv("REFUSAL_DIR"));
    const char *what = clusters[i] ? clusters[i] : path;
    if (allowed(r, tutti_cluster_load(what, NULL, &cluster), what)) expect(r, tutti_cluster_chips(cluster) > 1, what);
    tutti_cluster_free(cluster);
  }
}

/* ---- the ranks ---- */

static void *act(void *argument) {
  struct rank *r = argument;
  uint32_t members[RANKS];
  struct tu_error error = {0};
  for (uint32_t i = 0; i < RANKS; i++) members[i] = i;
  refused = false;
  left = r->victim ? r->n : 0;
  tutti_err err = tu_comm_create(r->endpoint, members, RANKS, r->rank, TU_WORLD_ID, JOIN_MS, &r->comm, &error);
  if (err != TUTTI_OK) (void)tu_thread_error(&error);
  if (allowed(r, err, "world")) {
    (void)!tutti_comm_set_timeout(r->comm, CALL_MS);
    r->scene->play(r);
    left = 0;
    (void)allowed(r, tutti_comm_free(r->comm), "free of the world");
  }
  left = 0;
  r->refused = refused;
  return NULL;
}

/* Runs the scene with the n-th allocation of one rank refused; returns false if the rank makes fewer. */
static bool perform(const struct scene *scene, uint32_t victim, uint64_t n) {
  struct rank ranks[RANKS];
  pthread_t threads[RANKS];
  struct tu_transport *endpoints[RANKS];
  struct tu_error error = {0};
  if (tu_loop_create(RANKS, SLICE, endpoints, &error) != TUTTI_OK) abort();
  for (uint32_t i = 0; i < RANKS; i++) {
    ranks[i] = (struct rank){.rank = i, .victim = i == victim, .scene = scene, .endpoint = endpoints[i], .n = n};
    if (pthread_create(&threads[i], NULL, act, &ranks[i]) != 0) abort();
  }
  bool wrong = false;
  for (uint32_t i = 0; i < RANKS; i++) {
    pthread_join(threads[i], NULL);
    wrong |= ranks[i].went_wrong;
  }
  if (wrong) FAIL("%s: allocation %llu of rank %u", scene->name, (unsigned long long)n, victim);
  return ranks[victim].refused;
}

static void sweep(const struct scene *scene) {
  uint64_t refusals = 0;
  for (uint64_t n = 1; test_failures < 5 && perform(scene, (uint32_t)(n % RANKS), n); n++) refusals++;
  CHECK(refusals > 2, "%s: refused only %llu allocations", scene->name, (unsigned long long)refusals);
  printf("  %s: %llu allocations refused, one at a time\n", scene->name, (unsigned long long)refusals);
}

static void sweep_alone(const struct scene *scene) {
  uint64_t n = 0, refusals = 0;
  for (bool more = true; more && test_failures < 5; refusals += more) {
    struct rank r = {.victim = true, .scene = scene, .n = ++n};
    refused = false;
    left = n;
    scene->play(&r);
    left = 0;
    more = refused;
    if (r.went_wrong) FAIL("%s: allocation %llu", scene->name, (unsigned long long)n);
  }
  printf("  %s: %llu allocations refused, one at a time\n", scene->name, (unsigned long long)refusals);
}

static void algorithms(void) { sweep(&(struct scene){"algorithms", play_algorithms}); }
static void vectors(void) { sweep(&(struct scene){"vectors", play_vectors}); }
static void messages(void) { sweep(&(struct scene){"messages", play_messages}); }
static void tensors(void) { sweep(&(struct scene){"tensors", play_tensors}); }
static void communicators(void) { sweep(&(struct scene){"communicators", play_communicators}); }
static void windows(void) { sweep(&(struct scene){"windows", play_windows}); }
static void channels(void) { sweep(&(struct scene){"channels", play_channels}); }
static void meshes(void) { sweep(&(struct scene){"meshes", play_mesh}); }

static void files(void) {
  char directory[] = "/tmp/refusal.XXXXXX", command[2048];
  if (!mkdtemp(directory)) abort();
  setenv("REFUSAL_DIR", directory, 1);
  snprintf(command, sizeof command,
           BUILD_DIR
           "/tutti plan allreduce.ring -n 4 >%s/ring.plan && "
           "printf 'arch: {0: wormhole_b0, 1: wormhole_b0, 2: wormhole_b0}\\nethernet_connections:\\n"
           "  - [{chip: 0, chan: 8}, {chip: 1, chan: 0}]\\n  - [{chip: 1, chan: 8}, {chip: 2, chan: 0}]\\n"
           "chips_with_mmio:\\n  - 0: 0\\n' >%s/cluster.yaml",
           directory, directory);
  if (system(command) != 0) FAIL("cannot write the files");
  sweep_alone(&(struct scene){"files", play_files});
  snprintf(command, sizeof command, "rm -r %s", directory);
  CHECK(system(command) == 0, "cannot clean up");
}

static const struct test tests[] = {
    {"algorithms", algorithms},
    {"vectors", vectors},
    {"messages", messages},
    {"tensors", tensors},
    {"communicators", communicators},
    {"windows", windows},
    {"channels", channels},
    {"meshes", meshes},
    {"files", files},
};

int main(int argc, char **argv) {
  setenv("TUTTI_SPIN_US", "-1", 1); /* waits sleep at once: a yield takes long if other programs use the cores */
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
