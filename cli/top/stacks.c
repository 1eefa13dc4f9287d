/* stacks.c: the C stacks of ranks, as gdb prints them. */
#include <string.h>

#include "cli/top/top.h"

/* Prints the C stacks of a process, as gdb shows them. */
static void print_stacks(FILE *file, const struct tu_rank_state *r) {
  char command[160], line[400];
  snprintf(command, sizeof command,
           "timeout -s KILL 20 gdb -nx -batch -p %d -ex 'thread apply all bt 40' </dev/null 2>/dev/null", (int)r->pid);
  fflush(file);
  FILE *gdb = popen(command, "re");
  uint32_t lines = 0;
  while (gdb && fgets(line, sizeof line, gdb)) {
    if (line[0] != '#' && strncmp(line, "Thread ", 7) != 0) continue;
    if (lines++ == 0) fprintf(file, "  C stacks of rank %u:\n", r->rank);
    fprintf(file, "    %s", line);
  }
  if (gdb) pclose(gdb);
}

static bool has_gdb(void) {
  FILE *which = popen("command -v gdb", "re"); /* NOLINT(cert-env33-c): the shell looks it up in PATH */
  char path[200];
  const bool found = which && fgets(path, sizeof path, which);
  if (which) pclose(which);
  return found;
}

/* Returns true if the process of the rank runs on this host: a rank of another host may have a number that another
 * process has here. */
static bool is_here(const struct tu_job_look *job, const struct tu_rank_state *r) {
  struct tu_segments segments;
  struct tu_error error;
  bool here = false;
  (void)tu_segments_find(r->pid, &segments, &error);
  for (uint32_t i = 0; i < segments.count; i++)
    for (uint32_t k = 0; k < segments.list[i].here && segments.list[i].id == job->id; k++) {
      const struct tu_plate *plate = &tu_segment_head(&segments.list[i], k)->plate;
      here |= tu_segment_has(&segments.list[i], k) && plate->rank == r->rank && (pid_t)plate->pid == r->pid;
    }
  tu_segments_fini(&segments);
  return here;
}

void top_print_stacks(FILE *file, const struct tu_job_look *job) {
  const bool gdb = job->why.count > 0 && has_gdb();
  for (uint32_t i = 0; i < job->why.count; i++) {
    const struct tu_rank_state *r = tu_job_state_rank(&job->now, job->why.ranks[i].rank);
    if (!r || r->life != TU_RANK_LIVES) continue;
    if (!is_here(job, r))
      fprintf(file, "  C stacks of rank %u: gdb -p %d on host %s prints them\n", r->rank, (int)r->pid, r->host);
    else if (gdb) print_stacks(file, r);
  }
}
