/* info.c: `tutti info`: prints the version and the settings of the library on this machine: CPUs, caches and locality
 * groups, staging memory, what connects hosts, selected algorithms by size, datatypes, operations, and the
 * environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "algo/tuning.h"
#include "api/comm_create.h"
#include "api/tuning.h"
#include "base/env.h"
#include "base/types.h"
#include "boot/identity.h"
#include "cli/info.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/units.h"
#include "comm/comm.h"
#include "engine/isa.h"
#include "engine/kernels.h"
#include "locality/cpus.h"
#include "locality/machine.h"
#include "plan/algorithm.h"
#include "plan/collective.h"

struct facts {
  bool canonical; /* show what calls in the canonical order get */
  uint32_t cpus, ranks;
  struct tu_channel_shape shape; /* number and sizes of the slots of a channel, in a communicator of `ranks` ranks */
  struct tu_patience patience;
  uint32_t share; /* maximum number of ranks that share a CPU */
  struct cli_hosts hosts;
  bool machine_known;
  struct tu_machine machine;
  uint32_t group;           /* number of ranks in a locality group if each rank is bound to one CPU; 0: no groups */
  bool by_cache;            /* true: the ranks of a group share a cache; false: they share a NUMA node */
  struct tu_tuning *tuning; /* selection table given by the environment; NULL: the built-in one */
};

/* Creates a communicator for `ranks` ranks in this process, of which only rank 0 exists, copies its settings to *facts,
 * and frees it. */
static tutti_err ask(struct facts *facts, struct tu_error *error) {
  struct tu_transport **endpoints = tu_allocate(facts->ranks, sizeof(struct tu_transport *));
  uint32_t *members = tu_allocate(facts->ranks, sizeof *members);
  for (uint32_t r = 0; r < facts->ranks; r++) members[r] = r;
  struct tutti_comm *comm;
  tutti_err err = tu_loop_create(facts->ranks, 0, endpoints, error);
  if (err == TUTTI_OK) {
    err = tu_comm_create(endpoints[0], members, facts->ranks, 0, TU_WORLD_ID, 1000, &comm, error);
    for (uint32_t r = 1; r < facts->ranks; r++) endpoints[r]->ops->close(endpoints[r]);
  }
  if (err == TUTTI_OK) {
    facts->shape = comm->mover->shape;
    facts->patience = comm->patience;
    facts->share = comm->share;
    tutti_abort(comm,
                "created only to read its settings"); /* after the abort, tutti_comm_free does not wait for the other
                                                       * ranks */
    tutti_comm_free(comm);
  }
  free(members);
  free(endpoints);
  return err;
}

static void ask_machine(struct facts *facts) {
  if (facts->hosts.placement) return; /* the groups of other hosts are not known */
  struct tu_domain *domains = tu_allocate(facts->ranks, sizeof *domains);
  facts->machine_known = tu_machine_look(&facts->machine, domains, facts->ranks);
  if (facts->machine_known) facts->group = tu_group_of(domains, facts->ranks, &facts->by_cache);
  free(domains);
}

/* ---- the selected algorithms ---- */

/* The algorithm that is selected for a range of sizes. The range begins with the size given to choose() and ends with
 * `until`. */
struct choice {
  const struct tu_algorithm *algorithm;
  bool forced;
  /* reason why calls of these sizes fail, if an algorithm that the user forced does not support them; NULL: they do not
   * fail */
  const char *why_not;
  size_t until; /* largest size of the range, in bytes; SIZE_MAX: no limit */
};

/* Chooses the algorithm that a call of this collective and size would use; must agree with call/request.c. */
static struct choice choose(const struct facts *f, tutti_collective c, size_t bytes) {
  const struct tu_wanted wanted = {.collective = c,
                                   .ranks = f->ranks,
                                   .bytes = bytes,
                                   .any_blocks = tu_collectives[c].vector,
                                   .group = f->group,
                                   .share = f->share,
                                   .canonical = f->canonical && tu_reduces(c),
                                   .placement = f->hosts.placement};
  struct choice choice = {.algorithm = f->tuning ? f->tuning->forced[c] : NULL, .until = SIZE_MAX};
  if (choice.algorithm) {
    choice.forced = true;
    choice.algorithm = tu_algorithm_in_groups(choice.algorithm, f->group);
    tu_algorithm_serves(choice.algorithm, &wanted, &choice.why_not);
    return choice;
  }
  choice.algorithm = tu_tuning_select(f->tuning, &wanted);
  choice.until = tu_tuning_select_until(f->tuning, &wanted);
  return choice;
}

static void print_size(size_t bytes) { fputs(units_bytes((double)bytes).chars, stdout); }

/* Returns true if every rank knows the size of the whole call. Only then can the selection depend on the size. In a
 * gatherv, for example, only the root knows the sizes of all blocks. */
static bool size_is_known(tutti_collective c) {
  const struct tu_collective *k = &tu_collectives[c];
  return !k->vector || (!k->rooted && k->in != k->out);
}

static void print_selection(const struct facts *f, tutti_collective c) {
  printf("  %-16s", tu_collectives[c].name);
  for (size_t bytes = size_is_known(c) ? 0 : SIZE_MAX;;) {
    struct choice choice = choose(f, c, bytes);
    printf("%s", choice.algorithm->name);
    if (choice.forced)
      printf(", forced%s%s", choice.why_not ? " and refused: " : "", choice.why_not ? choice.why_not : "");
    if (choice.until == SIZE_MAX) break;
    printf(" to ");
    print_size(choice.until);
    printf(", ");
    bytes = choice.until + 1;
  }
  putchar('\n');
}

static void print_selection_json(const struct facts *f, tutti_collective c, struct json *j) {
  struct choice choice = {.until = 0};
  for (size_t bytes = size_is_known(c) ? 0 : SIZE_MAX; choice.until != SIZE_MAX; bytes = choice.until + 1) {
    choice = choose(f, c, bytes);
    json_open(j, NULL, JSON_OBJECT);
    json_text(j, "collective", tu_collectives[c].name);
    json_text(j, "algorithm", choice.algorithm->name);
    json_bool(j, "forced", choice.forced);
    if (choice.why_not) json_text(j, "refused", choice.why_not);
    if (choice.until == SIZE_MAX) json_null(j, "bytes_max");
    else json_count(j, "bytes_max", choice.until);
    json_close(j, JSON_OBJECT);
  }
}

/* ---- the environment variables ---- */

static const char *shown_value(const struct tu_env_name *name) {
  const char *value = tu_env(name->name);
  return value && strcmp(name->name, "TUTTI_SECRET") == 0 ? "(set, not shown)" : value;
}

/* ---- output ---- */

static const char *table_name(const struct facts *f) { return f->tuning ? f->tuning->name : NULL; }

/* Prints a count and a noun, for example "2 NUMA nodes" or "1 NUMA node". */
static void print_count(uint32_t count, const char *thing) { printf("%u %s%s", count, thing, count == 1 ? "" : "s"); }

static void print_machine(const struct facts *f) {
  printf("machine     ");
  if (f->machine_known) {
    print_count(f->machine.numa_nodes, "NUMA node");
    char cache[32];
    snprintf(cache, sizeof cache, "L%u cache", f->machine.level);
    printf(", ");
    if (f->machine.level > 0) print_count(f->machine.caches, cache);
    else printf("caches not known");
  } else {
    printf("not known: hwloc has no information");
  }
  printf("\ngroups      ");
  if (f->group == 0) printf("none");
  else
    printf("%u of %u ranks, by %s, if each rank is bound to one CPU (tutti run --bind core)", f->ranks / f->group,
           f->group, f->by_cache ? "cache" : "NUMA node");
  putchar('\n');
}

/* Prints how long a cache line takes from one CPU to another. In a virtual machine, the measured time may change from
 * run to run, because its CPUs move between CPUs of the host. */
static void print_distance(void) {
  struct info_distance d;
  if (!info_distance(&d)) return;
  printf(
      "distance    %u ns for a cache line from CPU %u to CPU %u, %u ns to overwrite %u KiB that the other has read: ",
      d.line_ns, d.cpus[0], d.cpus[1], d.fill_ns, TU_STREAM_BYTES / 1024);
  printf("%s, messages are staged %s the caches\n", d.far ? "far" : "near",
         d.far && !tu_fills_is_fast(d.fill_ns) ? "past" : "in");
}

static void print_channel(const struct facts *f) {
  printf("channel     %u credits, a ring of ", f->shape.credits);
  print_size(f->shape.ring_bytes);
  printf(", slices of up to ");
  print_size(f->shape.slot_bytes);
  printf(", for each pair of sender and receiver\n");
}

static void print_waiting(const struct facts *f) {
  const struct tu_patience *p = &f->patience;
  printf("waiting     ");
  if (p->spin_ns > 0) printf("polls for %llu us, ", (unsigned long long)(p->spin_ns / 1000));
  else printf("%u polls, ", p->polls);
  if (p->yields > 0) printf("up to %u yields, ", p->yields);
  printf("then sleeps%s (%u ranks on %u CPUs)\n", p->adapts ? "; at once if other programs need its core" : "",
         f->ranks, f->cpus);
}

static void print_text(const struct facts *f, const struct info_fabrics *fabrics) {
  int version = tutti_version();
  printf("version     %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  printf("CPUs        %u (affinity and cgroup)\n", f->cpus);
  print_machine(f);
  printf("arithmetic  %s (this machine has", tu_isa_used());
  for (uint32_t i = 0; tu_isa_name(i); i++) printf("%s %s", i ? "," : "", tu_isa_name(i));
  printf(")\ntransport   shm: memory shared by the processes of one machine\n");
  print_distance();
  print_channel(f);
  print_waiting(f);
  info_fabrics_print_wire(fabrics);
  printf("types      ");
  for (tutti_datatype t = 0; t < TU_DATATYPES; t = tu_datatype_next(t)) printf(" %s", tu_datatypes[t].name);
  printf("\noperations ");
  for (unsigned o = 0; o < TU_OPS; o++) printf(" %s", tu_operations[o].name);
  printf("\ntable       %s%s\n", table_name(f) ? table_name(f) : "built-in", table_name(f) ? ", then built-in" : "");
  printf("\nalgorithms for %u ranks%s", f->ranks, f->group > 0 ? " in these groups" : "");
  if (f->hosts.placement) printf(" on %u hosts (%s)", f->hosts.placement->hosts, f->hosts.text);
  printf(", by size of the longest buffer of a rank:\n");
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c))
    if (tu_collectives[c].family != TUTTI_SEND) print_selection(f, (tutti_collective)c);
  info_fabrics_print_list(fabrics);
  printf("\nenvironment:\n");
  for (size_t i = 0; i < tu_env_name_count; i++) {
    const char *value = shown_value(&tu_env_names[i]);
    printf("  %-18s %-16s %s\n", tu_env_names[i].name, value ? value : "-", tu_env_names[i].summary);
  }
}

static void print_settings_json(const struct facts *f, struct json *j) {
  const int version = tutti_version();
  char library[32];
  snprintf(library, sizeof library, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  json_text(j, "library", library);
  json_count(j, "cpus", f->cpus);
  json_text(j, "isa", tu_isa_used());
  json_count(j, "numa_nodes", f->machine.numa_nodes);
  json_count(j, "caches", f->machine.caches);
  json_count(j, "cache_level", f->machine.level);
  json_text(j, "transport", "shm");
  json_count(j, "ranks", f->ranks);
  json_count(j, "hosts", f->hosts.placement ? f->hosts.placement->hosts : 1);
  json_count(j, "group", f->group);
  json_count(j, "credits", f->shape.credits);
  json_count(j, "ring_bytes", f->shape.ring_bytes);
  json_count(j, "slot_bytes", f->shape.slot_bytes);
  json_count(j, "spin_us", f->patience.spin_ns / 1000);
  json_count(j, "yields", f->patience.yields);
  json_bool(j, "spin_adapts", f->patience.adapts);
}

static void print_json(const struct facts *f, const struct info_fabrics *fabrics) {
  struct json j = {0};
  json_begin(&j, "info");
  print_settings_json(f, &j);
  json_open(&j, "datatypes", JSON_LIST);
  for (tutti_datatype t = 0; t < TU_DATATYPES; t = tu_datatype_next(t)) json_text(&j, NULL, tu_datatypes[t].name);
  json_close(&j, JSON_LIST);
  json_open(&j, "operations", JSON_LIST);
  for (unsigned o = 0; o < TU_OPS; o++) json_text(&j, NULL, tu_operations[o].name);
  json_close(&j, JSON_LIST);
  json_text(&j, "table", table_name(f));
  json_open(&j, "selection", JSON_LIST);
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c))
    if (tu_collectives[c].family != TUTTI_SEND) print_selection_json(f, (tutti_collective)c, &j);
  json_close(&j, JSON_LIST);
  json_open(&j, "wire", JSON_OBJECT);
  info_fabrics_json(fabrics, &j);
  json_close(&j, JSON_OBJECT);
  json_open(&j, "environment", JSON_OBJECT);
  for (size_t i = 0; i < tu_env_name_count; i++) json_text(&j, tu_env_names[i].name, shown_value(&tu_env_names[i]));
  json_close(&j, JSON_OBJECT);
  json_end(&j);
}

#define NOT_GIVEN UINT32_MAX /* the number of ranks, if there is no -n */

/* Sets *ranks to the number of ranks of this process's job. Outside a job, sets it to the number of CPUs, but at least
 * to 2. */
static int default_ranks(uint32_t cpus, uint32_t *ranks) {
  struct tu_boot_identity identity;
  struct tu_error error;
  if (tu_boot_identity_read(&identity, &error) != TUTTI_OK) return cli_fail("info", CLI_FAILED, "%s", error.text);
  *ranks = identity.alone ? (uint32_t)tu_max(cpus, 2) : identity.ranks;
  return CLI_GOOD;
}

/* Sets the number of ranks, if -n does not: by --hosts, or that of the job. */
static int read_ranks(struct facts *facts) {
  if (facts->ranks == NOT_GIVEN && !facts->hosts.text) return default_ranks(facts->cpus, &facts->ranks);
  if (facts->ranks == NOT_GIVEN) facts->ranks = 0;
  return cli_hosts_read(&facts->hosts, "info", &facts->ranks);
}

static int tell(struct facts *facts, bool json) {
  enum { RANKS_MAX = 512 }; /* maximum of -n; it bounds the memory of the communicator that ask() creates */
  struct tu_error error;
  if (facts->ranks == 0 || facts->ranks > RANKS_MAX)
    return cli_fail("info", CLI_USAGE, "-n: expected a number of ranks from 1 to %d, found %u", RANKS_MAX,
                    facts->ranks);
  if (ask(facts, &error) != TUTTI_OK || tu_tuning_load(&facts->tuning, &error) != TUTTI_OK)
    return cli_fail("info", CLI_FAILED, "%s", error.text);
  ask_machine(facts);
  struct info_fabrics *fabrics = info_fabrics_ask(false);
  if (json) print_json(facts, fabrics);
  else print_text(facts, fabrics);
  tu_tuning_release(facts->tuning);
  return info_fabrics_end(fabrics);
}

static int tell_fabrics(bool json) {
  struct info_fabrics *fabrics = info_fabrics_ask(true);
  if (json) {
    struct json j = {0};
    json_begin(&j, "info");
    info_fabrics_json(fabrics, &j);
    json_end(&j);
  } else {
    info_fabrics_print_wire(fabrics);
    info_fabrics_print_list(fabrics);
  }
  return info_fabrics_end(fabrics);
}

static int run(int argc, char **argv) {
  struct tu_cpus mine;
  struct facts facts = {.cpus = tu_cpus_mine(&mine), .ranks = NOT_GIVEN};
  struct info_reshard reshard = {.type = "f32"};
  bool json = false, only_fabrics = false, done;
  const char *order = NULL;
  const struct cli_option options[] = {
      {"-n", CLI_UINT, &facts.ranks, "N", "number of ranks (those of the job, or one per CPU, at least 2)"},
      HOSTS_OPTION(&facts.hosts),
      {"--order", CLI_STRING, &order, "any|canonical", "show what is selected for calls of this order (any)"},
      {"--fabrics", CLI_FLAG, &only_fabrics, NULL,
       "print only what connects hosts, and all that libfabric offers here"},
      {"--reshard", CLI_STRING, &reshard.from, "FROM", "print only the steps from distribution FROM to TO"},
      {"--mesh", CLI_STRING, &reshard.mesh, "2x4", "with --reshard: ranks along each axis of the mesh"},
      {"--shape", CLI_STRING, &reshard.shape, "SHAPE", "with --reshard: shape of the tensor, as 1x1x64x128"},
      {"--type", CLI_STRING, &reshard.type, "TYPE", "with --reshard: datatype of the tensor (f32)"},
      JSON_OPTION(&json),
  };
  int code = cli_parse(&cli_info, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if ((code = cli_read_order("info", order, &facts.canonical)) != CLI_GOOD) return code;
  if (reshard.from && argc <= 2) {
    reshard.to = argv[1];
    reshard.json = json;
    return info_reshard(&reshard);
  }
  if (reshard.mesh || reshard.shape) return cli_fail("info", CLI_USAGE, "--mesh and --shape need --reshard FROM TO");
  if (argc > 1) return cli_fail("info", CLI_USAGE, "expected options only, found '%s'", argv[1]);
  if (only_fabrics) return tell_fabrics(json);
  if ((code = read_ranks(&facts)) == CLI_GOOD) code = tell(&facts, json);
  cli_hosts_fini(&facts.hosts);
  return code;
}

const struct cli_verb cli_info = {
    .name = "info",
    .summary = "print the version, this machine, the selected algorithms and the environment",
    .synopsis =
        "info [-n N | --hosts HOSTS] [--json], info --fabrics [--json], info --reshard FROM TO --mesh 2x4 --shape "
        "64x128 [--type f32] [--json]",
    .run = run,
};
