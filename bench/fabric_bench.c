/* fabric_bench.c: bare loops of two ranks over libfabric: what RMA of a provider costs without a library above it. It has
 * no framing and no plan, and survives no failure. All data that arrives is checked. To run it, with the address of rank
 * 0, at which the ranks exchange addresses and keys:
 *   FABRIC_ADDRESS=10.0.0.1:7000 tutti run --hosts 10.0.0.1,10.0.0.2 --env FABRIC_ADDRESS -- fabric_bench [TEST...]
 *
 * ping    rank 0 writes, and rank 1 answers with a write: time of the round trip
 * write   rank 0 writes; ends when rank 1 has all completions and says so
 * both    both ranks write; MB/s is that of one direction
 * read    rank 0 reads. Rank 1 sleeps; a thread of its own sleeps on the descriptor of the completion queue, and makes
 *         progress whenever that is readable
 *
 * Each write carries data for the target's completion queue (fi_writedata). At most --outstanding operations are
 * unfinished at a time; one in a ping. Times are of one operation, by the clock of rank 0: `us` is the median of the
 * batches, `best_us` the fastest one. cpu_0 and cpu_1 are the CPU time of one operation on each rank, all threads, in us.
 * The hints of fi_getinfo choose all settings; no variable is set. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/core/core.h"
#include "boot/identity.h"

#define SELF "fabric_bench"
enum {
  OUTSTANDING_MAX = 64,
  QUEUE = 256,         /* requested depth of the queues */
  ENTRIES = 16,        /* number of completions that are read at once */
  NAME_BYTES = 64,     /* maximum length of an endpoint's address */
  DATA_BYTES_MIN = 4,  /* of a completion */
  BATCHES = 7,         /* number of measured batches of a case */
  WARM_BATCHES = 20,   /* maximum number of batches of the warm-up */
  WARM_GROWTH = 8,     /* maximum growth of a batch in the warm-up */
  COUNT_MAX = 1 << 24, /* maximum number of operations of a batch */
};
#define UNIT_BYTES ((size_t)4096) /* slots begin at multiples of it */

struct options {
  const char *provider, *sizes;
  uint32_t outstanding, time_ms;
  bool sleep;  /* wait on the descriptor of the queue; false: poll the queue */
  bool inject; /* short writes: fi_inject_writedata */
};

/* What a rank tells the other one. */
struct card {
  unsigned char name[NAME_BYTES];
  uint64_t name_bytes, window, key;
};

struct region {
  unsigned char *data;
  struct fid_mr *mr;
};

struct side {
  uint32_t rank;
  int fd; /* connection to the other rank */
  const struct options *options;
  struct fi_info *info;
  struct fid_fabric *fabric;
  struct fid_domain *domain;
  struct fid_cq *cq;
  struct fid_av *av;
  struct fid_ep *ep;
  int cq_fd; /* see sleep_until */
  fi_addr_t peer;
  struct card card; /* of the other rank */
  /* own: source of writes, target of reads. window: the other rank writes into it and reads from it. Each has a slot
   * for each outstanding operation, and a unit for the answer at its end. */
  struct region own, window;
  size_t region_bytes, stride;
  struct fi_context2 contexts[OUTSTANDING_MAX];
  uint32_t idle[OUTSTANDING_MAX]; /* ring of the slots without an operation, from `taken` to `returned` */
  uint64_t taken, returned;
  uint64_t came, came_sum; /* number of completions of the other rank's writes, and the sum of their data */
  uint64_t round;          /* number of the batch; the contents depend on it */
  uint64_t ended_ns;       /* the clock, and the CPU time of this process, at the end of the last batch */
  double ended_cpu_us;
};

static bool complain(const char *what, ssize_t code) {
  (void)cli_fail(SELF, CLI_FAILED, "%s failed: %s", what, fi_strerror((int)-code));
  return false;
}

static bool exchange(const struct side *s, const void *out, void *in, size_t bytes) {
  if (bench_pair_exchange(s->fd, out, bytes, in, bytes)) return true;
  (void)cli_fail(SELF, CLI_FAILED, "rank %u has ended", 1 - s->rank);
  return false;
}

static bool meet(const struct side *s) {
  char out = 0, in;
  return exchange(s, &out, &in, 1);
}

/* ---- the completion queue ---- */

static uint32_t idle_slots(const struct side *s) { return (uint32_t)(s->returned - s->taken); }
static uint32_t take_slot(struct side *s) { return s->idle[s->taken++ % s->options->outstanding]; }
static void return_slot(struct side *s, uint32_t slot) { s->idle[s->returned++ % s->options->outstanding] = slot; }

static bool complain_entry(const struct side *s) {
  char text[128];
  struct fi_cq_err_entry entry = {0};
  const ssize_t n = fi_cq_readerr(s->cq, &entry, 0);
  if (n < 0) return complain("fi_cq_readerr", n);
  (void)cli_fail(SELF, CLI_FAILED, "an operation failed: %s (%s)", fi_strerror(entry.err),
                 fi_cq_strerror(s->cq, entry.prov_errno, entry.err_data, text, sizeof text));
  return false;
}

/* Makes progress and reads completions. *found: there was one. */
static bool look(struct side *s, bool *found) {
  struct fi_cq_data_entry entries[ENTRIES];
  const ssize_t n = fi_cq_read(s->cq, entries, ENTRIES);
  *found = n > 0;
  if (n == -FI_EAVAIL) return complain_entry(s);
  if (n < 0 && n != -FI_EAGAIN) return complain("fi_cq_read", n);
  for (ssize_t i = 0; i < n; i++) {
    const struct fi_cq_data_entry *e = &entries[i];
    if (e->flags & FI_REMOTE_CQ_DATA) {
      s->came++;
      s->came_sum += e->data;
    } else {
      return_slot(s, (uint32_t)((struct fi_context2 *)e->op_context - s->contexts));
    }
  }
  return true;
}

/* Sleeps until the completion queue is worth a look, or until the other descriptor has one of the events: then *ended is
 * true. */
static bool sleep_until(const struct side *s, int other, short events, bool *ended) {
  struct fid *fids[] = {&s->cq->fid};
  struct pollfd polled[] = {{.fd = s->cq_fd, .events = POLLIN}, {.fd = other, .events = events}};
  *ended = false;
  const int code = fi_trywait(s->fabric, fids, 1);
  if (code == -FI_EAGAIN) return true;
  if (code != 0) return complain("fi_trywait", code);
  *ended = poll(polled, 2, -1) > 0 && polled[1].revents != 0;
  return true;
}

/* Waits for a completion, as the options say. */
static bool wait_for_one(struct side *s) {
  bool found, ended = false;
  if (!look(s, &found)) return false;
  if (found || !s->options->sleep) return true;
  if (!sleep_until(s, s->fd, POLLRDHUP, &ended)) return false;
  return !ended || meet(s);
}

/* ---- operations ---- */

/* Starts to write `bytes` bytes of the own region to the same place of the other rank's window, or to read them. */
static bool start(struct side *s, bool reads, size_t at, size_t bytes, uint64_t data) {
  const uint32_t slot = take_slot(s);
  const bool injected = !reads && s->options->inject && bytes <= s->info->tx_attr->inject_size;
  const uint64_t there = s->card.window + at, key = s->card.key;
  unsigned char *here = s->own.data + at;
  void *desc = s->info->domain_attr->mr_mode & FI_MR_LOCAL ? fi_mr_desc(s->own.mr) : NULL;
  for (bool found;;) {
    const ssize_t code = reads ? fi_read(s->ep, here, bytes, desc, s->peer, there, key, &s->contexts[slot])
                         : injected
                             ? fi_inject_writedata(s->ep, here, bytes, data, s->peer, there, key)
                             : fi_writedata(s->ep, here, bytes, desc, data, s->peer, there, key, &s->contexts[slot]);
    if (code == 0) break;
    if (code != -FI_EAGAIN) return complain(reads ? "fi_read" : "fi_writedata", code);
    if (!look(s, &found)) return false;
  }
  if (injected) return_slot(s, slot);
  return true;
}

static size_t slot_at(const struct side *s) { return s->idle[s->taken % s->options->outstanding] * s->stride; }

/* Starts `count` operations, and waits until they are complete and `expected` writes of the other rank have arrived. */
static bool carry_out(struct side *s, bool reads, size_t bytes, uint32_t count, uint64_t expected) {
  for (uint32_t started = 0; started < count || idle_slots(s) < s->options->outstanding || s->came < expected;) {
    const bool can_start = started < count && idle_slots(s) > 0;
    if (can_start && !start(s, reads, slot_at(s), bytes, started++)) return false;
    bool found;
    if (!(can_start ? look(s, &found) : wait_for_one(s))) return false;
  }
  return true;
}

/* ---- contents ---- */

static uint64_t word(const struct side *s, uint32_t writer, size_t slot, size_t i) {
  return (s->round << 40 | (uint64_t)slot << 32 | i) * 0x9e3779b97f4a7c15u + writer;
}

static void fill(const struct side *s, struct region region, size_t bytes) {
  for (uint32_t slot = 0; slot < s->options->outstanding; slot++) {
    uint64_t *words = (uint64_t *)(void *)(region.data + slot * s->stride);
    for (size_t i = 0; i < bytes / sizeof *words; i++) words[i] = word(s, s->rank, slot, i);
  }
}

static uint64_t count_wrong(const struct side *s, struct region region, size_t bytes, uint32_t slots) {
  uint64_t wrong = 0;
  for (uint32_t slot = 0; slot < slots; slot++) {
    const uint64_t *words = (const uint64_t *)(const void *)(region.data + slot * s->stride);
    for (size_t i = 0; i < bytes / sizeof *words; i++) wrong += words[i] != word(s, 1 - s->rank, slot, i);
  }
  return wrong;
}

/* ---- the tests ---- */

static void end(struct side *s) {
  s->ended_ns = tu_clock_ns();
  s->ended_cpu_us = bench_cpu_us();
}

/* The contents of a ping are its number, in all words. */
static bool run_ping(struct side *s, size_t bytes, uint32_t count, uint64_t *wrong) {
  uint64_t *out = (uint64_t *)(void *)s->own.data;
  const uint64_t *in = (const uint64_t *)(const void *)s->window.data;
  for (uint32_t i = 0; i < count; i++) {
    if (s->rank == 1 && !carry_out(s, false, 0, 0, i + 1)) return false;
    for (size_t k = 0; s->rank == 1 && k < bytes / sizeof *in; k++) *wrong += in[k] != i;
    for (size_t k = 0; k < bytes / sizeof *out; k++) out[k] = i;
    if (!start(s, false, 0, bytes, i) || !carry_out(s, false, 0, 0, s->rank == 0 ? i + 1 : i)) return false;
    for (size_t k = 0; s->rank == 0 && k < bytes / sizeof *in; k++) *wrong += in[k] != i;
  }
  end(s);
  *wrong += s->came_sum != (uint64_t)count * (count - 1) / 2;
  return true;
}

/* A rank that has got all writes answers with another one, whose data is 0. */
static bool stream(struct side *s, size_t bytes, uint32_t count, bool sends, bool gets, uint64_t *wrong) {
  const uint64_t expected = gets ? count : 0;
  if (!carry_out(s, false, bytes, sends ? count : 0, expected)) return false;
  const size_t answer_at = s->region_bytes - UNIT_BYTES;
  if (gets && !start(s, false, answer_at, sizeof(uint64_t), 0)) return false;
  if (!carry_out(s, false, 0, 0, expected + sends)) return false;
  end(s);
  if (!gets) return true;
  *wrong += s->came_sum != (uint64_t)count * (count - 1) / 2;
  *wrong += count_wrong(s, s->window, bytes, (uint32_t)tu_min(count, s->options->outstanding));
  return true;
}

static bool run_write(struct side *s, size_t bytes, uint32_t count, uint64_t *wrong) {
  return stream(s, bytes, count, s->rank == 0, s->rank == 1, wrong);
}
static bool run_both(struct side *s, size_t bytes, uint32_t count, uint64_t *wrong) {
  return stream(s, bytes, count, true, true, wrong);
}

struct server {
  struct side *side;
  int stop; /* eventfd */
};

static void *serve(void *context) {
  const struct server *server = context;
  struct side *s = server->side;
  bool found, ended = false;
  while (!ended) {
    if (look(s, &found) && (found || sleep_until(s, server->stop, POLLIN, &ended))) continue;
    (void)shutdown(s->fd, SHUT_RDWR);
    return NULL;
  }
  return NULL;
}

static bool be_read(struct side *s) {
  struct server server = {s, eventfd(0, EFD_CLOEXEC)};
  pthread_t thread;
  const uint64_t one = 1;
  const int code = pthread_create(&thread, NULL, serve, &server);
  if (code != 0) return complain("pthread_create", -code);
  struct pollfd polled = {.fd = s->fd, .events = POLLIN};
  (void)poll(&polled, 1, -1);
  (void)!write(server.stop, &one, sizeof one);
  pthread_join(thread, NULL);
  close(server.stop);
  end(s);
  return meet(s);
}

static bool run_read(struct side *s, size_t bytes, uint32_t count, uint64_t *wrong) {
  if (s->rank == 1) return be_read(s);
  if (!carry_out(s, true, bytes, count, 0)) return false;
  end(s);
  *wrong += count_wrong(s, s->own, bytes, (uint32_t)tu_min(count, s->options->outstanding));
  return meet(s);
}

static const struct test {
  const char *name, *sizes;
  bool (*run)(struct side *s, size_t bytes, uint32_t count, uint64_t *wrong);
  bool reads;
} tests[] = {{"ping", "8,64,256,1K", run_ping, false},
             {"write", "256K:16M:4", run_write, false},
             {"both", "256K:16M:4", run_both, false},
             {"read", "256K:16M:4", run_read, true}};
enum { TESTS = sizeof tests / sizeof tests[0] };

/* ---- measuring ---- */

struct sample {
  double us, cpu_us[2]; /* of one operation */
};

/* A batch. The sample is complete on both ranks; its time is that of rank 0. */
static bool run_batch(struct side *s, const struct test *test, size_t bytes, uint32_t count, struct sample *sample) {
  uint64_t wrong = 0;
  s->round++;
  s->taken = s->came = s->came_sum = 0;
  s->returned = s->options->outstanding;
  for (uint32_t i = 0; i < s->options->outstanding; i++) s->idle[i] = i;
  fill(s, test->reads ? s->window : s->own, bytes);
  if (!meet(s)) return false;
  const double cpu_us = bench_cpu_us();
  const uint64_t started_ns = tu_clock_ns();
  if (!test->run(s, bytes, count, &wrong)) return false;
  const double mine[] = {(double)(s->ended_ns - started_ns) / 1e3 / count, (s->ended_cpu_us - cpu_us) / count,
                         (double)wrong};
  double others[3];
  if (!exchange(s, mine, others, sizeof mine)) return false;
  sample->us = s->rank == 0 ? mine[0] : others[0];
  sample->cpu_us[s->rank] = mine[1];
  sample->cpu_us[1 - s->rank] = others[1];
  if (mine[2] == 0 && others[2] == 0) return true;
  (void)cli_fail(SELF, CLI_FAILED, "%s of %zu bytes: rank %u got %.0f wrong words, rank %u %.0f", test->name, bytes,
                 s->rank, mine[2], 1 - s->rank, others[2]);
  return false;
}

/* Finds a number of operations that takes the wanted time. Both ranks find the same. */
static bool warm(struct side *s, const struct test *test, size_t bytes, uint32_t *count) {
  const double wanted_us = s->options->time_ms * 1e3 / BATCHES;
  *count = s->options->outstanding;
  for (uint32_t i = 0; i < WARM_BATCHES; i++) {
    struct sample sample;
    if (!run_batch(s, test, bytes, *count, &sample)) return false;
    const double fitting = wanted_us / sample.us;
    if (*count >= fitting * 0.8 && i > 0) break;
    *count = (uint32_t)tu_max(*count, tu_min(tu_min((size_t)fitting, COUNT_MAX), (size_t)*count * WARM_GROWTH));
  }
  return true;
}

static bool measure(struct side *s, const struct test *test, size_t bytes) {
  double us[BATCHES], cpu_us[2][BATCHES];
  uint32_t count;
  s->stride = tu_round_up(bytes, UNIT_BYTES);
  if (!warm(s, test, bytes, &count)) return false;
  for (uint32_t i = 0; i < BATCHES; i++) {
    struct sample sample;
    if (!run_batch(s, test, bytes, count, &sample)) return false;
    us[i] = sample.us;
    for (uint32_t rank = 0; rank < 2; rank++) cpu_us[rank][i] = sample.cpu_us[rank];
  }
  if (s->rank != 0) return true;
  const double median_us = bench_median(us, BATCHES); /* sorts */
  printf("%-5s %9zu %10.2f %10.2f ", test->name, bytes, median_us, us[0]);
  if (test->run == run_ping) printf("%8s", "-");
  else printf("%8.0f", (double)bytes / median_us);
  printf(" %9.2f %9.2f\n", bench_median(cpu_us[0], BATCHES), bench_median(cpu_us[1], BATCHES));
  return fflush(stdout) == 0;
}

/* ---- opening the fabric ---- */

static bool find_provider(struct side *s) {
  struct sockaddr_in own = {0};
  socklen_t own_bytes = sizeof own;
  char address[INET_ADDRSTRLEN] = "";
  struct fi_info *hints = fi_allocinfo();
  if (!hints || getsockname(s->fd, (struct sockaddr *)&own, &own_bytes) != 0 ||
      !inet_ntop(AF_INET, &own.sin_addr, address, sizeof address))
    return complain("preparing the hints", -FI_ENOMEM);
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2; /* without FI_RX_CQ_DATA: a write takes no posted receive of its target */
  hints->ep_attr->type = FI_EP_RDM;
  hints->fabric_attr->prov_name = strdup(s->options->provider);
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  hints->domain_attr->threading = FI_THREAD_DOMAIN; /* the threads of a rank take turns */
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->tx_attr->size = hints->rx_attr->size = QUEUE;
  const int code =
      fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), address, NULL, FI_SOURCE, hints, &s->info);
  fi_freeinfo(hints);
  if (code != 0) {
    (void)cli_fail(SELF, CLI_FAILED, "no provider %s at %s: %s", s->options->provider, address, fi_strerror(-code));
    return false;
  }
  if (s->info->domain_attr->cq_data_size >= DATA_BYTES_MIN) return true;
  (void)cli_fail(SELF, CLI_FAILED, "provider %s: a write carries only %zu bytes of data for the completion",
                 s->options->provider, s->info->domain_attr->cq_data_size);
  return false;
}

static bool open_endpoint(struct side *s) {
  struct fi_cq_attr cq = {.size = QUEUE * 2, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
  struct fi_av_attr av = {.type = s->info->domain_attr->av_type, .count = 2};
  int code;
  if ((code = fi_fabric(s->info->fabric_attr, &s->fabric, NULL)) != 0) return complain("fi_fabric", code);
  if ((code = fi_domain(s->fabric, s->info, &s->domain, NULL)) != 0) return complain("fi_domain", code);
  if ((code = fi_cq_open(s->domain, &cq, &s->cq, NULL)) != 0) return complain("fi_cq_open with a descriptor", code);
  if ((code = fi_control(&s->cq->fid, FI_GETWAIT, &s->cq_fd)) != 0) return complain("FI_GETWAIT", code);
  if ((code = fi_av_open(s->domain, &av, &s->av, NULL)) != 0) return complain("fi_av_open", code);
  if ((code = fi_endpoint(s->domain, s->info, &s->ep, NULL)) != 0) return complain("fi_endpoint", code);
  if ((code = fi_ep_bind(s->ep, &s->av->fid, 0)) != 0) return complain("fi_ep_bind of the addresses", code);
  if ((code = fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV)) != 0)
    return complain("fi_ep_bind of the completion queue", code);
  if ((code = fi_enable(s->ep)) != 0) return complain("fi_enable", code);
  return true;
}

/* Makes a region, touches its pages and registers it. `key` counts only if the provider does not choose keys. */
static bool open_region(struct side *s, struct region *region, uint64_t key) {
  const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  region->data = mmap(NULL, s->region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (region->data == MAP_FAILED) {
    region->data = NULL;
    return complain("allocating the buffers", -FI_ENOMEM);
  }
  int code = fi_mr_reg(s->domain, region->data, s->region_bytes, access, 0, key, 0, &region->mr, NULL);
  if (code != 0) return complain("fi_mr_reg", code);
  if (!(s->info->domain_attr->mr_mode & FI_MR_ENDPOINT)) return true;
  if ((code = fi_mr_bind(region->mr, &s->ep->fid, 0)) != 0) return complain("fi_mr_bind", code);
  if ((code = fi_mr_enable(region->mr)) != 0) return complain("fi_mr_enable", code);
  return true;
}

static bool open_side(struct side *s) {
  if (!find_provider(s) || !open_endpoint(s) || !open_region(s, &s->own, 1) || !open_region(s, &s->window, 2))
    return false;
  struct card mine = {.key = fi_mr_key(s->window.mr)};
  if (s->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) mine.window = (uintptr_t)s->window.data;
  size_t name_bytes = sizeof mine.name;
  int code = fi_getname(&s->ep->fid, mine.name, &name_bytes);
  if (code != 0) return complain("fi_getname", code);
  mine.name_bytes = name_bytes;
  if (!exchange(s, &mine, &s->card, sizeof mine)) return false;
  code = fi_av_insert(s->av, s->card.name, 1, &s->peer, 0, NULL);
  return code == 1 || complain("fi_av_insert", code < 0 ? code : -FI_EOTHER);
}

static void close_one(struct fid *fid, const char *what) {
  const int code = fid ? fi_close(fid) : 0;
  if (code != 0) (void)complain(what, code);
}

static void close_side(struct side *s) {
  struct region *regions[] = {&s->own, &s->window};
  for (uint32_t i = 0; i < 2; i++) close_one(regions[i]->mr ? &regions[i]->mr->fid : NULL, "closing a region");
  close_one(s->ep ? &s->ep->fid : NULL, "closing the endpoint");
  close_one(s->av ? &s->av->fid : NULL, "closing the addresses");
  close_one(s->cq ? &s->cq->fid : NULL, "closing the completion queue");
  close_one(s->domain ? &s->domain->fid : NULL, "closing the domain");
  close_one(s->fabric ? &s->fabric->fid : NULL, "closing the fabric");
  for (uint32_t i = 0; i < 2; i++)
    if (regions[i]->data) (void)munmap(regions[i]->data, s->region_bytes);
  fi_freeinfo(s->info);
}

/* ---- the command ---- */

static void print_head(const struct side *s) {
  printf("# %s %u.%u, domain %s, ", s->info->fabric_attr->prov_name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
         s->info->domain_attr->name);
  printf("mr_mode 0x%x, inject_size %zu, %u outstanding, %s%s\n", (unsigned)s->info->domain_attr->mr_mode,
         s->info->tx_attr->inject_size, s->options->outstanding, s->options->sleep ? "sleeps" : "polls",
         s->options->inject ? ", injects" : "");
  printf("%-5s %9s %10s %10s %8s %9s %9s\n", "test", "bytes", "us", "best_us", "MB/s", "cpu_0", "cpu_1");
}

/* Reads the sizes of a test. *largest becomes at least the largest of them. */
static int read_sizes(const struct options *options, const struct test *test, struct bench_options *sizes,
                      size_t *largest) {
  const int code = bench_read_sizes(SELF, options->sizes ? options->sizes : test->sizes, sizes);
  if (code != CLI_GOOD) return code;
  for (uint32_t i = 0; i < sizes->size_count; i++)
    if (sizes->sizes[i] == 0 || sizes->sizes[i] % sizeof(uint64_t) != 0)
      return cli_fail(SELF, CLI_USAGE, "--bytes: expected multiples of 8, found %zu", sizes->sizes[i]);
  *largest = tu_max(*largest, sizes->sizes[sizes->size_count - 1]);
  return CLI_GOOD;
}

static bool measure_all(struct side *s, const bool chosen[TESTS], const struct bench_options sizes[TESTS]) {
  if (!open_side(s)) return false;
  if (s->rank == 0) print_head(s);
  for (uint32_t i = 0; i < TESTS; i++)
    for (uint32_t k = 0; chosen[i] && k < sizes[i].size_count; k++)
      if (!measure(s, &tests[i], sizes[i].sizes[k])) return false;
  return meet(s);
}

static int choose(int argc, char **argv, bool chosen[TESTS]) {
  for (uint32_t i = 0; i < TESTS; i++) chosen[i] = argc == 1;
  for (int a = 1; a < argc; a++) {
    uint32_t i = 0;
    while (i < TESTS && strcmp(argv[a], tests[i].name) != 0) i++;
    if (i == TESTS) return cli_fail(SELF, CLI_USAGE, "unknown test '%s'; expected ping, write, both or read", argv[a]);
    chosen[i] = true;
  }
  return CLI_GOOD;
}

static int run(int argc, char **argv) {
  const struct cli_verb self = {
      .name = SELF,
      .summary = "measure RMA of two ranks over libfabric",
      .synopsis = "fabric_bench [ping] [write] [both] [read] [options]   (started by tutti run)",
      .run = run};
  struct options o = {.provider = "tcp;ofi_rxm", .outstanding = 4, .time_ms = 200};
  const struct cli_option options[] = {
      {"--provider", CLI_STRING, &o.provider, "NAME", "provider of libfabric (tcp;ofi_rxm)"},
      {"--bytes", CLI_STRING, &o.sizes, "SIZES", "sizes or ranges LO:HI[:FACTOR] (8 to 1K for ping, else 256K to 16M)"},
      {"--outstanding", CLI_UINT, &o.outstanding, "K", "largest number of unfinished operations (4)"},
      {"--time-ms", CLI_UINT, &o.time_ms, "T", "approximate time to measure one size, in ms (200)"},
      {"--sleep", CLI_FLAG, &o.sleep, NULL, "wait on the descriptor of the completion queue, instead of polling"},
      {"--inject", CLI_FLAG, &o.inject, NULL, "use fi_inject_writedata for writes that are short enough"},
  };
  static struct bench_options sizes[TESTS];
  struct tu_boot_identity identity;
  struct tu_error error;
  bool chosen[TESTS], done = false;
  size_t largest = 0;
  int code = cli_parse(&self, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done || (code = choose(argc, argv, chosen)) != CLI_GOOD) return code;
  if (o.outstanding == 0 || o.outstanding > OUTSTANDING_MAX)
    return cli_fail(SELF, CLI_USAGE, "--outstanding: expected 1 to %d, found %u", OUTSTANDING_MAX, o.outstanding);
  for (uint32_t i = 0; i < TESTS; i++)
    if (chosen[i] && (code = read_sizes(&o, &tests[i], &sizes[i], &largest)) != CLI_GOOD) return code;
  if (tu_boot_identity_read(&identity, &error) != TUTTI_OK) return cli_fail(SELF, CLI_USAGE, "%s", error.text);
  struct side s = {.rank = identity.rank, .options = &o};
  s.region_bytes = tu_round_up(largest, UNIT_BYTES) * o.outstanding + UNIT_BYTES;
  if ((code = bench_pair_connect(SELF, "FABRIC_ADDRESS", identity.rank, identity.ranks, &s.fd)) != CLI_GOOD)
    return code;
  if (!measure_all(&s, chosen, sizes)) code = CLI_FAILED;
  close_side(&s);
  close(s.fd);
  return code;
}

int main(int argc, char **argv) { return run(argc, argv); }
