/* as.c: `tutti as`: checks, lowers and prints PTO assembly, or executes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/as/as.h"

struct request {
  const char *tiles, *output;
  bool execute;
  struct as_request as;
};

enum { TILE_ROWS = 32, TILE_COLS = 32 };

/* Parses the size of a tile, for example "16x32". */
static bool read_tiles(const char *text, struct tu_pto_lowering *how) {
  char rows[16];
  size_t length = strcspn(text, "x");
  uint64_t number[2];
  if (length >= sizeof rows || !text[length]) return false;
  memcpy(rows, text, length);
  rows[length] = '\0';
  if (!tu_parse_uint(rows, TU_PTO_TILE_MAX, &number[0]) ||
      !tu_parse_uint(text + length + 1, TU_PTO_TILE_MAX, &number[1]))
    return false;
  how->rows = (uint32_t)number[0];
  how->cols = (uint32_t)number[1];
  return how->rows > 0 && how->cols > 0;
}

/* Reads the module of a file. Returns CLI_FAILED if the module is malformed, CLI_USAGE if the file cannot be read. */
static int read_module(const char *path, struct tu_pto_module **module) {
  struct tu_error error;
  char *data;
  size_t bytes;
  if (tu_read_file(path, &data, &bytes, &error) != TUTTI_OK) return cli_fail("as", CLI_USAGE, "%s", error.text);
  const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
  tutti_err err = tu_pto_read(data, bytes, name, module, &error);
  free(data);
  return err == TUTTI_OK ? CLI_GOOD : cli_fail("as", CLI_FAILED, "%s", error.text);
}

static int write_module(const struct tu_pto_module *module, const char *path) {
  FILE *file = path ? fopen(path, "we") : stdout;
  if (!file) return cli_fail("as", CLI_USAGE, "-o: cannot write '%s'", path);
  struct tu_text text = {0};
  tu_pto_write(module, &text);
  bool written = fputs(text.chars, file) >= 0;
  tu_text_fini(&text);
  written = (path ? fclose(file) : fflush(file)) == 0 && written;
  return written ? CLI_GOOD : cli_fail("as", CLI_FAILED, "cannot write all of '%s'", path ? path : "standard output");
}

static int print(const struct request *r) {
  struct tu_pto_module *module;
  struct tu_error error;
  int code = read_module(r->as.path, &module);
  if (code != CLI_GOOD) return code;
  if (r->as.lower && tu_pto_lower(module, &r->as.how, &error) != TUTTI_OK)
    code = cli_fail("as", CLI_FAILED, "%s", error.text);
  if (code == CLI_GOOD) code = write_module(module, r->output);
  tu_pto_destroy(module);
  return code;
}

/* Refuses options of execution (such as --arg) if --execute is missing, and options of printing if --execute is
 * given. */
static int check_way(const struct request *r) {
  bool runs = r->as.arg.count || r->as.at.count || r->as.out.count || r->as.root;
  if (runs && !r->execute)
    return cli_fail("as", CLI_USAGE, "--arg, --at, --out and --root need --execute FILE, which is missing");
  if (r->output && r->execute)
    return cli_fail("as", CLI_USAGE,
                    "-o cannot be combined with --execute, which prints no module; use --out to write buffers");
  if (r->execute && strcmp(r->as.path, "-") == 0)
    return cli_fail("as", CLI_USAGE, "--execute: expected a file that all ranks can read, found standard input");
  return CLI_GOOD;
}

static int run(int argc, char **argv) {
  struct request r = {.as.how = {.rows = TILE_ROWS, .cols = TILE_COLS}};
  struct as_request *as = &r.as;
  bool done;
  const struct cli_option options[] = {
      {"--lower", CLI_FLAG, &as->lower, NULL, "add staging tiles to the instructions"},
      {"--tiles", CLI_STRING, &r.tiles, "ROWSxCOLS", "size of a tile (32x32); implies --lower"},
      {"--ping-pong", CLI_FLAG, &as->how.ping_pong, NULL, "two tiles instead of one; implies --lower"},
      {"-o", CLI_STRING, &r.output, "FILE", "print to this file"},
      {"--execute", CLI_FLAG, &r.execute, NULL, "execute the program, as one rank of tutti run"},
      {"--arg", CLI_LIST, &as->arg, "NAME=VALUE", "set an argument: a .npy file, or a number as rank+1"},
      {"--at", CLI_LIST, &as->at, "NAME=[BUF@]RANK", "a memref is the part of the buffer on this rank"},
      {"--out", CLI_LIST, &as->out, "NAME=FILE", "at the end, write this rank's part of a buffer to the file"},
      {"--root", CLI_UINT, &as->root, "RANK", "root of collectives without a root attribute (0)"},
  };
  int code = cli_parse(&cli_as, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if (argc != 2)
    return cli_fail("as", CLI_USAGE, "expected one FILE (- is standard input), found %d arguments", argc - 1);
  as->path = argv[1];
  if (r.tiles && !read_tiles(r.tiles, &as->how))
    return cli_fail("as", CLI_USAGE, "--tiles: expected ROWSxCOLS, each from 1 to 2^20, found '%s'", r.tiles);
  as->lower |= r.tiles || as->how.ping_pong;
  code = check_way(&r);
  if (code != CLI_GOOD) return code;
  return r.execute ? as_execute(as) : print(&r);
}

const struct cli_verb cli_as = {
    .name = "as",
    .summary = "check, lower and print PTO assembly, or execute it",
    .synopsis =
        "as FILE [--lower] [--tiles ROWSxCOLS] [--ping-pong] [-o FILE], or "
        "as --execute FILE [options], under tutti run",
    .run = run,
    .no_data = "it prints PTO assembly, or runs it",
    .arguments = "FILE",
};
