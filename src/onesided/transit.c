/* transit.c: moves data between tensors on this host and on others. */
#include "onesided/transit.h"

#include <stddef.h>
#include <stdlib.h>

#include "tensor/slide.h"

/* Bytes of a tile of the library. Two tiles must last while a request goes to the other host and back. */
enum { TILE_BYTES = 256 << 10 };
/* Maximum bytes of a tile of the user. A request describes its rows by 32 bits, and needs as much memory. */
enum { TILE_BYTES_MAX = 1 << 29 };

static struct tu_transit *transit_of(struct tu_loader *loader) {
  return (struct tu_transit *)(void *)((unsigned char *)loader - offsetof(struct tu_transit, loader));
}

static void begin_load(struct tu_loader *loader, size_t index, const struct tu_load *load) {
  struct tu_transit *transit = transit_of(loader);
  const struct tu_located *from = load->from;
  transit->loads[index % 2] = *load;
  transit->numbers[index % 2] = from->far ? tu_far_load(&transit->far, tu_located_far(from), &from->tensor,
                                                        &load->region, load->tile, load->pitch)
                                          : 0;
}

static void wait_for_load(struct tu_loader *loader, size_t index) {
  struct tu_transit *transit = transit_of(loader);
  const struct tu_load *load = &transit->loads[index % 2];
  if (load->from->far) tu_far_wait(&transit->far, transit->numbers[index % 2]);
  else tu_region_load(&load->region, load->data, load->tile, load->pitch);
}

static bool any_far(const struct tu_end *ends, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (ends[i].located->far) return true;
  return false;
}

/* Makes tiles for data of this shape. */
static tutti_err lend_tiles(struct tu_transit *transit, const struct tu_end *end, struct tu_error *error) {
  struct tu_stage *s = &transit->stage;
  const struct tu_region whole = tu_end_region(end);
  const size_t item = tu_map_item_bytes(whole.map), room = tu_max(1, TILE_BYTES / item);
  s->cols = tu_max(1, tu_min(whole.extent[4], room));
  s->rows = tu_max(1, tu_min(whole.extent[3], room / s->cols));
  s->pitch = s->cols * item;
  s->tile_bytes = tu_round_up(s->rows * s->pitch, TU_LINE_BYTES);
  transit->memory = aligned_alloc(TU_LINE_BYTES, 2 * s->tile_bytes);
  if (!transit->memory) return tu_fail_memory(error, 2 * s->tile_bytes, "%s", end->located->call);
  s->tiles[0] = transit->memory;
  s->tiles[1] = (unsigned char *)transit->memory + s->tile_bytes;
  s->tile_count = 2;
  transit->lends = true;
  return TUTTI_OK;
}

tutti_err tu_transit_open(struct tu_transit *transit, const struct tu_stage *given, const struct tu_end *to,
                          uint32_t to_count, const struct tu_end *from, uint32_t from_count, struct tu_error *error) {
  transit->stage = *given;
  transit->crosses = any_far(to, to_count) || any_far(from, from_count);
  transit->lends = false;
  transit->memory = NULL;
  if (!transit->crosses) return TUTTI_OK;
  tu_far_start(&transit->far, to->located->call);
  transit->loader = (struct tu_loader){.begin = begin_load, .wait = wait_for_load};
  transit->stage.loader = &transit->loader;
  if (given->tile_bytes > TILE_BYTES_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: a tile has %zu bytes, but data of another host passes through tiles of at most %d bytes",
                   to->located->call, given->tile_bytes, TILE_BYTES_MAX);
  return given->tile_count == 0 ? lend_tiles(transit, from, error) : TUTTI_OK;
}

tutti_err tu_transit_close(struct tu_transit *transit, tutti_err err, struct tu_error *error) {
  struct tu_error late;
  const tutti_err crossed = transit->crosses ? tu_far_end(&transit->far, &late) : TUTTI_OK;
  free(transit->memory);
  if (err != TUTTI_OK || crossed == TUTTI_OK) return err;
  *error = late;
  return crossed;
}

/* Returns true if the end is one run of memory; *offset: where it begins in the tensor's memory. */
static bool is_run(const struct tu_end *end, size_t *offset, size_t *bytes) {
  const struct tu_region whole = tu_end_region(end);
  const size_t rows = whole.extent[0] * whole.extent[1] * whole.extent[2] * whole.extent[3];
  const size_t row_bytes = whole.extent[4] * tu_map_item_bytes(whole.map);
  size_t pitch;
  *bytes = rows * row_bytes;
  return tu_region_is_matrix(&whole, offset, &pitch) && (rows == 1 || pitch == row_bytes);
}

static struct tu_far_memory far_at(const struct tu_end *end, size_t offset) {
  struct tu_far_memory at = tu_located_far(end->located);
  at.offset += offset;
  return at;
}

bool tu_transit_copy(struct tu_transit *transit, const struct tu_end *to, const struct tu_end *from) {
  const struct tu_located *target = to->located, *source = from->located;
  size_t to_offset, from_offset, bytes;
  if (!target->far && !source->far) {
    struct tu_region a = tu_end_region(to), b = tu_end_region(from);
    tu_region_copy(&a, target->tensor.data, &b, source->tensor.data);
    return true;
  }
  if ((target->far && source->far) || !is_run(to, &to_offset, &bytes) || !is_run(from, &from_offset, &bytes))
    return false;
  if (source->far)
    (void)tu_far_read(&transit->far, far_at(from, from_offset), (unsigned char *)target->tensor.data + to_offset,
                      bytes);
  else
    (void)tu_far_write(&transit->far, far_at(to, to_offset), (const unsigned char *)source->tensor.data + from_offset,
                       bytes);
  return true;
}

void tu_transit_store(struct tu_transit *transit, const struct tu_end *to, const struct tu_region *region,
                      const void *rows, size_t pitch) {
  const struct tu_located *l = to->located;
  if (l->far) (void)tu_far_store(&transit->far, tu_located_far(l), &l->tensor, region, rows, pitch);
  else tu_region_store(region, l->tensor.data, rows, pitch);
}
