/* draw_names.c: labels, descriptions and colours of the values in a plan. */
#include <stdlib.h>
#include <string.h>

#include "draw/draw_internal.h"

enum tu_draw_naming tu_draw_naming(const struct tu_plan *plan) {
  const struct tu_collective *c = &tu_collectives[plan->collective];
  if (c->promise == TU_NOTHING) return TU_BY_RANKS;
  if (c->promise != TU_COPY_OF) return c->in == TU_EACH || plan->split > 1 ? TU_BY_NUMBER : TU_BY_RANKS;
  return c->in == TU_EACH && c->out == TU_EACH ? TU_BY_PAIR : TU_BY_NUMBER;
}

static uint32_t lowest(uint64_t ranks) { return ranks ? (uint32_t)__builtin_ctzll(ranks) : 0; }

/* Returns the number by which a value is named. It is the value's chunk number in the output if each rank contributes
 * one block and receives all blocks. Otherwise it is the chunk number in the input. */
static uint32_t number_of(const struct tu_plan *plan, struct tu_draw_value value) {
  const struct tu_collective *c = &tu_collectives[plan->collective];
  bool by_origin = c->promise == TU_COPY_OF && c->in == TU_ONE && c->out == TU_EACH;
  return by_origin ? lowest(value.ranks) * plan->split + value.chunk : value.chunk;
}

uint32_t tu_draw_keys(const struct tu_plan *plan) {
  const struct tu_collective *c = &tu_collectives[plan->collective];
  if (tu_draw_naming(plan) == TU_BY_RANKS) return 1;
  if (tu_draw_naming(plan) == TU_BY_PAIR) return plan->ranks;
  return plan->split * (c->in == TU_EACH || c->out == TU_EACH ? plan->ranks : 1);
}

uint32_t tu_draw_key(const struct tu_plan *plan, struct tu_draw_value value) {
  if (tu_draw_naming(plan) == TU_BY_RANKS) return 0;
  return tu_draw_naming(plan) == TU_BY_PAIR ? lowest(value.ranks) : number_of(plan, value);
}

/* Up to 8 keys: close to the colours of Okabe and Ito (2008), which colour-blind readers can distinguish. More keys: a
 * scale from blue over green to brown or yellow. Labels have these colours, so all have a contrast of 4.5 to 1 or more
 * (WCAG 2, level AA) with the page and with its bands; draw_test.c computes it. */
struct tu_draw_colour tu_draw_colour(uint32_t key, uint32_t keys, enum tu_draw_scheme scheme) {
  enum { FEW = 8, SPANS = 5 };
  static const char few[][FEW][8] = {
      [TU_DRAW_LIGHT] = {"#0072b2", "#b85000", "#007a58", "#a8437f", "#8a6200", "#56697a", "#7a3e12", "#7b4dc4"},
      [TU_DRAW_DARK] = {"#4da9e8", "#ff8f4d", "#33c39b", "#e08ac0", "#d9a93a", "#a9bccd", "#d39a72", "#b79bf0"}};
  static const int scales[][SPANS + 1][3] = {
      [TU_DRAW_LIGHT] = {{58, 28, 113}, {38, 74, 140}, {16, 104, 124}, {26, 114, 76}, {88, 112, 16}, {140, 96, 0}},
      [TU_DRAW_DARK] = {
          {160, 132, 232}, {110, 150, 240}, {70, 176, 196}, {84, 196, 140}, {160, 200, 80}, {240, 200, 60}}};
  const int(*scale)[3] = scales[scheme];
  struct tu_draw_colour colour;
  if (keys <= FEW) {
    memcpy(colour.chars, few[scheme][key], sizeof colour.chars);
    return colour;
  }
  static const char digits[] = "0123456789abcdef";
  uint32_t point = key * SPANS * 256 / (keys - 1), span = (uint32_t)tu_min(point / 256, SPANS - 1);
  int part = (int)(point - span * 256);
  colour.chars[0] = '#';
  for (int i = 0; i < 3; i++) {
    int level = (scale[span][i] * (256 - part) + scale[span + 1][i] * part) / 256;
    colour.chars[1 + 2 * i] = digits[level / 16];
    colour.chars[2 + 2 * i] = digits[level % 16];
  }
  colour.chars[7] = '\0';
  return colour;
}

void tu_draw_palette(uint32_t keys, struct tu_text *text) {
  for (enum tu_draw_scheme scheme = TU_DRAW_LIGHT; scheme <= TU_DRAW_DARK; scheme++) {
    if (scheme == TU_DRAW_DARK) tu_text_print(text, "%s", TU_DRAW_IF_DARK);
    for (uint32_t i = 0; i < keys; i++)
      tu_text_print(text, ".k%u { color: %s }\n", i, tu_draw_colour(i, keys, scheme).chars);
  }
  tu_text_print(text, "}\n");
}

/* ---- labels ----------------------------------------------------------------------------------------------------- */

static void print_ranks(uint64_t ranks, struct tu_text *text) {
  const char *comma = "";
  for (uint32_t i = 0; i < 64; i++) {
    if (!(ranks >> i & 1)) continue;
    uint32_t end = i;
    while (end + 1 < 64 && ranks >> (end + 1) & 1) end++;
    tu_text_print(text, end > i ? "%s%u-%u" : "%s%u", comma, i, end);
    comma = ",";
    i = end;
  }
}

static int compare_numbers(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return a < b ? -1 : a > b;
}

/* Sorts the numbers, appends them as ranges ("0-3,7"), and returns how many distinct numbers there are. */
static uint32_t print_numbers(uint32_t *numbers, uint32_t count, struct tu_text *text) {
  qsort(numbers, count, sizeof *numbers, compare_numbers);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++)
    if (kept == 0 || numbers[kept - 1] != numbers[i]) numbers[kept++] = numbers[i];
  for (uint32_t i = 0, end; i < kept; i = end + 1) {
    for (end = i; end + 1 < kept && numbers[end + 1] == numbers[end] + 1; end++) continue;
    tu_text_print(text, i ? ",%u" : "%u", numbers[i]);
    if (end > i) tu_text_print(text, end > i + 1 ? "-%u" : ",%u", numbers[end]);
  }
  return kept;
}

#define ARROW "\xe2\x86\x92"
#define SIGMA "\xce\xa3"

void tu_draw_label(const struct tu_plan *plan, const struct tu_draw_value values[], uint32_t count,
                   struct tu_text *text) {
  enum { LABEL_MAX = 11 };
  enum tu_draw_naming naming = tu_draw_naming(plan);
  if (naming == TU_BY_RANKS) {
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < count; i++) ranks |= values[i].ranks;
    if (tu_reduces(plan->collective) && (ranks & (ranks - 1))) tu_text_print(text, SIGMA);
    print_ranks(ranks, text);
    return;
  }
  if (naming == TU_BY_PAIR && count == 1) {
    tu_text_print(text, "%u" ARROW "%u", lowest(values[0].ranks), values[0].chunk / plan->split);
    if (plan->split > 1) tu_text_print(text, ".%u", values[0].chunk % plan->split);
    return;
  }
  if (naming == TU_BY_PAIR) {
    tu_text_print(text, "%u chunks", count);
    return;
  }
  uint32_t *numbers = tu_allocate(count, sizeof *numbers);
  for (uint32_t i = 0; i < count; i++) numbers[i] = number_of(plan, values[i]);
  struct tu_text list = {0};
  uint32_t kept = print_numbers(numbers, count, &list);
  if (list.length > LABEL_MAX) tu_text_print(text, "%u chunks", kept);
  else tu_text_print(text, "%s", list.chars);
  tu_text_fini(&list);
  free(numbers);
}

void tu_draw_say(const struct tu_plan *plan, struct tu_draw_value value, struct tu_text *text) {
  if (!value.ranks) {
    tu_text_print(text, "empty");
    return;
  }
  bool several = (value.ranks & (value.ranks - 1)) != 0;
  bool barrier = tu_collectives[plan->collective].promise == TU_NOTHING;
  if (barrier) {
    tu_text_print(text, several ? "ranks " : "rank ");
    print_ranks(value.ranks, text);
    tu_text_print(text, several ? " have arrived" : " has arrived");
    return;
  }
  if (several) tu_text_print(text, "the sum of in[%u] of ranks ", value.chunk);
  else tu_text_print(text, "in[%u] of rank ", value.chunk);
  print_ranks(value.ranks, text);
}

/* ---- the summary of a plan ---- */

static void print_count(uint32_t count, const char *noun, struct tu_text *text) {
  if (count == 0) tu_text_print(text, "no %ss", noun);
  else tu_text_print(text, count == 1 ? "%u %s" : "%u %ss", count, noun);
}

void tu_draw_summary(const struct tu_drawing *d, struct tu_text *text) {
  print_count(d->plan->ranks, "rank", text);
  tu_text_print(text, ", ");
  print_count(d->message_count, "message", text);
  if (d->message_count) {
    tu_text_print(text, " in ");
    print_count(d->rounds, "round", text);
  }
  if (d->tmp_chunks_max == 0) tu_text_print(text, ", no scratch");
  else
    tu_text_print(text, ", up to %u chunk%s of scratch per rank", d->tmp_chunks_max, d->tmp_chunks_max > 1 ? "s" : "");
  if (d->plan->order == TU_CANONICAL) tu_text_print(text, ", canonical order");
}

void tu_draw_escape(const char *chars, struct tu_text *text) {
  for (; *chars; chars++) switch (*chars) {
      case '&': tu_text_print(text, "&amp;"); break;
      case '<': tu_text_print(text, "&lt;"); break;
      case '>': tu_text_print(text, "&gt;"); break;
      case '"': tu_text_print(text, "&quot;"); break;
      default: tu_text_print(text, "%c", *chars); break;
    }
}
