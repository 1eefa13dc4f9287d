/* pto_read.c: parses a module by recursive descent. Each statement is on a line of its own or ends with ';'. Its
 * parts are read by pto_read_instruction.c, pto_read_value.c, pto_read_type.c and pto_read_words.c. */
#include "pto/pto_reader.h"

static tutti_err read_statement(struct tu_pto_reader *r) {
  tutti_err err = *r->scan.at == '.' ? tu_pto_read_directive(r) : tu_pto_read_instruction(r);
  if (err != TUTTI_OK || tu_pto_take(r, ";") || tu_scan_end_of_line(&r->scan)) return err;
  return tu_pto_expected(r, "';' or the end of the line");
}

tutti_err tu_pto_read(const char *data, size_t bytes, const char *name, struct tu_pto_module **module,
                      struct tu_error *error) {
  struct tu_pto_reader r = {.scan = {.at = data, .end = data + bytes, .line = 1, .name = name, .comment = "//"},
                            .begin = data,
                            .module = tu_allocate(1, sizeof *r.module),
                            .error = error};
  struct tu_text copy = {0};
  tu_text_print(&copy, "%s", name);
  r.module->name = copy.chars;
  tutti_err err = TUTTI_OK;
  while (err == TUTTI_OK && !tu_scan_at_end(&r.scan)) err = tu_pto_take(&r, ";") ? TUTTI_OK : read_statement(&r);
  if (err == TUTTI_OK) err = tu_pto_close_names(r.module, error);
  if (err == TUTTI_OK) err = tu_pto_check(r.module, error);
  if (err != TUTTI_OK) {
    tu_pto_destroy(r.module);
    return err;
  }
  *module = r.module;
  return TUTTI_OK;
}
