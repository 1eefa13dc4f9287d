/* verdict.c: decides which rank of a job failed first, and reports it. */
#include "cli/run/verdict.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

bool run_verdict_killed(const struct run_verdict *v) { return v->failures > 0 && WIFSIGNALED(v->first.status); }

void run_verdict_take(struct run_verdict *v, const struct run_end *end) {
  /* Keep the rank in `first`, except in one case: that rank exited by itself, and this rank was killed. Then the death
   * of this rank may be the reason why that rank exited. */
  if (v->failures++ > 0 && (WIFSIGNALED(v->first.status) || !WIFSIGNALED(end->status))) return;
  v->first = *end;
}

static void describe(char *text, size_t bytes, int status) {
  if (WIFSIGNALED(status)) {
    snprintf(text, bytes, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else {
    snprintf(text, bytes, "exited with status %d", WEXITSTATUS(status));
  }
}

/* Returns true if the rank that failed first ended because of the signal that the launcher had received and passed on:
 * the signal killed the rank, or the rank caught the signal and exited with 128 + signal, as shells do. */
static bool was_interrupted(const struct run_verdict *v) {
  const int status = v->first.status;
  if (!v->interrupt) return false;
  return WIFSIGNALED(status) ? WTERMSIG(status) == v->interrupt : WEXITSTATUS(status) == 128 + v->interrupt;
}

void run_verdict_tell(struct run_verdict *v, struct run_console *console) {
  if (v->failures == 0 || v->status != 0) return;
  const int status = v->first.status;
  v->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (was_interrupted(v)) {
    run_say(console, "interrupted by signal %d (%s)", v->interrupt, strsignal(v->interrupt));
    return;
  }
  char how[96], after[96] = "";
  describe(how, sizeof how, status);
  if (v->interrupt)
    snprintf(after, sizeof after, ", after the launcher got signal %d (%s)", v->interrupt, strsignal(v->interrupt));
  run_say(console, "rank %u (pid %d) %s%s", (unsigned)v->first.rank, (int)v->first.pid, how, after);
}

void run_verdict_tell_others(const struct run_verdict *v, struct run_console *console) {
  if (v->failures <= 1 || was_interrupted(v)) return;
  run_say(console, "%u other rank%s failed later", v->failures - 1, v->failures == 2 ? "" : "s");
}
