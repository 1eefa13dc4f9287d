/* tune.c: `tutti tune` measures the algorithms on this machine and writes a selection table. Like the benchmark it starts
 * its own ranks. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "boot/place.h"
#include "locality/cpus.h"
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

/* ---- the output: a file that is there stays until the whole table can take its place ----
 * It is written beside the file, under a name that is free, and only once all is measured; signals wait meanwhile. So whoever
 * ends the measurement, and however, leaves nothing behind. What is no regular file, as /dev/null, is written to itself. */

static bool is_special(const char *path) {
  struct stat there;
  return stat(path, &there) == 0 && !S_ISREG(there.st_mode);
}

/* A new file beside it. NULL: errno says why. `draft` is its name, to be freed, in every case. */
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

/* Can it be written? To be known before anything is measured. path NULL: standard output. */
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
  struct tu_text text = {0};
  double refused = side->rank == 0 && !output_check(options->output);
  bool good = side->combine(side, &refused, 1, TUTTI_SUM) && refused == 0;
  write_head(options, side->ranks, &text);
  for (unsigned c = 0; good && c < TUTTI_COLLECTIVES; c++)
    if (options->collectives[c]) good = tune_collective(side, &options->bench, (tutti_collective)c, &text);
  if (good) check_text(&text);
  int code = good ? CLI_GOOD : CLI_FAILED;
  if (good && side->rank == 0) code = output_write(options->output, &text);
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
