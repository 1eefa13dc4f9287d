/* draw_tensor.c: prints the memory layout of a tensor as a picture or as text. */
#include "draw/draw_tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "draw/draw_internal.h"

#define EMPTY UINT32_MAX

enum { CELL = 22, MARGIN = 24, TITLE = 40, GAP = 70, LABEL = 76, LINES_APART = 6 };

/* All elements of a tensor, and all positions of its memory. */
struct sheet {
  const struct tu_draw_tensor *what;
  size_t rows, cols;  /* rows and columns of all matrices of the tensor, stacked vertically */
  size_t positions;   /* number of positions in memory, counted in elements */
  uint32_t *position; /* [rows * cols]: position of each element in memory, in elements */
  uint32_t *element;  /* [positions]: index of the element at each position; EMPTY: padding */
  uint32_t *key;      /* [rows * cols]: colour number of each element */
  uint32_t keys;
  size_t page, line;    /* number of elements of memory per page, and per line of the picture's memory part */
  size_t lines_a_group; /* number of the picture's lines per bank or core */
  const char *group;    /* "bank" or "core"; NULL: no groups */
};

static void close_sheet(struct sheet *s) {
  free(s->position);
  free(s->element);
  free(s->key);
}

/* Divides memory into the lines that the picture shows. In a tiled tensor a line is a face (part of a tile) or a tile.
 * In other tensors it is a row of the tensor or of a shard. In a strided tensor this row also contains the gap up to
 * the next row. */
static void cut_memory(struct sheet *s) {
  const tutti_tensor *t = s->what->tensor;
  const tutti_layout *l = &t->layout;
  bool tiled = l->tiles.rows > 0, sharded = l->placement > TUTTI_INTERLEAVED;
  s->page = tiled && l->tiles.face_rows ? (size_t)l->tiles.face_rows * l->tiles.face_cols
            : tiled                     ? (size_t)l->tiles.rows * l->tiles.cols
            : sharded                   ? l->shard_cols
                                        : tu_max(t->shape[4], 1);
  s->line = s->page;
  if (l->placement == TUTTI_STRIDED && t->strides[3] > 0 && t->shape[3] > 1 && t->strides[3] >= t->strides[4])
    s->line = s->page = t->strides[3];
  size_t group = s->positions;
  if (sharded) group = l->shard_rows * l->shard_cols, s->group = "core";
  else if (l->placement == TUTTI_INTERLEAVED && l->banks > 1) group = s->positions / l->banks, s->group = "bank";
  s->lines_a_group = tu_max((group + s->line - 1) / tu_max(s->line, 1), 1);
}

static tutti_err open_sheet(struct sheet *s, const struct tu_draw_tensor *what, struct tu_error *error) {
  const tutti_tensor *t = what->tensor;
  struct tu_map *map;
  tutti_err err = tu_map_create(t, &map, error);
  if (err != TUTTI_OK) return err;
  size_t item = tu_map_item_bytes(map), rows = t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
  *s = (struct sheet){.what = what, .rows = rows, .cols = t->shape[4], .positions = tu_map_extent(map) / item};
  if (tu_datatypes[t->type].elements > 1 || rows * s->cols > TU_DRAW_CELLS_MAX ||
      s->positions > 4 * TU_DRAW_CELLS_MAX) {
    tu_map_destroy(map);
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "the tensor has %zux%zu elements and occupies %zu elements of memory; expected at most %u and %u, and no "
        "block-float datatype",
        rows, s->cols, s->positions, TU_DRAW_CELLS_MAX, 4 * TU_DRAW_CELLS_MAX);
  }
  cut_memory(s);
  s->position = tu_allocate(rows * s->cols + 1, sizeof *s->position);
  s->key = tu_allocate(rows * s->cols + 1, sizeof *s->key);
  s->element = tu_allocate(s->positions + 1, sizeof *s->element);
  memset(s->element, 0xff, (s->positions + 1) * sizeof *s->element);
  size_t per_block = what->blocks ? tu_max(t->shape[what->axis] / what->blocks, 1) : 1;
  for (uint32_t e = 0; e < rows * s->cols; e++) {
    size_t index[TUTTI_DIMS], rest = e;
    for (int d = TUTTI_DIMS - 1; d >= 0; d--) index[d] = rest % t->shape[d], rest /= t->shape[d];
    s->position[e] = (uint32_t)(tu_map_offset(map, index) / item);
    s->element[s->position[e]] = e;
    if (what->one_block) s->key[e] = what->block;
    else
      s->key[e] =
          (uint32_t)(what->blocks ? tu_min(index[what->axis] / per_block, what->blocks - 1) : s->position[e] / s->page);
    s->keys = (uint32_t)tu_max(s->keys, s->key[e] + 1);
  }
  if (what->blocks) s->keys = what->blocks;
  tu_map_destroy(map);
  return TUTTI_OK;
}

/* ---- text ---- */

tutti_err tu_draw_tensor_text(const struct tu_draw_tensor *what, struct tu_text *text, struct tu_error *error) {
  struct sheet s;
  tutti_err err = open_sheet(&s, what, error);
  if (err != TUTTI_OK) return err;
  int width = snprintf(NULL, 0, "%zu", tu_max(s.positions, 1) - 1) + 1;
  tu_text_print(text, "%s", "");
  for (size_t r = 0; r < s.rows; r++) {
    if (r > 0 && r % what->tensor->shape[3] == 0) tu_text_print(text, "\n");
    for (size_t c = 0; c < s.cols; c++) tu_text_print(text, "%*u", c ? width : width - 1, s.position[r * s.cols + c]);
    tu_text_print(text, "\n");
  }
  close_sheet(&s);
  return TUTTI_OK;
}

/* ---- picture ---- */

static void print_cell(struct tu_text *t, double x, double y, const char *fill, size_t number, const char *hint_of) {
  tu_text_print(t, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"%s\"/>", x, y, CELL, CELL, fill);
  tu_text_print(t, "<text x=\"%.0f\" y=\"%.0f\">%zu<title>%s</title></text>\n", x + CELL / 2.0, y + CELL / 2.0 + 3,
                number, hint_of);
}

static void print_matrix(const struct sheet *s, struct tu_text *t) {
  tu_text_print(t, "<text class=\"words\" x=\"%d\" y=\"%d\">by index</text>\n<g class=\"matrix\">\n", MARGIN,
                MARGIN + TITLE - 8);
  for (size_t e = 0; e < s->rows * s->cols; e++) {
    char hint[96];
    size_t r = e / s->cols, c = e % s->cols, height = s->what->tensor->shape[3];
    snprintf(hint, sizeof hint, "row %zu, column %zu: position %u", r % height, c, s->position[e]);
    double y = MARGIN + TITLE + (double)r * CELL + (double)(r / tu_max(height, 1)) * LINES_APART;
    print_cell(t, MARGIN + (double)c * CELL, y, tu_draw_colour(s->key[e], s->keys, TU_DRAW_LIGHT).chars, s->position[e],
               hint);
  }
  tu_text_print(t, "</g>\n");
}

static void print_memory(const struct sheet *s, double x, struct tu_text *t) {
  tu_text_print(t, "<text class=\"words\" x=\"%.0f\" y=\"%d\">in memory</text>\n<g class=\"memory\">\n", x,
                MARGIN + TITLE - 8);
  size_t lines = (s->positions + s->line - 1) / s->line;
  double label = s->group ? LABEL : 0;
  for (size_t i = 0; i < lines; i++) {
    double y = MARGIN + TITLE + (double)i * (CELL + 2) + (double)(i / s->lines_a_group) * LINES_APART;
    if (s->group && i % s->lines_a_group == 0)
      tu_text_print(t, "<text class=\"group\" x=\"%.0f\" y=\"%.0f\">%s %zu</text>\n", x, y + CELL / 2.0 + 4, s->group,
                    i / s->lines_a_group);
    for (size_t k = 0; k < s->line && i * s->line + k < s->positions; k++) {
      uint32_t e = s->element[i * s->line + k];
      char hint[64];
      double cell_x = x + label + (double)k * CELL;
      if (e == EMPTY) {
        tu_text_print(t, "<rect class=\"empty\" x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\"/>\n", cell_x, y, CELL,
                      CELL);
        continue;
      }
      snprintf(hint, sizeof hint, "row %zu, column %zu", e / s->cols % tu_max(s->what->tensor->shape[3], 1),
               e % s->cols);
      print_cell(t, cell_x, y, tu_draw_colour(s->key[e], s->keys, TU_DRAW_LIGHT).chars, i * s->line + k, hint);
    }
  }
  tu_text_print(t, "</g>\n");
}

tutti_err tu_draw_tensor_svg(const struct tu_draw_tensor *what, struct tu_text *text, struct tu_error *error) {
  struct sheet s;
  tutti_err err = open_sheet(&s, what, error);
  if (err != TUTTI_OK) return err;
  tu_assert(s.line > 0 && s.lines_a_group > 0);
  size_t lines = (s.positions + s.line - 1) / s.line, height_of = tu_max(what->tensor->shape[3], 1);
  double memory_x = MARGIN + (double)s.cols * CELL + GAP;
  double width = memory_x + (s.group ? LABEL : 0) + (double)s.line * CELL + MARGIN;
  double matrix = (double)s.rows * CELL + (double)(s.rows / height_of) * LINES_APART;
  double memory = (double)lines * (CELL + 2) + (double)(lines / s.lines_a_group) * LINES_APART;
  double height = MARGIN + TITLE + (matrix > memory ? matrix : memory) + MARGIN;
  double title = 2 * MARGIN + 8 * (double)strlen(what->title ? what->title : "");
  if (width < title) width = title;
  tu_text_print(
      text,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tutti\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
      "%.0f\">\n<style>\n"
      ".tutti { font-family: 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif;"
      " font-size: 9px; fill: #fff; text-anchor: middle }\n"
      ".tutti rect { stroke: #fff; stroke-width: 1 }\n"
      ".tutti .empty { fill: #eee; stroke: #ccc }\n"
      ".tutti .title { font-size: 14px; font-weight: bold; fill: #222; text-anchor: start }\n"
      ".tutti .words { font-size: 11.5px; fill: #444; text-anchor: start }\n"
      ".tutti .group { font-size: 11px; fill: #222; text-anchor: start }\n" TU_DRAW_IF_DARK
      ".tutti .paper { fill: #16181b }\n"
      ".tutti rect { stroke: #16181b }\n"
      ".tutti .empty { fill: #2a2d32; stroke: #45484d }\n"
      ".tutti .title, .tutti .group { fill: #e6e6e3 }\n"
      ".tutti .words { fill: #c6c6c2 }\n"
      "}\n</style>\n<rect class=\"paper\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
      width, height, width, height);
  tu_text_print(text, "<text class=\"title\" x=\"%d\" y=\"%d\">", MARGIN, MARGIN);
  tu_draw_escape(what->title ? what->title : "", text);
  tu_text_print(text, "</text>\n");
  print_matrix(&s, text);
  print_memory(&s, memory_x, text);
  tu_text_print(text, "</svg>\n");
  close_sheet(&s);
  return TUTTI_OK;
}
