/* map_copy.c: finds items by the map of a tensor, and copies regions and folds (tensors packed block by block) between
 * tensors and packed buffers. */
#include "tensor/map_internal.h"

#include <string.h>

enum {
  LONG_RUN = 8192, /* runs of at least this many bytes are copied with memcpy */
  TOGETHER = 512,  /* rows of segments that are so many bytes apart, or fewer, lie together */
  ROWS = 4,        /* rows of segments that are packed together */
  AHEAD = 4096,    /* memory is prefetched this many bytes ahead of the copy, and at least 2 rows ahead */
};

/* ---- finding rows and items ---- */

/* A row of a tensor: its offset in each plane (block floats have two planes: exponents, and other bits). This row and
 * the rows after it, `left` rows in total, lie `step` bytes apart. */
struct row {
  size_t at[TU_MAP_PLANES], step[TU_MAP_PLANES];
  size_t left;
  size_t first_segment;
};

static void find_row(const struct tu_map *m, const size_t index[4], struct row *row) {
  if (m->strided) {
    row->at[0] =
        index[0] * m->strides[0] + index[1] * m->strides[1] + index[2] * m->strides[2] + index[3] * m->strides[3];
    row->step[0] = m->strides[3];
    row->left = m->shape[3] - index[3];
    row->first_segment = 0;
    return;
  }
  size_t r = ((index[0] * m->shape[1] + index[1]) * m->shape[2] + index[2]) * m->matrix_rows + index[3];
  size_t shard = r / m->shard_rows, in_shard = r % m->shard_rows;
  size_t tile = in_shard / m->tile_rows, in_tile = in_shard % m->tile_rows;
  size_t face = in_tile / m->face_rows, in_face = in_tile % m->face_rows;
  size_t page = tile * m->pages_across, at = shard * m->shard_row_step + page * m->page_bytes;
  row->first_segment = 0;
  if (m->banks > 1) {
    row->first_segment = page % m->banks * (m->tile_cols / m->face_cols);
    at = page / m->banks * m->page_bytes;
  }
  size_t item = face * m->face_rows * m->tile_cols + in_face * m->face_cols;
  for (uint32_t p = 0; p < m->plane_count; p++) {
    row->at[p] = at + m->planes[p].base + item * m->planes[p].unit;
    row->step[p] = m->face_cols * m->planes[p].unit;
  }
  row->left = tu_min(m->face_rows - in_face, m->shape[3] - index[3]);
}

size_t tu_map_offset(const struct tu_map *m, const size_t index[TUTTI_DIMS]) {
  struct row row;
  tu_assert(m->plane_count == 1);
  find_row(m, index, &row);
  size_t segment = index[4] / m->segment, within = index[4] % m->segment;
  return row.at[0] + m->planes[0].cols[row.first_segment + segment] + within * m->item_bytes;
}

/* ---- copying runs ---- */

#define INLINE static inline __attribute__((always_inline))

/* A vector of 32 bytes: one load and one store, or two of each, depending on the instruction set. */
typedef unsigned char wide __attribute__((vector_size(32), aligned(1), may_alias));
INLINE void copy_32(unsigned char *to, const unsigned char *from) { *(wide *)to = *(const wide *)from; }

/* Copies one run. Runs are short, and memcpy takes long to choose a method for such lengths. Prefetches the tensor's
 * memory `ahead` bytes further on, because the hardware prefetcher cannot follow a large number of streams with
 * gaps. */
INLINE void move_run(unsigned char *tensor, unsigned char *packed, size_t bytes, size_t ahead, bool unpacks) {
  unsigned char *to = unpacks ? tensor : packed;
  const unsigned char *from = unpacks ? packed : tensor;
  if (bytes >= LONG_RUN) {
    memcpy(to, from, bytes);
    return;
  }
  for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
    if (ahead > 0 && unpacks) __builtin_prefetch(to + ahead, 1);
    if (ahead > 0 && !unpacks) __builtin_prefetch(from + ahead, 0);
    copy_32(to, from);
    copy_32(to + 32, from + 32);
  }
  if (bytes == 0) return;
  if (bytes & 32) copy_32(to, from), to += 32, from += 32;
  if (bytes & 16) memcpy(to, from, 16), to += 16, from += 16;
  if (bytes & 8) memcpy(to, from, 8), to += 8, from += 8;
  if (bytes & 4) memcpy(to, from, 4), to += 4, from += 4;
  if (bytes & 2) memcpy(to, from, 2), to += 2, from += 2;
  if (bytes & 1) *to = *from;
}

/* Copies whole segments (items that lie together) of a row. If `whole`, their length in bytes, is constant, each
 * segment needs only a few instructions. Unpacking does not prefetch, because stores into tiles are not made faster by
 * it. */
INLINE unsigned char *move_segments(unsigned char *row, const size_t *cols, size_t count, size_t whole, size_t ahead,
                                    unsigned char *packed, bool unpacks) {
  for (size_t i = 0; i < count; i++, packed += whole)
    move_run(row + cols[i], packed, whole, unpacks ? 0 : ahead, unpacks);
  return packed;
}

/* Copies rows, each of which is one run of bytes. The rows are `step` bytes apart in the tensor, and `pitch` bytes
 * apart in the packed buffer. If `bytes` is a constant, each row needs only a few instructions. */
INLINE void move_runs(unsigned char *tensor, size_t step, unsigned char *packed, size_t pitch, size_t count,
                      size_t bytes, size_t ahead, bool unpacks) {
  for (; count > 0; count--, tensor += step, packed += pitch) move_run(tensor, packed, bytes, ahead, unpacks);
}

INLINE void move_rows(unsigned char *tensor, size_t step, unsigned char *packed, size_t pitch, size_t count,
                      size_t bytes, size_t ahead, bool unpacks) {
  if (bytes == 64) move_runs(tensor, step, packed, pitch, count, 64, ahead, unpacks);
  else if (bytes == 128) move_runs(tensor, step, packed, pitch, count, 128, ahead, unpacks);
  else if (bytes == 256) move_runs(tensor, step, packed, pitch, count, 256, ahead, unpacks);
  else if (bytes == 512) move_runs(tensor, step, packed, pitch, count, 512, ahead, unpacks);
  else move_runs(tensor, step, packed, pitch, count, bytes, ahead, unpacks);
}

/* Copies rows of whole segments, `step` bytes apart in the tensor and `pitch` bytes apart in the packed buffer: for each
 * segment all rows, because they lie together in the tensor. `together` segments at a time, so that each line of the packed
 * buffer is touched once. */
INLINE void move_rows_of_segments(unsigned char *tensor, size_t step, const size_t *cols, size_t count, size_t whole,
                                  size_t together, size_t rows, unsigned char *packed, size_t pitch, bool unpacks) {
  for (size_t i = 0, n; i < count; i += n, packed += n * whole) {
    n = i + together <= count ? together : 1;
    for (size_t k = 0; k < rows; k++)
      for (size_t j = 0; j < n; j++)
        move_run(tensor + cols[i + j] + k * step, packed + j * whole + k * pitch, whole, 0, unpacks);
  }
}

/* The same for any number of rows. Few rows are packed at a time, because the lines of one segment may lie a power of two apart
 * in the packed buffer, so that a cache holds few of them (32 rows of 2 KiB on a Xeon: 34 GB/s; 4 at a time 44). */
INLINE void move_band(unsigned char *tensor, size_t step, const size_t *cols, size_t count, size_t whole,
                      size_t together, size_t rows, unsigned char *packed, size_t pitch, bool unpacks) {
  const size_t most = unpacks || whole < 64 ? rows : ROWS;
  for (size_t n; rows > 0; rows -= n, tensor += n * step, packed += n * pitch) {
    n = tu_min(rows, most);
    move_rows_of_segments(tensor, step, cols, count, whole, together, n, packed, pitch, unpacks);
  }
}

INLINE void move_bands(unsigned char *tensor, size_t step, const size_t *cols, size_t count, size_t whole, size_t rows,
                       unsigned char *packed, size_t pitch, bool unpacks) {
  if (whole == 32) move_band(tensor, step, cols, count, 32, 2, rows, packed, pitch, unpacks);
  else if (whole == 64) move_band(tensor, step, cols, count, 64, 1, rows, packed, pitch, unpacks);
  else if (whole == 128) move_band(tensor, step, cols, count, 128, 1, rows, packed, pitch, unpacks);
  else move_band(tensor, step, cols, count, whole, 1, rows, packed, pitch, unpacks);
}

/* Copies bytes [from, from + bytes) of a tensor's row, where byte 0 is the first byte of column `first`. */
INLINE void move_row(const struct tu_map *m, unsigned char *row, const size_t *cols, size_t first, size_t from,
                     size_t bytes, size_t ahead, unsigned char *packed, bool unpacks) {
  size_t whole = m->segment * m->item_bytes, byte = first * m->item_bytes + from;
  if (byte + bytes <= whole) { /* all bytes are in one run */
    move_run(row + cols[0] + byte, packed, bytes, ahead, unpacks);
    return;
  }
  size_t segment = byte / whole, within = byte % whole;
  if (within > 0) {
    size_t part = tu_min(whole - within, bytes);
    move_run(row + cols[segment] + within, packed, part, 0, unpacks);
    packed += part, bytes -= part, segment++;
  }
  size_t count = bytes / whole;
  if (whole == 64) packed = move_segments(row, cols + segment, count, 64, ahead, packed, unpacks);
  else if (whole == 128) packed = move_segments(row, cols + segment, count, 128, ahead, packed, unpacks);
  else if (whole == 32) packed = move_segments(row, cols + segment, count, 32, ahead, packed, unpacks);
  else packed = move_segments(row, cols + segment, count, whole, ahead, packed, unpacks);
  if (bytes % whole > 0) move_run(row + cols[segment + count], packed, bytes % whole, 0, unpacks);
}

/* ---- block floats: the exponent of an item lies in one plane, the other bits of the item in another plane ---- */

struct group {
  unsigned char *exponent, *rest;
};

INLINE struct group find_group(const struct tu_map *m, unsigned char *data, const struct row *row, size_t k,
                               size_t item) {
  size_t segment = row->first_segment + item / m->segment, in_segment = item % m->segment;
  return (struct group){
      data + row->at[0] + k * row->step[0] + m->planes[0].cols[segment] + in_segment,
      data + row->at[1] + k * row->step[1] + m->planes[1].cols[segment] + in_segment * m->planes[1].unit};
}

/* Returns the code (sign and magnitude) of an element. If two elements share a byte, the first element is the low
 * half. */
static uint32_t get_code(const unsigned char *rest, size_t i, bool halves) {
  return halves ? (uint32_t)rest[i / 2] >> (i % 2 * 4) & 15u : rest[i];
}

static void put_code(unsigned char *rest, size_t i, bool halves, uint32_t code) {
  uint32_t shift = halves ? i % 2 * 4 : 0, kept = halves ? rest[i / 2] & (0xf0u >> shift) : 0;
  rest[halves ? i / 2 : i] = (unsigned char)(kept | code << shift);
}

/* Returns an element's code (sign and magnitude) for an exponent that is larger by `by`; rounds to nearest even. */
static uint32_t lower_code(uint32_t code, uint32_t by, bool halves) {
  uint32_t sign = halves ? 8 : 128, magnitude = code & (sign - 1), shift = by < 8 ? by : 8;
  if (shift == 0) return code;
  magnitude = (magnitude + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1)) >> shift;
  return magnitude ? magnitude | (code & sign) : 0;
}

/* Packs an item of `count` elements, from element `column` of row k on (k rows after `row`). The elements may come from
 * one group of 16 elements that share an exponent, or from two such groups. */
static void pack_group(const struct tu_map *m, unsigned char *data, const struct row *row, size_t k, size_t column,
                       size_t count, unsigned char *item) {
  bool halves = m->item_bytes == 1 + TU_MAP_GROUP / 2;
  size_t first = column / TU_MAP_GROUP, skip = column % TU_MAP_GROUP;
  struct group groups[2] = {find_group(m, data, row, k, first)};
  bool two = skip + count > TU_MAP_GROUP;
  groups[1] = two ? find_group(m, data, row, k, first + 1) : groups[0];
  unsigned char most = *groups[0].exponent > *groups[1].exponent ? *groups[0].exponent : *groups[1].exponent;
  memset(item, 0, m->item_bytes);
  item[0] = most;
  for (size_t i = 0; i < count; i++) {
    const struct group *from = &groups[(skip + i) / TU_MAP_GROUP];
    uint32_t code = get_code(from->rest, (skip + i) % TU_MAP_GROUP, halves);
    put_code(item + 1, i, halves, lower_code(code, (uint32_t)(most - *from->exponent), halves));
  }
}

/* Unpacks bytes [from, from + bytes) of an item of which only `count` elements belong to the tensor. */
static void unpack_group(const struct tu_map *m, struct group to, size_t count, size_t from, size_t bytes,
                         const unsigned char *packed) {
  bool halves = m->item_bytes == 1 + TU_MAP_GROUP / 2;
  /* number of bytes that belong to the tensor completely (if two elements share a byte, one may lie outside the
   * tensor) */
  size_t whole = halves ? count / 2 : count;
  for (size_t b = from; b < from + bytes; b++, packed++) {
    if (b == 0) *to.exponent = *packed;
    else if (b <= whole) to.rest[b - 1] = *packed;
    else if (b == whole + 1 && halves && count % 2) put_code(to.rest, count - 1, halves, *packed & 15u);
  }
}

/* Copies bytes [from, from + bytes) of one row of a region of block floats: of the row that is k rows after `row`. */
INLINE void move_groups(const struct tu_region *g, unsigned char *data, const struct row *row, size_t k, size_t from,
                        size_t bytes, unsigned char *packed, bool unpacks) {
  const struct tu_map *m = g->map;
  size_t begin = g->origin[4] * TU_MAP_GROUP + g->skip, cols = g->cols ? g->cols : m->columns - begin;
  while (bytes > 0) {
    size_t item = from / m->item_bytes, within = from % m->item_bytes, part = tu_min(m->item_bytes - within, bytes);
    size_t count = tu_min(cols - item * TU_MAP_GROUP, TU_MAP_GROUP);
    struct group group = find_group(m, data, row, k, g->origin[4] + item);
    if (count == TU_MAP_GROUP && g->skip == 0) {
      size_t head = within == 0;
      if (head) move_run(group.exponent, packed, 1, 0, unpacks);
      if (part > head) move_run(group.rest + within + head - 1, packed + head, part - head, 0, unpacks);
    } else if (unpacks) {
      tu_assert(g->skip == 0);
      unpack_group(m, group, count, within, part, packed);
    } else {
      unsigned char whole[1 + TU_MAP_GROUP];
      pack_group(m, data, row, k, begin + item * TU_MAP_GROUP, count, whole);
      memcpy(packed, whole + within, part);
    }
    from += part, packed += part, bytes -= part;
  }
}

/* ---- copying regions ---- */

/* Copies bytes [from, from + bytes) of a region between the tensor and a packed buffer. gap: bytes between packed
 * rows. */
INLINE void move(const struct tu_region *g, unsigned char *data, size_t from, size_t bytes, unsigned char *packed,
                 size_t gap, bool unpacks) {
  const struct tu_map *m = g->map;
  size_t row_bytes = g->extent[4] * m->item_bytes;
  if (bytes == 0) return;
  size_t r = from / row_bytes, at[4], within = from % row_bytes;
  size_t rows_ahead = tu_max(2, AHEAD / row_bytes);
  bool in_segment = g->origin[4] % m->segment + g->extent[4] <= m->segment; /* true: each row is one run */
  bool one_segment = m->segment == g->extent[4] && in_segment;
  bool in_bands = m->plane_count == 1 && g->origin[4] % m->segment == 0 && g->extent[4] % m->segment == 0;
  for (int d = 3; d >= 0; d--) {
    at[d] = r % g->extent[d];
    r /= g->extent[d];
  }
  while (bytes > 0) {
    size_t index[4];
    struct row row;
    for (int d = 0; d < 4; d++) index[d] = g->origin[d] + at[d];
    find_row(m, index, &row);
    size_t rows = tu_min(row.left, g->extent[3] - at[3]);
    /* Rows without gaps in the tensor and in packed memory are copied together. */
    if (m->plane_count == 1 && row.step[0] == row_bytes && one_segment && gap == 0) {
      size_t part = tu_min(rows * row_bytes - within, bytes), moved = (within + part) / row_bytes;
      unsigned char *run = data + row.at[0] + m->planes[0].cols[row.first_segment + g->origin[4] / m->segment];
      move_run(run + within, packed, part, 0, unpacks);
      packed += part, bytes -= part, at[3] += moved;
      within = 0; /* continue at the start of the next row, or stop if no bytes are left */
      rows = 0;
    }
    size_t k = 0;
    if (m->plane_count == 1 && within == 0 && in_segment) {
      k = tu_min(rows, bytes / row_bytes);
      move_rows(data + row.at[0] + m->planes[0].cols[row.first_segment + g->origin[4] / m->segment] +
                    g->origin[4] % m->segment * m->item_bytes,
                row.step[0], packed, row_bytes + gap, k, row_bytes, rows_ahead * row.step[0], unpacks);
      packed += k * (row_bytes + gap), bytes -= k * row_bytes, at[3] += k;
    }
    while (k < rows && bytes > 0) {
      if (in_bands && row.step[0] <= TOGETHER && within == 0 && bytes >= row_bytes) {
        size_t band = tu_min(rows - k, bytes / row_bytes), first = g->origin[4] / m->segment;
        move_bands(data + row.at[0] + k * row.step[0], row.step[0], m->planes[0].cols + row.first_segment + first,
                   g->extent[4] / m->segment, m->segment * m->item_bytes, band, packed, row_bytes + gap, unpacks);
        packed += band * (row_bytes + gap), bytes -= band * row_bytes, k += band, at[3] += band;
        continue;
      }
      size_t part = tu_min(row_bytes - within, bytes);
      if (m->plane_count == 1)
        move_row(m, data + row.at[0] + k * row.step[0], m->planes[0].cols + row.first_segment, g->origin[4], within,
                 part, rows_ahead * row.step[0], packed, unpacks);
      else move_groups(g, data, &row, k, within, part, packed, unpacks);
      packed += part + gap, bytes -= part;
      within = 0;
      k++, at[3]++;
    }
    for (int d = 3; d > 0 && at[d] == g->extent[d]; d--) {
      at[d] = 0;
      at[d - 1]++;
    }
  }
}

typedef void mover(const struct tu_region *g, unsigned char *data, size_t from, size_t bytes, unsigned char *packed,
                   size_t gap);
static void pack_plainly(const struct tu_region *g, unsigned char *data, size_t from, size_t bytes,
                         unsigned char *packed, size_t gap) {
  move(g, data, from, bytes, packed, gap, false);
}
static void unpack_plainly(const struct tu_region *g, unsigned char *data, size_t from, size_t bytes,
                           unsigned char *packed, size_t gap) {
  move(g, data, from, bytes, packed, gap, true);
}
#ifdef __x86_64__
__attribute__((target("avx2"))) static void pack_avx2(const struct tu_region *g, unsigned char *data, size_t from,
                                                      size_t bytes, unsigned char *packed, size_t gap) {
  move(g, data, from, bytes, packed, gap, false);
}
__attribute__((target("avx2"))) static void unpack_avx2(const struct tu_region *g, unsigned char *data, size_t from,
                                                        size_t bytes, unsigned char *packed, size_t gap) {
  move(g, data, from, bytes, packed, gap, true);
}
static mover *packer(void) { return __builtin_cpu_supports("avx2") ? pack_avx2 : pack_plainly; }
static mover *unpacker(void) { return __builtin_cpu_supports("avx2") ? unpack_avx2 : unpack_plainly; }
#else
static mover *packer(void) { return pack_plainly; }
static mover *unpacker(void) { return unpack_plainly; }
#endif

void tu_region_pack(const struct tu_region *region, const void *data, size_t from, size_t bytes, void *packed) {
  packer()(region, (unsigned char *)(uintptr_t)data, from, bytes, packed, 0);
}

void tu_region_unpack(const struct tu_region *region, void *data, size_t from, size_t bytes, const void *packed) {
  unpacker()(region, data, from, bytes, (unsigned char *)(uintptr_t)packed, 0);
}

/* ---- regions as matrices ---- */

bool tu_region_is_matrix(const struct tu_region *g, size_t *offset, size_t *pitch) {
  const struct tu_map *m = g->map;
  if (!m->strided && !m->plain) return false;
  if (g->extent[4] > 1 && m->strides[4] != m->item_bytes) return false;
  size_t rows = 1;
  *pitch = g->extent[4] * m->item_bytes;
  for (int d = 3; d >= 0; d--) {
    if (g->extent[d] == 1) continue;
    if (rows == 1) *pitch = m->strides[d];
    else if (m->strides[d] != rows * *pitch) return false;
    rows *= g->extent[d];
  }
  *offset = 0;
  for (int d = 0; d < TUTTI_DIMS; d++) *offset += g->origin[d] * m->strides[d];
  return true;
}

static void move_matrix(const struct tu_region *g, unsigned char *data, unsigned char *rows, size_t pitch,
                        mover *move_them) {
  size_t row_bytes = g->extent[4] * g->map->item_bytes;
  size_t bytes = g->extent[0] * g->extent[1] * g->extent[2] * g->extent[3] * row_bytes;
  move_them(g, data, 0, bytes, rows, bytes > row_bytes ? pitch - row_bytes : 0);
}

void tu_region_load(const struct tu_region *region, const void *data, void *rows, size_t pitch) {
  move_matrix(region, (unsigned char *)(uintptr_t)data, rows, pitch, packer());
}

void tu_region_store(const struct tu_region *region, void *data, const void *rows, size_t pitch) {
  move_matrix(region, data, (unsigned char *)(uintptr_t)rows, pitch, unpacker());
}

/* ---- folds: tensors packed block by block ---- */

/* Returns the length of a block of a fold (a tensor that is packed block by block) in the dimension that the blocks
 * cut. The length is in items: an item is an element, or 16 elements of a block float. */
static inline size_t block_items(const struct tu_fold *fold) {
  const struct tu_map *m = fold->map;
  bool groups = m->plane_count > 1 && fold->dim == TUTTI_DIMS - 1;
  return groups ? tu_map_divide_up(m->columns / fold->blocks, TU_MAP_GROUP) : m->shape[fold->dim] / fold->blocks;
}

size_t tu_fold_block_bytes(const struct tu_fold *fold) {
  size_t bytes = fold->map->item_bytes;
  for (uint32_t d = 0; d < TUTTI_DIMS; d++) bytes *= d == fold->dim ? block_items(fold) : fold->map->shape[d];
  return bytes;
}

struct tu_region tu_fold_block(const struct tu_fold *fold, uint32_t block) {
  struct tu_region region = {.map = fold->map};
  memcpy(region.extent, fold->map->shape, sizeof region.extent);
  region.extent[fold->dim] = block_items(fold);
  region.origin[fold->dim] = block * region.extent[fold->dim];
  if (fold->map->plane_count > 1 && fold->dim == TUTTI_DIMS - 1) {
    region.cols = fold->map->columns / fold->blocks;
    region.origin[4] = block * region.cols / TU_MAP_GROUP;
    region.skip = block * region.cols % TU_MAP_GROUP;
  }
  return region;
}

static void move_fold(const struct tu_fold *fold, unsigned char *data, size_t from, size_t bytes, unsigned char *packed,
                      mover *move_block) {
  size_t block_bytes = tu_fold_block_bytes(fold);
  while (bytes > 0) {
    struct tu_region block = tu_fold_block(fold, (uint32_t)(from / block_bytes));
    size_t within = from % block_bytes, part = tu_min(block_bytes - within, bytes);
    move_block(&block, data, within, part, packed, 0);
    from += part, packed += part, bytes -= part;
  }
}

void tu_fold_pack(const struct tu_fold *fold, const void *data, size_t from, size_t bytes, void *packed) {
  move_fold(fold, (unsigned char *)(uintptr_t)data, from, bytes, packed, packer());
}

void tu_fold_unpack(const struct tu_fold *fold, void *data, size_t from, size_t bytes, const void *packed) {
  move_fold(fold, data, from, bytes, (unsigned char *)(uintptr_t)packed, unpacker());
}

bool tu_fold_is_plain(const struct tu_fold *fold) {
  size_t outer = 1;
  for (uint32_t d = 0; d < fold->dim; d++) outer *= fold->map->shape[d];
  return fold->map->plain && (outer <= 1 || fold->blocks == 1);
}
