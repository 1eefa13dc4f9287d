/* trace.c: the events of a world: as lines of text, or as Chrome-trace JSON, which trace viewers such as Perfetto show:
 * one row for the acts of each rank, and one for the times at which it runs. */
#include <stdio.h>

#include "tests/world/inside.h"

static FILE *trace;
static bool is_json;
static uint64_t ran_since;
static uint32_t runs = UINT32_MAX; /* rank that runs */

bool world_trace_begin(const char *path) {
  trace = path ? fopen(path, "w") : stdout;
  is_json = path != NULL;
  if (trace && is_json) fputs("[", trace);
  return trace != NULL;
}

static const char *act_name(uint64_t act) {
  return act == WORLD_NO_ACT ? "joins" : world_kind_name(world.program->act[act].kind);
}

static double us(uint64_t ns) { return (double)ns / 1000; }

static void note_json(enum world_event_kind kind, uint32_t rank, uint64_t value) {
  switch (kind) {
    case WORLD_RUNS:
      if (runs != UINT32_MAX)
        fprintf(trace, "{\"ph\":\"X\",\"pid\":%u,\"tid\":1,\"name\":\"runs\",\"ts\":%.3f,\"dur\":%.3f},\n", runs,
                us(ran_since), us(world.now - ran_since));
      runs = rank;
      ran_since = world.now;
      return;
    case WORLD_BEGINS:
    case WORLD_ENDS:
      fprintf(trace, "{\"ph\":\"%c\",\"pid\":%u,\"tid\":0,\"name\":\"%s\",\"ts\":%.3f},\n",
              kind == WORLD_BEGINS ? 'B' : 'E', rank, kind == WORLD_BEGINS ? act_name(value) : "", us(world.now));
      return;
    default:
      fprintf(trace, "{\"ph\":\"i\",\"s\":\"p\",\"pid\":%u,\"tid\":0,\"name\":\"%s\",\"ts\":%.3f},\n", rank,
              kind == WORLD_GOES_ON           ? "goes on"
              : value < world.program->faults ? world_mishap_name(world.program->fault[value].mishap)
                                              : "ends",
              us(world.now));
  }
}

void world_trace_note(enum world_event_kind kind, uint32_t rank, uint64_t value) {
  static const char *const names[] = {"runs", "goes on", "suffers fault", "begins act", "ends act with"};
  if (trace && is_json) note_json(kind, rank, value);
  else if (trace && kind != WORLD_RUNS)
    printf("%12.6f ms rank %u %s %lld\n", (double)world.now / 1e6, rank, names[kind], (long long)value);
}

void world_trace_error(tutti_err err, const char *message) {
  if (trace && !is_json) printf("             %s: %s\n", tutti_err_name(err), message);
}

void world_trace_end(void) {
  if (!trace) return;
  if (is_json) {
    for (uint32_t r = 0; r < world.program->ranks; r++)
      fprintf(trace, "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"rank %u\"}}%s\n", r, r,
              r + 1 < world.program->ranks ? "," : "]");
    fclose(trace);
  }
  trace = NULL;
  runs = UINT32_MAX;
}
