/* pto.h: PTO assembly as data: one-sided instructions on tensors of several ranks. tutti-pto(5) defines its grammar.
 *
 * A module is a list of values (arguments, constants, results) and a list of instructions that use these values. The
 * text of a module is read and checked. Then the module can be lowered: each instruction that needs tiles (buffers that
 * its data passes through) gets them. A module can also be written as text; reading this text gives the same module.
 *
 * The text may leave parts of a type unknown: single sizes (`?`), or everything between the brackets (`<...>`). Before
 * a module is run, the caller binds each argument to an actual type or number, and checks the module again.
 *
 * Memory use is proportional to the length of the text. */
#ifndef TU_PTO_H
#define TU_PTO_H

#include "base/text.h"

#define TU_PTO_NAME_BYTES 64u
#define TU_PTO_NONE UINT32_MAX

/* ---- types ---- */

/* An unknown size in a type, written `?`. A size may also be written as a name, such as M in MxN. As long as the value
 * of the name is unknown, the size is stored as TU_PTO_OPEN - 1 - i, where i is the index of the name in the module's
 * `names`. */
#define TU_PTO_OPEN ((int64_t)-1)

enum tu_pto_kind { TU_PTO_SCALAR, TU_PTO_INDEX, TU_PTO_BOOL, TU_PTO_EVENT, TU_PTO_MEMREF, TU_PTO_GROUP, TU_PTO_TILE };

/* Number of valid rows (or columns) of a tile, counted from the first one. Only these contain data. */
struct tu_pto_valid {
  uint32_t count;
  /* true: at most `count` rows (or columns) are used; false: exactly `count` are used, so the size of the data must be
   * a multiple of `count` */
  bool open;
};

struct tu_pto_type {
  enum tu_pto_kind kind;
  bool elided; /* true: written `<...>`, so only `kind` is known; for a group written with a number, `count` is known,
                * too */
  tutti_datatype element; /* element type, for a scalar, memref, group or tile */
  /* number of dimensions as written, for a memref (tensor in memory) or a group of memrefs; 0: a single element */
  uint32_t dims;
  int64_t shape[TUTTI_DIMS]; /* sizes; unused leading dimensions have size 1 */
  bool strided;
  int64_t strides[TUTTI_DIMS]; /* strides in elements; valid only if `strided` is true */
  int64_t count;               /* number of memrefs, for a group */
  uint32_t rows, cols;         /* number of rows and columns, for a tile */
  struct tu_pto_valid valid_rows, valid_cols;
};

/* ---- instructions ---- */

enum tu_pto_opcode {
  TU_PTO_TGATHER,
  TU_PTO_TSCATTER,
  TU_PTO_TBROADCAST,
  TU_PTO_TREDUCE,
  TU_PTO_TPUT,
  TU_PTO_TGET,
  TU_PTO_TPUT_ASYNC,
  TU_PTO_TGET_ASYNC,
  TU_PTO_TNOTIFY,
  TU_PTO_TWAIT,
  TU_PTO_TTEST,
  TU_PTO_TSYNC,
  TU_PTO_OPCODES
};

/* The choices of an attribute, which is written #pto.NAME<CHOICE>. The choices are numbered in this order. */
struct tu_pto_choices {
  const char *name;
  const char *const *choices;
  uint32_t count;
};
enum {
  TU_PTO_SUM,
  TU_PTO_MAX,
  TU_PTO_MIN
}; /* choices of the attribute `op` of
                                                                            * treduce */
enum {
  TU_PTO_SET,
  TU_PTO_ADD
}; /* choices of the attributes `op` of tnotify
                                                                            * and `atomic` of tput */
enum {
  TU_PTO_EQ,
  TU_PTO_NE,
  TU_PTO_GT,
  TU_PTO_GE,
  TU_PTO_LT,
  TU_PTO_LE
}; /* choices of the attribute `cmp` of twait
                                                                            * and ttest */

/* Properties of an opcode (a kind of instruction). */
struct tu_pto_form {
  const char *name;
  const char *key; /* name of the attribute that the opcode accepts, besides `shape` and the rank; NULL: none */
  const struct tu_pto_choices *choices;
  bool needs_choice; /* true: the attribute `key` must be given; false: without it, the first choice is used */
  /* true: the opcode is a collective; only the rank that the attribute `root` names executes it. false: the rank that
   * the attribute `rank` names executes it; without this attribute, all ranks execute it */
  bool collective;
  /* true: the opcode accepts the attribute `shape`: the shape of the part of a memref that is used; the part begins at
   * the operand's indices */
  bool shaped;
  /* operands: number of operands, tiles not counted (tsync: minimum number, 1); tiles: number of tiles that lowering
   * adds if one staging tile is used */
  uint32_t operands, tiles;
  enum tu_pto_kind result; /* kind of the result; TU_PTO_SCALAR: no result */
};
extern const struct tu_pto_form tu_pto_forms[TU_PTO_OPCODES];

/* ---- modules ---- */

struct tu_pto_position {
  uint32_t line, column; /* line and column in the text, counted from 1; lowering does not change them */
};

enum tu_pto_origin { TU_PTO_ARGUMENT, TU_PTO_CONSTANT, TU_PTO_RESULT };

struct tu_pto_value {
  char name[TU_PTO_NAME_BYTES]; /* name without the leading % */
  enum tu_pto_origin origin;
  struct tu_pto_type type;
  int64_t number;  /* value of a constant of an integer type */
  double fraction; /* value of a constant of a floating-point type */
  struct tu_pto_position position;
};

struct tu_pto_index {
  /* the value whose number is used as the index, by its position in the module's `values`; TU_PTO_NONE: `number` is the
   * index */
  uint32_t value;
  int64_t number;
};

enum { TU_PTO_INDICES = TUTTI_DIMS + 1 };

/* An operand, written %x or %x[i,j]. With indices, the operand is the part of a memref that begins at these indices.
 * The indices belong to the last dimensions of the memref. For a group, the first index is the rank. */
struct tu_pto_operand {
  uint32_t value;
  uint32_t index_count;
  struct tu_pto_index indices[TU_PTO_INDICES];
  struct tu_pto_position position;
};

struct tu_pto_instruction {
  enum tu_pto_opcode opcode;
  uint32_t result; /* index of the result in the module's values; TU_PTO_NONE: no result */
  uint32_t operand_first, operand_count;
  uint32_t choice;
  int64_t rank;        /* the only rank that executes the instruction; TU_PTO_OPEN: not given */
  uint32_t shape_dims; /* number of dimensions of the attribute `shape`; 0: the attribute is not given */
  int64_t shape[TUTTI_DIMS];
  struct tu_pto_position position;
};

/* A name that types use for a size, such as M in MxN. It stands for the same number throughout the module. */
struct tu_pto_name {
  char name[16];
  int64_t number; /* number for which the name stands; TU_PTO_OPEN: not known yet */
};

/* Hash table that finds an item by its name. The name must be the first field of each item. */
struct tu_pto_table {
  uint32_t *numbers; /* for each entry, index of the item + 1; 0: the entry is free */
  uint32_t entries;  /* number of entries, a power of two; at least half of them are free */
};

struct tu_pto_module {
  char *name; /* name of the text (for example of its file), used in messages */
  struct tu_pto_value *values;
  struct tu_pto_instruction *instructions;
  struct tu_pto_operand *operands; /* the operands of all instructions */
  struct tu_pto_name *names;
  uint32_t value_count, instruction_count, operand_count, name_count;
  uint32_t value_capacity, instruction_capacity, operand_capacity, name_capacity;
  struct tu_pto_table value_table, name_table;
};

/* Reads and checks a module, which the caller destroys. Returns TUTTI_ERR_ARGUMENT on an error, with the message
 * "NAME:LINE:COLUMN: expected ..., found ...". */
tutti_err tu_pto_read(const char *data, size_t bytes, const char *name, struct tu_pto_module **module,
                      struct tu_error *error);
void tu_pto_destroy(struct tu_pto_module *module); /* `module` may be NULL */

/* Checks that the operands of every instruction have types that fit. Unknown parts of types always fit. */
tutti_err tu_pto_check(const struct tu_pto_module *module, struct tu_error *error);

/* Binds an argument to a type or to a number. A type may still have unknown parts. A number turns the argument into a
 * constant. In all types of the module, names of sizes whose numbers are now known are replaced by the numbers. Returns
 * TUTTI_ERR_ARGUMENT if the type or number contradicts the module. */
tutti_err tu_pto_bind(struct tu_pto_module *module, uint32_t value, const struct tu_pto_type *type,
                      struct tu_error *error);
tutti_err tu_pto_bind_number(struct tu_pto_module *module, uint32_t value, int64_t number, struct tu_error *error);

/* Returns true if the type is complete: it has no unknown size, count or element type. */
bool tu_pto_is_closed(const struct tu_pto_type *type);

/* Computes the shape of the data on which an instruction (accepted by tu_pto_check) works, as far as it is known. For a
 * collective, this is the used part of the local tensor; for a transfer, the part that is moved; for an instruction on
 * signals, the signals. Must not be called for tsync. */
void tu_pto_extent(const struct tu_pto_module *module, const struct tu_pto_instruction *instruction,
                   int64_t shape[TUTTI_DIMS]);

/* ---- lowering ---- */

enum { TU_PTO_TILE_MAX = 1 << 20 };
struct tu_pto_lowering {
  /* number of rows and columns of a tile, each from 1 to TU_PTO_TILE_MAX. Rows are padded to a multiple of 32 bytes;
   * only the first `cols` columns are used. */
  uint32_t rows, cols;
  bool ping_pong; /* true: two staging tiles, so that loading one part overlaps storing the previous part */
};

/* Adds tiles to each instruction that needs tiles and has none. The tiles become arguments of the module and the last
 * operands of the instruction. */
tutti_err tu_pto_lower(struct tu_pto_module *module, const struct tu_pto_lowering *how, struct tu_error *error);

/* ---- text ---- */

/* Writes arguments, constants and instructions, one per line; every instruction has its signature (the types of its
 * operands). */
void tu_pto_write(const struct tu_pto_module *module, struct tu_text *text);
void tu_pto_write_type(const struct tu_pto_module *module, const struct tu_pto_type *type, struct tu_text *text);

/* Returns the index (in module->values) of the value with this name; TU_PTO_NONE if there is none. */
uint32_t tu_pto_find(const struct tu_pto_module *module, const char *name);

#endif
