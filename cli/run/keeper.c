/* keeper.c: keeps the shared memory of ranks, and reports from it what they do. */
#include "cli/run/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sight/pack.h"
#include "sight/report.h"
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

static void report(int fd, struct run_console *console) {
  struct tu_segment segment;
  struct tu_job_look look = {0};
  struct tu_error error;
  char *text = NULL, *rest = NULL;
  size_t bytes = 0;
  if (!tu_segment_map(fd, &segment)) {
    run_say(console, "the ranks have not all joined the job yet");
    return;
  }
  segment.launcher = getpid();
  FILE *file = open_memstream(&text, &bytes);
  if (file && tu_job_look_at(&segment, LOOK_MS, &look, &error) == TUTTI_OK) tu_report_print(file, &look);
  tu_job_look_fini(&look);
  if (file) fclose(file);
  for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
    run_say(console, "%s", line);
  free(text);
  tu_segment_unmap(&segment);
}

void run_keeper_tell(const struct run_keeper *keeper, struct run_sink *sink) {
  for (uint32_t i = 0; i < keeper->count; i++) {
    struct tu_segment segment;
    struct tu_job_look look = {0};
    struct tu_error error;
    char *data = NULL;
    size_t bytes = 0;
    if (!tu_segment_map(keeper->kept[i], &segment)) continue;
    FILE *file = open_memstream(&data, &bytes);
    if (file && tu_job_look_at(&segment, LOOK_MS, &look, &error) == TUTTI_OK) tu_job_look_pack(&look, file);
    tu_job_look_fini(&look);
    if (file) fclose(file);
    if (bytes > 0 && bytes <= RUN_FRAME_BYTES_MAX) run_frame_put(sink, RUN_STATE, 0, data, bytes);
    free(data);
    tu_segment_unmap(&segment);
  }
  run_frame_put(sink, RUN_LOOKED, 0, "", 0);
}

void run_keeper_report(const struct run_keeper *keeper, struct run_console *console) {
  if (keeper->count == 0) run_say(console, "no rank of this host has joined a job");
  for (uint32_t i = 0; i < keeper->count; i++) report(keeper->kept[i], console);
}
