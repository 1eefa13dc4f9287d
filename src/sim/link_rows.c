/* link_rows.c: reads rows of measurements, and simulates the measurement of each row. */
#include "sim/link_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sim/link_bench.h"

enum { MESSAGES = 128, FIELDS = 10, FIELD_BYTES = 32, HOPS_MAX = 1024, CHANNELS_MAX = 64 };

const char *const tu_row_kinds[] = {"ring_ping", "ring_ping_merged", "round_trip", "bandwidth", "best_bandwidth", NULL};
const char *const tu_row_parts[] = {"full", "ack_wait", "receiver", "wire", "one_hop", "issue", NULL};
const char *const tu_row_uses[] = {"fit", "held", "reported", NULL};
static const char *const columns[FIELDS] = {"benchmark", "bytes", "channels", "hops",      "part",
                                            "value",     "unit",  "error",    "tolerance", "use"};

/* ---- reading ---- */

struct line {
  const char *name;
  uint32_t number;
  char fields[FIELDS][FIELD_BYTES];
};

static tutti_err fail(const struct line *line, uint32_t field, const char *expected, struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: %s: expected %s, found '%s'", line->name, line->number,
                 columns[field], expected, line->fields[field]);
}

static bool find_word(const char *const words[], const char *word, uint32_t *index) {
  for (*index = 0; words[*index]; (*index)++)
    if (strcmp(words[*index], word) == 0) return true;
  return false;
}

static tutti_err split(struct line *line, const char *text, size_t length, struct tu_error *error) {
  uint32_t field = 0;
  for (const char *at = text, *end = text + length; field < FIELDS; field++) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    size_t bytes = (size_t)((comma ? comma : end) - at);
    if (bytes >= FIELD_BYTES || memchr(at, '\0', bytes))
      return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: a field has %zu characters; expected at most %d", line->name,
                     line->number, bytes, FIELD_BYTES - 1);
    memcpy(line->fields[field], at, bytes);
    line->fields[field][bytes] = '\0';
    if (!comma) {
      at = end + 1;
      field++;
      break;
    }
    at = comma + 1;
  }
  size_t commas = 0;
  for (size_t i = 0; i < length; i++) commas += text[i] == ',';
  if (field == FIELDS && commas == FIELDS - 1) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: expected %d fields, found %zu", line->name, line->number, FIELDS,
                 commas + 1);
}

static bool is_number(const char *field, double most, double *number) {
  return tu_parse_number(field, number) && *number <= most;
}

static tutti_err read_row(const struct line *line, struct tu_link_row *row, struct tu_error *error) {
  uint32_t kind, use;
  double channels, hops, reading, tolerance, unit;
  *row = (struct tu_link_row){0};
  if (!find_word(tu_row_kinds, line->fields[0], &kind))
    return fail(line, 0, "ring_ping, ring_ping_merged, round_trip, bandwidth or best_bandwidth", error);
  row->kind = (enum tu_row_kind)kind;
  bool speed = kind >= TU_ROW_BANDWIDTH;
  if (!is_number(line->fields[1], 1e9, &row->bytes) || row->bytes < 1) return fail(line, 1, "a number of bytes", error);
  if (!is_number(line->fields[2], CHANNELS_MAX, &channels) || channels != floor(channels) ||
      (channels < 1 && kind != TU_ROW_BEST_BANDWIDTH))
    return fail(line, 2, "1 to 64 channels", error);
  if (!is_number(line->fields[3], HOPS_MAX, &hops) || hops != floor(hops) || hops < 1)
    return fail(line, 3, "1 to 1024 hops", error);
  if (kind == TU_ROW_ROUND_TRIP && !find_word(tu_row_parts, line->fields[4], &row->part))
    return fail(line, 4, "full, ack_wait, receiver, wire, one_hop or issue", error);
  if (strcmp(line->fields[6], speed ? "GB/s" : "ns") != 0) return fail(line, 6, speed ? "GB/s" : "ns", error);
  unit = speed ? 1e9 : 1e-9;
  if (!is_number(line->fields[5], 1e12, &row->value) || row->value <= 0) return fail(line, 5, "a number", error);
  if (!is_number(line->fields[7], 1e12, &reading)) return fail(line, 7, "a number", error);
  if (!is_number(line->fields[8], 100, &tolerance)) return fail(line, 8, "a percentage of at most 100", error);
  if (!find_word(tu_row_uses, line->fields[9], &use)) return fail(line, 9, "fit, held or reported", error);
  row->channels = (uint32_t)channels;
  row->hops = (uint32_t)hops;
  row->use = (enum tu_row_use)use;
  row->bound = fmax(tolerance / 100 * row->value, reading) * unit;
  row->value *= unit;
  return TUTTI_OK;
}

static bool is_header(const struct line *line) {
  for (int i = 0; i < FIELDS; i++)
    if (strcmp(line->fields[i], columns[i]) != 0) return false;
  return true;
}

tutti_err tu_link_rows_read(const char *data, size_t bytes, const char *name, struct tu_link_row **rows,
                            uint32_t *row_count, struct tu_error *error) {
  struct line line = {.name = name};
  struct tu_link_row *list = NULL;
  uint32_t count = 0, capacity = 0;
  bool begun = false;
  tutti_err err = TUTTI_OK;
  for (const char *at = data, *end = data + bytes; at < end && err == TUTTI_OK;) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t length = (size_t)((stop ? stop : end) - at);
    const char *text = at;
    line.number++;
    at += length + 1;
    if (length > 0 && text[length - 1] == '\r') length--;
    if (length == 0 || *text == '#') continue;
    if ((err = split(&line, text, length, error)) != TUTTI_OK) break;
    if (!begun) {
      begun = true;
      if (!is_header(&line))
        err = fail(&line, 0, "the header benchmark,bytes,channels,hops,part,value,unit,error,tolerance,use", error);
      continue;
    }
    list = tu_grow(list, count, &capacity, sizeof *list);
    err = read_row(&line, &list[count++], error);
  }
  if (err == TUTTI_OK && count == 0)
    err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: expected a row, found the end of the text", name, line.number + 1);
  if (err != TUTTI_OK) {
    free(list);
    return err;
  }
  *rows = list;
  *row_count = count;
  return TUTTI_OK;
}

/* ---- simulation of a row's measurement ---- */

static double part_of(const struct tu_link_round_trip *trip, uint32_t part) {
  const double parts[] = {trip->full, trip->ack_wait, trip->receiver, trip->wire, trip->one_hop, trip->issue};
  return parts[part];
}

double tu_link_row_play(const struct tu_link_row *row, const struct tu_link_model *model, uint32_t *channels) {
  struct tu_link_round_trip trip;
  *channels = row->channels;
  switch (row->kind) {
    case TU_ROW_RING_PING: return tu_link_ring_ping(model, row->bytes, row->channels, row->hops, true);
    case TU_ROW_RING_PING_MERGED: return tu_link_ring_ping(model, row->bytes, row->channels, row->hops, false);
    case TU_ROW_ROUND_TRIP: tu_link_round_trip(model, row->bytes, &trip); return part_of(&trip, row->part);
    case TU_ROW_BANDWIDTH: return tu_link_bandwidth(model, row->bytes, row->channels, MESSAGES);
    case TU_ROW_BEST_BANDWIDTH: return tu_link_best_bandwidth(model, row->bytes, MESSAGES, channels);
  }
  tu_assert(false);
  return 0;
}
