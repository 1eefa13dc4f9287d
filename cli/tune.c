/* tune.c: `tutti tune` measures the algorithms on this machine and writes a selection table. Like the benchmark it starts
 * its own ranks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cpus.h"
#include "boot/boot.h"
#include "tune.h"

struct tune_options {
  struct bench_options bench;
  const char *output;                  /* NULL: standard output */
  bool collectives[TUTTI_COLLECTIVES]; /* which are wanted */
};

/* ---- the table's head: what was measured, on what ---- */

/* The processor, as Linux names it; "" if it does not. */
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

static void write_head(const struct tune_options *options, uint32_t ranks, struct tu_text *text) {
  const struct bench_options *bench = &options->bench;
  char name[256];
  struct utsname machine;
  struct tu_cpus mine;
  processor(name, sizeof name);
  tu_text_print(text, "# Which algorithm runs for which size: a selection table; tutti-tuning(5) describes it.\n");
  tu_text_print(text,
                "# Measured by tutti tune %d.%d.%d: %u ranks, %u CPUs, --bind %s, %u ms for each algorithm and size.\n",
                TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH, ranks, tu_cpus_mine(&mine), bench->bind,
                bench->time_ms);
  if (uname(&machine) == 0) tu_text_print(text, "# Machine: %s %s%s.\n", machine.sysname, machine.machine, name);
  tu_text_print(text,
                "# Type %s, operation %s, root %u. Times are medians of %d rounds; choices within the noise of the\n"
                "# fastest count as equal to it.\n",
                tutti_datatype_name(bench->type), tutti_op_name(bench->op), bench->root, TUNE_ROUNDS);
}

/* ---- the output: beside the file until it is complete, so that a table that is there stays until it can be replaced ---- */

struct output {
  FILE *file; /* NULL: not open */
  char *path; /* NULL: standard output */
  char *draft;
};

static void output_fini(struct output *o) {
  free(o->path);
  free(o->draft);
  *o = (struct output){0};
}

static bool output_open(struct output *o, const char *path) {
  *o = (struct output){.file = stdout};
  if (!path) return true;
  struct tu_text text = {0}, draft = {0};
  tu_text_print(&text, "%s", path);
  tu_text_print(&draft, "%s.new", path);
  *o = (struct output){.file = fopen(draft.chars, "we"), .path = text.chars, .draft = draft.chars};
  if (o->file) return true;
  cli_fail("tune", CLI_FAILED, "--output: cannot write '%s': %s", o->draft, strerror(errno));
  output_fini(o);
  return false;
}

/* text = NULL: there is nothing to write, it has failed before. */
static int output_close(struct output *o, const struct tu_text *text) {
  if (!o->file) return text ? CLI_GOOD : CLI_FAILED;
  bool good = !text || fputs(text->chars, o->file) >= 0;
  good = (o->path ? fclose(o->file) : fflush(o->file)) == 0 && good;
  if (o->path && text && good) good = rename(o->draft, o->path) == 0;
  if (!good)
    cli_fail("tune", CLI_FAILED, "cannot write '%s': %s", o->path ? o->path : "standard output", strerror(errno));
  good = good && text;
  if (o->path && !good) remove(o->draft);
  output_fini(o);
  return good ? CLI_GOOD : CLI_FAILED;
}

/* ---- as a rank ---- */

static bool tune_collective(struct bench_side *side, const struct bench_options *options, tutti_collective collective,
                            struct tu_text *text) {
  struct tune_table t;
  tune_table_init(&t, options, collective, side->ranks);
  bool good = true;
  if (t.candidate_count > 1) { /* where there is no choice the built-in table has it already */
    if (side->rank == 0)
      fprintf(stderr, "tutti tune: %s: %u algorithms at %u sizes\n", tu_collectives[collective].name, t.candidate_count,
              t.size_count);
    good = tune_measure(side, options, &t);
    if (good) {
      uint32_t *choices = tu_allocate(t.size_count, sizeof *choices);
      tune_choose(&t, choices);
      tune_write(&t, choices, text);
      free(choices);
    }
  }
  tune_table_fini(&t);
  return good;
}

/* What is written is what can be read: our own fault if not. */
static void check_text(const struct tu_text *text) {
  const struct tu_tuning_text written = {"the table", text->chars, text->length, NULL};
  struct tu_tuning *tuning;
  tutti_err err = tu_tuning_read(&written, &tuning, NULL);
  tu_assert(err == TUTTI_OK);
  tu_tuning_release(tuning);
}

static int tune(struct bench_side *side, const struct tune_options *options) {
  struct output output = {0}; /* rank 0's */
  struct tu_text text = {0};
  double refused = side->rank == 0 && !output_open(&output, options->output);
  bool good = side->combine(side, &refused, 1, TUTTI_SUM) && refused == 0;
  write_head(options, side->ranks, &text);
  for (unsigned c = 0; good && c < TUTTI_COLLECTIVES; c++)
    if (options->collectives[c]) good = tune_collective(side, &options->bench, (tutti_collective)c, &text);
  if (good) check_text(&text);
  int code = output_close(&output, good ? &text : NULL);
  tu_text_fini(&text);
  return code;
}

static int run_rank(const struct tune_options *options) {
  struct bench_side *side = bench_open("tune");
  if (!side) return CLI_FAILED;
  int code = CLI_USAGE;
  if (options->bench.ranks == 0 || options->bench.ranks == side->ranks) code = tune(side, options);
  else if (side->rank == 0)
    cli_fail("tune", CLI_USAGE, "-n %u, but this job has %u ranks; leave -n out within a job", options->bench.ranks,
             side->ranks);
  return bench_close(side, code);
}

/* ---- the command line ---- */

static bool is_tunable(tutti_collective c) { return tu_collectives[c].family == c && c != TUTTI_SEND; }

static int read_collectives(int argc, char **argv, bool *wanted) {
  for (unsigned c = 0; c < TUTTI_COLLECTIVES; c++) wanted[c] = argc < 2 && is_tunable((tutti_collective)c);
  for (int i = 1; i < argc; i++) {
    tutti_collective c;
    if (!tu_collective_find(argv[i], &c)) {
      const char *near = tu_collective_nearest(argv[i]);
      return cli_fail("tune", CLI_USAGE, "expected a collective, found '%s'%s%s%s", argv[i],
                      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    if (tu_collectives[c].family == TUTTI_SEND)
      return cli_fail("tune", CLI_USAGE, "expected a collective, found '%s': there is nothing to choose", argv[i]);
    if (!is_tunable(c))
      return cli_fail("tune", CLI_USAGE, "%s: the rules of %s serve it; name that", argv[i],
                      tu_collectives[tu_collectives[c].family].name);
    wanted[c] = true;
  }
  return CLI_GOOD;
}

static int read_options(int argc, char **argv, struct tune_options *options, bool *done) {
  struct bench_options *bench = &options->bench;
  const char *sizes = "8:16M:4";
  *options = (struct tune_options){.bench = {.type = TUTTI_F32, .op = TUTTI_SUM, .time_ms = 100, .bind = "none"}};
  const struct cli_option table[] = {
      {"-n", CLI_UINT, &bench->ranks, "N", "how many ranks to start; within a job: how many it has"},
      {"--bytes", CLI_STRING, &sizes, "LO:HI[:FACTOR],...", "sizes, with K, M or G if wanted (8:16M:4; FACTOR 2)"},
      {"--time-ms", CLI_UINT, &bench->time_ms, "T", "about how long to measure each algorithm at each size (100)"},
      {"--bind", CLI_STRING, &bench->bind, "core|none", "bind each rank to one CPU, as tutti run does (none)"},
      {"--output", CLI_STRING, &options->output, "FILE", "where the table goes (standard output)"},
  };
  int code = cli_parse(&cli_tune, table, sizeof table / sizeof table[0], &argc, argv, done);
  if (code != CLI_GOOD || *done) return code;
  if ((code = bench_read_sizes("tune", sizes, bench)) != CLI_GOOD) return code;
  if (strcmp(bench->bind, "core") != 0 && strcmp(bench->bind, "none") != 0)
    return cli_fail("tune", CLI_USAGE, "--bind: expected 'core' or 'none', found '%s'", bench->bind);
  return read_collectives(argc, argv, options->collectives);
}

static int run(int argc, char **argv) {
  /* Reading the options moves them about; the ranks get them as they were. */
  char **copy = tu_allocate((size_t)argc + 1, sizeof *copy);
  memcpy(copy, argv, (size_t)argc * sizeof *copy);
  struct tune_options options;
  bool done;
  int code = read_options(argc, copy, &options, &done);
  struct tu_boot_place place;
  struct tu_error error;
  if (code == CLI_GOOD && !done && tu_boot_place(&place, &error) != TUTTI_OK)
    code = cli_fail("tune", CLI_USAGE, "%s", error.text);
  if (code == CLI_GOOD && !done && place.alone && options.bench.ranks < 2)
    code = cli_fail("tune", CLI_USAGE, "-n N is needed, the number of ranks to start, 2 at least");
  if (code == CLI_GOOD && !done)
    code = place.alone ? bench_launch("tune", options.bench.ranks, options.bench.bind, argc, argv) : run_rank(&options);
  free(copy);
  return code;
}

const struct cli_verb cli_tune = {
    .name = "tune",
    .summary = "measure the algorithms here, and write a selection table",
    .synopsis = "tune [COLLECTIVE ...] -n N [--output FILE] [options]",
    .run = run,
};
