/* costs.c: measures what messages and reductions of a job took. */
#include "trace/costs.h"

#include <math.h>
#include <stdlib.h>

#include "plan/plan.h"

/* A message that was taken so much later had to wait for its receiver. */
#define AT_ONCE_S 20e-6

struct values {
  double *list;
  uint32_t count, capacity;
};

static void add(struct values *v, double value) {
  v->list = tu_grow(v->list, v->count, &v->capacity, sizeof *v->list);
  v->list[v->count++] = value;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(struct values *v) {
  if (v->count > 1) qsort(v->list, v->count, sizeof *v->list, compare);
  const double middle = v->count > 0 ? v->list[v->count / 2] : 0;
  free(v->list);
  *v = (struct values){0};
  return middle;
}

static bool reduces(const struct tu_trace *t, const struct tu_traced_end *end) {
  const uint32_t kind = t->ranks[end->rank].calls[end->call].program->steps[end->step].kind;
  return kind == TU_RECV_REDUCE || kind == TU_REDUCE;
}

/* Returns what a message took, or a negative number if it does not count. */
static double time_of(const struct tu_trace *t, const struct tu_traced_message *m) {
  const struct tu_traced_end *sent = &m->sent, *taken = &m->taken;
  const bool apart = t->host_of[sent->rank] != t->host_of[taken->rank];
  if (t->host_count > 1 && !apart) return -1;
  const double took = tu_trace_begin_of(t, taken->rank, taken->first);
  if (took - tu_trace_end_of(t, sent->rank, sent->first) > AT_ONCE_S + (apart ? 1 : 0)) return -1;
  /* A reduction is not part of the message. */
  const double until = reduces(t, taken) ? took : tu_trace_end_of(t, taken->rank, taken->last);
  return until - tu_trace_begin_of(t, sent->rank, sent->first);
}

static double cost_of_reductions(const struct tu_trace *t) {
  struct values v = {0};
  for (uint32_t r = 0; r < t->rank_count; r++)
    for (uint32_t c = 0; c < t->ranks[r].call_count; c++) {
      const struct tu_traced_call *call = &t->ranks[r].calls[c];
      for (uint32_t i = 0; i < call->event_count; i++) {
        const struct tu_trace_event *e = &t->ranks[r].events[call->event_first + i];
        if (!tu_traced_is_step(e) || e->bytes < TU_TRACE_SHORT_BYTES) continue;
        const struct tu_trace_step *step = &call->program->steps[e->at];
        if ((step->kind == TU_RECV_REDUCE || step->kind == TU_REDUCE) && step->operands > 1)
          add(&v, e->took_ns * 1e-9 / (double)e->bytes / (step->operands - 1));
      }
    }
  return median(&v);
}

void tu_trace_costs(const struct tu_trace *trace, struct tu_traced_costs *costs) {
  struct values v = {0};
  *costs = (struct tu_traced_costs){.gamma_s = cost_of_reductions(trace)};
  for (uint32_t i = 0; i < trace->message_count; i++) {
    const struct tu_traced_message *m = &trace->messages[i];
    const double time = m->bytes <= TU_TRACE_SHORT_BYTES ? time_of(trace, m) : -1;
    if (time >= 0) add(&v, time);
  }
  costs->alpha_s = median(&v);
  for (uint32_t i = 0; i < trace->message_count; i++) {
    const struct tu_traced_message *m = &trace->messages[i];
    const double time = m->bytes > TU_TRACE_SHORT_BYTES ? time_of(trace, m) : -1;
    if (time >= 0) add(&v, fmax(time - costs->alpha_s, 0) / (double)m->bytes);
  }
  costs->beta_s = median(&v);
}
