/* verdict.c: decides which rank of a job failed first, and reports it. */
#include "cli/run/verdict.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"

/* A rank that was killed, or a host that is lost. */
static bool is_killed(const struct run_end *end) { return end->reason || WIFSIGNALED(end->status); }

bool run_verdict_killed(const struct run_verdict *v) { return v->found && is_killed(&v->first); }

void run_verdict_take(struct run_verdict *v, const struct run_end *end) {
  if (!end->reason) v->failures++;
  /* What failed earlier stays in `first`, except in one case: that rank exited by itself, and this one was killed. Then
   * the death of this rank may be the reason why that rank exited. */
  const bool killed = is_killed(end), was_killed = run_verdict_killed(v);
  if (v->found && (was_killed > killed || (was_killed == killed && v->first.when_ns <= end->when_ns))) return;
  v->first = *end;
  v->found = true;
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
  if (!v->interrupt || v->first.reason) return false;
  return WIFSIGNALED(status) ? WTERMSIG(status) == v->interrupt : WEXITSTATUS(status) == 128 + v->interrupt;
}

void run_verdict_tell(struct run_verdict *v, struct run_console *console) {
  if (!v->found || v->status != 0) return;
  const struct run_end *first = &v->first;
  const int status = first->status;
  v->status = first->reason ? CLI_FAILED : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (was_interrupted(v)) {
    run_say(console, "interrupted by signal %d (%s)", v->interrupt, strsignal(v->interrupt));
    return;
  }
  char how[96], after[96] = "";
  if (v->interrupt)
    snprintf(after, sizeof after, ", after the launcher got signal %d (%s)", v->interrupt, strsignal(v->interrupt));
  if (first->reason) {
    run_say(console, "host %s: %s%s", first->host, first->reason, after);
    return;
  }
  describe(how, sizeof how, status);
  run_say(console, "rank %u (%s%s%spid %d) %s%s", first->rank, first->host ? "host " : "",
          first->host ? first->host : "", first->host ? ", " : "", (int)first->pid, how, after);
}

void run_verdict_tell_others(const struct run_verdict *v, struct run_console *console) {
  const uint32_t others = v->failures - (v->found && !v->first.reason);
  if (v->failures == 0 || others == 0 || was_interrupted(v)) return;
  run_say(console, "%u other rank%s failed later", others, others == 1 ? "" : "s");
}
