/* keeper.c: keeps the shared memory of ranks, and reports from it what they do. */
#include "cli/run/keeper.h"

#include <unistd.h>

#include "cli/run/look.h"
#include "transport/shm_memory.h"

enum { CHECK_MS = 10000, LOOK_MS = 200 };

void run_keeper_open(struct run_keeper *keeper) {
  *keeper = (struct run_keeper){0};
  keeper->fd = tu_shm_memory_await(keeper->name, sizeof keeper->name);
}

static void drop(struct run_keeper *keeper, uint32_t i) {
  close(keeper->kept[i]);
  keeper->kept[i] = keeper->kept[--keeper->count];
}

void run_keeper_close(struct run_keeper *keeper) {
  while (keeper->count > 0) drop(keeper, keeper->count - 1);
  if (keeper->fd >= 0) close(keeper->fd);
  keeper->fd = -1;
}

/* Returns true if all ranks of the memory have joined the job and left it in order. Those of a rank that has died may still
 * be looked at. */
static bool all_have_left(int fd) {
  struct tu_segment segment;
  bool left = true;
  if (!tu_segment_map(fd, &segment)) return false;
  for (uint32_t i = 0; i < segment.here; i++)
    left = left && tu_segment_has(&segment, i) && atomic_load(&tu_segment_head(&segment, i)->gone) != 0;
  tu_segment_unmap(&segment);
  return left;
}

/* Closes the memory of worlds that have ended: it would take room as long as it is open. */
static void drop_unused(struct run_keeper *keeper) {
  for (uint32_t i = keeper->count; i-- > 0;)
    if (!tu_shm_memory_is_used(keeper->kept[i]) && all_have_left(keeper->kept[i])) drop(keeper, i);
}

void run_keeper_serve(struct run_keeper *keeper) {
  int fd;
  drop_unused(keeper);
  while (keeper->fd >= 0 && tu_shm_memory_arrives(keeper->fd, &fd)) {
    if (fd < 0) continue;
    if (keeper->count == RUN_KEPT_MAX) drop(keeper, 0);
    keeper->kept[keeper->count++] = fd;
  }
}

int run_keeper_wait_ms(const struct run_keeper *keeper) { return keeper->count > 0 ? CHECK_MS : -1; }

/* Looks at the ranks whose memory is kept as `fd`. Returns false if that cannot be done now. The caller calls
 * tu_job_look_fini in any case. */
static bool look_at(int fd, struct tu_job_look *look) {
  struct tu_segment segment;
  struct tu_error error;
  *look = (struct tu_job_look){0};
  if (!tu_segment_map(fd, &segment)) return false;
  segment.launcher = getpid();
  const bool good = tu_job_look_at(&segment, LOOK_MS, look, &error) == TUTTI_OK;
  tu_segment_unmap(&segment);
  return good;
}

void run_keeper_tell(const struct run_keeper *keeper, struct run_sink *sink) {
  for (uint32_t i = 0; i < keeper->count; i++) {
    struct tu_job_look look;
    if (look_at(keeper->kept[i], &look)) (void)run_look_put(sink, &look);
    tu_job_look_fini(&look);
  }
  run_frame_put(sink, RUN_LOOKED, 0, "", 0);
}

void run_keeper_report(const struct run_keeper *keeper, struct run_console *console) {
  if (keeper->count == 0) run_say(console, "no rank of this host has joined a job");
  for (uint32_t i = 0; i < keeper->count; i++) {
    struct tu_job_look look;
    if (look_at(keeper->kept[i], &look)) run_look_say(console, &look);
    else run_say(console, "the ranks have not all joined the job yet");
    tu_job_look_fini(&look);
  }
}
