/* tune.c: `tutti tune` measures the algorithms on this machine and writes a selection table. Outside a job it starts
 * its ranks, as `tutti bench` does. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "boot/identity.h"
#include "cli/names.h"
#include "cli/progress.h"
#include "cli/tune.h"
#include "cli/units.h"
#include "locality/cpus.h"

struct tune_options {
  struct bench_options bench;
  const char *output;               /* file to which the table is written; NULL: standard output */
  bool collectives[TU_COLLECTIVES]; /* the collectives to measure */
  bool quiet;
  bool json; /* print the measurements as JSON; the table goes only to `output` */
};

/* ---- head of the table: measurement and machine ---- */

/* Writes ", " and the processor's name from /proc/cpuinfo to `name`; writes "" if the file has no name. */
static void processor(char *name, size_t name_bytes) {
  name[0] = '\0';
  FILE *file = fopen("/proc/cpuinfo", "re");
  char line[256];
  while (file && fgets(line, sizeof line, file)) {
    char *value = strstr(line, ": ");
    if (strncmp(line, "model name", 10) != 0 || !value) continue;
    value[strcspn(value, "\n")] = '\0';
    snprintf(name, name_bytes, ", %s", value + 2);
    break;
  }
  if (file) fclose(file);
}

/* Writes ", 2 hosts of 4 and 4 ranks" to the text; nothing if the ranks run on one host. */
static void write_hosts(const struct tu_placement *p, struct tu_text *text) {
  for (uint32_t h = 0; p && h < p->hosts; h++) {
    if (h == 0) tu_text_print(text, ", %u hosts of ", p->hosts);
    tu_text_print(text, "%s%u", h == 0 ? "" : h + 1 < p->hosts ? ", " : " and ", p->end[h] - tu_placement_first(p, h));
  }
  if (p) tu_text_print(text, " ranks%s", p->order ? ", not consecutive" : "");
}

static void write_head(const struct tune_options *options, uint32_t ranks, struct tu_text *text) {
  const struct bench_options *bench = &options->bench;
  char name[256];
  struct utsname machine;
  struct tu_cpus mine;
  processor(name, sizeof name);
  tu_text_print(text, "# Selection table: the algorithm of each collective by size; see tutti-tuning(5).\n");
  tu_text_print(text, "# Measured by tutti tune %d.%d.%d: %u ranks", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                TUTTI_VERSION_PATCH, ranks);
  write_hosts(bench->placement, text);
  tu_text_print(text, ", %u CPUs, --bind %s, %u ms for each algorithm and size.\n", tu_cpus_mine(&mine), bench->bind,
                bench->time_ms);
  if (uname(&machine) == 0) tu_text_print(text, "# Machine: %s %s%s.\n", machine.sysname, machine.machine, name);
  tu_text_print(text,
                "# Type %s, operation %s, root %u. Times are medians of %d rounds; algorithms within the noise of the\n"
                "# fastest count as equally fast.\n",
                tutti_datatype_name(bench->type), tutti_op_name(bench->op), bench->root, TUNE_ROUNDS);
}

/* ---- output: an existing file is replaced only by the complete table ---- After all measurements, the table is
 * written to a new file in the same folder, which is then renamed. Signals are blocked during this, so an interrupted
 * measurement leaves no file behind. A file that is not regular, such as /dev/null, is written directly. */

static bool is_special(const char *path) {
  struct stat there;
  return stat(path, &there) == 0 && !S_ISREG(there.st_mode);
}

/* Creates a new file in the folder of `path`. On failure sets errno and returns NULL. *draft receives the name of the
 * new file; the caller always frees it. */
static FILE *open_draft(const char *path, char **draft) {
  struct tu_text text = {0};
  tu_text_print(&text, "%s.XXXXXX", path);
  *draft = text.chars;
  mode_t mask = umask(0);
  umask(mask);
  int fd = mkostemp(*draft, O_CLOEXEC);
  if (fd < 0) return NULL;
  FILE *file = fchmod(fd, 0666 & ~mask) == 0 ? fdopen(fd, "w") : NULL;
  if (file) return file;
  int why = errno;
  close(fd);
  unlink(*draft);
  errno = why;
  return NULL;
}

/* Returns true if the output can be written; otherwise prints the reason. Called before the measurements, so that they
 * are not made in vain. path NULL: standard output. */
static bool output_check(const char *path) {
  if (!path) return true;
  char *draft = NULL;
  FILE *file = is_special(path) ? fopen(path, "we") : open_draft(path, &draft);
  if (!file) cli_fail("tune", CLI_FAILED, "--output: cannot write '%s': %s", path, strerror(errno));
  if (file) fclose(file);
  if (file && draft) unlink(draft);
  free(draft);
  return file != NULL;
}

static bool put_text(FILE *file, const struct tu_text *text) {
  bool good = file && fputs(text->chars, file) >= 0;
  return file && (file == stdout ? fflush(file) : fclose(file)) == 0 && good;
}

static bool replace_file(const char *path, const struct tu_text *text) {
  char *draft;
  FILE *file = open_draft(path, &draft);
  bool good = put_text(file, text) && rename(draft, path) == 0;
  int why = errno;
  if (file && !good) unlink(draft);
  free(draft);
  errno = why;
  return good;
}

static int output_write(const char *path, const struct tu_text *text) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  bool good = !path              ? put_text(stdout, text)
              : is_special(path) ? put_text(fopen(path, "we"), text)
                                 : replace_file(path, text);
  int why = errno;
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (good) return CLI_GOOD;
  return cli_fail("tune", CLI_FAILED, "cannot write '%s': %s", path ? path : "standard output", strerror(why));
}

/* ---- running as a rank ---- */

/* What tune() writes: the table, and the measurements as JSON. */
struct tune_results {
  struct tu_text text;
  struct json json;
};

/* All tables, and the budget for them. */
struct tune_work {
  struct tune_table tables[TU_COLLECTIVES]; /* [table_count] */
  uint32_t table_count;
  struct tune_budget budget;
};

/* Makes the tables of the collectives that have a choice: only a choice between several algorithms needs a rule. */
static void make_tables(struct tune_work *w, const struct tune_options *options, uint32_t ranks) {
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c)) {
    if (!options->collectives[c]) continue;
    struct tune_table *t = &w->tables[w->table_count];
    tune_table_init(t, &options->bench, c, ranks);
    if (t->candidate_count > 1) w->table_count++;
    else tune_table_fini(t);
  }
}

/* Plans how long all takes, and says it. */
static bool plan_all(struct bench_side *side, const struct tune_options *options, struct tune_work *w) {
  struct tune_budget *b = &w->budget;
  for (uint32_t i = 0; i < w->table_count; i++) {
    struct tune_table *t = &w->tables[i];
    if (!tune_plan(side, &options->bench, t)) return false;
    for (uint32_t size = 0; size < t->size_count; size++) b->planned += t->planned_s[size];
    b->sizes += t->size_count;
  }
  b->seconds = b->planned;
  const bool quiet = side->rank != 0 || options->quiet;
  if (!quiet && b->sizes > 0)
    fprintf(stderr, "tutti tune: %u collectives, %u sizes in all; takes about %s\n", w->table_count, b->sizes,
            units_duration(b->seconds).chars);
  progress_start(&(struct progress_task){
      .verb = "tune", .things = "sizes", .total = b->sizes, .work = b->planned, .quiet = quiet});
  b->begun = (double)tu_clock_ns() * 1e-9;
  return true;
}

static bool tune_collective(struct bench_side *side, const struct tune_options *options, struct tune_table *t,
                            struct tune_budget *budget, struct tune_results *results) {
  if (side->rank == 0 && !options->quiet) {
    progress_clear();
    fprintf(stderr, "tutti tune: %s: %u algorithms at %u sizes\n", tu_collectives[t->collective].name,
            t->candidate_count, t->size_count);
  }
  if (!tune_measure(side, &options->bench, t, budget)) return false;
  uint32_t *choices = tu_allocate(t->size_count, sizeof *choices);
  tune_choose(t, choices);
  tune_write(t, choices, &results->text);
  tune_write_json(t, choices, &results->json);
  free(choices);
  return true;
}

static bool tune_all(struct bench_side *side, const struct tune_options *options, struct tune_results *results) {
  struct tune_work *w = tu_allocate(1, sizeof *w);
  make_tables(w, options, side->ranks);
  bool good = plan_all(side, options, w);
  for (uint32_t i = 0; good && i < w->table_count; i++)
    good = tune_collective(side, options, &w->tables[i], &w->budget, results);
  progress_stop();
  for (uint32_t i = 0; i < w->table_count; i++) tune_table_fini(&w->tables[i]);
  free(w);
  return good;
}

/* Asserts that the written table can be read back. */
static void check_text(const struct tu_text *text) {
  const struct tu_tuning_text written = {"the table", text->chars, text->length, NULL};
  struct tu_tuning *tuning;
  tutti_err err = tu_tuning_read(&written, &tuning, NULL);
  tu_assert(err == TUTTI_OK);
  tu_tuning_release(tuning);
}

static void begin_json(const struct tune_options *options, uint32_t ranks, struct json *j) {
  const struct bench_options *bench = &options->bench;
  json_begin(j, "tune");
  json_count(j, "ranks", ranks);
  json_count(j, "hosts", bench->placement ? bench->placement->hosts : 1);
  json_text(j, "order", bench->canonical ? "canonical" : "any");
  json_text(j, "dtype", tutti_datatype_name(bench->type));
  json_text(j, "op", tutti_op_name(bench->op));
  json_open(j, "collectives", JSON_LIST);
}

/* Writes the table to its file, or to standard output if that does not get JSON. */
static int print_results(const struct tune_options *options, struct tune_results *results) {
  if (!options->json || options->output) {
    const int code = output_write(options->output, &results->text);
    if (code != CLI_GOOD) return code;
  }
  if (!options->json) return CLI_GOOD;
  json_close(&results->json, JSON_LIST);
  json_end(&results->json);
  return CLI_GOOD;
}

static int tune(struct bench_side *side, const struct tune_options *options) {
  struct tune_results results = {0};
  double refused = side->rank == 0 && !output_check(options->output);
  bool good = side->combine(side, &refused, 1, TUTTI_SUM) && refused == 0;
  write_head(options, side->ranks, &results.text);
  begin_json(options, side->ranks, &results.json);
  good = good && tune_all(side, options, &results);
  if (good) check_text(&results.text);
  int code = good ? CLI_GOOD : CLI_FAILED;
  if (good && side->rank == 0) code = print_results(options, &results);
  tu_text_fini(&results.text);
  json_drop(&results.json);
  return code;
}

static int run_rank(struct tune_options *options) {
  struct bench_side *side = bench_open("tune", (tutti_parallel){0});
  if (!side) return CLI_FAILED;
  options->bench.placement = side->placement;
  int code = CLI_USAGE;
  if (options->bench.ranks == 0 || options->bench.ranks == side->ranks) code = tune(side, options);
  else if (side->rank == 0)
    cli_fail("tune", CLI_USAGE, "-n %u is given, but this job has %u ranks; omit -n within a job", options->bench.ranks,
             side->ranks);
  return bench_close(side, code);
}

/* ---- the command line ---- */

static bool is_tunable(tutti_collective c) { return tu_collectives[c].family == c && c != TUTTI_SEND; }

static int read_collectives(int argc, char **argv, bool canonical, bool *wanted) {
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c))
    wanted[c] = argc < 2 && is_tunable((tutti_collective)c) && (!canonical || tu_reduces((tutti_collective)c));
  for (int i = 1; i < argc; i++) {
    tutti_collective c;
    if (!cli_find_collective(argv[i], &c)) {
      const char *near = tu_collective_nearest(argv[i]);
      return cli_fail("tune", CLI_USAGE, "expected a collective, found '%s'%s%s%s", argv[i],
                      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    if (tu_collectives[c].family == TUTTI_SEND)
      return cli_fail("tune", CLI_USAGE, "expected a collective with several algorithms, found '%s'", argv[i]);
    if (!is_tunable(c))
      return cli_fail("tune", CLI_USAGE, "%s uses the rules of %s; give that name instead", argv[i],
                      tu_collectives[tu_collectives[c].family].name);
    if (canonical && !tu_reduces(c))
      return cli_fail("tune", CLI_USAGE, "--order canonical: %s reduces nothing; name a collective that does", argv[i]);
    wanted[c] = true;
  }
  return CLI_GOOD;
}

static int read_options(int argc, char **argv, struct tune_options *options, bool *done) {
  struct bench_options *bench = &options->bench;
  const char *sizes = "8:16M:4", *order = NULL;
  *options = (struct tune_options){.bench = {.type = TUTTI_F32, .op = TUTTI_SUM, .time_ms = 100, .bind = "none"}};
  const struct cli_option table[] = {
      {"-n", CLI_UINT, &bench->ranks, "N", "number of ranks to start (within a job: its number of ranks)"},
      {"--bytes", CLI_STRING, &sizes, "LO:HI[:FACTOR],...", "sizes; suffixes K, M, G (8:16M:4; FACTOR 2)"},
      {"--time-ms", CLI_UINT, &bench->time_ms, "T", "approximate time per algorithm and size, in ms (100)"},
      {"--bind", CLI_STRING, &bench->bind, "core|none", "bind each rank to one CPU, as tutti run does (none)"},
      {"--order", CLI_STRING, &order, "any|canonical", "canonical: rules for calls that need this order (any)"},
      {"--output", CLI_STRING, &options->output, "FILE", "file of the table (standard output)"},
      {"--json", CLI_FLAG, &options->json, NULL,
       "print the measurements as one JSON object; the table goes only to --output"},
      QUIET_OPTION(&options->quiet),
  };
  int code = cli_parse(&cli_tune, table, sizeof table / sizeof table[0], &argc, argv, done);
  if (code != CLI_GOOD || *done) return code;
  if ((code = bench_read_sizes("tune", sizes, bench)) != CLI_GOOD) return code;
  if ((code = bench_read_order("tune", order, bench)) != CLI_GOOD) return code;
  if (strcmp(bench->bind, "core") != 0 && strcmp(bench->bind, "none") != 0)
    return cli_fail("tune", CLI_USAGE, "--bind: expected 'core' or 'none', found '%s'", bench->bind);
  return read_collectives(argc, argv, bench->canonical, options->collectives);
}

static int run(int argc, char **argv) {
  /* cli_parse reorders its arguments. Parse a copy, so that the ranks get the original arguments. */
  char **copy = tu_allocate((size_t)argc + 1, sizeof *copy);
  memcpy(copy, argv, (size_t)argc * sizeof *copy);
  struct tune_options options;
  bool done;
  int code = read_options(argc, copy, &options, &done);
  struct tu_boot_identity identity;
  struct tu_error error;
  if (code == CLI_GOOD && !done && tu_boot_identity_read(&identity, &error) != TUTTI_OK)
    code = cli_fail("tune", CLI_USAGE, "%s", error.text);
  if (code == CLI_GOOD && !done && identity.alone && options.bench.ranks < 2)
    code = cli_fail("tune", CLI_USAGE, "-n: expected the number of ranks to start, at least 2");
  if (code == CLI_GOOD && !done)
    code =
        identity.alone ? bench_launch("tune", options.bench.ranks, options.bench.bind, argc, argv) : run_rank(&options);
  free(copy);
  return code;
}

const struct cli_verb cli_tune = {
    .name = "tune",
    .summary = "measure the algorithms on this machine and write a selection table",
    .synopsis = "tune [COLLECTIVE ...] -n N [--output FILE] [options]",
    .run = run,
    .arguments = "FAMILY",
};
