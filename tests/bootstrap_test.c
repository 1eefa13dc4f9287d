/* test: fast timeout=120 */
/* bootstrap_test.c: worlds that are not described by the environment, but by an allgather of the program (here over
 * sockets), by a key-value store, or by rank, address and port in tutti_options. If a rank fails on the way, all ranks
 * must fail, and none may hang. */
#include <sys/resource.h>

#include "ranks.h"
#include "test.h"

enum { RANKS = 8, HANG_MS = 20000, KEYS = 512, VALUE_BYTES = 256 };

/* ---- an allgather over sockets, through rank 0 ---- */

static int hub[RANKS][2]; /* sockets between rank 0, which has hub[r][0], and rank r, which has hub[r][1] */

struct context {
  uint32_t rank;
  uint32_t calls;
  uint32_t dies_at, fails_at; /* number of the callback in which the rank dies or fails; UINT32_MAX: never */
  bool forks;                 /* forks in every callback a child that lives on with all descriptors */
};

static void leave_a_child(void) {
  pid_t pid = fork();
  if (pid != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ranks_sleep_us(HANG_MS * UINT64_C(1000));
  _exit(0);
}

static bool put(int fd, const void *data, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    ssize_t n = send(fd, (const char *)data + at, bytes - at, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += (size_t)n;
  }
  return true;
}
static bool get(int fd, void *data, size_t bytes) { return recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes; }

static bool through_hub(uint32_t rank, const void *mine, void *all, size_t bytes) {
  if (rank > 0) return put(hub[rank][1], mine, bytes) && get(hub[rank][1], all, RANKS * bytes);
  memcpy(all, mine, bytes);
  bool good = true;
  for (uint32_t r = 1; r < RANKS && good; r++) good = get(hub[r][0], (char *)all + r * bytes, bytes);
  for (uint32_t r = 1; r < RANKS && good; r++) good = put(hub[r][0], all, RANKS * bytes);
  return good;
}

static void hang_up(uint32_t rank) {
  for (uint32_t r = 1; r < RANKS; r++) {
    if (rank == 0) shutdown(hub[r][0], SHUT_RDWR);
    else if (rank == r) shutdown(hub[r][1], SHUT_RDWR);
  }
}

/* Allgather callback. After an error, it tells all ranks by closing the connection. */
static int allgather(void *context, const void *mine, void *all, size_t bytes) {
  struct context *c = context;
  uint32_t call = c->calls++;
  if (call == c->dies_at) raise(SIGKILL);
  if (c->forks) leave_a_child();
  if (call == c->fails_at || !through_hub(c->rank, mine, all, bytes)) {
    hang_up(c->rank);
    return 77;
  }
  return 0;
}

static void open_hub(void) {
  for (uint32_t r = 1; r < RANKS; r++)
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, hub[r]) != 0) abort();
}
/* Closes the sockets of other ranks, so that the death of a rank closes its sockets. */
static void keep_own_ends(uint32_t rank) {
  for (uint32_t r = 1; r < RANKS; r++) {
    if (rank > 0) close(hub[r][0]);
    if (rank != r) close(hub[r][1]);
  }
}
static void close_hub(void) {
  for (uint32_t r = 1; r < RANKS; r++) {
    close(hub[r][0]);
    close(hub[r][1]);
  }
}

/* ---- a key-value store in memory ---- */

struct store {
  _Atomic uint32_t count;
  struct {
    _Atomic uint32_t there;
    char key[64];
    unsigned char value[VALUE_BYTES];
    size_t bytes;
  } entries[KEYS];
};
static struct store *store;

static int store_set(void *context, const char *key, const void *value, size_t bytes) {
  uint32_t i = atomic_fetch_add(&store->count, 1);
  if (i >= KEYS || bytes > VALUE_BYTES || strlen(key) >= sizeof store->entries[i].key) return 1;
  (void)context;
  strcpy(store->entries[i].key, key);
  memcpy(store->entries[i].value, value, bytes);
  store->entries[i].bytes = bytes;
  atomic_store(&store->entries[i].there, 1);
  return 0;
}

static int store_get(void *context, const char *key, void *value, size_t bytes) {
  (void)context;
  for (uint64_t end = ranks_now_ms() + 3000; ranks_now_ms() < end; ranks_sleep_us(200))
    for (uint32_t i = 0; i < KEYS && atomic_load(&store->entries[i].there); i++) {
      if (strcmp(store->entries[i].key, key) != 0) continue;
      if (store->entries[i].bytes != bytes) return 2;
      memcpy(value, store->entries[i].value, bytes);
      return 0;
    }
  return 3;
}

/* ---- worlds ---- */

enum means { HUB, STORE, ADDRESS };
struct scene {
  const char *name;
  enum means means;
  uint32_t victim; /* rank that fails; RANKS: none */
  uint32_t dies_at, fails_at;
  const char *variable, *value; /* environment variable, set on the victim only */
  const char *says;             /* part of every rank's error message; NULL: tutti_init succeeds */
  bool forks;                   /* rank 0 forks in its callbacks */
  rlim_t files;                 /* limit of file descriptors per rank, soft and hard; 0: unchanged */
};
#define NEVER UINT32_MAX

static const struct scene scenes[] = {
    {"allgather", HUB, RANKS, NEVER, NEVER, NULL, NULL, NULL, false, 0},
    {"store", STORE, RANKS, NEVER, NEVER, NULL, NULL, NULL, false, 0},
    {"address and port", ADDRESS, RANKS, NEVER, NEVER, NULL, NULL, NULL, false, 0},
    {"with children", HUB, RANKS, NEVER, NEVER, NULL, NULL, NULL, true, 0},
    {"few descriptors", HUB, RANKS, NEVER, NEVER, NULL, NULL, NULL, false, 40},
    {"dies in the first", HUB, 3, 0, NEVER, NULL, NULL, "returned 77", false, 0},
    {"dies half way", HUB, 5, 2, NEVER, NULL, NULL, "returned 77", false, 0},
    {"dies near the end", HUB, 7, 5, NEVER, NULL, NULL, "returned 77", false, 0},
    {"fails half way", HUB, 2, NEVER, 3, NULL, NULL, "returned 77", false, 0},
    {"rank 0 dies half way", HUB, 0, 3, NEVER, NULL, NULL, "returned 77", false, 0},
    {"an invalid variable", HUB, 4, NEVER, NEVER, "TUTTI_SPIN_US", "soon", "TUTTI_SPIN_US", false, 0},
    {"too little shared memory", HUB, 0, NEVER, NEVER, "TUTTI_SHM_BYTES", "3", "TUTTI_SHM_BYTES", false, 0},
    {"an unknown variable, store", STORE, 6, NEVER, NEVER, "TUTTI_NO_SUCH", "1", "TUTTI_NO_SUCH", false, 0},
    {"an invalid size of channels", HUB, 1, NEVER, NEVER, "TUTTI_RING_BYTES", "1", "TUTTI_RING_BYTES", false, 0},
    {"an invalid size of channels, port", ADDRESS, 1, NEVER, NEVER, "TUTTI_RING_BYTES", "1", "TUTTI_RING_BYTES", false,
     0},
};
enum { SCENES = sizeof scenes / sizeof scenes[0] };

static void tell_port(void *context, uint16_t port) {
  struct ranks_world *w = context;
  w->shared->numbers[0] = port;
}

static void describe(struct ranks_world *w, uint32_t rank, struct context *c, tutti_bootstrap *b, tutti_options *o) {
  const struct scene *s = w->context;
  *o = (tutti_options){.join_timeout_ms = 8000, .timeout_ms = 8000};
  if (s->means == ADDRESS) {
    o->rank = rank;
    o->ranks = RANKS;
    o->address = "127.0.0.1";
    o->secret = "secret of the program";
    o->on_listen = tell_port;
    o->on_listen_context = w;
    while (rank > 0 && (o->port = (uint16_t)w->shared->numbers[0]) == 0) ranks_sleep_us(500);
    return;
  }
  *b = (tutti_bootstrap){.rank = rank, .ranks = RANKS, .context = c};
  if (s->means == HUB) b->allgather = allgather;
  else b->set = store_set, b->get = store_get;
  o->bootstrap = b;
}

static int play(struct ranks_world *w, uint32_t rank) {
  const struct scene *s = w->context;
  keep_own_ends(rank);
  /* Variables of other launchers must not matter, and no TUTTI_ variable describes the world. */
  static const char *const foreign[] = {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_MASTER_ADDR", "TUTTI_MASTER_PORT",
                                        "TUTTI_SECRET"};
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) unsetenv(foreign[i]);
  setenv("RANK", "17", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  bool is_victim = rank == s->victim;
  if (is_victim && s->variable) setenv(s->variable, s->value, 1);
  struct context c = {
      .rank = rank, .dies_at = is_victim ? s->dies_at : NEVER, .fails_at = is_victim ? s->fails_at : NEVER};
  c.forks = s->forks && rank == 0;
  if (s->files) setrlimit(RLIMIT_NOFILE, &(struct rlimit){s->files, s->files});
  tutti_bootstrap b;
  tutti_options o;
  tutti_comm *world;
  describe(w, rank, &c, &b, &o);
  tutti_err err = tutti_init(&o, &world);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  if (err != TUTTI_OK) hang_up(rank); /* as the exit of the process would do */
  if (err != TUTTI_OK) return 0;
  int64_t mine = rank + 1, sum = 0;
  err = tutti_allreduce(world, &mine, &sum, 1, TUTTI_I64, TUTTI_SUM);
  ranks_note(w, rank, err == TUTTI_OK && sum != RANKS * (RANKS + 1) / 2 ? TUTTI_ERR_MISMATCH : err,
             tutti_error_message(NULL));
  return tutti_comm_free(world) == TUTTI_OK ? 0 : 1;
}

static void check_scene(const struct scene *s, struct ranks_world *w) {
  CHECK(ranks_end(w, HANG_MS), "%s: hangs", s->name);
  for (uint32_t r = 0; r < RANKS; r++) {
    const struct ranks_note *n = w->shared->rank[r].notes;
    uint32_t noted = w->shared->rank[r].noted;
    if (!s->says) {
      CHECK(noted == 2 && n[0].err == TUTTI_OK && n[1].err == TUTTI_OK, "%s: rank %u: %u notes, %s %s", s->name, r,
            noted, n[0].text, n[1].text);
    } else if (r != s->victim || s->dies_at == NEVER) {
      CHECK(noted == 1 && n[0].err != TUTTI_OK && strstr(n[0].text, s->says), "%s: rank %u: %u notes, %s: '%s'",
            s->name, r, noted, tutti_err_name(n[0].err), n[0].text);
    }
  }
  ranks_fini(w);
}

static void worlds(void) {
  store = mmap(NULL, sizeof *store, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (store == MAP_FAILED) abort();
  for (int i = 0; i < SCENES; i++) {
    static struct ranks_world w;
    w = (struct ranks_world){.context = &scenes[i]};
    memset(store, 0, sizeof *store);
    open_hub();
    ranks_start(&w, RANKS, play);
    close_hub();
    check_scene(&scenes[i], &w);
  }
  munmap(store, sizeof *store);
}

/* ---- invalid options ---- */

static int never_called(void *context, const void *mine, void *all, size_t bytes) {
  (void)context, (void)mine, (void)all, (void)bytes;
  abort();
}

static void options_are_refused(void) {
  const tutti_bootstrap no_ranks = {.allgather = never_called},
                        alone_beyond = {.rank = 5, .ranks = 1, .allgather = never_called},
                        beyond = {.rank = 2, .ranks = 2, .allgather = never_called}, nothing = {.ranks = 2},
                        half = {.ranks = 2, .set = store_set}, good = {.ranks = 2, .allgather = never_called};
  const struct {
    tutti_options options;
    const char *says;
  } cases[] = {
      {{.bootstrap = &no_ranks}, "rank 0 of 0"},
      {{.bootstrap = &alone_beyond}, "rank 5 of 1"},
      {{.bootstrap = &beyond}, "rank 2 of 2"},
      {{.bootstrap = &nothing}, "no allgather|set and get"},
      {{.bootstrap = &half}, "no allgather|set and get"},
      {{.bootstrap = &good, .ranks = 2}, "bootstrap|ranks"},
      {{.rank = 3, .ranks = 3, .address = "h", .port = 1}, "rank 3 of 3"},
      {{.rank = 1, .ranks = 70000, .address = "h", .port = 1}, "70000|65536"},
      {{.ranks = 2, .port = 1}, "tutti_options.address|NULL"},
      {{.ranks = 2, .port = 1, .address = ""}, "tutti_options.address|empty"},
      {{.ranks = 2, .address = "127.0.0.1"}, "tutti_options.port|rank 0"},
      {{.rank = 1, .ranks = 2, .address = "127.0.0.1", .on_listen = tell_port}, "tutti_options.port|rank 1"},
      {{.rank = 1}, "tutti_options|ranks is 0"},
      {{.port = 3}, "tutti_options|ranks is 0"},
      {{.address = "h"}, "tutti_options|ranks is 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tutti_comm *world;
    tutti_err err = tutti_init(&cases[i].options, &world);
    CHECK(err == TUTTI_ERR_ARGUMENT && !world && test_contains(tutti_error_message(NULL), cases[i].says),
          "case %zu: %s: '%s'", i, tutti_err_name(err), tutti_error_message(NULL));
  }
}

static void an_empty_secret_is_refused(void) {
  tutti_comm *world;
  const tutti_options o = {
      .ranks = 2, .address = "127.0.0.1", .secret = "", .on_listen = tell_port, .join_timeout_ms = 100};
  tutti_err err = tutti_init(&o, &world);
  CHECK(err == TUTTI_ERR_ENVIRONMENT && test_contains(tutti_error_message(NULL), "secret|tutti_options|empty"),
        "%s: %s", tutti_err_name(err), tutti_error_message(NULL));
}

/* Creates worlds of one rank: with options only, regardless of a launcher's variables, and with an allgather of one
 * rank. */
static int copy(void *context, const void *mine, void *all, size_t bytes) {
  ++*(int *)context;
  memcpy(all, mine, bytes);
  return 0;
}
static void worlds_of_one(void) {
  tutti_comm *world;
  int calls = 0;
  const tutti_bootstrap alone = {.ranks = 1, .allgather = copy, .context = &calls};
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  CHECK(tutti_init(&(tutti_options){.ranks = 1}, &world) == TUTTI_OK && tutti_ranks(world) == 1, "%s",
        tutti_error_message(NULL));
  CHECK(tutti_comm_free(world) == TUTTI_OK, "free");
  CHECK(tutti_init(&(tutti_options){.bootstrap = &alone}, &world) == TUTTI_OK && tutti_ranks(world) == 1, "%s",
        tutti_error_message(NULL));
  CHECK(tutti_comm_free(world) == TUTTI_OK, "free");
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"worlds", worlds},
                                      {"options_are_refused", options_are_refused},
                                      {"an_empty_secret_is_refused", an_empty_secret_is_refused},
                                      {"worlds_of_one", worlds_of_one}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
