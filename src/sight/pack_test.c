/* pack_test.c: the state of a job as bytes: it survives the way, parts are put together, and damaged bytes do no harm. */
#include "sight/pack.h"

#include "sight/report.h"
#include "test.h"

enum { RANKS = 4, HERE = 2, COMMS = 2 };

/* Fills in what host `host` knows of a job: its ranks are 2 * host and the next one. The first waits for rank 3. */
static void fill_state(struct tu_job_state *s, uint32_t host) {
  *s = (struct tu_job_state){.now = tu_clock_ns(), .began_ns = 5, .ranks = RANKS, .here = HERE, .comms = COMMS};
  s->rank = tu_allocate(HERE, sizeof *s->rank);
  s->comm = tu_allocate(COMMS, sizeof *s->comm);
  for (uint32_t i = 0; i < HERE; i++) {
    s->rank[i] =
        (struct tu_rank_state){.life = TU_RANK_LIVES, .rank = HERE * host + i, .pid = 100 + (pid_t)i, .run = 'S'};
    snprintf(s->rank[i].host, sizeof s->rank[i].host, "h%u", host);
  }
  struct tu_waits *w = &s->rank[0].waits[0];
  w->count = 1;
  w->since = w->looked = s->now;
  w->entries[0] = (struct tu_wait_entry){.rank = 3, .comm = 1, .number = 7};
  for (uint32_t c = 0; c < COMMS; c++) {
    s->comm[c] = (struct tu_comm_state){.comm_id = c + 1, .ranks = RANKS};
    s->comm[c].members = tu_allocate(RANKS, sizeof *s->comm[c].members);
    for (uint32_t r = 0; r < RANKS; r++)
      s->comm[c].members[r] = (struct tu_member_state){.rank = r, .here = r / HERE == host, .known = true, .latest = 7};
  }
}

/* Packs that. The caller frees *data. */
static void pack(uint32_t host, char **data, size_t *bytes) {
  struct tu_job_look look = {.launcher = 77, .id = 99};
  fill_state(&look.before, host);
  fill_state(&look.now, host);
  FILE *file = open_memstream(data, bytes);
  tu_job_look_pack(&look, file);
  fclose(file);
  tu_job_look_fini(&look);
}

static void test_way(void) {
  char *data[2];
  size_t bytes[2];
  struct tu_job_look look[3];
  struct tu_error error;
  for (uint32_t host = 0; host < 2; host++) {
    pack(host, &data[host], &bytes[host]);
    CHECK(tu_job_look_unpack(data[host], bytes[host], &look[host]), "host %u: not read", host);
  }
  CHECK(tu_job_look_unpack(data[1], bytes[1], &look[2]), "not read again");
  CHECK(look[0].id == 99 && look[0].launcher == 77 && look[0].elsewhere && strcmp(look[0].host, "h0") == 0,
        "id %llu, launcher %d, host %s", (unsigned long long)look[0].id, (int)look[0].launcher, look[0].host);
  CHECK(look[0].why.count == 1 && look[0].why.ranks[0].kind == TU_WHY_ELSEWHERE, "rank 3 is seen");
  CHECK(tu_job_look_misses(&look[0], &look[1]), "the ranks of h1 are not missed");
  CHECK(tu_job_look_add(&look[0], &look[1], &error) == TUTTI_OK, "not added");
  CHECK(!tu_job_look_misses(&look[0], &look[2]), "the ranks of h1 are missed, though they are there");
  CHECK(look[0].now.here == RANKS && look[0].why.ranks[0].kind == TU_WHY_OUTSIDE, "rank 3 is not seen");
  look[2].id = 98;
  CHECK(!tu_job_look_misses(&look[0], &look[2]), "another job");
  tu_job_look_launched(&look[0], 5);
  CHECK(tu_job_pid(&look[0]) == 5 && !look[0].elsewhere, "the launcher is not here");
  for (int i = 0; i < 3; i++) tu_job_look_fini(&look[i]);
  for (int i = 0; i < 2; i++) free(data[i]);
}

/* Unpacks the bytes and uses all that was read. */
static bool use(const char *data, size_t bytes, FILE *nowhere) {
  struct tu_job_look look;
  const bool good = tu_job_look_unpack(data, bytes, &look);
  if (good) {
    tu_report_print(nowhere, &look);
    for (uint32_t i = 0; i < look.now.here; i++) (void)tu_rank_rates_of(&look, i);
  }
  tu_job_look_fini(&look);
  return good;
}

static void test_damaged(void) {
  uint64_t random = test_seed();
  const int turns = test_long() ? 1000000 : 20000;
  char *data;
  size_t bytes;
  int read = 0;
  FILE *nowhere = fopen("/dev/null", "w");
  pack(0, &data, &bytes);
  for (size_t n = 0; n < bytes; n += 7) CHECK(!use(data, n, nowhere), "%zu of %zu bytes are read", n, bytes);
  char *copy = tu_allocate(bytes, 1);
  for (int turn = 0; turn < turns; turn++) {
    memcpy(copy, data, bytes);
    for (uint64_t changes = 1 + tu_random(&random) % 8; changes > 0; changes--) {
      /* Most changes are behind the first words, which say whether the bytes are from this build. */
      const size_t at = tu_random(&random) % 16 ? 64 + tu_random(&random) % (bytes - 64) : tu_random(&random) % 64;
      copy[at] = (char)(tu_random(&random) % 2 ? 255 : tu_random(&random));
    }
    read += use(copy, bytes, nowhere);
  }
  CHECK(read > turns / 10, "only %d of %d states are read", read, turns);
  fclose(nowhere);
  free(copy);
  free(data);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"way", test_way}, {"damaged", test_damaged}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
