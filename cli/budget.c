/* budget.c: estimates the time and memory of the work that a verb wants to do, and refuses the work if they exceed the
 * limits. The estimate itself takes some milliseconds. */
#include "cli/budget.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "algo/cost.h"
#include "base/text.h"
#include "cli/progress.h"
#include "cli/units.h"

/* The cost of a plan is not estimated if the number of ranks times the number of chunks per block (of all lanes) is at
 * most RANKS_FEW. For such a plan, the estimate costs more than building it. */
enum { RANKS_FEW = 256 };

/* Maximum number of items (entries and chunks) of a plan, because steps, messages, chunks and nodes of the simulator's
 * graph are counted in 32 bits, some of them with a sign. */
#define ITEMS_MAX 2e9

/* Constants of the cost model, measured over all algorithms at 128 ranks. The costs of single algorithms differ from
 * the model by at most a factor of 1.5. */
#define WORK_SECONDS 80e-9
#define PROCESS_BYTES (4 << 20)
#define ENTRY_BYTES 48
#define CHUNK_BYTES 24
#define RUN_BYTES 32
/* Bytes that an algorithm stores about the other ranks if only one rank's steps are built, per unit of work
 * (tu_cost.work). */
#define WORK_BYTES 8
static const struct {
  double item_seconds, item_bytes;
  /* true: each chunk of the plan is an item, and so is each entry (a step, peer, operand or predecessor); false: only
   * the entries are items */
  bool chunks;
} uses[BUDGET_USES] = {
    [BUDGET_TEXT] = {200e-9, 0, false},
    [BUDGET_DRAW] = {1300e-9, 160, false},
    [BUDGET_CHECK] = {180e-9, 60, true},
    [BUDGET_SIM] = {120e-9, 60, false},
};

/* The estimated cost of the work that a verb wants to do. */
struct price {
  double seconds, bytes, steps;
  bool countable; /* true: the number of items is below ITEMS_MAX */
};

static struct price price_of(const struct budget_question *q, const struct tu_build *what, struct tu_cost_memo *memo) {
  struct tu_cost cost;
  tu_cost_estimate(what, memo, &cost);
  double items = cost.entries + (uses[q->use].chunks ? cost.chunks : 0);
  /* Bytes of the state of all chunks while the plan is built. The state takes CHUNK_BYTES per chunk, or RUN_BYTES per
   * run (consecutive chunks with equal state), whichever is less. There are at most `work` runs. */
  double states = fmin(CHUNK_BYTES * cost.chunks, RUN_BYTES * cost.work);
  double noted = what->rank == TU_ALL_RANKS ? 0 : WORK_BYTES * cost.work;
  return (struct price){
      .seconds = (WORK_SECONDS * cost.work + uses[q->use].item_seconds * items) * (double)tu_max(q->times, 1),
      .bytes = ENTRY_BYTES * cost.entries + states + uses[q->use].item_bytes * items + noted,
      .steps = cost.steps,
      .countable = items < ITEMS_MAX};
}

/* ---- free memory ---- */

/* Reads a kernel file that contains one number, and returns the number. Returns infinity if the file has no number
 * ("max") or does not exist. */
static double number_in(const char *path) {
  FILE *file = fopen(path, "re");
  unsigned long long number;
  double found = file && fscanf(file, "%llu", &number) == 1 ? (double)number : INFINITY;
  if (file) fclose(file);
  return found;
}

static double available_in_machine(void) {
  FILE *file = fopen("/proc/meminfo", "re");
  char line[256];
  unsigned long long kib;
  double found = INFINITY;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) found = (double)kib * 1024;
  if (file) fclose(file);
  return found;
}

/* Returns the bytes of memory that are free on the machine. If fewer bytes are free in this process's container (cgroup
 * v2 or v1), returns that number. */
static double shared_bytes(void) {
  double bytes = available_in_machine();
  double container = number_in("/sys/fs/cgroup/memory.max") - number_in("/sys/fs/cgroup/memory.current");
  if (container > 0 && container < bytes) bytes = container;
  container = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes") -
              number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes");
  return container > 0 && container < bytes ? container : bytes;
}

/* Returns the bytes that this process can allocate: shared_bytes() (the free bytes of machine and container), or the
 * process's limit RLIMIT_AS if this limit is lower. */
static double free_bytes(void) {
  double bytes = shared_bytes();
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (double)limit.rlim_cur < bytes)
    bytes = (double)limit.rlim_cur;
  return bytes;
}

/* ---- comparison of the cost with the limits ---- */

struct bounds {
  double seconds, bytes;
  struct tu_cost_memo memo;
};

static bool within(const struct price *p, const struct bounds *b) {
  return p->countable && p->seconds <= b->seconds && p->bytes <= b->bytes;
}

/* Returns true if a plan of algorithm `a` with this number of ranks would stay within the limits of time and memory.
 * *price receives its estimated cost. */
static bool possible(const struct budget_question *q, const struct tu_algorithm *a, uint32_t ranks, struct bounds *b,
                     struct price *price) {
  struct tu_build what = q->what;
  what.algorithm = a;
  what.ranks = ranks;
  if (ranks != q->what.ranks) what.placement = NULL;
  what.root %= ranks;
  if (what.rank != TU_ALL_RANKS) what.rank %= ranks;
  *price = price_of(q, &what, &b->memo);
  return within(price, b);
}

/* Returns the largest number of ranks, below the requested number, whose plan stays within the limits of time and
 * memory; 0: there is none. Finds it by bisection, with an error of about 1/16. */
static uint32_t ranks_possible(const struct budget_question *q, struct bounds *b) {
  const struct tu_algorithm *a = q->what.algorithm;
  uint32_t low = 0, high = q->what.ranks;
  struct price price;
  while (high - low > 1 && high - low > low / 16) {
    uint32_t middle = low == 0 ? high / 2 : low + (high - low) / 2, ranks = middle;
    while (ranks > low && !tu_algorithm_fits(a, ranks)) ranks--;
    if (ranks == low) {
      if (low == 0) high = middle;
      else break;
    } else if (possible(q, a, ranks, b, &price)) low = ranks;
    else high = ranks;
  }
  return low;
}

/* Returns the collective's algorithm with the least estimated time among those that stay within the limits of time and
 * memory; NULL: there is none. */
static const struct tu_algorithm *other_algorithm(const struct budget_question *question, struct bounds *b,
                                                  struct price *least) {
  const struct tu_algorithm *best = NULL;
  struct budget_question other = *question, *q = &other;
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    struct price price;
    if (a->collective != q->what.algorithm->collective || !tu_algorithm_fits(a, q->what.ranks)) continue;
    if (q->what.lanes > tu_build_lanes_max(a)) continue;
    if (q->use == BUDGET_SIM && !(a->flags & TU_ROTATES)) q->what.rank = TU_ALL_RANKS;
    else q->what.rank = question->what.rank;
    if (!possible(q, a, q->what.ranks, b, &price) || (best && price.seconds >= least->seconds)) continue;
    best = a;
    *least = price;
  }
  return best;
}

static int refuse(const struct budget_question *q, const struct price *price, struct bounds *b) {
  const char *collective = tu_collectives[q->what.algorithm->collective].name;
  struct tu_text text = {0};
  struct price least;
  tu_text_print(&text, "%s.%s with %u ranks has about %.2g steps%s, and ", collective, q->what.algorithm->name,
                q->what.ranks, price->steps, q->what.rank == TU_ALL_RANKS ? "" : " per rank");
  if (q->times > 1) tu_text_print(&text, "%u such plans ", q->times);
  tu_text_print(&text, "would take about %s and %s; the limits are %s (--max-seconds) and %s of free memory",
                units_duration(price->seconds).chars, units_bytes(price->bytes).chars, units_duration(b->seconds).chars,
                units_bytes(b->bytes).chars);
  uint32_t ranks = ranks_possible(q, b);
  if (ranks > 0) tu_text_print(&text, "; possible with up to %u ranks", ranks);
  const struct tu_algorithm *other = other_algorithm(q, b, &least);
  if (other) tu_text_print(&text, "; with %u ranks, %s.%s is possible", q->what.ranks, collective, other->name);
  struct budget_question one = *q;
  one.what.rank = 0;
  if (q->one_rank && possible(&one, q->what.algorithm, q->what.ranks, b, &least))
    tu_text_print(&text, "; %s", q->one_rank);
  cli_fail(q->verb, CLI_FAILED, "%s", text.chars);
  tu_text_fini(&text);
  return CLI_FAILED;
}

int budget_allow(const struct budget *budget, const struct budget_question *question) {
  const struct tu_build *what = &question->what;
  double pieces = (double)tu_max(what->chunks, 1) * (double)tu_max(what->lanes, 1);
  if (what->ranks * pieces <= RANKS_FEW) return CLI_GOOD;
  struct bounds bounds = {.seconds = budget->max_seconds, .bytes = free_bytes() * 3 / 4};
  struct price price = price_of(question, what, &bounds.memo);
  if (!within(&price, &bounds)) return refuse(question, &price, &bounds);
  progress_expect(price.seconds);
  return CLI_GOOD;
}

tutti_err budget_allow_processes(uint32_t count, struct tu_error *error) {
  double most = shared_bytes() * 3 / 4 / PROCESS_BYTES;
  if (count <= most) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_MEMORY,
                 "expected at most %.0f ranks on this host (4 MiB of free memory per rank), found %u", floor(most),
                 count);
}
