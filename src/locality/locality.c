/* locality.c: each rank says which CPUs it may use; if some are bound, the lowest rank of each host asks hwloc for all ranks
 * there, so that it is loaded once a host, and leaves the answers in memory that they share. */
#include "locality/locality.h"

#include <stdlib.h>
#include <string.h>

#include "locality/cpus.h"

#define GROUPED_RANKS 3u /* fewer have no groups */

struct record {
  struct tu_cpus cpus;
  uint32_t thread; /* tu_bound_thread */
  uint32_t reserved;
};

/* What is needed of memory, before the first allgather of it: from then on no rank can fail alone. */
struct learning {
  struct tu_job *job;
  const struct tu_locality_words *words;
  struct record *records;      /* [ranks], as the next two */
  const struct tu_cpus **cpus; /* of the ranks of one host */
  pid_t *threads;              /* likewise */
  struct tu_domain *domains;   /* likewise; then of all */
};

static bool is_of_host(const struct tu_job *job, uint32_t rank, uint32_t leader) {
  return job->processes[rank].host == job->processes[leader].host;
}

static uint32_t find_share(const struct learning *l) {
  uint32_t share = 1;
  for (uint32_t leader = 0; leader < l->job->ranks; leader++) {
    uint32_t count = 0;
    if (tu_job_host_leader(l->job, leader) != leader) continue;
    for (uint32_t r = leader; r < l->job->ranks; r++)
      if (is_of_host(l->job, r, leader)) l->cpus[count++] = &l->records[r].cpus;
    share = (uint32_t)tu_max(share, tu_cpus_share(l->cpus, count));
  }
  return share;
}

/* ---- domains: in one word, of which 0 is kept for nothing said yet ---- */

#define SAID (UINT64_C(1) << 63)
#define NUMBER_MAX (UINT32_MAX >> 1) /* in 31 bits; it stands for any */

static uint64_t pack_number(uint32_t number) { return number < NUMBER_MAX ? number : NUMBER_MAX; }
static uint32_t unpack_number(uint64_t word) {
  return (word & NUMBER_MAX) < NUMBER_MAX ? (uint32_t)(word & NUMBER_MAX) : TU_DOMAIN_ANY;
}
static uint64_t pack(struct tu_domain domain) {
  return SAID | pack_number(domain.numa) << 32 | pack_number(domain.cache);
}
static struct tu_domain unpack(uint64_t word, uint32_t host) {
  return (struct tu_domain){.host = host, .numa = unpack_number(word >> 32), .cache = unpack_number(word)};
}

/* If no rank is bound, and all are on one host, there are no groups. */
static bool may_have_groups(const struct learning *l) {
  for (uint32_t r = 0; r < l->job->ranks; r++)
    if (l->records[r].thread || !is_of_host(l->job, r, 0)) return true;
  return false;
}

/* The leader of a host looks for all ranks there. */
static void look(const struct learning *l) {
  const struct tu_job *job = l->job;
  uint32_t count = 0;
  for (uint32_t r = 0; r < job->ranks; r++)
    if (is_of_host(job, r, job->rank)) l->threads[count++] = (pid_t)l->records[r].thread;
  tu_domains_look(l->threads, count, l->domains);
  count = 0;
  for (uint32_t r = 0; r < job->ranks; r++)
    if (is_of_host(job, r, job->rank))
      atomic_store_explicit(l->words->of(l->words->context, r), pack(l->domains[count++]), memory_order_release);
}

static tutti_err learn_domains(const struct learning *l, struct tu_error *error) {
  struct tu_job *job = l->job;
  job->step = "to find out which caches the ranks share";
  if (tu_job_host_leader(job, job->rank) == job->rank) look(l);
  tutti_err err = tu_job_agree(job, TUTTI_OK, error); /* the leaders have looked */
  if (err != TUTTI_OK) return err;
  uint64_t mine = atomic_load_explicit(l->words->of(l->words->context, job->rank), memory_order_acquire);
  if ((err = tu_job_allgather(job, &mine, job->records, sizeof mine, error)) != TUTTI_OK) return err;
  for (uint32_t r = 0; r < job->ranks; r++) {
    uint64_t word;
    memcpy(&word, job->records + r * sizeof word, sizeof word);
    l->domains[r] = unpack(word, tu_job_host_leader(job, r));
  }
  return TUTTI_OK;
}

tutti_err tu_locality_learn(struct tu_job *job, const struct tu_locality_words *words, struct tu_locality *locality,
                            struct tu_error *error) {
  struct tu_cpus mine;
  struct record own = {.thread = (uint32_t)tu_bound_thread()};
  tu_cpus_mine(&mine);
  own.cpus = mine;
  *locality = (struct tu_locality){.share = 1};
  struct learning l = {.job = job,
                       .words = words,
                       .records = tu_try_allocate(job->ranks, sizeof *l.records),
                       .cpus = tu_try_allocate(job->ranks, sizeof *l.cpus),
                       .threads = tu_try_allocate(job->ranks, sizeof *l.threads),
                       .domains = tu_try_allocate(job->ranks, sizeof *l.domains)};
  tutti_err err = TUTTI_OK;
  if (!l.records || !l.cpus || !l.threads || !l.domains)
    err = tu_fail_memory(error, job->ranks * sizeof *l.records, "looking where %u ranks are", job->ranks);
  job->step = "to say where it runs";
  err = tu_job_agree(job, err, error);
  if (err == TUTTI_OK) err = tu_job_allgather(job, &own, l.records, sizeof own, error);
  if (err == TUTTI_OK) locality->share = find_share(&l);
  if (err == TUTTI_OK && job->ranks >= GROUPED_RANKS && may_have_groups(&l)) {
    err = learn_domains(&l, error);
    if (err == TUTTI_OK) locality->domains = l.domains;
  }
  free(l.records);
  free(l.cpus);
  free(l.threads);
  if (!locality->domains) free(l.domains);
  return err;
}

void tu_locality_fini(struct tu_locality *locality) { free(locality->domains); }
