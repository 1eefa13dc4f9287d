/* budget.c: refuses what would take too long or too much memory, by an estimate that takes some milliseconds. */
#include "budget.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "algo/cost.h"
#include "base/text.h"

/* Beyond so few ranks, times the pieces of their blocks, an estimate costs less than the plan itself. */
enum { RANKS_FEW = 256 };

/* Steps, messages, cells and nodes of graphs are counted in 32 bits, some of them with a sign. */
#define ITEMS_MAX 2e9

/* Measured over all algorithms at 128 ranks; between them they differ by 1.5 or less. */
#define WORK_SECONDS 80e-9
#define PROCESS_BYTES (4 << 20)
#define ENTRY_BYTES 48
#define CHUNK_BYTES 24
#define CELL_BYTES 32
#define WORK_BYTES 8 /* of one rank's steps: what an algorithm notes of the other ranks */
static const struct {
  double item_seconds, item_bytes;
  bool chunks; /* items are entries and chunks, not entries only */
} uses[BUDGET_USES] = {
    [BUDGET_TEXT] = {200e-9, 0, false},
    [BUDGET_DRAW] = {1300e-9, 160, false},
    [BUDGET_CHECK] = {180e-9, 60, true},
    [BUDGET_SIM] = {120e-9, 60, false},
};

struct price {
  double seconds, bytes, steps;
  bool countable;
};

static struct price price_of(const struct budget_question *q, const struct tu_build *what, struct tu_cost_memo *memo) {
  struct tu_cost cost;
  tu_cost_estimate(what, memo, &cost);
  double items = cost.entries + (uses[q->use].chunks ? cost.chunks : 0);
  double cells = fmin(CHUNK_BYTES * cost.chunks, CELL_BYTES * cost.work); /* runs of chunks are kept as one */
  double noted = what->rank == TU_ALL_RANKS ? 0 : WORK_BYTES * cost.work;
  return (struct price){
      .seconds = (WORK_SECONDS * cost.work + uses[q->use].item_seconds * items) * (double)tu_max(q->times, 1),
      .bytes = ENTRY_BYTES * cost.entries + cells + uses[q->use].item_bytes * items + noted,
      .steps = cost.steps,
      .countable = items < ITEMS_MAX};
}

/* ---- what there is ---- */

/* The number in a file of the kernel's; infinity if there is none ("max"). */
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

/* Bytes that may still be taken: of the machine's, of the container's (cgroups 2 and 1). */
static double shared_bytes(void) {
  double bytes = available_in_machine();
  double container = number_in("/sys/fs/cgroup/memory.max") - number_in("/sys/fs/cgroup/memory.current");
  if (container > 0 && container < bytes) bytes = container;
  container = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes") -
              number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes");
  return container > 0 && container < bytes ? container : bytes;
}

/* ... and of this process's own limit. */
static double free_bytes(void) {
  double bytes = shared_bytes();
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (double)limit.rlim_cur < bytes)
    bytes = (double)limit.rlim_cur;
  return bytes;
}

/* ---- the rule ---- */

struct bounds {
  double seconds, bytes;
  struct tu_cost_memo memo;
};

static bool within(const struct price *p, const struct bounds *b) {
  return p->countable && p->seconds <= b->seconds && p->bytes <= b->bytes;
}

static bool possible(const struct budget_question *q, const struct tu_algorithm *a, uint32_t ranks, struct bounds *b,
                     struct price *price) {
  struct tu_build what = q->what;
  what.algorithm = a;
  what.ranks = ranks;
  what.root %= ranks;
  if (what.rank != TU_ALL_RANKS) what.rank %= ranks;
  *price = price_of(q, &what, &b->memo);
  return within(price, b);
}

/* The most ranks, below those that are asked for, with which it is possible, to about a sixteenth; 0: none. */
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

/* The quickest algorithm of the collective with which it is possible, or NULL. */
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

static void print_seconds(struct tu_text *text, double seconds) {
  static const struct {
    double seconds;
    const char *name;
  } units[] = {{31557600, "years"}, {86400, "days"}, {3600, "hours"}, {60, "minutes"}};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (seconds >= 2 * units[i].seconds) {
      tu_text_print(text, "%.0f %s", seconds / units[i].seconds, units[i].name);
      return;
    }
  tu_text_print(text, "%.2g s", seconds);
}

static void print_bytes(struct tu_text *text, double bytes) {
  static const char *const names[] = {"MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  bytes /= 1 << 20;
  for (; bytes >= 1024 && unit < 3; unit++) bytes /= 1024;
  tu_text_print(text, "%.3g %s", bytes, names[unit]);
}

static int refuse(const struct budget_question *q, const struct price *price, struct bounds *b) {
  const char *collective = tu_collectives[q->what.algorithm->collective].name;
  struct tu_text text = {0};
  struct price least;
  tu_text_print(&text, "%s.%s with %u ranks has about %.2g steps%s, and ", collective, q->what.algorithm->name,
                q->what.ranks, price->steps, q->what.rank == TU_ALL_RANKS ? "" : " a rank");
  if (q->times > 1) tu_text_print(&text, "%u such plans ", q->times);
  tu_text_print(&text, "would take about ");
  print_seconds(&text, price->seconds);
  tu_text_print(&text, " and ");
  print_bytes(&text, price->bytes);
  tu_text_print(&text, "; the limits are ");
  print_seconds(&text, b->seconds);
  tu_text_print(&text, " (--max-seconds) and the ");
  print_bytes(&text, b->bytes);
  tu_text_print(&text, " that are free here");
  uint32_t ranks = ranks_possible(q, b);
  if (ranks > 0) tu_text_print(&text, "; up to %u ranks it can be done", ranks);
  const struct tu_algorithm *other = other_algorithm(q, b, &least);
  if (other) tu_text_print(&text, "; with %u, %s.%s can", q->what.ranks, collective, other->name);
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
  return within(&price, &bounds) ? CLI_GOOD : refuse(question, &price, &bounds);
}

int budget_allow_processes(const char *verb, uint32_t count) {
  double most = shared_bytes() * 3 / 4 / PROCESS_BYTES;
  if (count <= most) return CLI_GOOD;
  return cli_fail(verb, CLI_FAILED,
                  "-n: expected at most %.0f ranks, of 4 MiB each in the memory that is free here, found %u",
                  floor(most), count);
}

/* ---- time ---- */

static char telling[80];
static unsigned told_seconds;

/* Nothing but what a signal handler may do. */
static void tell(int signal) {
  (void)signal;
  char digits[16], *at = digits + sizeof digits;
  unsigned seconds = told_seconds;
  static const char rest[] = " s, still at work; Ctrl-C ends it\n";
  do *--at = (char)('0' + seconds % 10);
  while ((seconds /= 10) > 0);
  (void)!write(STDERR_FILENO, telling, strlen(telling));
  (void)!write(STDERR_FILENO, at, (size_t)(digits + sizeof digits - at));
  (void)!write(STDERR_FILENO, rest, sizeof rest - 1);
  alarm(told_seconds);
  told_seconds *= 2;
}

void budget_tell_time(const char *verb) {
  if (!isatty(STDERR_FILENO)) return;
  snprintf(telling, sizeof telling, "tutti %s: ", verb);
  told_seconds = 10;
  struct sigaction action = {.sa_handler = tell, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  alarm(told_seconds);
}
