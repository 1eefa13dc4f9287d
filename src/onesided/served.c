/* served.c: carries out requests of ranks on other hosts that concern this rank's part of a window. A request may come
 * from a rank whose window is gone, or be damaged, so each is checked. */
#include "onesided/served.h"

#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "onesided/carry.h"
#include "onesided/far.h"
#include "onesided/windows.h"

/* Returns this rank's part of the window; NULL: there is no such window. Windows are found by their number alone, because
 * it is unique in the process. */
static struct tutti_window *window_of(const struct tu_transport *t, const struct tu_memory_frame *f) {
  struct tutti_window *w = tu_window_numbered(f->window);
  const bool known = w && w->comm->transport == t && w->comm->mover->control.comm_id == f->comm_id;
  return known ? w : NULL;
}

static bool is_within(const struct tutti_window *w, uint64_t offset, uint64_t bytes) {
  const uint64_t whole = w->parts[w->comm->rank].bytes;
  return offset <= whole && bytes <= whole - offset;
}

/* is_within(w, offset, 0) must be true. */
static unsigned char *memory_at(const struct tutti_window *w, uint64_t offset) {
  return w->parts[w->comm->rank].memory + offset;
}

static void *place(const struct tu_transport *t, const struct tu_memory_frame *f, size_t bytes) {
  struct tutti_window *w = f->what == TU_FAR_WRITE ? window_of(t, f) : NULL;
  return w && is_within(w, f->offset, bytes) ? memory_at(w, f->offset) : NULL;
}

/* ---- regions ---- */

/* The rows of a request, on the rank that has them. */
struct served {
  struct tu_far_rows rows;
  unsigned char *data;
  size_t bytes; /* of all rows */
  struct tu_map *map;
  struct tu_region region;
};

static bool has_extents(const struct served *s) {
  const size_t *shape = tu_map_shape(s->map);
  uint64_t rows = 1;
  for (int d = 0; d < TUTTI_DIMS; d++) {
    if (s->rows.origin[d] > shape[d] || s->rows.extent[d] > shape[d] - s->rows.origin[d]) return false;
    if (d < 4) rows *= s->rows.extent[d];
  }
  return rows == s->rows.row_count && s->rows.extent[4] * tu_map_item_bytes(s->map) == s->rows.row_bytes;
}

/* Makes the map of the tensor, if the tensor is one of this library, has elements, and lies in the window. */
static tutti_err open_tensor(struct served *s, const struct tutti_window *w, uint64_t offset) {
  struct tu_error error;
  const tutti_tensor *t = &s->rows.tensor;
  unsigned char column; /* a bool, of which the sender may have sent any bits */
  size_t extent;
  memcpy(&column, &t->layout.column_orientation, sizeof column);
  if (t->struct_bytes != sizeof *t || column > 1) return TUTTI_ERR_ARGUMENT;
  /* Checked before the map is made: its size grows with the extent. */
  tutti_err err = tu_map_measure(t, &extent, &error);
  if (err == TUTTI_OK && (extent == 0 || !is_within(w, offset, extent))) err = TUTTI_ERR_ARGUMENT;
  return err == TUTTI_OK ? tu_map_create(t, &s->map, &error) : err;
}

/* Reads the description of a region, and checks it. The caller must call close_rows, also after an error. */
static tutti_err open_rows(struct served *s, const struct tutti_window *w, uint64_t offset, const void *body,
                           size_t bytes) {
  struct tu_far_rows *r = &s->rows;
  uint64_t last;
  *s = (struct served){0};
  if (!body || bytes < sizeof *r || !is_within(w, offset, 0)) return TUTTI_ERR_ARGUMENT;
  memcpy(r, body, sizeof *r);
  if (!tu_multiply(r->row_count, r->row_bytes, &s->bytes) || s->bytes == 0 || s->bytes > UINT32_MAX)
    return TUTTI_ERR_ARGUMENT;
  s->data = memory_at(w, offset);
  if (r->pitch > 0) {
    const bool fits = tu_multiply(r->row_count - 1, r->pitch, &last) && last <= UINT64_MAX - r->row_bytes;
    return fits && is_within(w, offset, last + r->row_bytes) ? TUTTI_OK : TUTTI_ERR_ARGUMENT;
  }
  tutti_err err = open_tensor(s, w, offset);
  if (err == TUTTI_OK && !has_extents(s)) err = TUTTI_ERR_ARGUMENT;
  if (err != TUTTI_OK) return err;
  s->region.map = s->map;
  for (int d = 0; d < TUTTI_DIMS; d++) {
    s->region.origin[d] = r->origin[d];
    s->region.extent[d] = r->extent[d];
  }
  return TUTTI_OK;
}

static void close_rows(struct served *s) { tu_map_destroy(s->map); }

static void load(const struct served *s, unsigned char *to) {
  const struct tu_far_rows *r = &s->rows;
  if (s->map) tu_region_load(&s->region, s->data, to, r->row_bytes);
  for (size_t row = 0; !s->map && row < r->row_count; row++)
    memcpy(to + row * r->row_bytes, s->data + row * r->pitch, r->row_bytes);
}

static void store(const struct served *s, const unsigned char *from) {
  const struct tu_far_rows *r = &s->rows;
  if (s->map) tu_region_store(&s->region, s->data, from, r->row_bytes);
  for (size_t row = 0; !s->map && row < r->row_count; row++)
    memcpy(s->data + row * r->pitch, from + row * r->row_bytes, r->row_bytes);
}

static tutti_err read_rows(const struct tutti_window *w, const struct tu_memory_frame *f, const void *body,
                           size_t bytes, struct tu_memory_answer *answer) {
  struct served s;
  tutti_err err = open_rows(&s, w, f->offset, body, bytes);
  if (err == TUTTI_OK && !(answer->owned = malloc(s.bytes))) err = TUTTI_ERR_MEMORY;
  if (err == TUTTI_OK) {
    load(&s, answer->owned);
    answer->body = answer->owned;
    answer->bytes = s.bytes;
  }
  close_rows(&s);
  return err;
}

static bool can_add(const struct served *s) {
  const tutti_datatype type = s->rows.tensor.type;
  return s->map && tu_carry_can_add(type) && (uintptr_t)s->data % tu_datatypes[type].bytes == 0;
}

static tutti_err change_rows(const struct tutti_window *w, const struct tu_memory_frame *f, const void *body,
                             size_t bytes) {
  struct served s;
  const bool adds = f->what == TU_FAR_ADD_ROWS;
  tutti_err err = open_rows(&s, w, f->offset, body, bytes);
  if (err == TUTTI_OK && s.bytes != bytes - sizeof s.rows) err = TUTTI_ERR_ARGUMENT;
  if (err == TUTTI_OK && adds && !can_add(&s)) err = TUTTI_ERR_ARGUMENT;
  if (err == TUTTI_OK) {
    const unsigned char *rows = (const unsigned char *)body + sizeof s.rows;
    if (adds) tu_carry_add_rows(s.rows.tensor.type, &s.region, s.data, rows, s.rows.row_bytes);
    else store(&s, rows);
  }
  close_rows(&s);
  return err;
}

/* ---- other requests ---- */

static tutti_err read_bytes(const struct tutti_window *w, const struct tu_memory_frame *f,
                            struct tu_memory_answer *answer) {
  if (!is_within(w, f->offset, f->value)) return TUTTI_ERR_ARGUMENT;
  answer->body = memory_at(w, f->offset);
  answer->bytes = f->value;
  return TUTTI_OK;
}

static tutti_err change_signal(const struct tutti_window *w, const struct tu_memory_frame *f) {
  if (!is_within(w, f->offset, sizeof(int32_t))) return TUTTI_ERR_ARGUMENT;
  int32_t *signal = (int32_t *)(void *)memory_at(w, f->offset);
  if ((uintptr_t)signal % sizeof *signal != 0) return TUTTI_ERR_ARGUMENT;
  tu_window_signal(signal, (int32_t)f->value, f->what == TU_FAR_INCREASE);
  return TUTTI_OK;
}

static tutti_err reserve(struct tutti_window *w, uint32_t from, const struct tu_memory_frame *f, const void *body,
                         size_t bytes, struct tu_memory_answer *answer) {
  const uint32_t count = (uint32_t)(bytes / sizeof(uint32_t)),
                 root = tu_control_member_of(&w->comm->mover->control, from);
  uint32_t *members = count ? malloc(bytes) : NULL;
  tutti_err err = members || count == 0 ? TUTTI_OK : TUTTI_ERR_MEMORY;
  if (!body || count == 0 || root == TU_NONE || w->comm->rank != 0 || !w->block) err = TUTTI_ERR_ARGUMENT;
  if (err == TUTTI_OK) memcpy(members, body, count * sizeof *members);
  for (uint32_t i = 0; err == TUTTI_OK && i < count; i++)
    if (members[i] >= w->comm->ranks) err = TUTTI_ERR_ARGUMENT;
  if (err == TUTTI_OK && f->what == TU_FAR_RESERVE) answer->value = tu_window_reserve(w, root, members, count);
  else if (err == TUTTI_OK) tu_window_release(w, members, count);
  free(members);
  return err;
}

static void carry_out(const struct tu_transport *t, uint32_t from, const struct tu_memory_frame *f, const void *body,
                      size_t bytes, struct tu_memory_answer *answer) {
  struct tutti_window *w = window_of(t, f);
  answer->code = TUTTI_ERR_ARGUMENT;
  if (!w) return;
  if (bytes > 0 && !body) {
    answer->code = TUTTI_ERR_MEMORY;
    return;
  }
  switch ((enum tu_far_what)f->what) {
    case TU_FAR_READ: answer->code = read_bytes(w, f, answer); return;
    case TU_FAR_WRITE: /* the body has been received in its place (see `place`) */
      if (is_within(w, f->offset, bytes) && (bytes == 0 || body == memory_at(w, f->offset))) answer->code = TUTTI_OK;
      return;
    case TU_FAR_READ_ROWS: answer->code = read_rows(w, f, body, bytes, answer); return;
    case TU_FAR_WRITE_ROWS:
    case TU_FAR_ADD_ROWS: answer->code = change_rows(w, f, body, bytes); return;
    case TU_FAR_SET:
    case TU_FAR_INCREASE: answer->code = change_signal(w, f); return;
    case TU_FAR_RESERVE:
    case TU_FAR_RELEASE: answer->code = reserve(w, from, f, body, bytes, answer); return;
  }
}

const struct tu_memory_server tu_windows_server = {.place = place, .carry_out = carry_out};
