/* types.c: datatypes of the MPI: where their bytes lie, and which datatype of tutti they are. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "door.h"

static struct tm_map types;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int keyval = MPI_KEYVAL_INVALID;

/* longest item whose bytes are compared with its packed form; longer ones count as not contiguous */
#define SOLID_BYTES_MAX (64u << 20)

/* ---- predefined datatypes ---- */

static bool has_native(enum tm_class class, size_t size, bool is_signed, tutti_datatype *type) {
  static const tutti_datatype integers[2][9] = {{[1] = TUTTI_U8, [2] = TUTTI_U16, [4] = TUTTI_U32, [8] = TUTTI_U64},
                                                {[1] = TUTTI_I8, [2] = TUTTI_I16, [4] = TUTTI_I32, [8] = TUTTI_I64}};
  const bool whole = size == 1 || size == 2 || size == 4 || size == 8;
  if (class == TM_FLOAT && size == 4) *type = TUTTI_F32;
  else if (class == TM_FLOAT && size == 8) *type = TUTTI_F64;
  else if ((class == TM_INTEGER || class == TM_BYTE || class == TM_LOGICAL) && whole) *type = integers[is_signed][size];
  else return false;
  return true;
}

/* Returns true if an item whose bytes are those of `memory`, packed, has the same bytes in the same order. */
static bool packs_alike(MPI_Datatype type, const struct tm_type *t, const char *memory, char *packed) {
  int at = 0;
  return PMPI_Pack(memory - t->first, 1, type, packed, (int)t->size, &at, MPI_COMM_SELF) == MPI_SUCCESS &&
         (size_t)at == t->size && memcmp(memory, packed, t->size) == 0;
}

/* Returns true if the bytes of an item, packed, are those from its first byte on, in the same order. Packs the number of each
 * byte, first the low 8 bits of all numbers, then the next ones: so a byte that comes from elsewhere is seen. */
static bool is_solid(MPI_Datatype type, const struct tm_type *t) {
  if ((MPI_Aint)t->size != t->span || t->size > SOLID_BYTES_MAX) return false;
  char *memory = malloc(2 * t->size + 1), *packed = memory + t->size;
  if (!memory) return false;
  bool solid = true;
  for (uint32_t shift = 0; solid && (t->size - 1) >> shift > 0; shift += 8) {
    for (size_t i = 0; i < t->size; i++) memory[i] = (char)(i >> shift);
    solid = packs_alike(type, t, memory, packed);
  }
  free(memory);
  return solid;
}

static bool measure(MPI_Datatype type, struct tm_type *t) {
  MPI_Count size;
  MPI_Aint lb;
  if (PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return false;
  if (PMPI_Type_get_extent(type, &lb, &t->extent) != MPI_SUCCESS) return false;
  if (PMPI_Type_get_true_extent(type, &t->first, &t->span) != MPI_SUCCESS) return false;
  t->size = (size_t)size;
  return true;
}

static struct tm_type *keep(MPI_Datatype type, const struct tm_type *t) {
  struct tm_type *kept = malloc(sizeof *kept);
  if (!kept) return NULL;
  *kept = *t;
  pthread_mutex_lock(&lock);
  void *before = tm_map_find(&types, TM_KEY(type));
  const bool set = !before && tm_map_set(&types, TM_KEY(type), kept);
  pthread_mutex_unlock(&lock);
  if (!set) free(kept);
  return set ? kept : before;
}

static void add_predefined(MPI_Datatype type, enum tm_class class, bool is_signed) {
  struct tm_type t = {.class = class};
  if (type == MPI_DATATYPE_NULL || tm_map_find(&types, TM_KEY(type)) || !measure(type, &t) || t.size == 0) return;
  t.native = has_native(class, t.size, is_signed, &t.type);
  t.solid = class != TM_PAIR || is_solid(type, &t);
  t.dense = t.solid && t.extent == (MPI_Aint)t.size && t.first == 0;
  (void)keep(type, &t);
}

static void add_all(enum tm_class class, bool is_signed, const MPI_Datatype *list, size_t count) {
  for (size_t i = 0; i < count; i++) add_predefined(list[i], class, is_signed);
}
#define ADD(class, is_signed, ...)                                 \
  do {                                                             \
    const MPI_Datatype list[] = {__VA_ARGS__};                     \
    add_all(class, is_signed, list, sizeof list / sizeof list[0]); \
  } while (0)

static void add_table(void) {
  ADD(TM_INTEGER, true, MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T,
      MPI_INT32_T, MPI_INT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4,
      MPI_INTEGER8);
  ADD(TM_INTEGER, false, MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG,
      MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T);
  ADD(TM_FLOAT, true, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8);
  ADD(TM_COMPLEX, true, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX, MPI_COMPLEX,
      MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16, MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX,
      MPI_CXX_LONG_DOUBLE_COMPLEX);
  ADD(TM_LOGICAL, false, MPI_C_BOOL, MPI_CXX_BOOL);
  ADD(TM_LOGICAL, true, MPI_LOGICAL);
  ADD(TM_BYTE, false, MPI_BYTE);
  ADD(TM_PAIR, true, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
      MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER);
  ADD(TM_CHARACTER, true, MPI_CHAR, MPI_WCHAR, MPI_CHARACTER, MPI_PACKED);
#ifdef MPI_REAL16
  ADD(TM_FLOAT, true, MPI_REAL16);
#endif
#ifdef MPI_COMPLEX32
  ADD(TM_COMPLEX, true, MPI_COMPLEX32);
#endif
}

/* ---- datatypes of the program ---- */

static int on_free(MPI_Datatype type, int key, void *value, void *context) {
  (void)key, (void)value, (void)context;
  pthread_mutex_lock(&lock);
  free(tm_map_remove(&types, TM_KEY(type)));
  pthread_mutex_unlock(&lock);
  return MPI_SUCCESS;
}

static bool is_derived(MPI_Datatype type) {
  int integers, addresses, inner, combiner = MPI_COMBINER_NAMED;
  return PMPI_Type_get_envelope(type, &integers, &addresses, &inner, &combiner) == MPI_SUCCESS &&
         combiner != MPI_COMBINER_NAMED;
}

static const struct tm_type *learn(MPI_Datatype type) {
  struct tm_type t = {.class = TM_DERIVED};
  if (!tm_door.open || type == MPI_DATATYPE_NULL || !is_derived(type) || !measure(type, &t)) return NULL;
  t.solid = t.size == 0 || is_solid(type, &t);
  t.dense = t.size == 0 || (t.solid && t.extent == (MPI_Aint)t.size);
  if (!t.dense) tm_grid_find(type, &t);
  const struct tm_type *kept = keep(type, &t);
  if (kept) PMPI_Type_set_attr(type, keyval, NULL);
  return kept;
}

const struct tm_type *tm_type_find(MPI_Datatype type) {
  const struct tm_type *t = tm_map_find(&types, TM_KEY(type));
  return t ? t : learn(type);
}

tutti_err tm_types_begin(void) {
  if (PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_free, &keyval, NULL) != MPI_SUCCESS) return TUTTI_ERR_SYSTEM;
  add_table();
  return TUTTI_OK;
}

void tm_types_end(void) {
  pthread_mutex_lock(&lock);
  tm_map_each(&types, free);
  types.table = NULL;
  pthread_mutex_unlock(&lock);
}
