/* base.h: what every folder may use: asserts that stay on, errors with a sentence, small arithmetic. */
#ifndef TU_BASE_H
#define TU_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

/* Our fault: stops the process, in release too. */
#define tu_assert(condition) ((condition) ? (void)0 : tu_assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void tu_assert_failed(const char *condition, const char *file, int line);

/* The world's fault: a code and a sentence that says what was expected, what came, from where, and what to do. */
struct tu_error {
  tutti_err code;
  char text[508];
};

/* Sets *error (NULL: nobody wants it) and returns code. */
tutti_err tu_fail(struct tu_error *error, tutti_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As tu_fail, with ": strerror(errno)" at the end and code TUTTI_ERR_SYSTEM (TUTTI_ERR_MEMORY for ENOMEM). */
tutti_err tu_fail_errno(struct tu_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* MEMORY: "no memory for THING: so many bytes were refused; ..." */
tutti_err tu_fail_memory(struct tu_error *error, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define TU_LINE_BYTES 64u
#define TU_NONE UINT32_MAX /* no rank, no index */

static inline size_t tu_min(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t tu_max(size_t a, size_t b) { return a > b ? a : b; }
static inline size_t tu_round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

/* a * b, or false if it does not fit. */
static inline bool tu_multiply(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }

/* Greatest common divisor; of 0 and n it is n. */
static inline uint32_t tu_divisor(uint32_t a, uint32_t b) {
  while (b > 0) {
    uint32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Largest power of two <= n; n >= 1. */
static inline uint32_t tu_pow2_floor(uint32_t n) { return 1u << (31 - __builtin_clz(n)); }
/* ceil(log2(n)); n >= 1. */
static inline uint32_t tu_log2_ceil(uint32_t n) { return n <= 1 ? 0 : 32u - (uint32_t)__builtin_clz(n - 1); }

/* The n-th block of `parts` almost equal ones over `total` items starts here; n <= parts. Boundaries are multiples of
 * `unit` items (the last one is total). */
static inline size_t tu_part_begin(size_t total, uint32_t parts, uint32_t n, size_t unit) {
  if (n == parts) return total;
  size_t begin = total / parts * n + total % parts * n / parts;
  return tu_min(total, tu_round_up(begin, unit));
}

/* Zeroed memory, which free() frees; NULL if it is refused. No items are one byte. */
void *tu_try_allocate(size_t count, size_t item_bytes);
/* The same for tools, which have nothing left to do then: never NULL; a refusal ends the process, with a sentence. The library's
 * calls take memory from arenas (arena.h), or look. */
void *tu_allocate(size_t count, size_t item_bytes);
/* Doubles an array of *capacity items when `count` of them are in use. */
void *tu_grow(void *array, uint32_t count, uint32_t *capacity, size_t item_bytes);
/* The same; NULL if memory is refused, and then `array` is as it was. */
void *tu_try_grow(void *array, uint32_t count, uint32_t *capacity, size_t item_bytes);
/* What ends the process then: does not return. NULL: abort(). The command sets it, before it starts a thread. */
extern void (*tu_when_memory_ends)(size_t bytes);
_Noreturn void tu_memory_ends(size_t count, size_t item_bytes);
#define TU_MORE_MEMORY "free memory, start fewer processes, or raise the limit (ulimit -v)"

uint64_t tu_hash(const void *data, size_t bytes, uint64_t seed);
uint64_t tu_clock_ns(void); /* monotonic */
/* Milliseconds until then, rounded up; 0 if it has passed; fits poll(). */
int tu_clock_left_ms(uint64_t deadline_ns);
/* The same clock as of its last tick: some ms behind, and some ns to read. */
uint64_t tu_clock_coarse_ns(void);

/* Seeded generator for tests and probes (splitmix64). */
uint64_t tu_random(uint64_t *state);

/* For a moment, in a loop that waits for another core. */
static inline void tu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
