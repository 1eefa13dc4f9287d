/* draw_json.c: writes a plan as the fields of a JSON object for other programs; tutti-plan(1) describes them. All fields
 * are always present. */
#include "draw/draw_internal.h"
#include "plan/plan_text.h"

static const char *const answers[] = {"false", "true"};

static void print_span(const struct tu_span *span, struct tu_text *text) {
  if (!span) tu_text_print(text, "null");
  else
    tu_text_print(text, "{\"buffer\": \"%s\", \"first\": %u, \"count\": %u}", tu_buffer_name(span->buffer), span->first,
                  span->count);
}

static void print_list(const uint32_t *numbers, uint32_t count, struct tu_text *text) {
  tu_text_print(text, "[");
  for (uint32_t i = 0; i < count; i++) tu_text_print(text, i ? ", %u" : "%u", numbers[i]);
  tu_text_print(text, "]");
}

static void print_operands(const struct tu_rank_plan *r, const struct tu_step *step, struct tu_text *text) {
  tu_text_print(text, "[");
  for (uint32_t i = 0; i < step->operand_count; i++) {
    const struct tu_operand *o = &r->operands[step->operand_first + i];
    bool local = o->peer == TU_LOCAL;
    tu_text_print(text, "%s{\"peer\": ", i ? ", " : "");
    if (local) tu_text_print(text, "null");
    else tu_text_print(text, "%u", o->peer);
    tu_text_print(text, ", \"span\": ");
    print_span(local ? &o->span : NULL, text);
    tu_text_print(text, ", \"first\": %s, \"joined\": %s}", answers[o->first], answers[o->joined]);
  }
  tu_text_print(text, "]");
}

static void print_step(const struct tu_drawing *d, uint32_t number, struct tu_text *text) {
  static const char *const kinds[] = {[TU_SEND] = "send",
                                      [TU_RECV] = "recv",
                                      [TU_RECV_REDUCE] = "recv_reduce",
                                      [TU_COPY] = "copy",
                                      [TU_REDUCE] = "reduce"};
  const struct tu_step *s = tu_drawing_step(d, number);
  const struct tu_rank_plan *r = tu_drawing_rank(d, number);
  bool has_source = s->kind == TU_SEND || s->kind == TU_COPY;
  tu_text_print(text, "        {\"kind\": \"%s\", \"lane\": %u, \"round\": %u, \"source\": ", kinds[s->kind], s->lane,
                d->round[number]);
  print_span(has_source ? &s->source : NULL, text);
  tu_text_print(text, ", \"target\": ");
  print_span(s->kind == TU_SEND ? NULL : &s->target, text);
  tu_text_print(text, ", \"peers\": ");
  print_list(r->peers + s->peer_first, s->kind == TU_SEND || s->kind == TU_RECV ? s->peer_count : 0, text);
  tu_text_print(text, ", \"operands\": ");
  print_operands(r, s, text);
  tu_text_print(text, ", \"after\": ");
  print_list(r->afters + s->after_first, s->after_count, text);
  tu_text_print(text, ", \"first\": %s, \"final\": %s, \"joined\": %s, \"tree\": %s}", answers[s->first],
                answers[s->final], answers[s->joined], answers[s->tree]);
}

static void print_rank(const struct tu_drawing *d, uint32_t rank, struct tu_text *text) {
  const struct tu_plan *plan = d->plan;
  const struct tu_rank_plan *r = &plan->rank[rank];
  tu_text_print(text, "    {\"rank\": %u, \"in\": %u, \"out\": %u, \"tmp\": [", rank, tu_plan_chunks(plan, rank, TU_IN),
                tu_plan_chunks(plan, rank, TU_OUT));
  for (uint32_t i = 0; i < r->tmp_count; i++)
    tu_text_print(text, "%s{\"buffer\": \"%s\", \"chunk\": %u}", i ? ", " : "", tu_buffer_name(r->tmp[i].buffer),
                  r->tmp[i].chunk);
  tu_text_print(text, "],\n      \"steps\": [");
  for (uint32_t s = d->step_base[rank]; s < d->step_base[rank + 1]; s++) {
    tu_text_print(text, s > d->step_base[rank] ? ",\n" : "\n");
    print_step(d, s, text);
  }
  tu_text_print(text, "]}");
}

void tu_draw_json(const struct tu_draw *what, struct tu_text *text) {
  const struct tu_plan *p = what->plan;
  struct tu_drawing d;
  tu_drawing_init(&d, p);
  tu_text_print(text,
                "\"form\": \"tutti-plan\",\n  \"collective\": \"%s\", \"algorithm\": \"%s\",\n"
                "  \"ranks\": %u, \"root\": %u, \"split\": %u,\n",
                tu_collectives[p->collective].name, p->algorithm, p->ranks, p->root, p->split);
  tu_text_print(text, "  \"in_place\": %s, \"equal_blocks\": %s, \"rank_order\": %s, \"order\": \"%s\",\n",
                answers[p->in_place], answers[p->equal_blocks], answers[p->rank_order], tu_order_name(p->order));
  tu_text_print(text, "  \"messages\": %u, \"rounds\": %u, \"tmp_chunks_max\": %u,\n  \"plans\": [\n", d.message_count,
                d.rounds, d.tmp_chunks_max);
  for (uint32_t rank = 0; rank < p->ranks; rank++) {
    print_rank(&d, rank, text);
    tu_text_print(text, rank + 1 < p->ranks ? ",\n" : "\n");
  }
  tu_text_print(text, "  ]");
  tu_drawing_fini(&d);
}
