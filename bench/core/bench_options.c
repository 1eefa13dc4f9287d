/* bench_options.c: parses the command line of the benchmark. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/types.h"
#include "bench/core/core.h"
#include "cli/names.h"
#include "engine/kernels.h"

enum { COLLECTIVE_BYTES = 32, COUNT_MAX = 1000000, THREADS_MAX = 1024 };

/* Appends LO:HI[:FACTOR], or one size, to the ascending list of sizes. */
static bool parse_range(char *text, struct bench_options *options) {
  char *high = strchr(text, ':'), *factor = NULL;
  if (high) {
    *high++ = '\0';
    factor = strchr(high, ':');
    if (factor) *factor++ = '\0';
  }
  uint64_t bytes, last, times = 2;
  if (!tu_parse_bytes(text, &bytes) || !tu_parse_bytes(high ? high : text, &last)) return false;
  if (factor && !tu_parse_uint(factor, UINT32_MAX, &times)) return false;
  if (bytes > last || last > PTRDIFF_MAX || times < 2) return false;
  if (options->size_count > 0 && bytes <= options->sizes[options->size_count - 1]) return false;
  do {
    if (options->size_count == BENCH_SIZES_MAX) return false;
    options->sizes[options->size_count++] = bytes;
    if (bytes == 0) bytes = 1;
    else if (__builtin_mul_overflow(bytes, times, &bytes)) break;
  } while (bytes <= last);
  return true;
}

static bool parse_sizes(const char *text, struct bench_options *options) {
  char copy[512];
  if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy) return false;
  options->size_count = 0;
  for (char *range = copy, *next; range; range = next) {
    next = strchr(range, ',');
    if (next) *next++ = '\0';
    if (!parse_range(range, options)) return false;
  }
  return true;
}

int bench_read_sizes(const char *verb, const char *text, struct bench_options *options) {
  if (parse_sizes(text, options)) return CLI_GOOD;
  return cli_fail(verb, CLI_USAGE,
                  "--bytes: expected up to %d ascending sizes or ranges LO:HI[:FACTOR], as 8,64,1K:64M:4, LO <= HI and "
                  "FACTOR >= 2; found '%s'",
                  BENCH_SIZES_MAX, text);
}

static int fail_name_of_list(const char *verb, const char *option, const char *word, const char *const names[],
                             size_t count) {
  const char *near = tu_nearest(word, names, count);
  if (near) return cli_fail(verb, CLI_USAGE, "%s: unknown name '%s'; did you mean '%s'?", option, word, near);
  return cli_fail(verb, CLI_USAGE, "%s: unknown name '%s'; tutti info lists the names", option, word);
}

static int read_arithmetic(const char *verb, const char *type, const char *op, struct bench_options *options) {
  const char *names[TU_DATATYPES + TU_OPS];
  size_t count = 0;
  if (!cli_find_datatype(type, &options->type)) {
    for (tutti_datatype i = 0; i < TU_DATATYPES; i = tu_datatype_next(i)) names[count++] = tu_datatypes[i].name;
    return fail_name_of_list(verb, "--dtype", type, names, count);
  }
  if (tu_item_elements(options->type) > 1)
    return cli_fail(verb, CLI_USAGE, "--dtype: expected a type of vectors, found %s, which only tiled tensors can have",
                    type);
  if (!tu_operation_find(op, &options->op)) {
    for (unsigned i = 0; i < TU_OPS; i++) names[i] = tu_operations[i].name;
    return fail_name_of_list(verb, "--op", op, names, TU_OPS);
  }
  struct tu_error error;
  const struct tu_arithmetic a = {.type = options->type, .op = options->op, .scale = 1, .divisor = 1};
  if (tu_arithmetic_check(&a, &error) != TUTTI_OK) return cli_fail(verb, CLI_USAGE, "--op: %s", error.text);
  return CLI_GOOD;
}

/* Splits a name into collective and algorithm (NULL: none). A vector variant stays a vector variant. */
static bool find_collective(const char *word, tutti_collective *collective, const char **algorithm) {
  char name[COLLECTIVE_BYTES];
  size_t length = strcspn(word, ".");
  if (length >= sizeof name) return false;
  memcpy(name, word, length);
  name[length] = '\0';
  *algorithm = word[length] ? word + length + 1 : NULL;
  return cli_find_collective(name, collective);
}

static int check_op(const char *verb, tutti_collective c, const struct bench_options *options) {
  if (options->op == TUTTI_AVG && tu_collectives[c].promise > TU_SUM_OF_ALL)
    return cli_fail(verb, CLI_USAGE, "--op: avg is not supported by %s", tu_collectives[c].name);
  return CLI_GOOD;
}

/* Reads the plan, which sets the collective, the number of ranks and the root. */
static int read_plan(const char *verb, struct bench_options *options) {
  struct tu_error error;
  if (strcmp(options->plan_path, "-") == 0)
    return cli_fail(verb, CLI_USAGE, "--plan: expected a file, because every rank reads it; found '-'");
  tutti_err err = cli_read_plan(options->plan_path, false, &options->plan, &error);
  if (err != TUTTI_OK)
    return cli_fail(verb, err == TUTTI_ERR_ARGUMENT || err == TUTTI_ERR_MEMORY ? CLI_FAILED : CLI_USAGE, "--plan: %s",
                    error.text);
  const struct tu_plan *p = options->plan;
  if (p->collective == TUTTI_SEND)
    return cli_fail(verb, CLI_USAGE, "--plan: expected a plan of a collective, but '%s' is a plan of send",
                    p->algorithm);
  if (options->ranks && options->ranks != p->ranks)
    return cli_fail(verb, CLI_USAGE, "-n: expected %u, the number of ranks of plan '%s', found %u", p->ranks,
                    p->algorithm, options->ranks);
  if (options->root && options->root != p->root)
    return cli_fail(verb, CLI_USAGE, "--root: expected %u, the root of plan '%s', found %u", p->root, p->algorithm,
                    options->root);
  options->ranks = p->ranks;
  options->root = p->root;
  options->name_count = 0;
  return check_op(verb, p->collective, options);
}

void bench_options_fini(struct bench_options *options) {
  tu_plan_destroy(options->plan);
  options->plan = NULL;
}

/* Checks that the collective or the given algorithm supports the lanes. If the library chooses the algorithm, checks
 * only the library's limit. */
static int check_lanes(const char *verb, const char *word, tutti_collective c, const char *algorithm, uint32_t lanes) {
  const struct tu_algorithm *a = algorithm ? tu_algorithm_find(c, algorithm) : NULL;
  uint32_t most = c == TUTTI_BARRIER ? 0 : a ? tu_build_lanes_max(a) : TU_LANES_MAX;
  if (lanes <= most) return CLI_GOOD;
  return cli_fail(verb, CLI_USAGE, "--lanes: %s supports at most %u, found %u", word, most, lanes);
}

static int check_name(const char *verb, const char *word, const struct bench_options *options) {
  tutti_collective c;
  const char *algorithm;
  if (!find_collective(word, &c, &algorithm)) return cli_fail_name(verb, CLI_USAGE, word);
  if (c == TUTTI_RECV) return cli_fail(verb, CLI_USAGE, "recv is measured together with send; expected 'send'");
  if (algorithm && c == TUTTI_SEND)
    return cli_fail(verb, CLI_USAGE, "%s: send has no choice of algorithms; expected 'send'", word);
  if (algorithm && strcmp(algorithm, "all") != 0 && !tu_algorithm_find(c, algorithm))
    return cli_fail_name(verb, CLI_USAGE, word);
  int code = check_lanes(verb, word, c, algorithm, options->lanes);
  return code == CLI_GOOD ? check_op(verb, c, options) : code;
}

int bench_read_order(const char *verb, const char *order, struct bench_options *options) {
  const int code = cli_read_order(verb, order, &options->canonical);
  if (code == CLI_GOOD && order && setenv("TUTTI_ORDER", order, 1) != 0)
    return cli_fail(verb, CLI_FAILED, "TUTTI_ORDER cannot be set: out of memory");
  return code;
}

/* Reads a number of samples, if the option is given. */
static int read_count(const char *verb, const char *option, const char *text, uint32_t least, uint32_t *count) {
  uint64_t number;
  if (!text) return CLI_GOOD;
  if (!tu_parse_uint(text, COUNT_MAX, &number) || number < least)
    return cli_fail(verb, CLI_USAGE, "%s: expected an integer from %u to %d, found '%s'", option, least, COUNT_MAX,
                    text);
  *count = (uint32_t)number;
  return CLI_GOOD;
}

/* Arguments of options, before they are checked. */
struct words {
  const char *sizes, *type, *op, *mode, *order, *warmup, *iterations;
};

static int parse(const struct cli_verb *verb, int *argc, char **argv, struct bench_options *o, struct words *w,
                 bool *done) {
  const struct cli_option table[] = {
      {"-n", CLI_UINT, &o->ranks, "N", "number of ranks to start; in a job: its number of ranks"},
      {"--bytes", CLI_STRING, &w->sizes, "LO:HI[:FACTOR],...", "sizes, optionally with K, M or G (8:16M:4; FACTOR 2)"},
      {"--dtype", CLI_STRING, &w->type, "TYPE", "type of the elements (f32)"},
      {"--op", CLI_STRING, &w->op, "OP", "operation of reducing collectives (sum)"},
      {"--root", CLI_UINT, &o->root, "R", "root of rooted collectives (0)"},
      {"--lanes", CLI_UINT, &o->lanes, "L", "number of parallel lanes (0: the library chooses)"},
      {"--order", CLI_STRING, &w->order, "any|canonical", "order of reductions, as TUTTI_ORDER (any)"},
      {"--mode", CLI_STRING, &w->mode, "loop|barrier",
       "barrier: a barrier before each operation, at every size (loop)"},
      {"--time-ms", CLI_UINT, &o->time_ms, "T", "approximate time to measure each size, in ms (200)"},
      {"--warmup", CLI_STRING, &w->warmup, "N", "samples that are not counted, before the others (by --time-ms)"},
      {"--iterations", CLI_STRING, &w->iterations, "N", "samples that are counted (as many as fit into --time-ms)"},
      {"--late-ms", CLI_UINT, &o->late_ms, "T",
       "measure CPU time instead: of ranks that wait for the last rank, which is T ms late"},
      {"--pool", CLI_UINT, &o->pool, "T", "T threads of each rank compute half of the time while it measures (0)"},
      {"--threads", CLI_UINT, &o->threads, "T", "T threads of each rank share out its long copies and reductions (1)"},
      {"--bind", CLI_STRING, &o->bind, "core|none", "bind each rank to one CPU, as tutti run does (none)"},
      {"--plan", CLI_STRING, &o->plan_path, "FILE",
       "measure this plan: a file in the format of tutti-plan(5) or MSCCL"},
      {"--out-of-place", CLI_FLAG, &o->out_of_place, NULL, "do not measure in place; half the time"},
      {"--heap", CLI_FLAG, &o->heap, NULL, "use buffers from tutti_alloc, which all ranks can access"},
      {"--poll", CLI_FLAG, &o->poll, NULL, "poll until an operation is done, instead of waiting for it"},
      {"--each", CLI_FLAG, &o->each, NULL, "print also each rank's own time, on a line below"},
      QUIET_OPTION(&o->quiet),
      {"--json", CLI_FLAG, &o->json, NULL, "print one JSON object per line"},
      {"--csv", CLI_FLAG, &o->csv, NULL, "print the fields of --json as CSV, with their names in the first line"},
  };
  return cli_parse(verb, table, sizeof table / sizeof table[0], argc, argv, done);
}

/* Checks the options that concern how a size is measured. */
static int read_manner(const char *verb, const struct words *w, struct bench_options *options) {
  int code = read_count(verb, "--warmup", w->warmup, 0, &options->warmup);
  if (code == CLI_GOOD) code = read_count(verb, "--iterations", w->iterations, 1, &options->iterations);
  if (code != CLI_GOOD) return code;
  options->fixed_warmup = w->warmup != NULL;
  if (options->late_ms && (w->warmup || w->iterations))
    return cli_fail(verb, CLI_USAGE, "--late-ms: always ten samples; leave --warmup and --iterations out");
  if (options->pool > THREADS_MAX)
    return cli_fail(verb, CLI_USAGE, "--pool: expected 0 to %d threads for each rank, found %u", THREADS_MAX,
                    options->pool);
  if (options->late_ms && options->pool)
    return cli_fail(verb, CLI_USAGE, "--late-ms: a pool uses CPU time while ranks wait; leave --pool out");
  if (options->threads < 1 || options->threads > THREADS_MAX)
    return cli_fail(verb, CLI_USAGE, "--threads: expected 1 to %d threads for each rank, found %u", THREADS_MAX,
                    options->threads);
  if (options->threads > 1 && strcmp(options->bind, "core") == 0)
    return cli_fail(verb, CLI_USAGE,
                    "--threads: ranks bound to one CPU have none for more threads; leave --bind core out");
  if (options->json && options->csv) return cli_fail(verb, CLI_USAGE, "expected one of --json and --csv, found both");
  options->barrier = strcmp(w->mode, "barrier") == 0;
  if (!options->barrier && strcmp(w->mode, "loop") != 0)
    return cli_fail(verb, CLI_USAGE, "--mode: expected 'loop' or 'barrier', found '%s'", w->mode);
  if (strcmp(options->bind, "core") != 0 && strcmp(options->bind, "none") != 0)
    return cli_fail(verb, CLI_USAGE, "--bind: expected 'core' or 'none', found '%s'", options->bind);
  if (options->lanes > TU_LANES_MAX || (options->lanes > 0 && options->plan_path))
    return cli_fail(verb, CLI_USAGE, "--lanes: expected 1 to %u, and no --plan, which has its own lanes; found %u",
                    TU_LANES_MAX, options->lanes);
  return CLI_GOOD;
}

int bench_read_options(const struct cli_verb *verb, int argc, char **argv, struct bench_options *options, bool *done) {
  static char allreduce[] = "allreduce";
  static char *default_names[] = {allreduce, NULL};
  struct words w = {.sizes = "8:16M:4", .type = "f32", .op = "sum", .mode = "loop"};
  *options = (struct bench_options){.verb = verb->name, .time_ms = 200, .threads = 1, .bind = "none"};
  int code = parse(verb, &argc, argv, options, &w, done);
  if (code != CLI_GOOD || *done) return code;
  if (options->plan_path && argc > 1)
    return cli_fail(verb->name, CLI_USAGE, "--plan: the plan sets the collective; leave '%s' out", argv[1]);
  if ((code = bench_read_sizes(verb->name, w.sizes, options)) != CLI_GOOD) return code;
  if ((code = bench_read_order(verb->name, w.order, options)) != CLI_GOOD) return code;
  if ((code = read_manner(verb->name, &w, options)) != CLI_GOOD) return code;
  options->names = argc > 1 ? argv + 1 : default_names;
  options->name_count = argc > 1 ? (uint32_t)argc - 1 : 1;
  code = read_arithmetic(verb->name, w.type, w.op, options);
  if (code == CLI_GOOD && options->plan_path) code = read_plan(verb->name, options);
  for (uint32_t i = 0; code == CLI_GOOD && i < options->name_count; i++)
    code = check_name(verb->name, options->names[i], options);
  return code;
}

/* ---- the items ---- */

/* Appends an item if it can run. Otherwise, a forced algorithm is an error of the user; an algorithm of "all" is
 * skipped. */
static int add_item(const char *verb, bool quiet, bool forced, uint32_t ranks, const struct bench_options *options,
                    struct bench_item item, struct bench_item *items, uint32_t *count) {
  const struct tu_collective *c = &tu_collectives[item.collective];
  if (item.algorithm) {
    /* The blocks of vector variants have unequal lengths in this benchmark. */
    const struct tu_wanted wanted = {.collective = item.collective,
                                     .ranks = ranks,
                                     .any_blocks = c->vector,
                                     .placement = options->placement,
                                     .canonical = options->canonical && tu_reduces(item.collective)};
    const char *why;
    if (!tu_algorithm_serves(item.algorithm, &wanted, &why)) {
      if (forced && quiet) return CLI_USAGE;
      if (forced)
        return cli_fail(verb, CLI_USAGE, "%s.%s cannot run on %u ranks: %s", c->name, item.algorithm->name, ranks, why);
      if (!quiet) cli_fail(verb, CLI_GOOD, "%s.%s skipped: %s", c->name, item.algorithm->name, why);
      return CLI_GOOD;
    }
    if (!forced && options->lanes > tu_build_lanes_max(item.algorithm)) {
      if (!quiet)
        cli_fail(verb, CLI_GOOD, "%s.%s skipped: it supports at most %u lanes", c->name, item.algorithm->name,
                 tu_build_lanes_max(item.algorithm));
      return CLI_GOOD;
    }
  }
  items[(*count)++] = item;
  return CLI_GOOD;
}

static int check_ranks(const char *verb, const struct bench_options *options, uint32_t ranks, bool quiet,
                       tutti_collective collective) {
  if (collective == TUTTI_SEND && ranks != 2)
    return quiet ? CLI_USAGE : cli_fail(verb, CLI_USAGE, "send: expected 2 ranks, found %u", ranks);
  if (options->root >= ranks)
    return quiet ? CLI_USAGE
                 : cli_fail(verb, CLI_USAGE, "--root: expected a rank below %u, found %u", ranks, options->root);
  return CLI_GOOD;
}

int bench_list_items(const char *verb, const struct bench_options *options, uint32_t ranks, bool quiet,
                     struct bench_item **items, uint32_t *item_count) {
  *items = tu_allocate(1 + options->name_count * (tu_algorithm_count + 1), sizeof **items);
  *item_count = 0;
  int code = CLI_GOOD;
  if (options->plan)
    (*items)[(*item_count)++] = (struct bench_item){.collective = options->plan->collective, .plan = options->plan};
  for (uint32_t i = 0; i < options->name_count && code == CLI_GOOD; i++) {
    struct bench_item item = {0};
    const char *name;
    bool found = find_collective(options->names[i], &item.collective, &name);
    tu_assert(found);
    code = check_ranks(verb, options, ranks, quiet, item.collective);
    if (code != CLI_GOOD) break;
    bool all = name && strcmp(name, "all") == 0;
    if (!all) {
      if (name) item.algorithm = tu_algorithm_find(item.collective, name);
      code = add_item(verb, quiet, true, ranks, options, item, *items, item_count);
    }
    for (size_t k = 0; all && k < tu_algorithm_count; k++) {
      item.algorithm = tu_algorithms[k];
      if (item.algorithm->collective == tu_collectives[item.collective].family)
        add_item(verb, quiet, false, ranks, options, item, *items, item_count);
    }
  }
  if (code != CLI_GOOD) {
    free(*items);
    *items = NULL;
  }
  return code;
}
