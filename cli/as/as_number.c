/* as_number.c: evaluates the numbers of the command line: expressions of whole numbers, `rank` and `ranks`, with the
 * operators + - * / % and parentheses. */
#include <string.h>

#include "cli/as/as.h"

enum { DEPTH_MAX = 16 }; /* maximum nesting of parentheses */

struct reader {
  struct tu_scan scan;
  uint32_t rank, ranks, depth;
  struct tu_error *error;
};

static tutti_err expected(const struct reader *r, const char *what) { return tu_scan_fail(&r->scan, r->error, what); }

static tutti_err read_sum(struct reader *r, int64_t *number);

/* Reads a parenthesized expression whose '(' has been read. */
static tutti_err read_inner(struct reader *r, int64_t *number) {
  if (r->depth == DEPTH_MAX) return expected(r, "at most 16 nested parentheses");
  r->depth++;
  tutti_err err = read_sum(r, number);
  r->depth--;
  if (err != TUTTI_OK) return err;
  return tu_scan_literal(&r->scan, ")") ? TUTTI_OK : expected(r, "an operator (+ - * / %) or ')'");
}

static tutti_err read_operand(struct reader *r, int64_t *number) {
  uint32_t digits;
  if (tu_scan_uint(&r->scan, &digits)) *number = digits;
  else if (tu_scan_literal(&r->scan, "ranks")) *number = r->ranks;
  else if (tu_scan_literal(&r->scan, "rank")) *number = r->rank;
  else if (tu_scan_literal(&r->scan, "(")) return read_inner(r, number);
  else return expected(r, "a whole number, rank, ranks or '('");
  return TUTTI_OK;
}

/* Computes *left = *left OP right, where `op` is one of + - * / %. Returns false on overflow or division by 0. */
static bool combine(int64_t *left, char op, int64_t right) {
  switch (op) {
    case '+': return !__builtin_add_overflow(*left, right, left);
    case '-': return !__builtin_sub_overflow(*left, right, left);
    case '*': return !__builtin_mul_overflow(*left, right, left);
    default: break;
  }
  if (right == 0 || (right == -1 && *left == INT64_MIN)) return false;
  *left = op == '/' ? *left / right : *left % right;
  return true;
}

/* Reads one of the operator characters and returns it; returns '\0' if the text has none of them at this position. */
static char take_operator(struct reader *r, const char *operators) {
  for (; *operators; operators++)
    if (tu_scan_literal(&r->scan, (const char[]){*operators, '\0'})) return *operators;
  return '\0';
}

/* Reads operands joined by the given operators (of equal precedence), and evaluates them from left to right. */
static tutti_err read_chain(struct reader *r, const char *operators,
                            tutti_err (*read)(struct reader *r, int64_t *number), int64_t *number) {
  tutti_err err = read(r, number);
  for (char op; err == TUTTI_OK && (op = take_operator(r, operators)) != '\0';) {
    struct tu_scan before = r->scan;
    int64_t right;
    if ((err = read(r, &right)) == TUTTI_OK && !combine(number, op, right)) {
      r->scan = before;
      return expected(r, "a result below 2^63, and no division by 0");
    }
  }
  return err;
}

static tutti_err read_product(struct reader *r, int64_t *number) { return read_chain(r, "*/%", read_operand, number); }
static tutti_err read_sum(struct reader *r, int64_t *number) { return read_chain(r, "+-", read_product, number); }

tutti_err as_number(const char *text, uint32_t rank, uint32_t ranks, int64_t *number, struct tu_error *error) {
  struct reader r = {.scan = {.at = text, .end = text + strlen(text), .line = 1, .name = "number", .comment = "\n"},
                     .rank = rank,
                     .ranks = ranks,
                     .error = error};
  tutti_err err = read_sum(&r, number);
  if (err != TUTTI_OK || tu_scan_at_end(&r.scan)) return err;
  return expected(&r, "an operator (+ - * / %) or the end");
}
