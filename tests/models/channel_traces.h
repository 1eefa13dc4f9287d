/* channel_traces.h: reader of traces for the verifier that spin makes of channel.pml with -DTRACE. It reports which
 * traces the model could follow to the end. The environment variable TRACES names the file of traces, which
 * tests/channel_trace_test.c writes. */
#include <stdio.h>
#include <stdlib.h>

struct event {
  int step, end, operation, channel, number, slot, last;
};

struct trace {
  int channels, slots, operations, counted, shared;
  int from[8], length[8];
  int first, count; /* events of this trace in trace_events */
  int reached;      /* number of events that some run of the model has followed */
  int legal;
};

static struct trace *traces;
static struct event *trace_events;
static int trace_count, trace_event_count;

static void traces_report(void) {
  int legal = 0, shown = 0;
  for (int i = 0; i < trace_count; i++) legal += traces[i].legal;
  printf("traces: %d, events: %d, legal: %d\n", trace_count, trace_event_count, legal);
  for (int i = 0; i < trace_count && shown < 5; i++) {
    if (traces[i].legal) continue;
    const struct event *e = &trace_events[traces[i].first + traces[i].reached];
    printf(
        "trace %d: no run of the model continues after %d of %d events: step %d, end %d, operation %d, channel %d, "
        "number %d\n",
        i, traces[i].reached, traces[i].count, e->step, e->end, e->operation, e->channel, e->number);
    shown++;
  }
}

static void traces_fail(const char *what) {
  printf("traces: %s\n", what);
  exit(2);
}

static void traces_load(void) {
  char line[256];
  const char *name = getenv("TRACES");
  FILE *file = name ? fopen(name, "r") : NULL;
  if (!file) traces_fail("cannot open the file that TRACES names");
  if (traces) traces_fail("loaded twice");
  traces = calloc(20000, sizeof *traces);
  trace_events = calloc(4000000, sizeof *trace_events);
  if (!traces || !trace_events) traces_fail("out of memory");
  while (fgets(line, sizeof line, file)) {
    if (line[0] == 't') {
      struct trace *t = &traces[trace_count++];
      int used = 0, more = 0;
      if (sscanf(line, "trace %d %d %d %d %d%n", &t->channels, &t->slots, &t->operations, &t->counted, &t->shared,
                 &used) != 5 ||
          t->channels > CHANNELS_MAX_OF_TRACES || t->slots > SLOTS_MAX_OF_TRACES)
        traces_fail("not a trace");
      for (int c = 0; c < t->channels; c++, used += more)
        if (sscanf(line + used, " %d %d%n", &t->from[c], &t->length[c], &more) != 2) traces_fail("not a channel");
      t->first = trace_event_count;
    } else {
      struct event *e = &trace_events[trace_event_count++];
      if (sscanf(line, "%d %d %d %d %d %d %d", &e->step, &e->end, &e->operation, &e->channel, &e->number, &e->slot,
                 &e->last) != 7)
        traces_fail("not an event");
      traces[trace_count - 1].count++;
    }
  }
  fclose(file);
  atexit(traces_report);
}

/* Returns the event of a trace at the cursor; after the last, an event that matches no step of the model. */
static const struct event *traces_event(int trace, int cursor) {
  static const struct event none = {-1, -1, -1, -1, -1, -1, -1};
  struct trace *t = &traces[trace];
  if (cursor > t->reached) t->reached = cursor;
  return cursor < t->count ? &trace_events[t->first + cursor] : &none;
}
