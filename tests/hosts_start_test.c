/* hosts_start_test.c: jobs of up to 64 ranks on up to 8 hosts start, call a collective, and end. The test counts the
 * descriptors that each rank has at each of these times. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "ranks.h"
#include "test.h"

enum { JOB_RANKS = 64 };

/* What a rank reports. */
struct report {
  uint32_t before, started, used, after; /* numbers of open descriptors */
  bool good;
  char text[256];
};

static uint32_t count_descriptors(void) {
  uint32_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  for (const struct dirent *entry; folder && (entry = readdir(folder));) count += entry->d_name[0] != '.';
  closedir(folder);
  return count - 1; /* without the folder's own */
}

static void set_number(const char *name, uint32_t number) {
  char text[16];
  snprintf(text, sizeof text, "%u", number);
  setenv(name, text, 1);
}

static void play(uint32_t rank, uint32_t ranks, uint32_t hosts, uint16_t port, struct report *report) {
  tutti_comm *world;
  uint64_t sum = 0, one = rank + 1;
  set_number("TUTTI_RANK", rank);
  set_number("TUTTI_WORLD_SIZE", ranks);
  set_number("TUTTI_MASTER_PORT", port);
  set_number("TUTTI_HOST", rank / (ranks / hosts));
  setenv("TUTTI_MASTER_ADDR", "127.0.0.1", 1);
  setenv("TUTTI_SECRET", "hosts_start_test", 1);
  report->before = count_descriptors();
  tutti_err err = tutti_init(NULL, &world);
  report->started = count_descriptors();
  if (err == TUTTI_OK) err = tutti_barrier(world);
  if (err == TUTTI_OK) err = tutti_allreduce(world, &one, &sum, 1, TUTTI_U64, TUTTI_SUM);
  report->used = count_descriptors();
  if (err != TUTTI_OK) snprintf(report->text, sizeof report->text, "%s", tutti_error_message(world));
  report->good = err == TUTTI_OK && sum == (uint64_t)ranks * (ranks + 1) / 2;
  if (world && tutti_comm_free(world) != TUTTI_OK && report->good) {
    snprintf(report->text, sizeof report->text, "%s", tutti_error_message(NULL));
    report->good = false;
  }
  report->after = count_descriptors();
}

/* Starts a job. Returns the largest number of descriptors that a rank has after the start, without those from before. */
static uint32_t run_job(uint32_t ranks, uint32_t hosts) {
  struct report *reports =
      mmap(NULL, JOB_RANKS * sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t pids[JOB_RANKS];
  uint16_t port;
  uint32_t most = 0;
  if (reports == MAP_FAILED) abort();
  int held = ranks_bind(&port);
  close(held);
  for (uint32_t r = 0; r < ranks; r++) {
    if ((pids[r] = fork()) < 0) abort();
    if (pids[r] > 0) continue;
    play(r, ranks, hosts, port, &reports[r]);
    _exit(0);
  }
  for (uint32_t r = 0; r < ranks; r++) {
    const struct report *report = &reports[r];
    int status;
    waitpid(pids[r], &status, 0);
    CHECK(status == 0 && report->good, "rank %u of %u on %u hosts: %s", r, ranks, hosts, report->text);
    CHECK(report->after == report->before, "rank %u: %u descriptors before the job, %u after it", r, report->before,
          report->after);
    if (report->started - report->before > most) most = report->started - report->before;
  }
  munmap(reports, JOB_RANKS * sizeof *reports);
  return most;
}

/* A rank has a control connection for each other host. Connections for data are made when they are used. */
static void test_descriptors(void) {
  static const struct { uint32_t ranks, hosts; } jobs[] = {{2, 2}, {4, 2}, {8, 8}, {12, 3}, {16, 2}, {64, 8}};
  uint32_t alone = run_job(2, 1);
  for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
    const uint32_t most = run_job(jobs[i].ranks, jobs[i].hosts);
    printf("  %u ranks on %u hosts: %u descriptors at the start; on one host %u\n", jobs[i].ranks, jobs[i].hosts, most,
           alone);
    /* the bell, the listener, and the epolls of dialer and wire: however many ranks the host has */
    CHECK(most <= alone + 4 + jobs[i].hosts - 1, "%u ranks on %u hosts: %u descriptors", jobs[i].ranks, jobs[i].hosts,
          most);
  }
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"descriptors", test_descriptors}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
