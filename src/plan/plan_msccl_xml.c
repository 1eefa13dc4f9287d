/* plan_msccl_xml.c: reads the XML file of an MSCCL algorithm into tables. libexpat parses the XML; this file checks
 * elements and attributes. The reader refuses document types and entities, so that the data cannot become larger than
 * the text. */
#include <expat.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "plan/plan_msccl.h"

/* NUMBER_MAX: maximum of a number in the file. Larger numbers are refused as mistakes or attacks. So the sum of a few
 * numbers fits 32 bits. */
enum { NUMBER_MAX = 1 << 28, FOUND_CHARS = 40, LEVELS = 4 };

struct attribute {
  const char *name;
  bool optional;
};

static const struct attribute algo_attributes[] = {
    {"name", false}, {"proto", false},   {"nchannels", false}, {"nchunksperloop", false}, {"ngpus", false},
    {"coll", false}, {"inplace", false}, {"outofplace", true}, {"minBytes", true},        {"maxBytes", true},
};
static const struct attribute gpu_attributes[] = {
    {"id", false}, {"i_chunks", false}, {"o_chunks", false}, {"s_chunks", false}};
static const struct attribute tb_attributes[] = {{"id", false}, {"send", false}, {"recv", false}, {"chan", false}};
static const struct attribute step_attributes[] = {
    {"s", false},      {"type", false}, {"srcbuf", false}, {"srcoff", false}, {"dstbuf", false},
    {"dstoff", false}, {"cnt", false},  {"depid", false},  {"deps", false},   {"hasdep", false},
};
enum { ATTRIBUTES_MAX = 10 };

struct xml {
  XML_Parser parser;
  struct tu_msccl *file;
  struct tu_error *error;
  tutti_err err;
  uint32_t depth;
  const char *element;           /* name of the element that is being read */
  const char *const *attributes; /* attributes of the element that is being read: name, value, name, value, ..., NULL */
  uint32_t gpu_capacity, tb_capacity, step_capacity;
};

static uint32_t line_of(const struct xml *x) { return (uint32_t)XML_GetCurrentLineNumber(x->parser); }

/* Format of a position in the file (name and line), for error messages. */
#define POSITION "%s:%u: "
#define POSITION_OF(x) (x)->file->file, line_of(x)

/* Text from the file, shortened and made printable, for an error message. */
struct found {
  char chars[FOUND_CHARS + 4];
};
static struct found show(const char *chars) {
  struct found found = {""};
  size_t length = strnlen(chars, FOUND_CHARS);
  for (size_t i = 0; i < length; i++) found.chars[i] = chars[i] < ' ' || chars[i] > '~' ? '?' : chars[i];
  if (chars[length]) memcpy(found.chars + length, "...", 4);
  return found;
}

/* ---- attributes of an XML element ---- */

static const char *value_of(const struct xml *x, const char *name) {
  for (const char *const *at = x->attributes; *at; at += 2)
    if (strcmp(at[0], name) == 0) return at[1];
  return NULL;
}

static tutti_err refuse_value(struct xml *x, const char *name, const char *expected) {
  return tu_fail(x->error, TUTTI_ERR_ARGUMENT, POSITION "<%s> attribute '%s': expected %s, found '%s'", POSITION_OF(x),
                 x->element, name, expected, show(value_of(x, name)).chars);
}

/* Checks that all required attributes are present, and that all present ones are known. */
static tutti_err check_attributes(struct xml *x, const struct attribute *known, size_t count) {
  const char *names[ATTRIBUTES_MAX];
  for (size_t i = 0; i < count; i++) {
    names[i] = known[i].name;
    if (known[i].optional || value_of(x, names[i])) continue;
    return tu_fail(x->error, TUTTI_ERR_ARGUMENT, POSITION "<%s>: expected an attribute '%s', found none",
                   POSITION_OF(x), x->element, names[i]);
  }
  for (const char *const *at = x->attributes; *at; at += 2) {
    size_t i = 0;
    while (i < count && strcmp(at[0], names[i]) != 0) i++;
    if (i < count) continue;
    const char *near = tu_nearest(at[0], names, count);
    return tu_fail(x->error, TUTTI_ERR_ARGUMENT, POSITION "<%s>: unknown attribute '%s'%s%s%s", POSITION_OF(x),
                   x->element, show(at[0]).chars, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  return TUTTI_OK;
}

/* Reads a whole number between `low` (-1, 0 or 1) and `high`. The number -1 becomes TU_MSCCL_NONE. */
static tutti_err read_number(struct xml *x, const char *name, int low, uint32_t high, uint32_t *number) {
  const char *value = value_of(x, name);
  uint64_t read;
  *number = TU_MSCCL_NONE;
  if (low < 0 && strcmp(value, "-1") == 0) return TUTTI_OK;
  if (tu_parse_uint(value, high, &read) && (low < 0 || read >= (uint64_t)low)) {
    *number = (uint32_t)read;
    return TUTTI_OK;
  }
  char expected[80];
  snprintf(expected, sizeof expected, "a whole number from %d to %u", low, high);
  return refuse_value(x, name, expected);
}

static tutti_err read_flag(struct xml *x, const char *name, bool *flag) {
  uint32_t number;
  tutti_err err = read_number(x, name, 0, 1, &number);
  *flag = number == 1;
  return err;
}

/* Reads one of the words of a list. Sets *index to the index of the word in the list. */
static tutti_err read_word(struct xml *x, const char *name, const char *const words[], uint32_t count,
                           uint32_t *index) {
  const char *value = value_of(x, name);
  for (*index = 0; *index < count; ++*index)
    if (strcmp(value, words[*index]) == 0) return TUTTI_OK;
  char expected[120] = "";
  for (uint32_t i = 0; i < count; i++) {
    size_t length = strlen(expected);
    snprintf(expected + length, sizeof expected - length, "%s%s",
             i == 0          ? ""
             : i + 1 < count ? ", "
                             : " or ",
             words[i]);
  }
  return refuse_value(x, name, expected);
}

/* ---- the XML elements algo, gpu, tb and step ---- */

/* Makes the name of the plan. Characters other than letters, digits and _.- become '_'. The result begins with a letter
 * or with '_'. */
static void read_name(struct xml *x) {
  const char *value = value_of(x, "name");
  char *name = x->file->name;
  size_t length = strnlen(value, TU_NAME_BYTES - 2), at = 0;
  bool letter = length > 0 && ((value[0] | 32) >= 'a' && (value[0] | 32) <= 'z');
  if (!letter) name[at++] = '_';
  for (size_t i = 0; i < length; i++) {
    char c = value[i];
    bool keep = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("_.-", c);
    name[at++] = keep ? c : '_';
  }
  name[at] = '\0';
}

static tutti_err read_collective(struct xml *x) {
  static const char expected[] = "allreduce, allgather, reduce_scatter, alltoall, broadcast, reduce, gather or scatter";
  const char *value = value_of(x, "coll");
  if (strcmp(value, "custom") == 0)
    return refuse_value(x, "coll",
                        "a collective whose result is known (the file does not define the result of 'custom', so it "
                        "cannot be checked)");
  tutti_collective c;
  if (strcmp(value, "reducescatter") == 0) c = TUTTI_REDUCE_SCATTER; /* this is how RCCL spells reduce_scatter */
  else if (!tu_collective_find(value, &c)) return refuse_value(x, "coll", expected);
  switch (c) {
    case TUTTI_ALLREDUCE:
    case TUTTI_ALLGATHER:
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_ALLTOALL:
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE:
    case TUTTI_GATHER:
    case TUTTI_SCATTER: break;
    default: return refuse_value(x, "coll", expected);
  }
  x->file->collective = c;
  return TUTTI_OK;
}

static tutti_err read_algo(struct xml *x) {
  static const char *const protocols[] = {"Simple", "LL", "LL128"};
  struct tu_msccl *f = x->file;
  tutti_err err;
  uint32_t protocol;
  f->line = line_of(x);
  if ((err = check_attributes(x, algo_attributes, sizeof algo_attributes / sizeof *algo_attributes)) != TUTTI_OK)
    return err;
  read_name(x);
  if ((err = read_word(x, "proto", protocols, 3, &protocol)) != TUTTI_OK) return err;
  if ((err = read_number(x, "nchannels", 1, NUMBER_MAX, &f->channels)) != TUTTI_OK) return err;
  if ((err = read_number(x, "nchunksperloop", 1, NUMBER_MAX, &f->chunks)) != TUTTI_OK) return err;
  if ((err = read_number(x, "ngpus", 1, TU_RANKS_MAX, &f->ranks)) != TUTTI_OK) return err;
  if ((err = read_collective(x)) != TUTTI_OK) return err;
  if ((err = read_flag(x, "inplace", &f->in_place)) != TUTTI_OK) return err;
  /* MSCCL uses minBytes and maxBytes to choose an algorithm. Here the user names the algorithm, so the values are only
   * checked. */
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "maxBytes" : "minBytes", *value = value_of(x, name);
    uint64_t bytes;
    if (value && strcmp(value, "-1") != 0 && !tu_parse_uint(value, INT64_MAX, &bytes))
      return refuse_value(x, name, "a number of bytes");
  }
  f->out_of_place = !f->in_place; /* default for older files, which have the attribute inplace, but not outofplace */
  if (value_of(x, "outofplace") && (err = read_flag(x, "outofplace", &f->out_of_place)) != TUTTI_OK) return err;
  if (f->in_place || f->out_of_place) return TUTTI_OK;
  return tu_fail(x->error, TUTTI_ERR_ARGUMENT,
                 POSITION
                 "<algo>: expected inplace=\"1\" or outofplace=\"1\", found neither, so no call can use the file",
                 POSITION_OF(x));
}

/* Checks that an id is the next number. Ids must count from 0, in order. */
static tutti_err read_id(struct xml *x, const char *name, uint32_t id) {
  char expected[64];
  uint64_t read;
  if (tu_parse_uint(value_of(x, name), NUMBER_MAX, &read) && read == id) return TUTTI_OK;
  snprintf(expected, sizeof expected, "%u, the next in order", id);
  return refuse_value(x, name, expected);
}

/* Reports that an allocation failed. Functions that the parser calls must check for this themselves, because the
 * longjmp of tu_arena_build must not leave the parser. */
static tutti_err no_memory(const struct xml *x, size_t bytes) {
  return tu_fail_memory(x->error, 2 * bytes, POSITION "the elements of the file up to this line", POSITION_OF(x));
}

static tutti_err read_gpu(struct xml *x) {
  static const char *const chunks[] = {"i_chunks", "o_chunks", "s_chunks"};
  struct tu_msccl *f = x->file;
  tutti_err err;
  if ((err = check_attributes(x, gpu_attributes, sizeof gpu_attributes / sizeof *gpu_attributes)) != TUTTI_OK)
    return err;
  if (f->gpu_count == f->ranks)
    return tu_fail(x->error, TUTTI_ERR_ARGUMENT, POSITION "expected </algo> after %u gpus, found another <gpu>",
                   POSITION_OF(x), f->ranks);
  if ((err = read_id(x, "id", f->gpu_count)) != TUTTI_OK) return err;
  struct tu_msccl_gpu gpu = {.line = line_of(x), .tb_first = f->tb_count};
  for (int i = 0; i < 3; i++)
    if ((err = read_number(x, chunks[i], 0, NUMBER_MAX, &gpu.chunks[i])) != TUTTI_OK) return err;
  struct tu_msccl_gpu *gpus = tu_arena_try_grow(&f->arena, f->gpus, f->gpu_count, &x->gpu_capacity, sizeof *gpus);
  if (!gpus) return no_memory(x, x->gpu_capacity * sizeof *gpus);
  f->gpus = gpus;
  f->gpus[f->gpu_count++] = gpu;
  return TUTTI_OK;
}

static tutti_err read_peer(struct xml *x, const char *name, uint32_t self, uint32_t *peer) {
  tutti_err err = read_number(x, name, -1, x->file->ranks - 1, peer);
  if (err != TUTTI_OK || *peer != self) return err;
  return refuse_value(x, name, "the id of another gpu, or -1");
}

static tutti_err read_tb(struct xml *x) {
  struct tu_msccl *f = x->file;
  struct tu_msccl_gpu *gpu = &f->gpus[f->gpu_count - 1];
  tutti_err err;
  if ((err = check_attributes(x, tb_attributes, sizeof tb_attributes / sizeof *tb_attributes)) != TUTTI_OK) return err;
  if (gpu->tb_count == TU_MSCCL_TBS_MAX)
    return tu_fail(x->error, TUTTI_ERR_ARGUMENT, POSITION "expected at most %u threadblocks in a gpu, found more",
                   POSITION_OF(x), TU_MSCCL_TBS_MAX);
  if ((err = read_id(x, "id", gpu->tb_count)) != TUTTI_OK) return err;
  struct tu_msccl_tb tb = {.line = line_of(x), .gpu = f->gpu_count - 1, .step_first = f->step_count};
  if ((err = read_peer(x, "send", tb.gpu, &tb.send)) != TUTTI_OK) return err;
  if ((err = read_peer(x, "recv", tb.gpu, &tb.recv)) != TUTTI_OK) return err;
  uint32_t lane;
  if ((err = read_number(x, "chan", 0, f->channels - 1, &lane)) != TUTTI_OK) return err;
  if (lane >= TU_LANES_MAX) return refuse_value(x, "chan", "a channel from 0 to 7 (a plan has 8 lanes)");
  tb.lane = (uint8_t)lane;
  struct tu_msccl_tb *tbs = tu_arena_try_grow(&f->arena, f->tbs, f->tb_count, &x->tb_capacity, sizeof *tbs);
  if (!tbs) return no_memory(x, x->tb_capacity * sizeof *tbs);
  f->tbs = tbs;
  f->tbs[f->tb_count++] = tb;
  gpu->tb_count++;
  return TUTTI_OK;
}

static tutti_err read_span(struct xml *x, const char *buffer, const char *offset, struct tu_span *span) {
  static const char *const buffers[] = {[TU_IN] = "i", [TU_OUT] = "o", [TU_TMP] = "s"};
  tutti_err err = read_word(x, buffer, buffers, 3, &span->buffer);
  return err != TUTTI_OK ? err : read_number(x, offset, -1, NUMBER_MAX, &span->first);
}

static tutti_err read_step(struct xml *x) {
  static const char *const types[] = {[TU_MSCCL_S] = "s",     [TU_MSCCL_R] = "r",     [TU_MSCCL_RCS] = "rcs",
                                      [TU_MSCCL_RRS] = "rrs", [TU_MSCCL_RRC] = "rrc", [TU_MSCCL_RRCS] = "rrcs",
                                      [TU_MSCCL_CPY] = "cpy", [TU_MSCCL_RE] = "re",   [TU_MSCCL_NOP] = "nop"};
  struct tu_msccl *f = x->file;
  struct tu_msccl_tb *tb = &f->tbs[f->tb_count - 1];
  struct tu_msccl_step step = {.line = line_of(x)};
  tutti_err err;
  uint32_t type, count;
  if ((err = check_attributes(x, step_attributes, sizeof step_attributes / sizeof *step_attributes)) != TUTTI_OK)
    return err;
  if ((err = read_id(x, "s", tb->step_count)) != TUTTI_OK) return err;
  if ((err = read_word(x, "type", types, TU_MSCCL_NOP + 1, &type)) != TUTTI_OK) return err;
  step.type = (uint8_t)type;
  if ((err = read_span(x, "srcbuf", "srcoff", &step.source)) != TUTTI_OK) return err;
  if ((err = read_span(x, "dstbuf", "dstoff", &step.target)) != TUTTI_OK) return err;
  if ((err = read_number(x, "cnt", type != TU_MSCCL_NOP, NUMBER_MAX, &count)) != TUTTI_OK) return err;
  step.source.count = step.target.count = count;
  if ((err = read_number(x, "depid", -1, TU_MSCCL_TBS_MAX - 1, &step.wait_tb)) != TUTTI_OK) return err;
  if ((err = read_number(x, "deps", -1, NUMBER_MAX, &step.wait_step)) != TUTTI_OK) return err;
  if ((err = read_flag(x, "hasdep", &step.signals)) != TUTTI_OK) return err;
  struct tu_msccl_step *steps = tu_arena_try_grow(&f->arena, f->steps, f->step_count, &x->step_capacity, sizeof *steps);
  if (!steps) return no_memory(x, x->step_capacity * sizeof *steps);
  f->steps = steps;
  f->steps[f->step_count++] = step;
  tb->step_count++;
  return TUTTI_OK;
}

/* ---- callbacks of the XML parser ---- */

static void stop(struct xml *x, tutti_err err) {
  if (err == TUTTI_OK) return;
  x->err = err;
  XML_StopParser(x->parser, XML_FALSE);
}

static void XMLCALL on_start(void *context, const XML_Char *element, const XML_Char **attributes) {
  static const struct {
    const char *element;
    tutti_err (*read)(struct xml *x);
  } levels[LEVELS] = {{"algo", read_algo}, {"gpu", read_gpu}, {"tb", read_tb}, {"step", read_step}};
  struct xml *x = context;
  if (x->err != TUTTI_OK) return; /* the parser may call this function a few more times after it was stopped */
  x->element = element;
  x->attributes = attributes;
  uint32_t depth = x->depth++;
  if (depth < LEVELS && strcmp(element, levels[depth].element) == 0) {
    stop(x, levels[depth].read(x));
    return;
  }
  stop(x, tu_fail(x->error, TUTTI_ERR_ARGUMENT, POSITION "expected %s%s%s in %s%s%s, found <%s>", POSITION_OF(x),
                  depth < LEVELS ? "<" : "", depth < LEVELS ? levels[depth].element : "nothing",
                  depth < LEVELS ? ">" : "", depth ? "<" : "", depth ? levels[depth - 1].element : "the file",
                  depth ? ">" : "", show(element).chars));
}

static void XMLCALL on_end(void *context, const XML_Char *element) {
  struct xml *x = context;
  (void)element;
  if (x->err == TUTTI_OK) x->depth--;
}

static void XMLCALL on_text(void *context, const XML_Char *chars, int length) {
  struct xml *x = context;
  if (x->err != TUTTI_OK) return;
  for (int i = 0; i < length; i++) {
    if (strchr(" \t\r\n", chars[i]) && chars[i]) continue;
    char word[FOUND_CHARS + 1];
    snprintf(word, sizeof word, "%.*s", length - i, chars + i);
    stop(x, tu_fail(x->error, TUTTI_ERR_ARGUMENT, POSITION "expected elements only, found text '%s'", POSITION_OF(x),
                    show(word).chars));
    return;
  }
}

static void XMLCALL on_doctype(void *context, const XML_Char *name, const XML_Char *system, const XML_Char *public,
                               int has_internal) {
  struct xml *x = context;
  (void)name, (void)system, (void)public, (void)has_internal;
  if (x->err != TUTTI_OK) return;
  stop(x, tu_fail(x->error, TUTTI_ERR_ARGUMENT,
                  POSITION "expected <algo>, found a document type declaration; document types and entities are not "
                           "supported",
                  POSITION_OF(x)));
}

static tutti_err parse(struct xml *x, const char *data, size_t bytes) {
  enum { PIECE = 1 << 26 };
  size_t done = 0;
  do {
    size_t piece = tu_min(bytes - done, PIECE);
    enum XML_Status status = XML_Parse(x->parser, data + done, (int)piece, done + piece == bytes);
    if (x->err != TUTTI_OK) return x->err;
    if (status != XML_STATUS_OK && XML_GetErrorCode(x->parser) == XML_ERROR_NO_MEMORY)
      return tu_fail_memory(x->error, piece, "the XML parser of %s", x->file->file);
    if (status != XML_STATUS_OK)
      return tu_fail(x->error, TUTTI_ERR_ARGUMENT, POSITION "not well-formed XML: %s", POSITION_OF(x),
                     XML_ErrorString(XML_GetErrorCode(x->parser)));
    done += piece;
  } while (done < bytes);
  if (x->file->gpu_count == x->file->ranks) return TUTTI_OK;
  return tu_fail(x->error, TUTTI_ERR_ARGUMENT, "%s:%u: <algo>: expected %u gpus (ngpus), found %u", x->file->file,
                 x->file->line, x->file->ranks, x->file->gpu_count);
}

tutti_err tu_msccl_read(const char *data, size_t bytes, const char *name, struct tu_msccl *file,
                        struct tu_error *error) {
  *file = (struct tu_msccl){.file = name ? name : "text"};
  struct xml x = {.file = file, .error = error, .parser = XML_ParserCreate(NULL)};
  if (!x.parser) return tu_fail(error, TUTTI_ERR_MEMORY, "%s: out of memory: cannot create an XML parser", file->file);
  XML_SetUserData(x.parser, &x);
  XML_SetElementHandler(x.parser, on_start, on_end);
  XML_SetCharacterDataHandler(x.parser, on_text);
  XML_SetStartDoctypeDeclHandler(x.parser, on_doctype);
  tutti_err err = parse(&x, data, bytes);
  XML_ParserFree(x.parser);
  return err;
}

void tu_msccl_fini(struct tu_msccl *file) { tu_arena_fini(&file->arena); }
