/* ccl_cases.h: test cases of collectives on tensors, read from lines of CSV:
 *
 *   op,num_devices,num_links,shape,dim,layout,dtype,memory,topology,note
 *
 * The functions below define what each field may contain. Anything else is an error, so that no row is skipped
 * silently. */
#ifndef CCL_CASES_H
#define CCL_CASES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tensor.h>

enum { CASES_TEXT = 256, CASES_FIELDS = 10, CASES_WORLDS = 4, CASES_TYPES = 4 };

/* Memory layout of a tensor: interleaved, or in shards of rows x cols on `cores` cores. */
struct cases_shards {
  char kind; /* W (width), H (height) or B (block) sharded; 0: interleaved */
  size_t rows, cols;
  uint32_t cores;
  bool column; /* cores are numbered down the columns of the grid */
  bool dram;   /* shards are in DRAM; else in L1. Only for sharded tensors */
};

/* Tensor whose shape a row gives: input, output, or not stated. */
enum cases_meaning { CASES_UNSAID, CASES_INPUT, CASES_OUTPUT };

struct cases_row {
  int line; /* line number in the file */
  char text[CASES_TEXT];
  tutti_collective collective;
  struct {
    uint32_t ranks, links; /* number of ranks; number of links, 0: automatic */
  } worlds[CASES_WORLDS];
  uint32_t world_count;
  uint32_t dims;
  size_t shape[TUTTI_DIMS];
  int dim;
  bool tiles, rows; /* layouts to test: tiles, row-major */
  tutti_datatype types[CASES_TYPES];
  uint32_t type_count;
  bool dram, l1; /* memories to test, for interleaved tensors */
  struct cases_shards in, out;
  bool ring, along_line, mesh;
  enum cases_meaning meaning;
};

/* Cuts a line into its fields, which may stand in quotes; returns their number. */
static inline uint32_t cases_split(const char *line, char fields[CASES_FIELDS][CASES_TEXT]) {
  uint32_t count = 0, length = 0;
  bool quoted = false;
  memset(fields, 0, CASES_FIELDS * sizeof *fields);
  for (; *line && *line != '\n' && *line != '\r'; line++) {
    if (*line == '"') quoted = !quoted;
    else if (*line == ',' && !quoted) count++, length = 0;
    else if (count < CASES_FIELDS && length + 1 < CASES_TEXT) fields[count][length++] = *line;
  }
  return count + 1;
}

/* Parses numbers of ranks: "8", "2,4", or "2,8 (1 link); 4 (2 links)". `links`, if it is a number, sets the number of
 * links of all. */
static inline bool cases_read_worlds(const char *ranks, const char *links, struct cases_row *row) {
  uint32_t group_begin = 0;
  char *end;
  for (const char *at = ranks; *at; at = end) {
    unsigned long n = strtoul(at, &end, 10);
    if (end == at || n < 1 || n > 64 || row->world_count == CASES_WORLDS) return false;
    row->worlds[row->world_count++].ranks = (uint32_t)n;
    if (*end == ',') end++;
    if (strncmp(end, " (", 2) != 0) continue;
    n = strtoul(end + 2, &end, 10);
    for (; group_begin < row->world_count; group_begin++) row->worlds[group_begin].links = (uint32_t)n;
    end += strspn(end, " links");
    if (*end++ != ')') return false;
    end += strspn(end, "; ");
  }
  if (*links && strcmp(links, "auto") != 0)
    for (uint32_t w = 0; w < row->world_count; w++) row->worlds[w].links = (uint32_t)strtoul(links, NULL, 10);
  return row->world_count > 0;
}

/* Parses a shape: "1x1x48x1024", "out 1x1x32xW". W stands for the number of columns of all shards together. */
static inline bool cases_read_shape(const char *text, struct cases_row *row) {
  if (strncmp(text, "out ", 4) == 0) {
    row->meaning = CASES_OUTPUT;
    text += 4;
  }
  for (char *end; *text; text = *end ? end + 1 : end) {
    if (row->dims == TUTTI_DIMS) return false;
    size_t n = *text == 'W' ? row->out.cols * row->out.cores : strtoul(text, &end, 10);
    if (*text == 'W') end = (char *)(uintptr_t)text + 1;
    if (n == 0 || (*end && *end != 'x')) return false;
    row->shape[row->dims++] = n;
  }
  return row->dims > 0;
}

static inline bool cases_read_types(char *text, struct cases_row *row) {
  static const struct {
    const char *name;
    tutti_datatype type;
  } names[] = {
      {"bf16", TUTTI_BF16}, {"bfp8_b", TUTTI_BFP8}, {"bfp4_b", TUTTI_BFP4}, {"u32", TUTTI_U32}, {"u8", TUTTI_U8}};
  for (char *word = strtok(text, "+"); word; word = strtok(NULL, "+")) {
    uint32_t known = row->type_count;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && row->type_count < CASES_TYPES; i++)
      if (strcmp(word, names[i].name) == 0) row->types[row->type_count++] = names[i].type;
    if (row->type_count == known) return false;
  }
  return row->type_count > 0;
}

/* Parses shards, such as "W(32,64)x6", "L1 B(32,32)x32", "DRAMW(32,16)x1", "... colmajor", "interleaved",
 * "L1 width sharded out shard (32,128)x32". */
static inline bool cases_read_shards(const char *text, struct cases_shards *shards) {
  *shards = (struct cases_shards){.dram = strncmp(text, "DRAM", 4) == 0, .column = strstr(text, "colmajor") != NULL};
  if (strstr(text, "interleaved")) return true;
  const char *open = strchr(text, '(');
  if (!open || open == text) return false;
  shards->kind = strstr(text, "width sharded") ? 'W' : open[-1];
  return strchr("WHB", shards->kind) && sscanf(open, "(%zu,%zu)x%u", &shards->rows, &shards->cols, &shards->cores) == 3;
}

/* Parses "IN -> OUT", "IN / intermediate SHARDS / OUT" (the intermediate is ignored: the library chooses it), or one
 * layout: the other tensor then has shards of the same kind, on as many cores. */
static inline bool cases_read_memory(char *text, struct cases_row *row) {
  char *last = text, *next;
  uint32_t ranks = row->worlds[0].ranks;
  bool good = true;
  if ((next = strstr(text, " -> ")) != NULL) last = next + 4;
  else if ((next = strstr(text, " / ")) != NULL) last = strrchr(text, '/') + 2;
  if (next) *next = '\0';
  row->dram = strstr(text, "DRAM") != NULL;
  row->l1 = strstr(text, "L1") != NULL;
  if (strstr(text, "out shard")) { /* the longer tensor's shards have `ranks` times as many columns */
    good = cases_read_shards(text, &row->out);
    row->in = row->out;
    row->in.cols *= ranks;
    return good && row->dim == 3;
  }
  good = cases_read_shards(text, &row->in);
  if (next) return good && cases_read_shards(last, &row->out);
  row->out = row->in;
  row->out.cols *= ranks;
  return good && (!row->in.kind || (row->dim == 3 && row->collective == TUTTI_ALLGATHER));
}

static inline bool cases_read_topology(const char *text, struct cases_row *row) {
  row->mesh = strcmp(text, "1D+2D fabric") == 0;
  row->ring = strstr(text, "ring") || row->mesh;
  row->along_line = strstr(text, "(W also line)") ? row->in.kind == 'W' : strstr(text, "line") || row->mesh;
  return row->ring || row->along_line;
}

static inline void cases_read_note(const char *note, struct cases_row *row) {
  if (strstr(note, "INPUT")) row->meaning = CASES_INPUT;
  if (strstr(note, "OUTPUT") || strstr(note, "output shape")) row->meaning = CASES_OUTPUT;
}

/* Parses a row; returns false if any field is not understood. */
static inline bool cases_read(const char *line, int number, struct cases_row *row) {
  char f[CASES_FIELDS][CASES_TEXT];
  *row = (struct cases_row){.line = number};
  snprintf(row->text, sizeof row->text, "%.*s", (int)strcspn(line, "\r\n"), line);
  if (cases_split(line, f) != CASES_FIELDS) return false;
  if (strcmp(f[0], "all_gather") == 0) row->collective = TUTTI_ALLGATHER;
  else if (strcmp(f[0], "reduce_scatter") == 0) row->collective = TUTTI_REDUCE_SCATTER;
  else return false;
  char *end;
  row->dim = (int)strtol(f[4], &end, 10);
  if (end == f[4] || *end) return false;
  row->tiles = strcmp(f[5], "TILE") == 0 || strcmp(f[5], "TILE/RM") == 0;
  row->rows = strcmp(f[5], "RM") == 0 || strcmp(f[5], "TILE/RM") == 0;
  cases_read_note(f[9], row);
  return (row->tiles || row->rows) && cases_read_worlds(f[1], f[2], row) && cases_read_memory(f[7], row) &&
         cases_read_shape(f[3], row) && cases_read_types(f[6], row) && cases_read_topology(f[8], row);
}

#endif
