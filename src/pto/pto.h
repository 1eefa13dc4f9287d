/* pto.h: PTO assembly: one-sided instructions on tensors of several ranks, as data. tutti-pto(5) has its grammar.
 *
 * A module is a list of values (arguments, constants, results) and a list of instructions that name them. Its text is read
 * and checked, lowered (instructions get the tiles that their data passes through) and written; what is written reads as the
 * same module. Types may leave sizes open, or all that is in their brackets: whoever runs a module binds its arguments to
 * what they are, and has it checked again.
 *
 * Nothing here allocates more than in proportion to the text. */
#ifndef TU_PTO_H
#define TU_PTO_H

#include "base/text.h"

#define TU_PTO_NAME_BYTES 64u
#define TU_PTO_NONE UINT32_MAX

/* ---- types ---- */

/* A size that is not known, `?`. Smaller numbers are sizes that are known by a name alone (TU_PTO_OPEN - 1 - its place in
 * ->names); once the number of a name is known, it stands in all types. */
#define TU_PTO_OPEN ((int64_t)-1)

enum tu_pto_kind { TU_PTO_SCALAR, TU_PTO_INDEX, TU_PTO_BOOL, TU_PTO_EVENT, TU_PTO_MEMREF, TU_PTO_GROUP, TU_PTO_TILE };

/* So much of a tile, from its first row and column on, is used. */
struct tu_pto_valid {
  uint32_t count;
  bool open; /* at most so much; else exactly: sizes must be multiples */
};

struct tu_pto_type {
  enum tu_pto_kind kind;
  bool elided;               /* <...>: nothing is known but the kind; of a group: but the count */
  tutti_datatype element;    /* scalar, memref, group, tile */
  uint32_t dims;             /* memref, group: as it is written; 0: one element */
  int64_t shape[TUTTI_DIMS]; /* leading ones where it has fewer dimensions */
  bool strided;
  int64_t strides[TUTTI_DIMS]; /* of elements; only if strided */
  int64_t count;               /* group: its memrefs */
  uint32_t rows, cols;         /* tile */
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

/* What an attribute may say, #pto.NAME<CHOICE>; the choices are numbered in this order. */
struct tu_pto_choices {
  const char *name;
  const char *const *choices;
  uint32_t count;
};
enum { TU_PTO_SUM, TU_PTO_MAX, TU_PTO_MIN };                               /* treduce: op */
enum { TU_PTO_SET, TU_PTO_ADD };                                           /* tnotify: op; tput: atomic */
enum { TU_PTO_EQ, TU_PTO_NE, TU_PTO_GT, TU_PTO_GE, TU_PTO_LT, TU_PTO_LE }; /* twait, ttest: cmp */

/* What there is to know of an opcode. */
struct tu_pto_form {
  const char *name;
  const char *key; /* of its attribute; NULL: none */
  const struct tu_pto_choices *choices;
  bool needs_choice; /* else the first one is meant */
  bool collective;   /* one rank alone carries it out: `root` says which; else `rank`, and all do if it is absent */
  bool shaped;       /* takes `shape`, the extent of its indexed operands */
  uint32_t operands, tiles; /* tiles: of the lowered form, with one to stage in; tsync: one operand or more */
  enum tu_pto_kind result;  /* TU_PTO_SCALAR: it has none */
};
extern const struct tu_pto_form tu_pto_forms[TU_PTO_OPCODES];

/* ---- modules ---- */

struct tu_pto_place {
  uint32_t line, column; /* from 1; of what was lowered: where that stood */
};

enum tu_pto_origin { TU_PTO_ARGUMENT, TU_PTO_CONSTANT, TU_PTO_RESULT };

struct tu_pto_value {
  char name[TU_PTO_NAME_BYTES]; /* without its % */
  enum tu_pto_origin origin;
  struct tu_pto_type type;
  int64_t number;  /* constants, of whole numbers */
  double fraction; /* constants, of floating types */
  struct tu_pto_place place;
};

struct tu_pto_index {
  uint32_t value; /* TU_PTO_NONE: `number` is it */
  int64_t number;
};

enum { TU_PTO_INDICES = TUTTI_DIMS + 1 };

/* %x, %x[i,j]: the part of a memref from there on, by its last dimensions; of a group, the first index is the rank. */
struct tu_pto_operand {
  uint32_t value;
  uint32_t index_count;
  struct tu_pto_index indices[TU_PTO_INDICES];
  struct tu_pto_place place;
};

struct tu_pto_instruction {
  enum tu_pto_opcode opcode;
  uint32_t result; /* TU_PTO_NONE: it has none */
  uint32_t operand_first, operand_count;
  uint32_t choice;
  int64_t rank;        /* that alone carries it out; TU_PTO_OPEN: not said */
  uint32_t shape_dims; /* 0: not said */
  int64_t shape[TUTTI_DIMS];
  struct tu_pto_place place;
};

/* A name that types give a size; it is one number throughout the module. */
struct tu_pto_name {
  char name[16];
  int64_t number; /* TU_PTO_OPEN: not known */
};

/* Which item has a name, found by the name's hash. Items begin with their names. */
struct tu_pto_table {
  uint32_t *numbers; /* + 1; 0: a free place */
  uint32_t places;   /* a power of two, at least half of them free */
};

struct tu_pto_module {
  char *name; /* of the text, for messages */
  struct tu_pto_value *values;
  struct tu_pto_instruction *instructions;
  struct tu_pto_operand *operands; /* of all instructions */
  struct tu_pto_name *names;
  uint32_t value_count, instruction_count, operand_count, name_count;
  uint32_t value_capacity, instruction_capacity, operand_capacity, name_capacity;
  struct tu_pto_table value_table, name_table;
};

/* Reads and checks. ARGUMENT, "name:line:column: expected ..., found ...". The caller destroys it. */
tutti_err tu_pto_read(const char *data, size_t bytes, const char *name, struct tu_pto_module **module,
                      struct tu_error *error);
void tu_pto_destroy(struct tu_pto_module *module); /* NULL is accepted */

/* Do the operands fit their instructions? What types leave open is taken to fit. */
tutti_err tu_pto_check(const struct tu_pto_module *module, struct tu_error *error);

/* What is known of an argument: its type, which may leave something open, or the number that it is: it is a constant from then
 * on. ARGUMENT if that does not fit what the module says; names of sizes become numbers. */
tutti_err tu_pto_bind(struct tu_pto_module *module, uint32_t value, const struct tu_pto_type *type,
                      struct tu_error *error);
tutti_err tu_pto_bind_number(struct tu_pto_module *module, uint32_t value, int64_t number, struct tu_error *error);

/* Is nothing open any more? */
bool tu_pto_is_closed(const struct tu_pto_type *type);

/* The part that a checked instruction works on, as far as it is known: of its first memref that is no group's, or of both
 * memrefs; of signals. A tsync has none. */
void tu_pto_extent(const struct tu_pto_module *module, const struct tu_pto_instruction *instruction,
                   int64_t shape[TUTTI_DIMS]);

/* ---- lowering ---- */

enum { TU_PTO_TILE_MAX = 1 << 20 };
struct tu_pto_lowering {
  uint32_t rows,
      cols; /* of a tile, from 1 to TU_PTO_TILE_MAX. It is widened to whole 32 bytes, of which so many columns are used */
  bool ping_pong; /* two tiles, so that the load of one part overlaps the store of the last */
};

/* Gives every instruction that needs tiles, and has none, arguments of tile types as further operands. */
tutti_err tu_pto_lower(struct tu_pto_module *module, const struct tu_pto_lowering *how, struct tu_error *error);

/* ---- text ---- */

/* Arguments, constants and instructions, one a line, with all signatures. */
void tu_pto_write(const struct tu_pto_module *module, struct tu_text *text);
void tu_pto_write_type(const struct tu_pto_module *module, const struct tu_pto_type *type, struct tu_text *text);

/* The value of that name; TU_PTO_NONE if there is none. */
uint32_t tu_pto_find(const struct tu_pto_module *module, const char *name);

#endif
