/* bench_links.c: `tutti bench links`: measures or simulates a link, and recommends sizes and numbers of slots. */
#include "cli/bench/bench_links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "boot/identity.h"
#include "cli/json.h"
#include "sim/link_model.h"

static const char verb_name[] = "bench links";

/* ---- printing ---- */

static void print_best(const struct tu_wire_figures *f) {
  printf("# bandwidth, both ways, by size, with the best number of channels\n");
  printf("#%11s %9s %9s\n#%11s %9s %9s\n", "size", "channels", "both", "(B)", "", "(GB/s)");
  for (uint32_t i = 0; i < f->bandwidth_count; i++) {
    size_t bytes = f->bandwidths[i].bytes;
    if (i > 0 && f->bandwidths[i - 1].bytes == bytes) continue;
    const struct tu_wire_bandwidth *best = tu_wire_best(f, bytes);
    printf("%12zu %9u %9.3f\n", bytes, best->channels, best->gbs);
  }
}

static void print_bandwidths(const struct tu_wire_figures *f) {
  printf("\n# bandwidth, both ways, by size and number of channels (GB/s)\n#%11s", "size");
  uint32_t count = 0;
  for (; count < f->bandwidth_count && f->bandwidths[count].bytes == f->bandwidths[0].bytes; count++)
    printf(" %8u", f->bandwidths[count].channels);
  for (uint32_t i = 0; i < f->bandwidth_count; i++) {
    if (i % count == 0) printf("\n%12zu", f->bandwidths[i].bytes);
    if (f->bandwidths[i].gbs > 0) printf(" %8.3f", f->bandwidths[i].gbs);
    else printf(" %8s", "-"); /* no measurement: the link model has too little memory or too few channels for it */
  }
  printf("\n");
}

static void print_pings(const struct tu_wire_figures *f) {
  printf("\n# one message round a ring of %u ranks\n", f->pings[0].hops);
  printf("#%11s %9s %12s %12s %12s\n#%11s %9s %12s %12s %12s\n", "size", "channels", "median", "least", "per hop",
         "(B)", "", "(ns)", "(ns)", "(ns)");
  for (uint32_t i = 0; i < f->ping_count; i++) {
    const struct tu_wire_ping *p = &f->pings[i];
    printf("%12zu %9u %12.0f %12.0f %12.1f\n", p->bytes, p->channels, p->ns, p->ns_min, p->ns / p->hops);
  }
}

static void print_trips(const struct tu_wire_figures *f) {
  printf("\n# round trip on one link (ns)\n");
  printf("#%11s %9s %9s %9s %9s %9s %9s %9s %9s\n", "size", "full", "acks", "receiver", "issue", "answer", "ideal",
         "wire", "per hop");
  for (uint32_t i = 0; i < f->trip_count; i++) {
    const struct tu_wire_trip *t = &f->trips[i];
    printf("%12zu %9.0f %9.0f %9.0f %9.0f %9.0f %9.1f %9.1f %9.1f\n", t->bytes, t->full_ns, t->acks_ns, t->receiver_ns,
           t->issue_ns, t->answer_ns, t->ideal_ns, t->wire_ns, t->hop_ns);
  }
}

static void print_advice(const struct tu_wire_advice *a) {
  printf("\n# advice\nslots of %zu to %zu bytes; at least %zu bytes outstanding, %u slots of %zu; ", a->slot_low,
         a->slot_high, a->outstanding_bytes, a->slots, a->slot_low);
  if (a->crossover_bytes) printf("bandwidth counts more than latency from %zu bytes on\n", a->crossover_bytes);
  else printf("the time of a hop does not depend on the size\n");
}

static void print_rows_json(const struct tu_wire_figures *f) {
  for (uint32_t i = 0; i < f->bandwidth_count; i++) {
    const struct tu_wire_bandwidth *b = &f->bandwidths[i];
    json_print_head("bench");
    printf(", \"links\": \"bandwidth\", \"bytes\": %zu, \"channels\": %u, \"gbs\": %.6g, \"best\": %s}\n", b->bytes,
           b->channels, b->gbs, tu_wire_best(f, b->bytes) == b ? "true" : "false");
  }
  for (uint32_t i = 0; i < f->ping_count; i++) {
    const struct tu_wire_ping *p = &f->pings[i];
    json_print_head("bench");
    printf(", \"links\": \"ping\", \"bytes\": %zu, \"hops\": %u, \"channels\": %u, \"ns\": %.1f, \"ns_min\": %.1f}\n",
           p->bytes, p->hops, p->channels, p->ns, p->ns_min);
  }
  for (uint32_t i = 0; i < f->trip_count; i++) {
    const struct tu_wire_trip *t = &f->trips[i];
    json_print_head("bench");
    printf(
        ", \"links\": \"trip\", \"bytes\": %zu, \"full_ns\": %.1f, \"acks_ns\": %.1f, \"receiver_ns\": %.1f, "
        "\"issue_ns\": %.1f, \"answer_ns\": %.1f, \"ideal_ns\": %.1f, \"wire_ns\": %.1f, \"hop_ns\": %.1f}\n",
        t->bytes, t->full_ns, t->acks_ns, t->receiver_ns, t->issue_ns, t->answer_ns, t->ideal_ns, t->wire_ns,
        t->hop_ns);
  }
}

static void print_json(const struct tu_wire_figures *f) {
  struct tu_wire_advice a;
  print_rows_json(f);
  if (!tu_wire_advise(f, &a)) return;
  json_print_head("bench");
  printf(
      ", \"links\": \"advice\", \"slot_bytes_low\": %zu, \"slot_bytes_high\": %zu, \"outstanding_bytes\": %zu, "
      "\"slots\": %u, \"crossover_bytes\": %zu}\n",
      a.slot_low, a.slot_high, a.outstanding_bytes, a.slots, a.crossover_bytes);
}

void links_print(const struct tu_wire_figures *f, bool json) {
  struct tu_wire_advice a;
  if (json) {
    print_json(f);
    return;
  }
  if (f->bandwidth_count > 0) print_best(f);
  if (f->bandwidth_count > 0) print_bandwidths(f);
  if (f->ping_count > 0) print_pings(f);
  if (f->trip_count > 0) print_trips(f);
  if (tu_wire_advise(f, &a)) print_advice(&a);
}

/* ---- running as a rank ---- */

static int measure(const struct links_bench *b, bool json) {
  struct tu_wire_figures *f = tu_allocate(1, sizeof *f);
  tutti_err err = links_measure_bandwidth(b, f);
  if (err == TUTTI_OK) err = links_measure_pings(b, f);
  if (err == TUTTI_OK) err = links_measure_trips(b, f);
  tu_wire_complete(f);
  if (err == TUTTI_OK && b->rank == 0) links_print(f, json);
  free(f);
  if (err == TUTTI_OK) return CLI_GOOD;
  return b->rank == 0 ? cli_fail(verb_name, CLI_FAILED, "%s", tutti_error_message(NULL)) : CLI_FAILED;
}

static int run_rank(struct links_bench *b, uint32_t wanted, bool json) {
  if (tutti_init(NULL, &b->world) != TUTTI_OK) return cli_fail(verb_name, CLI_FAILED, "%s", tutti_error_message(NULL));
  b->rank = tutti_rank(b->world);
  b->ranks = tutti_ranks(b->world);
  int code = CLI_GOOD;
  if (wanted > 0 && wanted != b->ranks)
    code = b->rank ? CLI_USAGE
                   : cli_fail(verb_name, CLI_USAGE, "-n %u is given, but this job has %u ranks; omit -n within a job",
                              wanted, b->ranks);
  else if (b->ranks < 2) code = cli_fail(verb_name, CLI_USAGE, "expected at least 2 ranks, found 1");
  if (code == CLI_GOOD) code = measure(b, json);
  tutti_err err = tutti_comm_free(b->world);
  if (err != TUTTI_OK && code == CLI_GOOD)
    code = cli_fail(verb_name, CLI_FAILED, "tutti_comm_free failed on rank %u: %s", b->rank, tutti_error_message(NULL));
  return code;
}

/* ---- simulation ---- */

static int play(struct links_bench *b, const char *links, uint32_t ranks, bool json) {
  struct tu_link_model model;
  struct tu_error error;
  if (tu_link_model_load(links, &model, &error) != TUTTI_OK) return cli_fail(verb_name, CLI_USAGE, "%s", error.text);
  if (ranks == 1 || ranks > LINKS_HOPS_MAX)
    return cli_fail(verb_name, CLI_USAGE, "-n: expected a ring of 2 to %d chips, found %u", LINKS_HOPS_MAX, ranks);
  b->ranks = ranks > 0 ? ranks : 8;
  struct tu_wire_figures *f = tu_allocate(1, sizeof *f);
  links_simulate(b, &model, f);
  links_print(f, json);
  free(f);
  return CLI_GOOD;
}

/* ---- options ---- */

static int read_counts(const char *text, struct links_bench *b) {
  char copy[256];
  bool good = snprintf(copy, sizeof copy, "%s", text) < (int)sizeof copy;
  for (char *item = copy, *next; item && good; item = next) {
    uint64_t count = 0;
    next = strchr(item, ',');
    if (next) *next++ = '\0';
    good = b->count_count < LINKS_COUNTS_MAX && tu_parse_uint(item, LINKS_CHANNELS_MAX, &count) && count > 0 &&
           (b->count_count == 0 || count > b->counts[b->count_count - 1]);
    if (good) b->counts[b->count_count++] = (uint32_t)count;
  }
  if (good) return CLI_GOOD;
  return cli_fail(verb_name, CLI_USAGE,
                  "--channels: expected up to %d numbers of channels in ascending order, from 1 to %d, for example "
                  "1,2,4, found '%s'",
                  LINKS_COUNTS_MAX, LINKS_CHANNELS_MAX, text);
}

static int read_sizes(const char *option, const char *text, size_t sizes[], uint32_t *count, uint32_t most) {
  struct bench_options list = {0};
  int code = bench_read_sizes(verb_name, text, &list);
  if (code != CLI_GOOD) return code;
  if (list.size_count > most || list.sizes[0] == 0 || list.sizes[list.size_count - 1] > (size_t)1 << 20)
    return cli_fail(verb_name, CLI_USAGE, "%s: expected up to %u sizes from 1 byte to 1M, found '%s'", option, most,
                    text);
  memcpy(sizes, list.sizes, list.size_count * sizeof *sizes);
  *count = list.size_count;
  return CLI_GOOD;
}

int bench_links(int argc, char **argv) {
  static const struct cli_verb verb = {.name = verb_name,
                                       .summary = "measure a link",
                                       .synopsis = "bench links [-n N] [options], or bench links --hosts [options]"};
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--hosts") == 0) return bench_hosts(argc - 1, argv + 1);
  struct links_bench b = {.slots = 2, .time_ms = 20};
  uint32_t ranks = 0;
  const char *bind = "core", *sizes = "1K:16K:2,24K,32K,36K", *pings = "16,32,64,128,256,512,768,1K",
             *channels = "1,2,3,4,8,16,30", *flag = "merged", *links = NULL;
  bool done, json = false, hosts = false;
  const struct cli_option options[] = {
      {"--hosts", CLI_FLAG, &hosts, NULL,
       "measure what crosses between hosts; has options of its own (--hosts --help)"},
      {"-n", CLI_UINT, &ranks, "N", "ranks to start; all form the ring, two measure the rest (2)"},
      {"--bytes", CLI_STRING, &sizes, "LIST", "sizes for bandwidth and round trips (1K:16K:2,24K,32K,36K)"},
      {"--ping-bytes", CLI_STRING, &pings, "LIST", "sizes for ring pings and round trips (16 to 1K)"},
      {"--channels", CLI_STRING, &channels, "LIST", "channels per direction, for bandwidth (1,2,3,4,8,16,30)"},
      {"--slots", CLI_UINT, &b.slots, "S", "slots of each channel (2)"},
      {"--flag", CLI_STRING, &flag, "merged|separate", "flag and payload in one transfer, or in two (merged)"},
      {"--time-ms", CLI_UINT, &b.time_ms, "T", "approximate time to measure each figure, in ms (20)"},
      {"--bind", CLI_STRING, &bind, "core|none", "bind each rank to one CPU, as tutti run does (core)"},
      {"--links", CLI_STRING, &links, "wormhole|plain|FILE",
       "measure nothing; simulate links of the model, as tutti sim does"},
      {"--json", CLI_FLAG, &json, NULL, "print one JSON object per line"},
  };
  char **copy = tu_allocate((size_t)argc, sizeof *copy);
  int count = argc - 1;
  memcpy(copy, argv + 1, (size_t)count * sizeof *copy);
  int code = cli_parse(&verb, options, sizeof options / sizeof *options, &count, copy, &done);
  if (code == CLI_GOOD && !done && count > 1)
    code = cli_fail(verb_name, CLI_USAGE, "expected options only, found '%s'", copy[1]);
  free(copy);
  if (code != CLI_GOOD || done) return code;
  if (b.slots == 0 || b.slots > 64)
    return cli_fail(verb_name, CLI_USAGE, "--slots: expected 1 to 64 slots, found %u", b.slots);
  if (strcmp(flag, "merged") != 0 && strcmp(flag, "separate") != 0)
    return cli_fail(verb_name, CLI_USAGE, "--flag: expected 'merged' or 'separate', found '%s'", flag);
  b.separate_flag = strcmp(flag, "separate") == 0;
  if ((code = read_counts(channels, &b)) != CLI_GOOD) return code;
  if ((code = read_sizes("--bytes", sizes, b.sizes, &b.size_count, TU_WIRE_ROWS_MAX / LINKS_COUNTS_MAX)) != CLI_GOOD)
    return code;
  if ((code = read_sizes("--ping-bytes", pings, b.ping_sizes, &b.ping_size_count, TU_WIRE_ROWS_MAX / 4)) != CLI_GOOD)
    return code;
  struct tu_boot_identity identity;
  struct tu_error error;
  if (links) return play(&b, links, ranks, json);
  if (tu_boot_identity_read(&identity, &error) != TUTTI_OK) return cli_fail(verb_name, CLI_USAGE, "%s", error.text);
  if (!identity.alone) return run_rank(&b, ranks, json);
  if (ranks == 1) return cli_fail(verb_name, CLI_USAGE, "-n: expected at least 2 ranks, found 1");
  return bench_launch("bench", ranks ? ranks : 2, bind, argc, argv);
}
