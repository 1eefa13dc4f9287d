/* link_model.c: reads the text of a link model, and computes how long one message takes. */
#include "sim/link_model.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum kind { TIME, SPEED, SIZE, COUNT, YES };

static const struct key {
  const char *name;
  enum kind kind;
  size_t at;
} keys[] = {
#define KEY(name, kind) \
  { #name, kind, offsetof(struct tu_link_model, name) }
    KEY(bandwidth, SPEED),   KEY(latency, TIME),        KEY(packet_bytes, SIZE), KEY(header_bytes, SIZE),
    KEY(stored, YES),        KEY(look_send, TIME),      KEY(look_receive, TIME), KEY(change, TIME),
    KEY(issue, TIME),        KEY(flag_gap, TIME),       KEY(respond, TIME),      KEY(acknowledge, TIME),
    KEY(forward, TIME),      KEY(noc_bandwidth, SPEED), KEY(noc_latency, TIME),  KEY(reduce_bandwidth, SPEED),
    KEY(memory_bytes, SIZE), KEY(channels, COUNT),      KEY(granule, SIZE),      KEY(slot_bytes, SIZE),
    KEY(credits, COUNT),     KEY(retrain, TIME),        KEY(timer, TIME),        KEY(between, TIME),
    KEY(loop, TIME),
#undef KEY
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static const struct unit {
  enum kind kind;
  const char *name;
  double factor;
} units[] = {
    {TIME, "s", 1},       {TIME, "ms", 1e-3},   {TIME, "us", 1e-6}, {TIME, "ns", 1e-9},  {SPEED, "B/s", 1},
    {SPEED, "GB/s", 1e9}, {SPEED, "MB/s", 1e6}, {SIZE, "B", 1},     {SIZE, "KiB", 1024}, {SIZE, "MiB", 1048576},
};
enum { UNITS = sizeof units / sizeof units[0] };
static const char *const unit_names[] = {"a time, such as 40 ns (s, ms, us, ns)",
                                         "a speed, such as 12.5 GB/s (B/s, MB/s, GB/s)",
                                         "a size, such as 1500 B (B, KiB, MiB)", "a whole number", "yes or no"};

/* ---- reading ---- */

static const struct key *find_key(const char *word) {
  for (size_t k = 0; k < KEYS; k++)
    if (strcmp(keys[k].name, word) == 0) return &keys[k];
  return NULL;
}

static tutti_err fail_key(const struct tu_scan *scan, const char *word, struct tu_error *error) {
  const char *names[KEYS];
  for (size_t k = 0; k < KEYS; k++) names[k] = keys[k].name;
  const char *near = tu_nearest(word, names, KEYS);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: unknown name '%s' in a link model%s%s%s", scan->name, scan->line,
                 word, near ? "; did you mean " : "; see tutti-links(5)", near ? near : "", near ? "?" : "");
}

static bool read_value(struct tu_scan *scan, enum kind kind, double *value) {
  char number[32], unit[8];
  if (!tu_scan_token(scan, number, sizeof number)) return false;
  if (kind == YES) {
    *value = strcmp(number, "yes") == 0;
    return *value > 0 || strcmp(number, "no") == 0;
  }
  if (!tu_parse_number(number, value) || !isfinite(*value)) return false;
  if (kind == COUNT) return *value <= 1e6 && *value == floor(*value);
  if (!tu_scan_token(scan, unit, sizeof unit)) return false;
  for (size_t u = 0; u < UNITS; u++)
    if (units[u].kind == kind && strcmp(units[u].name, unit) == 0) {
      *value *= units[u].factor;
      return *value < 1e18;
    }
  return false;
}

static tutti_err read_line(struct tu_scan *scan, struct tu_link_model *model, uint32_t *seen, struct tu_error *error) {
  char word[32];
  if (!tu_scan_word(scan, word, sizeof word)) return tu_scan_fail(scan, error, "the name of a value");
  const struct key *key = find_key(word);
  if (!key) return fail_key(scan, word, error);
  uint32_t bit = 1u << (key - keys);
  if (*seen & bit) return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: %s is set twice", scan->name, scan->line, word);
  *seen |= bit;
  struct tu_scan before = *scan;
  double value;
  if (!read_value(scan, key->kind, &value)) return tu_scan_fail(&before, error, unit_names[key->kind]);
  if (!tu_scan_end_of_line(scan)) return tu_scan_fail(scan, error, "the end of the line");
  if (key->kind == YES) *(bool *)((char *)model + key->at) = value > 0;
  else *(double *)(void *)((char *)model + key->at) = value;
  if (model->packet_bytes > 0 && model->packet_bytes < 1)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: packet_bytes: expected at least 1 B", scan->name, before.line);
  return TUTTI_OK;
}

tutti_err tu_link_model_read(const char *data, size_t bytes, const char *name, struct tu_link_model *model,
                             struct tu_error *error) {
  struct tu_scan scan = {.at = data, .end = data + bytes, .line = 1, .name = name};
  uint32_t seen = 0;
  *model = (struct tu_link_model){0};
  snprintf(model->name, sizeof model->name, "%s", name);
  while (!tu_scan_at_end(&scan)) {
    tutti_err err = read_line(&scan, model, &seen, error);
    if (err != TUTTI_OK) return err;
  }
  if (model->bandwidth <= 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s:%u: expected a line such as 'bandwidth 12.5 GB/s', found the end of the text", name, scan.line);
  return TUTTI_OK;
}

/* The model for links of which only speeds and latency are known. The values are the default costs of the command tutti
 * sim. */
static const char plain[] =
    "bandwidth 12.5 GB/s\n"
    "latency 1 us\n"
    "reduce_bandwidth 20 GB/s\n";

extern const char tu_sim_wormhole[];

const char *tu_link_model_text(const char *name) {
  if (strcmp(name, "plain") == 0) return plain;
  return strcmp(name, "wormhole") == 0 ? tu_sim_wormhole : NULL;
}

tutti_err tu_link_model_load(const char *what, struct tu_link_model *model, struct tu_error *error) {
  const char *text = tu_link_model_text(what);
  if (text) return tu_link_model_read(text, strlen(text), what, model, error);
  char *data;
  size_t bytes;
  tutti_err err = tu_read_file_of(what, TU_TABLE_BYTES, &data, &bytes, error);
  if (err != TUTTI_OK) return err;
  err = tu_link_model_read(data, bytes, what, model, error);
  free(data);
  return err;
}

/* ---- costs of a message ---- */

static double with_headers(const struct tu_link_model *m, double bytes) {
  double packets = m->packet_bytes > 0 ? ceil(bytes / m->packet_bytes) : 1;
  return bytes + m->header_bytes * (packets < 1 ? 1 : packets);
}

double tu_link_utilization(const struct tu_link_model *m, double bytes) { return bytes / with_headers(m, bytes); }

double tu_link_wire_time(const struct tu_link_model *m, double bytes) { return with_headers(m, bytes) / m->bandwidth; }

double tu_link_crossing(const struct tu_link_model *m, double bytes) {
  double first = m->packet_bytes > 0 && bytes > m->packet_bytes ? m->packet_bytes : bytes;
  return tu_link_wire_time(m, bytes) + m->latency + (m->stored ? (first + m->header_bytes) / m->bandwidth : 0);
}

double tu_link_noc_time(const struct tu_link_model *m, double bytes) {
  return m->noc_latency + (m->noc_bandwidth > 0 ? bytes / m->noc_bandwidth : 0);
}

tutti_err tu_link_fits(const struct tu_link_model *m, uint32_t channels_out, uint32_t channels_in, double slot_bytes,
                       uint32_t slots, struct tu_error *error) {
  uint32_t most = channels_out > channels_in ? channels_out : channels_in;
  if (m->channels > 0 && most > m->channels)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "there are %u channels in one direction of the link, but the link model %s allows only %.0f", most,
                   m->name, m->channels);
  double bytes = (slot_bytes + TU_ACK_BYTES) * slots * ((double)channels_out + channels_in);
  if (m->memory_bytes > 0 && bytes > m->memory_bytes)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%u outgoing and %u incoming channels, with %u slots of %.0f B each, need %.0f B of memory at one "
                   "end of the link, but the link model %s has only %.0f B",
                   channels_out, channels_in, slots, slot_bytes, bytes, m->name, m->memory_bytes);
  return TUTTI_OK;
}
