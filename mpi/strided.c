/* strided.c: derived datatypes whose data is a grid of equal pieces, such as columns of a matrix, as tensors of bytes. tutti
 * reads and writes these where they lie. Below the limits here, packing is faster: measured for tutti.torch (docs/TORCH.md). */
#include "door.h"

#define PIECE_BYTES_MIN 64         /* shortest piece that is worth a tensor */
#define SIDE_BYTES_MIN (32u << 10) /* the same for the data of a side */

/* ---- which grid a datatype is ---- */

/* Puts `count` copies of the grid, `stride` bytes apart. Returns false if the grid has too many dimensions. */
static bool repeat(struct tm_grid *g, MPI_Aint count, MPI_Aint stride) {
  if (count < 1 || stride < 1) return count == 1;
  if (count == 1) return true;
  if (g->dims == 0 && (size_t)stride == g->piece) {
    g->piece *= (size_t)count;
    return true;
  }
  if (g->dims > 0 && stride == (MPI_Aint)g->counts[0] * g->strides[0]) {
    g->counts[0] *= (size_t)count;
    return true;
  }
  if (g->dims == TM_GRID_DIMS) return false;
  for (int d = g->dims++; d > 0; d--) g->counts[d] = g->counts[d - 1], g->strides[d] = g->strides[d - 1];
  g->counts[0] = (size_t)count;
  g->strides[0] = stride;
  return true;
}

static MPI_Aint extent_of(MPI_Datatype type) {
  MPI_Aint lb, extent = 0;
  PMPI_Type_get_extent(type, &lb, &extent);
  return extent;
}

static bool repeat_subarray(struct tm_grid *g, const int *numbers, MPI_Aint extent) {
  const int n = numbers[0], *sizes = numbers + 1, *parts = sizes + n;
  const bool fortran = numbers[1 + 3 * n] == MPI_ORDER_FORTRAN;
  for (int i = 0; i < n; i++) { /* from the dimension whose elements are neighbours */
    const int d = fortran ? i : n - 1 - i;
    if (!repeat(g, parts[d], extent)) return false;
    extent *= sizes[d];
  }
  return true;
}

/* Repeats the grid of the inner datatype as the combiner says. */
static bool combine(struct tm_grid *g, int combiner, const int *numbers, const MPI_Aint *addresses,
                    MPI_Datatype inner) {
  const MPI_Aint extent = extent_of(inner);
  switch (combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: return true;
    case MPI_COMBINER_CONTIGUOUS: return repeat(g, numbers[0], extent);
    case MPI_COMBINER_VECTOR: return repeat(g, numbers[1], extent) && repeat(g, numbers[0], numbers[2] * extent);
    case MPI_COMBINER_HVECTOR: return repeat(g, numbers[1], extent) && repeat(g, numbers[0], addresses[0]);
    case MPI_COMBINER_SUBARRAY: return repeat_subarray(g, numbers, extent);
    default: return false;
  }
}

enum { NUMBERS_MAX = 32, DEPTH_MAX = 8 };

static bool find_grid(MPI_Datatype type, struct tm_grid *g, int depth) {
  int numbers[NUMBERS_MAX], number_count, address_count, type_count, combiner;
  MPI_Aint addresses[2];
  MPI_Datatype inner;
  if (PMPI_Type_get_envelope(type, &number_count, &address_count, &type_count, &combiner) != MPI_SUCCESS) return false;
  if (combiner == MPI_COMBINER_NAMED) {
    const struct tm_type *t = tm_type_find(type);
    *g = (struct tm_grid){.piece = t ? t->size : 0};
    return t && t->dense;
  }
  if (number_count > NUMBERS_MAX || address_count > 2 || type_count != 1 || depth == DEPTH_MAX) return false;
  if (PMPI_Type_get_contents(type, number_count, address_count, 1, numbers, addresses, &inner) != MPI_SUCCESS)
    return false;
  const bool found = find_grid(inner, g, depth + 1) && combine(g, combiner, numbers, addresses, inner);
  if (PMPI_Type_get_envelope(inner, &number_count, &address_count, &type_count, &combiner) == MPI_SUCCESS &&
      combiner != MPI_COMBINER_NAMED)
    PMPI_Type_free(&inner);
  return found;
}

void tm_grid_find(MPI_Datatype type, struct tm_type *t) {
  struct tm_grid g;
  size_t bytes;
  if (!find_grid(type, &g, 0)) return;
  bytes = g.piece;
  for (int d = 0; d < g.dims; d++) bytes *= g.counts[d];
  if (bytes == t->size && g.piece >= PIECE_BYTES_MIN) t->grid = g;
}

/* ---- tensors ---- */

/* Makes the tensor of `items` items of the grid. contiguous: without gaps. */
static bool make_tensor(tutti_tensor *tensor, char *data, size_t items, const struct tm_type *t, bool contiguous) {
  const struct tm_grid *g = &t->grid;
  size_t shape[TUTTI_DIMS], strides[TUTTI_DIMS];
  uint32_t n = 0;
  shape[n] = items, strides[n++] = (size_t)t->extent;
  for (int d = 0; d < g->dims; d++) shape[n] = g->counts[d], strides[n++] = (size_t)g->strides[d];
  shape[n] = g->piece, strides[n++] = 1;
  return tutti_tensor_strided(tensor, (tutti_tensor_of){data, TUTTI_U8, n, shape}, contiguous ? NULL : strides) ==
         TUTTI_OK;
}

static bool is_strided(const struct tm_type *t, size_t bytes) {
  return t->grid.piece > 0 && bytes >= SIDE_BYTES_MIN && t->extent > 0;
}

bool tm_job_stride(struct tm_job *job, bool sends, bool receives, bool in_direct, bool out_direct) {
  const struct tm_packing *in = &job->in, *out = &job->out;
  if (sends && receives && !in_direct && !out_direct) return false; /* their shapes may differ */
  const struct tm_type *t = sends && !in_direct ? in->type : out->type;
  if (!is_strided(t, sends && !in_direct ? in->bytes : out->bytes)) return false;
  /* The other side is contiguous, and gets the same shape: it may have other items. */
  const size_t in_items = sends ? in->bytes / t->size : 0, out_items = receives ? out->bytes / t->size : 0;
  if ((sends && in_items * t->size != in->bytes) || (receives && out_items * t->size != out->bytes)) return false;
  char *in_data = sends ? (char *)in->side->target + in->type->first : NULL;
  char *out_data = receives ? (char *)out->side->target + out->type->first : NULL;
  if (sends && !make_tensor(&job->tensors[0], in_data, in_items, t, in_direct)) return false;
  if (receives && !make_tensor(&job->tensors[1], out_data, out_items, t, out_direct)) return false;
  job->call.in = sends ? &job->tensors[0] : NULL;
  job->call.out = receives ? &job->tensors[1] : NULL;
  job->call.flags = TUTTI_ANY_SHAPE;
  return true;
}
