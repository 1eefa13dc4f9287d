/* pto_lower.c: gives instructions the tiles that their data passes through. Instructions are executed one after the
 * other. Therefore all instructions with the same element type can use the same tiles. */
#include <stdio.h>

#include "base/types.h"
#include "pto/pto_internal.h"

enum { TILES_MAX = 3 }; /* maximum number of tiles of one instruction: one accumulator and two staging tiles */

struct lowering {
  struct tu_pto_module *module;
  const struct tu_pto_lowering *how;
  uint32_t next; /* number in the name of the next tile: "tile0", "tile1", ... */
  /* [element type]: index of each tile's value; TU_PTO_NONE: the tile was not made yet */
  uint32_t tiles[TU_DATATYPES][TILES_MAX];
};

static struct tu_pto_type tile_type(const struct tu_pto_lowering *how, tutti_datatype element) {
  size_t bytes = tu_datatypes[element].bytes, row = tu_round_up(how->cols * bytes, 32);
  return (struct tu_pto_type){.kind = TU_PTO_TILE,
                              .element = element,
                              .rows = how->rows,
                              .cols = (uint32_t)(row / bytes),
                              .valid_rows = {how->rows, true},
                              .valid_cols = {how->cols, true}};
}

/* Adds a tile to the module, as an argument with an unused name. Returns the index of the new value. */
static uint32_t add_tile(struct lowering *l, const struct tu_pto_type *type, struct tu_pto_position position) {
  char name[TU_PTO_NAME_BYTES];
  do snprintf(name, sizeof name, "tile%u", l->next++);
  while (tu_pto_find(l->module, name) != TU_PTO_NONE);
  uint32_t value = tu_pto_add_value(l->module, name, TU_PTO_ARGUMENT, position);
  l->module->values[value].type = *type;
  return value;
}

/* Sets *element to the element type of the data that the instruction moves. Any operand has it, unless the operand's
 * type is elided (written <...>). Returns false if all types are elided. */
static bool find_element(const struct tu_pto_module *m, const struct tu_pto_instruction *i, tutti_datatype *element) {
  for (uint32_t k = 0; k < 2; k++) {
    const struct tu_pto_type *type = &m->values[m->operands[i->operand_first + k].value].type;
    *element = type->element;
    if (!type->elided) return true;
  }
  return false;
}

static tutti_err lower(struct lowering *l, struct tu_pto_instruction *i, struct tu_error *error) {
  struct tu_pto_module *m = l->module;
  const struct tu_pto_form *form = &tu_pto_forms[i->opcode];
  tutti_datatype element;
  if (form->tiles == 0 || i->operand_count > form->operands) return TUTTI_OK;
  if (!find_element(m, i, &element))
    return tu_pto_fail(m, i->position, error,
                       "expected an element type for the tiles, found none for %s; write it in an operand's type",
                       form->name);
  struct tu_pto_type type = tile_type(l->how, element);
  const char *wanted = tu_pto_why_not(&type);
  if (wanted)
    return tu_pto_fail(m, i->position, error, "expected %s, found %ux%u of %s", wanted, type.rows, type.cols,
                       tutti_datatype_name(element));
  uint32_t first = m->operand_count, tiles = form->tiles + (l->how->ping_pong ? 1 : 0);
  tu_assert(tiles <= TILES_MAX);
  for (uint32_t k = 0; k < i->operand_count; k++) {
    const struct tu_pto_operand copy = m->operands[i->operand_first + k];
    tu_pto_add_operand(m, &copy);
  }
  for (uint32_t k = 0; k < tiles; k++) {
    uint32_t *tile = &l->tiles[element][k];
    if (*tile == TU_PTO_NONE) *tile = add_tile(l, &type, i->position);
    tu_pto_add_operand(m, &(struct tu_pto_operand){.value = *tile, .position = i->position});
  }
  i->operand_first = first;
  i->operand_count += tiles;
  return TUTTI_OK;
}

tutti_err tu_pto_lower(struct tu_pto_module *module, const struct tu_pto_lowering *how, struct tu_error *error) {
  tu_assert(how->rows > 0 && how->cols > 0 && how->rows <= TU_PTO_TILE_MAX && how->cols <= TU_PTO_TILE_MAX);
  struct lowering l = {.module = module, .how = how};
  for (tutti_datatype type = 0; type < TU_DATATYPES; type = tu_datatype_next(type))
    for (int k = 0; k < TILES_MAX; k++) l.tiles[type][k] = TU_PTO_NONE;
  for (uint32_t i = 0; i < module->instruction_count; i++) {
    tutti_err err = lower(&l, &module->instructions[i], error);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}
