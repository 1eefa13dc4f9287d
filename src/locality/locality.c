/* locality.c: determines where the ranks of a job run. All ranks exchange the CPUs that they may use. If some rank is
 * bound, the lowest rank of each host queries hwloc for all ranks of its host, and writes their locations into shared
 * memory. So hwloc loads the topology only once per host. */
#include "locality/locality.h"

#include <stdlib.h>
#include <string.h>

#include "locality/cpus.h"

#define GROUPED_RANKS 3u /* minimum number of ranks of one host for locality groups */

/* What each rank sends to all ranks at the start: the CPUs that it may use. */
struct record {
  struct tu_cpus cpus;
  uint32_t thread; /* result of tu_bound_thread: the thread's id in the kernel, or 0 if it may run on all CPUs */
  uint32_t reserved;
};

/* All memory that tu_locality_learn needs. It is allocated before the first allgather, so that afterwards no rank can
 * fail alone. */
struct learning {
  struct tu_job *job;
  const struct tu_locality_words *words;
  struct record *records;      /* [ranks]: records of all ranks */
  const struct tu_cpus **cpus; /* [ranks]: CPU sets of the ranks of one host */
  pid_t *threads;              /* [ranks]: ids of the bound threads of the ranks of one host */
  struct tu_domain *domains; /* [ranks]: domains (NUMA node and cache) of the ranks of this host, later of all ranks */
};

static uint32_t find_share(const struct learning *l) {
  uint32_t share = 1;
  for (uint32_t leader = 0; leader < l->job->ranks; leader++) {
    uint32_t count = 0;
    if (tu_job_host_leader(l->job, leader) != leader) continue;
    for (uint32_t r = leader; r < l->job->ranks; r++)
      if (tu_job_is_near(l->job, r, leader)) l->cpus[count++] = &l->records[r].cpus;
    share = (uint32_t)tu_max(share, tu_cpus_share(l->cpus, count));
  }
  return share;
}

/* ---- domains (NUMA node and cache) packed into words; the word 0 means that no domain was written yet ---- */

/* bit that is set in each word that was written, so that no written word is 0 */
#define SAID (UINT64_C(1) << 63)
/* largest number that fits into the 31 bits for a NUMA node, or for a cache; stands for TU_DOMAIN_ANY (several, or
 * unknown) */
#define NUMBER_MAX (UINT32_MAX >> 1)

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

/* Returns true if the ranks are on several hosts, or if there can be locality groups: some rank is bound. */
static bool may_have_groups(const struct learning *l) {
  for (uint32_t r = 0; r < l->job->ranks; r++)
    if ((l->records[r].thread && l->job->ranks >= GROUPED_RANKS) || !tu_job_is_near(l->job, r, 0)) return true;
  return false;
}

/* Finds the domains (NUMA node and cache) of all ranks of this host, and writes each into the word of its rank. Only
 * the lowest rank of a host calls it. */
static void look(const struct learning *l) {
  const struct tu_job *job = l->job;
  uint32_t count = 0;
  for (uint32_t r = 0; r < job->ranks; r++)
    if (tu_job_is_near(job, r, job->rank)) l->threads[count++] = (pid_t)l->records[r].thread;
  tu_domains_look(l->threads, count, l->domains);
  count = 0;
  for (uint32_t r = 0; r < job->ranks; r++)
    if (tu_job_is_near(job, r, job->rank))
      atomic_store_explicit(l->words->of(l->words->context, r), pack(l->domains[count++]), memory_order_release);
}

static tutti_err learn_domains(const struct learning *l, struct tu_error *error) {
  struct tu_job *job = l->job;
  job->step = "to read the host's topology (hwloc)";
  if (tu_job_host_leader(job, job->rank) == job->rank) look(l);
  /* after this call, the lowest rank of each host has written the words of all ranks of the host */
  tutti_err err = tu_job_agree(job, TUTTI_OK, error);
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
    err = tu_fail_memory(error, job->ranks * sizeof *l.records, "finding the CPUs of %u ranks", job->ranks);
  job->step = "to report its CPUs";
  err = tu_job_agree(job, err, error);
  if (err == TUTTI_OK) err = tu_job_allgather(job, &own, l.records, sizeof own, error);
  if (err == TUTTI_OK) locality->share = find_share(&l);
  if (err == TUTTI_OK && may_have_groups(&l)) {
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
