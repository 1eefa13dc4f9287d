/* draw_svg.c: prints the picture of a plan as SVG. Each message is one element <g class="message">, so that the
 * script of the HTML page can show and hide it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/draw_layout.h"
#include "plan/plan_text.h"

#define ARROW "\xe2\x86\x92"

enum { MARGIN = 24, LEGEND_ROW = 22, WIDTH_MIN = 480, DOT = 6 };

const char tu_draw_style[] =
    ".tutti { font-family: 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif;"
    " font-size: 11px; fill: #222 }\n"
    ".tutti .title { font-size: 18px; font-weight: bold }\n"
    ".tutti .words { font-size: 12.5px; fill: #444 }\n"
    ".tutti .band { fill: #f6f6f3 }\n"
    ".tutti .life { stroke: #b4b4b4; stroke-width: 1.2 }\n"
    ".tutti .has { stroke: #333; stroke-width: 3.2 }\n"
    ".tutti .edge { stroke: #bbb; stroke-dasharray: 2 4 }\n"
    ".tutti .time { fill: #666; text-anchor: middle }\n"
    ".tutti .rank rect { fill: #fff; stroke: #333; stroke-width: 1.2 }\n"
    ".tutti .rank text { text-anchor: middle; font-size: 12px; font-weight: bold }\n"
    ".tutti .message { fill: currentColor }\n"
    ".tutti .line { fill: none; stroke: currentColor; stroke-width: 1.7 }\n"
    ".mixed { color: #666 }\n"
    ".sample { color: #0072b2 }\n"
    ".tutti .label { font-weight: bold; paint-order: stroke; stroke: #fff; stroke-width: 3px; stroke-linejoin: round "
    "}\n"
    ".tutti .banded .label { stroke: #f6f6f3 }\n"
    ".tutti .left { text-anchor: end }\n"
    ".tutti .reduction circle { fill: #222; stroke: #fff; stroke-width: 1 }\n"
    ".tutti .reduction .sign { stroke: #fff; stroke-width: 1.6 }\n"
    ".tutti .reduction .final { fill: none; stroke: #222; stroke-width: 1.3 }\n"
    ".tutti .copy rect { fill: #fff; stroke: #222; stroke-width: 1.4 }\n"
    ".tutti .dense rect { fill: #0072b2; opacity: 0.18 }\n"
    ".tutti .dense text { text-anchor: middle; font-size: 14px }\n"
    ".tutti .small { font-size: 9px; fill: #555 }\n" TU_DRAW_IF_DARK
    ".tutti { fill: #e6e6e3 }\n"
    ".tutti .paper { fill: #16181b }\n"
    ".tutti .words { fill: #c6c6c2 }\n"
    ".tutti .band { fill: #1e2125 }\n"
    ".tutti .life { stroke: #5d6167 }\n"
    ".tutti .has { stroke: #e6e6e3 }\n"
    ".tutti .edge { stroke: #5d6167 }\n"
    ".tutti .time, .tutti .small { fill: #a0a09b }\n"
    ".tutti .rank rect { fill: #22252a; stroke: #c6c6c2 }\n"
    ".mixed { color: #aaa }\n"
    ".sample { color: #4da9e8 }\n"
    ".tutti .label { stroke: #16181b }\n"
    ".tutti .banded .label { stroke: #1e2125 }\n"
    ".tutti .reduction circle { fill: #e6e6e3; stroke: #16181b }\n"
    ".tutti .reduction .sign { stroke: #16181b }\n"
    ".tutti .reduction .final { fill: none; stroke: #e6e6e3 }\n"
    ".tutti .copy rect { fill: #16181b; stroke: #e6e6e3 }\n"
    ".tutti .dense rect { fill: #4da9e8 }\n"
    "}\n";

struct ink {
  const struct tu_draw *what;
  const struct tu_drawing *d;
  struct tu_draw_layout layout;
  struct tu_text *text;
};

static void print_line(struct ink *k, const char *class_name, double x1, double y1, double x2, double y2) {
  tu_text_print(k->text, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class_name, x1, y1,
                x2, y2);
}

/* ---- arrows ----------------------------------------------------------------------------------------------------- */

static void print_span(struct tu_span span, struct tu_text *text) {
  tu_text_print(text, "%s[%u", tu_buffer_name(span.buffer), span.first);
  if (span.count > 1) tu_text_print(text, ":%u", span.first + span.count);
  tu_text_print(text, "]");
}

/* Prints the tooltip of an arrow. */
static void print_hint(struct ink *k, const struct tu_draw_arrow *a) {
  enum { NAMED_MAX = 6 };
  const struct tu_draw_message *m = &k->d->messages[a->message];
  const struct tu_draw_part *parts = &k->d->parts[m->part_first];
  struct tu_text *t = k->text;
  tu_text_print(t, "<title>round %u: rank %u to rank %u", m->sent, parts->from, parts->to);
  if (m->taken > m->sent) tu_text_print(t, ", received in round %u", m->taken);
  if (parts->lane) tu_text_print(t, ", lane %u", parts->lane);
  for (uint32_t i = 0; i < m->part_count; i++) {
    const struct tu_step *recv = tu_drawing_step(k->d, parts[i].recv);
    tu_text_print(t, "\n");
    print_span(tu_drawing_step(k->d, parts[i].send)->source, t);
    tu_text_print(t, recv->kind == TU_RECV_REDUCE ? ", reduced into " : " into ");
    print_span(recv->target, t);
  }
  uint32_t count;
  struct tu_draw_value *values = tu_draw_carried(k->d, k->layout.v, a->message, &count);
  for (uint32_t i = 0; i < count && i < NAMED_MAX; i++) {
    tu_text_print(t, i ? "\n" : "\ncarries ");
    tu_draw_say(k->d->plan, values[i], t);
  }
  if (count > NAMED_MAX) tu_text_print(t, "\nand %u more", count - NAMED_MAX);
  free(values);
  tu_text_print(t, "</title>");
}

/* Prints an arrow: its line (in two pieces if it crosses the edge of the picture), its arrowhead, and a dot at its
 * start. */
static void print_arrow(struct ink *k, const struct tu_draw_arrow *a) {
  const struct tu_draw_layout *l = &k->layout;
  const struct tu_draw_message *m = &k->d->messages[a->message];
  const struct tu_draw_part *part = tu_draw_first_part(l, a);
  const struct tu_step *recv = tu_drawing_step(k->d, part->recv);
  /* If the receiver reduces the data, its vertical line has a mark there. The arrow then ends in front of the mark. */
  double gap = recv->kind != TU_RECV_REDUCE ? 1 : recv->final ? DOT + 5 : DOT + 2;
  double x = tu_draw_x(l, part->from), y = l->bands[m->sent].top, dx = a->columns * l->column;
  double dy = l->bands[m->taken].bottom - y, length = hypot(dx, dy);
  double ux = dx / length, uy = dy / length, end = length - gap;
  /* The part of the arrow beyond the picture's edge is drawn at the opposite edge. `over`: how far it is moved sideways
   * for this; 0 if the arrow does not cross the edge. */
  double edge = a->columns > 0 ? l->left + l->column * (k->d->plan->ranks - 0.5) : l->left - l->column / 2;
  double over = a->wraps ? l->column * k->d->plan->ranks * (a->columns > 0 ? -1 : 1) : 0;
  double tip_x = x + ux * end + over, tip_y = y + uy * end;
  double back_x = tip_x - ux * 5, back_y = tip_y - uy * 5;
  tu_text_print(k->text, "<path class=\"line\" d=\"M%.1f %.1f", x, y);
  if (a->wraps) {
    double y_edge = y + (edge - x) / dx * dy;
    tu_text_print(k->text, "L%.1f %.1fM%.1f %.1f", edge, y_edge, edge + over, y_edge);
  }
  tu_text_print(k->text, "L%.1f %.1f\"/>", back_x, back_y);
  double wide_x = tip_x - ux * 8.5, wide_y = tip_y - uy * 8.5;
  tu_text_print(k->text, "<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fZ\"/>", tip_x, tip_y, wide_x - uy * 3.4,
                wide_y + ux * 3.4, wide_x + uy * 3.4, wide_y - ux * 3.4);
  tu_text_print(k->text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.4\"/>", x, y);
}

static void print_label(struct ink *k, const struct tu_draw_arrow *a) {
  const struct tu_draw_layout *l = &k->layout;
  const struct tu_draw_band *band = &l->bands[k->d->messages[a->message].sent];
  bool right = a->side == TU_RIGHT;
  double x = tu_draw_x(l, tu_draw_first_part(l, a)->from) + (right ? 5 : -5), y = band->top - 2 - 12.0 * a->label_row;
  tu_text_print(k->text, "<text class=\"label%s\" x=\"%.1f\" y=\"%.1f\">%s</text>", right ? "" : " left", x, y,
                a->label);
}

/* Prints one line of text instead of the arrows of a round that has too many of them. */
static void print_dense(struct ink *k, uint32_t round) {
  const struct tu_draw_layout *l = &k->layout;
  const struct tu_draw_band *band = &l->bands[round];
  double width = l->column * (k->d->plan->ranks - 1);
  tu_text_print(k->text,
                "<g class=\"dense\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>"
                "<text x=\"%.1f\" y=\"%.1f\">%u messages, too many to draw one by one</text></g>\n",
                l->left, band->top, width, band->bottom - band->top, l->left + width / 2,
                (band->top + band->bottom) / 2 + 5, band->messages);
}

static void print_messages(struct ink *k) {
  enum { CROWD = 72 };
  for (uint32_t r = 1; r <= k->d->rounds; r++)
    if (k->layout.bands[r].dense) print_dense(k, r);
  for (uint32_t i = 0; i < k->d->message_count; i++) {
    const struct tu_draw_arrow *a = &k->layout.arrows[i];
    const struct tu_draw_message *m = &k->d->messages[a->message];
    const struct tu_draw_part *part = tu_draw_first_part(&k->layout, a);
    uint32_t crowd = k->layout.bands[m->sent].messages;
    if (k->layout.bands[m->sent].dense) continue;
    char key[16] = "mixed";
    if (a->key != TU_DRAW_MIXED) snprintf(key, sizeof key, "k%u", a->key);
    tu_text_print(k->text,
                  "<g class=\"message %s%s\" data-message=\"%u\" data-from=\"%u\" data-to=\"%u\" data-lane=\"%u\""
                  " data-sent=\"%u\" data-taken=\"%u\">",
                  key, m->sent % 2 ? " banded" : "", a->message, part->from, part->to, part->lane, m->sent, m->taken);
    print_hint(k, a);
    if (crowd > CROWD) tu_text_print(k->text, "<g opacity=\"%.2f\">", fmax(0.25, (double)CROWD / crowd));
    print_arrow(k, a);
    if (crowd > CROWD) tu_text_print(k->text, "</g>");
    if (a->label[0] && a->label_fits) print_label(k, a);
    tu_text_print(k->text, "</g>\n");
  }
}

/* ---- marks (symbols of steps) at a rank ---- */

static void print_reduction(struct ink *k, double x, double y, bool final) {
  tu_text_print(k->text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/>", x, y, DOT);
  tu_text_print(k->text, "<path class=\"sign\" d=\"M%.1f %.1fh7m-3.5 -3.5v7\"/>", x - 3.5, y);
  if (final) tu_text_print(k->text, "<circle class=\"final\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/>", x, y, DOT + 3);
}

static void print_copy(struct ink *k, double x, double y) {
  tu_text_print(k->text, "<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\"/>", x - 3.5, y - 3.5);
}

static bool is_local(const struct tu_drawing *d, uint32_t step) {
  uint8_t kind = tu_drawing_step(d, step)->kind;
  return kind == TU_COPY || kind == TU_REDUCE;
}

/* The marks (symbols of local steps and reductions) at one rank after one round. Each local step has its own mark if
 * there is enough space; otherwise all share one. All reductions of received data share one mark, because the parts of
 * a message share one arrow. */
struct marks {
  uint32_t round, count, drawn;
  bool final;
};

static void print_mark(struct ink *k, uint32_t step, struct marks *marks) {
  enum { SHOWN_MAX = 3, APART = 10 };
  const struct tu_drawing *d = k->d;
  const struct tu_step *s = tu_drawing_step(d, step);
  const struct tu_draw_band *band = &k->layout.bands[d->round[step]];
  bool local = is_local(d, step), one = marks->count > (local ? SHOWN_MAX : 1);
  uint32_t index = marks->drawn++;
  if (one && index > 0) return;
  double x = tu_draw_x(&k->layout, d->rank_of[step]), y = local ? band->bottom + 15 : band->bottom;
  if (!one) x += (index - (marks->count - 1) / 2.0) * APART;
  tu_text_print(k->text, "<g class=\"%s\" data-rank=\"%u\" data-round=\"%u\"><title>rank %u: ",
                s->kind == TU_COPY ? "copy" : "reduction", d->rank_of[step], d->round[step], d->rank_of[step]);
  if (one) tu_text_print(k->text, "%u steps, the first: ", marks->count);
  struct tu_text words = {0};
  tu_plan_write_step(tu_drawing_rank(d, step), s, &words);
  tu_draw_escape(words.chars, k->text);
  tu_text_fini(&words);
  tu_text_print(k->text, "</title>");
  if (s->kind == TU_COPY) print_copy(k, x, y);
  else print_reduction(k, x, y, marks->final);
  if (one && local)
    tu_text_print(k->text, "<text class=\"small\" x=\"%.1f\" y=\"%.1f\">\xc3\x97%u</text>", x + 6, y + 3, marks->count);
  tu_text_print(k->text, "</g>\n");
}

static void print_marks(struct ink *k) {
  const struct tu_drawing *d = k->d;
  /* Marks of one rank. all[0][round]: for reductions of received data; all[1][round]: for local steps. */
  struct marks *all[2];
  for (int i = 0; i < 2; i++) all[i] = tu_allocate((size_t)d->rounds + 1, sizeof **all);
  for (uint32_t r = 0; r < d->plan->ranks; r++) {
    for (int i = 0; i < 2; i++) memset(all[i], 0, ((size_t)d->rounds + 1) * sizeof **all);
    for (int pass = 0; pass < 2; pass++)
      for (uint32_t s = d->step_base[r]; s < d->step_base[r + 1]; s++) {
        if (!is_local(d, s) && tu_drawing_step(d, s)->kind != TU_RECV_REDUCE) continue;
        struct marks *marks = &all[is_local(d, s)][d->round[s]];
        marks->final |= tu_drawing_step(d, s)->final;
        if (pass == 0) marks->count++;
        else print_mark(k, s, marks);
      }
  }
  for (int i = 0; i < 2; i++) free(all[i]);
}

/* ---- the frame: ranks, lifelines and bands ---- */

static void print_ranks(struct ink *k, double y) {
  const struct tu_draw_layout *l = &k->layout;
  double half = fmin(18, l->column / 2 - 1);
  for (uint32_t r = 0; r < k->d->plan->ranks; r++) {
    double x = tu_draw_x(l, r);
    tu_text_print(k->text,
                  "<g class=\"rank\" data-rank=\"%u\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"20\""
                  " rx=\"5\"/><text x=\"%.1f\" y=\"%.1f\">%u</text></g>\n",
                  r, x - half, y, 2 * half, x, y + 14.5, r);
  }
}

static void print_grid(struct ink *k) {
  const struct tu_draw_layout *l = &k->layout;
  double left = l->left - l->column / 2, right = left + l->column * k->d->plan->ranks;
  for (uint32_t r = 1; r <= k->d->rounds; r++) {
    const struct tu_draw_band *band = &l->bands[r];
    double end = r < k->d->rounds ? l->bands[r + 1].from : l->foot - 6;
    if (r % 2)
      tu_text_print(k->text, "<rect class=\"band\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", MARGIN / 2,
                    band->from, right - MARGIN / 2 + 6, end - band->from);
    tu_text_print(k->text, "<text class=\"time\" x=\"32\" y=\"%.1f\">%u</text>\n", (band->top + band->bottom) / 2 + 4,
                  r);
    if (!band->wraps) continue;
    print_line(k, "edge", left, band->top, left, band->bottom);
    print_line(k, "edge", right, band->top, right, band->bottom);
  }
  if (k->d->rounds > 0)
    tu_text_print(k->text, "<text class=\"time\" x=\"32\" y=\"%.1f\">round</text>\n", l->head + 14.5);
  for (uint32_t r = 0; r < k->d->plan->ranks; r++) {
    double x = tu_draw_x(l, r);
    print_line(k, "life", x, l->head, x, l->foot);
    if (l->v->complete[r] == TU_DRAW_NEVER) continue;
    tu_text_print(k->text, "<g data-rank=\"%u\" data-round=\"%u\">", r, l->v->complete[r]);
    print_line(k, "life has", x, l->bands[l->v->complete[r]].bottom, x, l->foot);
    tu_text_print(k->text, "</g>\n");
  }
}

/* ---- the legend: lists only what the picture shows --------------------------------------------------------------- */

enum glyph { GLYPH_ARROW, GLYPH_REDUCTION, GLYPH_COPY, GLYPH_HAS, GLYPH_EDGE, GLYPHS };

struct legend {
  /* [glyph]: explanation of the symbol in the legend; NULL: the picture does not contain it */
  const char *words[GLYPHS];
};

static const char *name_labels(const struct tu_plan *plan) {
  if (tu_collectives[plan->collective].promise == TU_NOTHING) return "a message: the ranks whose arrival it announces";
  switch (tu_draw_naming(plan)) {
    case TU_BY_RANKS: return "a message: the ranks whose sum it carries";
    case TU_BY_PAIR: return "a message: source" ARROW "destination of its block, or the number of chunks";
    default: return "a message: the chunks that it carries";
  }
}

static struct legend choose_legend(const struct ink *k, const struct tu_draw_layout *l) {
  struct legend legend = {{NULL}};
  bool final = false, barrier = tu_collectives[k->d->plan->collective].promise == TU_NOTHING;
  for (uint32_t s = 0; s < tu_drawing_steps(k->d); s++) {
    const struct tu_step *step = tu_drawing_step(k->d, s);
    if (step->kind == TU_COPY) legend.words[GLYPH_COPY] = "a local copy";
    final |= step->final && step->kind != TU_COPY;
    if (step->kind == TU_RECV_REDUCE || step->kind == TU_REDUCE)
      legend.words[GLYPH_REDUCTION] = final ? "a reduction (with a ring: the final one)" : "a reduction";
  }
  if (k->d->message_count) legend.words[GLYPH_ARROW] = name_labels(k->d->plan);
  for (uint32_t r = 0; r < k->d->plan->ranks; r++)
    if (l->v->complete[r] != TU_DRAW_NEVER)
      legend.words[GLYPH_HAS] = barrier ? "the rank may leave the barrier" : "the rank has its result";
  for (uint32_t r = 0; r <= k->d->rounds; r++)
    if (l->bands[r].wraps) legend.words[GLYPH_EDGE] = "continues at the other edge";
  return legend;
}

static void print_glyph(struct ink *k, enum glyph glyph, double x, double y) {
  static const char *const classes[] = {"message sample", "reduction", "copy", "has", "edge"};
  tu_text_print(k->text, "<g class=\"key %s\">", classes[glyph]);
  switch (glyph) {
    case GLYPH_ARROW:
      tu_text_print(k->text, "<path class=\"line\" d=\"M%.1f %.1fl13 6\"/><path d=\"M%.1f %.1fl-9 -0.6l2.7 -5.6z\"/>",
                    x, y - 4, x + 18, y + 4.4);
      break;
    case GLYPH_REDUCTION: print_reduction(k, x + 9, y, false); break;
    case GLYPH_COPY: print_copy(k, x + 9, y); break;
    case GLYPH_HAS: print_line(k, "has", x + 9, y - 8, x + 9, y + 8); break;
    default: print_line(k, "edge", x + 9, y - 8, x + 9, y + 8); break;
  }
  tu_text_print(k->text, "</g>");
}

/* Computes positions for the legend in rows of at most `width`, and returns the legend's height. If `print` is true,
 * also prints the legend. */
static double print_legend(struct ink *k, const struct legend *legend, double y, double width, bool print) {
  double x = MARGIN, row = y;
  for (enum glyph g = 0; g < GLYPHS; g++) {
    if (!legend->words[g]) continue;
    double wide = 24 + tu_draw_text_width(legend->words[g], 10.6) + 18;
    if (x > MARGIN && x + wide > width) {
      x = MARGIN;
      row += LEGEND_ROW;
    }
    if (print) {
      print_glyph(k, g, x, row - 4);
      tu_text_print(k->text, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"11.5\">%s</text>\n", x + 24, row,
                    legend->words[g]);
    }
    x += wide;
  }
  return row - y + LEGEND_ROW;
}

/* ---- the whole picture ---- */

static void print_name(const struct tu_plan *plan, struct tu_text *text) {
  tu_text_print(text, "%s.", tu_collectives[plan->collective].name);
  tu_draw_escape(plan->algorithm, text);
}

static void print_open(struct ink *k, double width, double height) {
  tu_text_print(k->text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tutti\" width=\"%.0f\" height=\"%.0f\""
                " viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>",
                width, height, width, height);
  print_name(k->d->plan, k->text);
  tu_text_print(k->text, ", %u ranks</title>\n<style>\n%s", k->d->plan->ranks, tu_draw_style);
  tu_draw_palette(tu_draw_keys(k->d->plan), k->text);
  tu_text_print(k->text,
                "</style>\n<rect class=\"paper\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text "
                "class=\"title\" x=\"%d\" y=\"32\">",
                MARGIN);
  print_name(k->d->plan, k->text);
  tu_text_print(k->text, "</text>\n");
}

static double print_words(struct ink *k, double y, const char *words) {
  tu_text_print(k->text, "<text class=\"words\" x=\"%d\" y=\"%.1f\">", MARGIN, y);
  tu_draw_escape(words, k->text);
  tu_text_print(k->text, "</text>\n");
  return y + 18;
}

static void draw_words_only(struct ink *k, const char *summary) {
  print_open(k, 620, 130);
  double y = 54;
  if (k->what->summary) y = print_words(k, y, k->what->summary);
  y = print_words(k, y, summary);
  struct tu_text words = {0};
  tu_text_print(&words, "Plans of more than %u ranks are not drawn. Use fewer ranks, --as html, or --json.",
                TU_DRAW_RANKS_MAX);
  print_words(k, y, words.chars);
  tu_text_fini(&words);
  tu_text_print(k->text, "</svg>\n");
}

void tu_draw_picture(const struct tu_draw *what, const struct tu_drawing *d, const struct tu_draw_values *v,
                     struct tu_text *text) {
  struct ink k = {.what = what, .d = d, .text = text};
  struct tu_text summary = {0};
  tu_draw_summary(d, &summary);
  if (!v) {
    draw_words_only(&k, summary.chars);
    tu_text_fini(&summary);
    return;
  }
  double width = fmax(WIDTH_MIN, tu_draw_text_width(summary.chars, 12.5) + 2 * MARGIN);
  if (what->summary) width = fmax(width, tu_draw_text_width(what->summary, 12.5) + 2 * MARGIN);
  /* The picture of the plan starts below the legend. The legend's height depends on the picture's width, which is known
   * only after the layout. So the layout is computed twice. */
  tu_draw_layout_init(&k.layout, d, v, 0, width);
  struct legend legend = choose_legend(&k, &k.layout);
  double top = what->summary ? 98 : 80, rest = k.layout.labels_missing ? 18 : 0;
  double head = top + rest + print_legend(&k, &legend, top, k.layout.width, false) + 4;
  tu_draw_layout_fini(&k.layout);
  tu_draw_layout_init(&k.layout, d, v, head, width);

  print_open(&k, k.layout.width, k.layout.height);
  double y = 52;
  if (what->summary) y = print_words(&k, y, what->summary);
  y = print_words(&k, y, summary.chars);
  if (rest > 0) print_words(&k, y, "Labels that do not fit appear when the pointer rests on an arrow.");
  print_legend(&k, &legend, top + rest, k.layout.width, true);
  /* The groups are for the script of the page, which cuts the picture into windows of rounds and into sheets of
   * paper. */
  tu_text_print(text, "<g class=\"rounds\">\n");
  print_grid(&k);
  print_messages(&k);
  print_marks(&k);
  tu_text_print(text, "</g>\n<g class=\"head\">\n");
  print_ranks(&k, k.layout.head);
  tu_text_print(text, "</g>\n<g class=\"foot\">\n");
  print_ranks(&k, k.layout.foot);
  tu_text_print(text, "</g>\n</svg>\n");
  tu_draw_layout_fini(&k.layout);
  tu_text_fini(&summary);
}

void tu_draw_svg(const struct tu_draw *what, struct tu_text *text) {
  struct tu_drawing d;
  struct tu_draw_values v;
  bool drawn = what->plan->ranks <= TU_DRAW_RANKS_MAX;
  tu_drawing_init(&d, what->plan);
  d.column_of = what->column_of;
  if (drawn) tu_draw_values_init(&v, &d);
  tu_text_print(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  tu_draw_picture(what, &d, drawn ? &v : NULL, text);
  if (drawn) tu_draw_values_fini(&v);
  tu_drawing_fini(&d);
}
