/* begin.c: opens the door at the end of MPI_Init, and closes it in MPI_Finalize. All ranks exchange whether theirs can be
 * opened; it is, if all can. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "door.h"

struct tm_door tm_door = {.lobby = MPI_COMM_NULL, .group = MPI_GROUP_NULL};

void tm_say(const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  fprintf(stderr, "tutti-mpi: rank %d: %s\n", tm_door.rank, line);
}

/* Reads TUTTI_MPI. */
static enum tm_mode read_mode(void) {
  static const char *const names[] = {"off", "collectives", "report", "verify"};
  const char *text = getenv("TUTTI_MPI");
  if (!text || !*text) return TM_QUIET;
  for (int i = 0; i < 4; i++)
    if (strcmp(text, names[i]) == 0) return (enum tm_mode)i;
  fprintf(
      stderr,
      "tutti-mpi: TUTTI_MPI is '%s'; expected off, collectives, report or verify. All calls are left to " TM_MPI_NAME
      ".\n",
      text);
  return TM_OFF;
}

/* Reads TUTTI_MPI_MANY. Returns false if it is not of the form AT_ONCE,CALLS. */
static bool read_many(struct tm_many *many) {
  const char *text = getenv("TUTTI_MPI_MANY");
  unsigned long at_once = TM_AT_ONCE, calls = TM_CALLS;
  int length = 0;
  const bool is_set = text && *text;
  if (is_set && (sscanf(text, "%9lu,%9lu%n", &at_once, &calls, &length) != 2 || text[length] || strpbrk(text, "+- "))) {
    fprintf(stderr,
            "tutti-mpi: TUTTI_MPI_MANY is '%s'; expected two numbers up to %d, as in %d,%d. All calls are left "
            "to " TM_MPI_NAME ".\n",
            text, TM_LATE, TM_AT_ONCE, TM_CALLS);
    return false;
  }
  *many = (struct tm_many){(uint32_t)at_once, (uint32_t)calls};
  return true;
}

/* ---- the ranks meet ---- */

static int exchange(void *context, const void *mine, void *all, size_t bytes) {
  (void)context;
  return PMPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, tm_door.lobby) != MPI_SUCCESS;
}

static tutti_err join(void) {
  const tutti_bootstrap bootstrap = {
      .rank = (uint32_t)tm_door.rank, .ranks = (uint32_t)tm_door.ranks, .allgather = exchange};
  const tutti_options options = {.bootstrap = &bootstrap, .foreign = {.progress = tm_advance_mpi}};
  tutti_err err = tutti_init(&options, &tm_door.world);
  /* Not tutti_comm_self: a thread that waits there must be woken by what arrives for this rank. */
  const uint32_t alone = (uint32_t)tm_door.rank;
  return err == TUTTI_OK ? tutti_comm_create(tm_door.world, &alone, 1, UINT64_MAX, &tm_door.poller) : err;
}

static tutti_err begin_parts(void) {
  tutti_err err = tm_types_begin();
  if (err == TUTTI_OK) err = tm_ops_begin();
  if (err == TUTTI_OK) err = tm_comms_begin();
  if (err == TUTTI_OK) err = tm_requests_begin();
  if (err == TUTTI_OK) err = tm_progress_begin();
  tm_waits_begin();
  return err == TUTTI_OK ? join() : err;
}

/* Returns true if the door of every rank can be opened. */
static bool all_can(bool can) {
  int mine = can, all = 0;
  PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, tm_door.lobby);
  return all;
}

void tm_begin(void) {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  tm_door.threads = level == MPI_THREAD_MULTIPLE;
  tm_door.mode = read_many(&tm_door.many) ? read_mode() : TM_OFF;
  PMPI_Comm_rank(MPI_COMM_WORLD, &tm_door.rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &tm_door.ranks);
  const int missing = tm_presence_missing(tm_door.ranks);
  if (missing >= 0) {
    tm_say("rank %d has not loaded libtutti_mpi.so: all calls are left to " TM_MPI_NAME
           "; set LD_PRELOAD for all ranks (tutti mpi does)",
           missing);
    tm_door.mode = TM_OFF;
    return;
  }
  PMPI_Comm_dup(MPI_COMM_WORLD, &tm_door.lobby);
  PMPI_Comm_group(MPI_COMM_WORLD, &tm_door.group);
  if (!all_can(tm_door.mode != TM_OFF)) {
    if (tm_door.mode != TM_OFF)
      tm_say("TUTTI_MPI is off on another rank: all calls are left to " TM_MPI_NAME "; set it for all ranks");
    tm_door.mode = TM_OFF;
    return;
  }
  PMPI_Bcast(&tm_door.many, 2, MPI_UINT32_T, 0, tm_door.lobby);
  const tutti_err err = begin_parts();
  if (err != TUTTI_OK) tm_say("all calls are left to " TM_MPI_NAME ": %s", tutti_error_message(NULL));
  tm_door.open = all_can(err == TUTTI_OK);
  if (!tm_door.open) return;
  (void)tm_comm_settle(MPI_COMM_WORLD);
  (void)tm_comm_settle(MPI_COMM_SELF);
}

void tm_end(void) {
  if (tm_door.open) {
    if (tm_door.mode >= TM_REPORT) tm_report();
    tm_door.open = false;
    tm_progress_stop();
    tm_requests_end();
    tm_comms_end();
    tutti_comm_close(tm_door.poller);
    tutti_comm_close(tm_door.world);
    tm_progress_end();
    tm_ops_end();
    tm_types_end();
  }
  if (tm_door.lobby != MPI_COMM_NULL) PMPI_Comm_free(&tm_door.lobby);
  if (tm_door.group != MPI_GROUP_NULL) PMPI_Group_free(&tm_door.group);
}

TM_EXPORT int MPI_Init(int *argc, char ***argv) {
  tm_presence_say();
  const int code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS) tm_begin();
  return code;
}

TM_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  tm_presence_say();
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS) tm_begin();
  return code;
}

TM_EXPORT int MPI_Finalize(void) {
  tm_end();
  return PMPI_Finalize();
}
