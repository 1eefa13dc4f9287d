/* soc.c: reads the description of a chip's cores. */
#include "topology/soc.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topology/cluster_internal.h"

static tutti_err read_size(const struct tu_yaml *y, uint32_t grid, const char *key, uint32_t *size,
                           struct tu_error *error) {
  uint32_t node = tu_yaml_find(y, grid, key);
  uint64_t number;
  if (node == TU_YAML_NONE)
    return tu_yaml_refuse(y, grid, error, "the grid of cores, for example {x_size: 10, y_size: 12}");
  tutti_err err = tu_yaml_uint(y, node, 4096, "a number of cores", &number, error);
  if (err == TUTTI_OK) *size = (uint32_t)number;
  return err;
}

/* Reads a core's column and row from text such as "9-6". */
static tutti_err read_core(const struct tu_yaml *y, uint32_t node, const struct tu_soc *soc, struct tu_core *core,
                           struct tu_error *error) {
  const char *expected = "a core of the grid, for example 9-6 (x-y)", *chars = y->nodes[node].chars;
  char x[8];
  uint64_t number[2];
  const char *dash = y->nodes[node].kind == TU_YAML_SCALAR ? strchr(chars, '-') : NULL;
  if (!dash || (size_t)(dash - chars) >= sizeof x) return tu_yaml_refuse(y, node, error, expected);
  memcpy(x, chars, (size_t)(dash - chars));
  x[dash - chars] = '\0';
  if (!tu_parse_uint(x, UINT32_MAX, &number[0]) || !tu_parse_uint(dash + 1, UINT32_MAX, &number[1]) ||
      number[0] >= soc->width || number[1] >= soc->height)
    return tu_yaml_refuse(y, node, error, expected);
  *core = (struct tu_core){(uint32_t)number[0], (uint32_t)number[1]};
  return TUTTI_OK;
}

static tutti_err read_soc(const struct tu_yaml *y, struct tu_soc *soc, struct tu_error *error) {
  tutti_err err = tu_yaml_is(y, 0, TU_YAML_MAP, "a description of a chip's cores (a map)", error);
  if (err != TUTTI_OK) return err;
  uint32_t grid = tu_yaml_find(y, 0, "grid"), list = tu_yaml_find(y, 0, "eth"), name = tu_yaml_find(y, 0, "arch_name");
  if (grid == TU_YAML_NONE || list == TU_YAML_NONE)
    return tu_yaml_refuse(y, 0, error, "a description of a chip's cores with keys 'grid' and 'eth'");
  if ((err = read_size(y, grid, "x_size", &soc->width, error)) != TUTTI_OK) return err;
  if ((err = read_size(y, grid, "y_size", &soc->height, error)) != TUTTI_OK) return err;
  if ((err = tu_yaml_is(y, list, TU_YAML_LIST, "a list of cores", error)) != TUTTI_OK) return err;
  if (name != TU_YAML_NONE) {
    struct tu_node node;
    if ((err = tu_yaml_is(y, name, TU_YAML_SCALAR, "an architecture's name", error)) != TUTTI_OK) return err;
    tu_copy_arch(&node, y->nodes[name].chars);
    memcpy(soc->arch, node.arch, sizeof soc->arch);
  }
  if (y->nodes[list].count > TU_CHANNELS_MAX) return tu_yaml_refuse(y, list, error, "up to 1024 cores");
  soc->channels = tu_try_allocate(y->nodes[list].count + 1, sizeof *soc->channels);
  if (!soc->channels) return tu_fail_memory(error, y->nodes[list].count * sizeof *soc->channels, "%s", y->name);
  for (uint32_t i = tu_yaml_first(y, list); i != TU_YAML_NONE; i = tu_yaml_next(y, i))
    if ((err = read_core(y, i, soc, &soc->channels[soc->channel_count++], error)) != TUTTI_OK) return err;
  return TUTTI_OK;
}

tutti_err tu_soc_read(const char *data, size_t bytes, const char *name, struct tu_soc **soc, struct tu_error *error) {
  struct tu_yaml yaml;
  *soc = NULL;
  tutti_err err = tu_yaml_read(data, bytes, name, &yaml, error);
  if (err != TUTTI_OK) return err;
  struct tu_soc *read = tu_try_allocate(1, sizeof *read);
  err = read ? read_soc(&yaml, read, error) : tu_fail_memory(error, sizeof *read, "%s", name);
  if (err == TUTTI_OK) *soc = read;
  else tu_soc_destroy(read);
  tu_yaml_fini(&yaml);
  return err;
}

void tu_soc_destroy(struct tu_soc *soc) {
  if (!soc) return;
  free(soc->channels);
  free(soc);
}
