/* enter.c: threads that come while another one is in a call on the communicator: they wait for their turn. And the sentences of
 * this thread's errors. */
#include <sched.h>
#include <time.h>

#include "api/comm.h"

enum { LOOKS = 64, YIELDS = 100, NAP_NS = 50000 };

/* After so many vain looks. */
static void stand_by(uint32_t looks) {
  if (looks < LOOKS) tu_pause();
  else if (looks < LOOKS + YIELDS) sched_yield();
  else (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static bool take(struct tutti_comm *comm) {
  const void *nobody = NULL;
  return atomic_compare_exchange_strong_explicit(&comm->inside, &nobody, &tu_thread, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* Who waits for a message, and holds the communicator, lets others in after each vain look; who carries out a call does not stay
 * for long, but for the user's own operations. Threads that come again and again, as to test, would keep one out that waits:
 * after so many looks it goes before them. */
void tu_hold_contended(struct tutti_comm *comm) {
  bool starves = false;
  atomic_fetch_add_explicit(&comm->wanted, 1, memory_order_relaxed);
  for (uint32_t looks = 0; starves ? !take(comm) : !tu_take_idle(comm); looks++) {
    if (looks == LOOKS + YIELDS / 2) {
      starves = true;
      atomic_fetch_add_explicit(&comm->starving, 1, memory_order_relaxed);
    }
    stand_by(looks);
  }
  if (starves) atomic_fetch_sub_explicit(&comm->starving, 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&comm->wanted, 1, memory_order_relaxed);
}

/* Goes on when one has come, or none wants to any more. */
void tu_let_in_contended(struct tutti_comm *comm) {
  tu_leave_idle(comm);
  for (uint32_t looks = 0; atomic_load_explicit(&comm->wanted, memory_order_relaxed) > 0 && looks < LOOKS + YIELDS &&
                           !atomic_load_explicit(&comm->inside, memory_order_relaxed);)
    stand_by(looks++);
  tu_regain(comm);
}

/* ---- children of fork() ---- */

static tutti_err say_forked(const char *call, struct tu_error *error) {
  return tu_fail(
      error, TUTTI_ERR_ARGUMENT,
      "%s: this process is a child of fork(), and what it uses belongs to the process that it was forked from; "
      "nothing was done. A child may exec, or join or make a world of its own with tutti_init",
      call);
}

/* What this thread's last call was kept out of: a communicator of its parent. */
static _Thread_local bool kept_out;

tutti_err tu_explain_visit(const char *call, struct tu_error *error) { return say_forked(call, error); }

tutti_err tu_refuse_visit(const char *call) {
  struct tu_error error;
  (void)say_forked(call, &error);
  (void)tu_thread_error(&error);
  kept_out = true;
  return error.code;
}

tutti_err tu_refuse_child(uint64_t process, const char *call, struct tu_error *error) {
  return tu_process_is(process) ? TUTTI_OK : say_forked(call, error);
}

/* ---- what was said ---- */

static _Thread_local struct {
  struct tu_error last, verdict; /* of this thread's calls; of a communicator that it asked about */
} said;

tutti_err tu_thread_error(const struct tu_error *error) {
  said.last = *error;
  kept_out = false;
  return error->code;
}

/* The verdict of one that has failed never changes; else what this thread was told last. So no other thread changes the text. */
const char *tutti_error_message(const tutti_comm *comm) {
  if (!comm || kept_out || !tu_process_is(comm->process)) return said.last.text;
  return tu_comm_verdict(comm, &said.verdict) != TUTTI_OK ? said.verdict.text : said.last.text;
}
