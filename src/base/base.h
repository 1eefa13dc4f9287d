/* base.h: utilities for all folders: assertions that stay on in release, errors with messages, memory, small
 * arithmetic. */
#ifndef TU_BASE_H
#define TU_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

/* Aborts the process, also in release builds, if the condition is false. Only a bug of the library can make it
 * false. */
#define tu_assert(condition) ((condition) ? (void)0 : tu_assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void tu_assert_failed(const char *condition, const char *file, int line);

/* An error that is not a bug of the library: a code and a message. The message states what was expected, what was
 * found, where, and what to do. */
struct tu_error {
  tutti_err code;
  char text[508];
};

/* Sets *error to `code` and the formatted message, and returns `code`. error may be NULL if no message is needed. The
 * arguments may point into error->text. */
tutti_err tu_fail(struct tu_error *error, tutti_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts `function` (the name of the function or collective that the user called) before the message of *error. Returns
 * error->code. */
tutti_err tu_fail_in(const char *function, struct tu_error *error);
/* Works as tu_fail, and appends ": strerror(errno)" to the message. The code is TUTTI_ERR_MEMORY if errno is ENOMEM,
 * else TUTTI_ERR_SYSTEM. */
tutti_err tu_fail_errno(struct tu_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets *error to "out of memory: THING: cannot allocate `bytes` bytes; ..." and returns TUTTI_ERR_MEMORY; THING is made
 * from the format. */
tutti_err tu_fail_memory(struct tu_error *error, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns TUTTI_ERR_ARGUMENT if the order is none of enum tutti_order. The message begins as below. */
static inline tutti_err tu_check_order_of(const char *function, const char *field, tutti_order order,
                                          struct tu_error *error) {
  if (order == TUTTI_ORDER_ANY || order == TUTTI_ORDER_CANONICAL) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s is %d; expected TUTTI_ORDER_ANY (0) or TUTTI_ORDER_CANONICAL (1)",
                 function, field, (int)order);
}
/* Returns TUTTI_ERR_ARGUMENT if timeout_ms is negative and not TUTTI_NO_TIMEOUT. The message begins with `function` and
 * `field`, the names of the function and of the parameter or field that holds the time limit. */
static inline tutti_err tu_check_timeout(const char *function, const char *field, int timeout_ms,
                                         struct tu_error *error) {
  if (timeout_ms >= 0 || timeout_ms == TUTTI_NO_TIMEOUT) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s is %d; expected 0 or more ms, or TUTTI_NO_TIMEOUT (-1)", function,
                 field, timeout_ms);
}

#define TU_LINE_BYTES 64u
#define TU_NONE UINT32_MAX /* value that stands for "no rank" or "no index" */

static inline size_t tu_min(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t tu_max(size_t a, size_t b) { return a > b ? a : b; }
static inline size_t tu_round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

/* Sets *product to a * b; returns false if the product overflows. */
static inline bool tu_multiply(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }

/* Returns the greatest common divisor of a and b. If one of them is 0, returns the other. */
static inline uint32_t tu_divisor(uint32_t a, uint32_t b) {
  while (b > 0) {
    uint32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Returns the largest power of two <= n; n >= 1. */
static inline uint32_t tu_pow2_floor(uint32_t n) { return 1u << (31 - __builtin_clz(n)); }
/* Returns ceil(log2(n)); n >= 1. */
static inline uint32_t tu_log2_ceil(uint32_t n) { return n <= 1 ? 0 : 32u - (uint32_t)__builtin_clz(n - 1); }

/* Divides `total` items into `parts` blocks of almost equal length, and returns the index of the first item of block n.
 * For n == parts returns `total`. Each returned index is a multiple of `unit`, or is `total`. */
static inline size_t tu_part_begin(size_t total, uint32_t parts, uint32_t n, size_t unit) {
  if (n == parts) return total;
  size_t begin = total / parts * n + total % parts * n / parts;
  return tu_min(total, tu_round_up(begin, unit));
}

/* Returns zeroed memory, or NULL if the allocation fails. The caller frees the memory with free(). For 0 items, one
 * byte is allocated. */
void *tu_try_allocate(size_t count, size_t item_bytes);
/* Allocates as tu_try_allocate does, but never returns NULL: if memory runs out, prints a message and ends the process.
 * For tools only; the library itself uses arenas (arena.h) or tu_try_allocate. */
void *tu_allocate(size_t count, size_t item_bytes);
/* Returns the array with room for one item more: if count == *capacity, doubles the capacity (8 at first), which may
 * move the array. New items are zeroed. If memory runs out, ends the process. */
void *tu_grow(void *array, uint32_t count, uint32_t *capacity, size_t item_bytes);
/* Grows an array as tu_grow does, but if memory runs out, returns NULL and leaves `array` unchanged. */
void *tu_try_grow(void *array, uint32_t count, uint32_t *capacity, size_t item_bytes);
/* Function that is called when memory runs out; it must end the process. NULL: tu_allocate prints a message and calls
 * abort(). The main program of the command `tutti` sets this variable before it starts threads. */
extern void (*tu_when_memory_ends)(size_t bytes);
_Noreturn void tu_memory_ends(size_t count, size_t item_bytes);
#define TU_MORE_MEMORY "free memory, start fewer processes, or raise the limit (ulimit -v)"

uint64_t tu_hash(const void *data, size_t bytes, uint64_t seed);
uint64_t tu_clock_ns(void); /* returns the time of a monotonic clock, in ns */
/* Returns the milliseconds until the deadline, rounded up, for poll(); 0 if the deadline has passed. */
int tu_clock_left_ms(uint64_t deadline_ns);
/* Returns tu_clock_ns() as of the kernel's last tick. The result is up to some ms old, but the call takes only some
 * ns. */
uint64_t tu_clock_coarse_ns(void);

/* Returns the next number of a seeded random generator (splitmix64), for tests and probes. */
uint64_t tu_random(uint64_t *state);

/* Hints that other cores will read these bytes soon: moves their lines to a cache that all cores share, where the processor
 * can do so (cldemote of Intel; others take it for a nop). */
static inline void tu_push_lines(const void *memory, size_t bytes) {
#if defined(__x86_64__)
  for (size_t i = 0; i < bytes; i += TU_LINE_BYTES) __asm__ volatile("cldemote %0" ::"m"(((const char *)memory)[i]));
#else
  (void)memory, (void)bytes;
#endif
}

/* Hints that this core will soon overwrite these bytes, which may be in the cache of another one: fetches their lines, to be
 * written. */
static inline void tu_claim_lines(void *memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += TU_LINE_BYTES) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" ::"m"(((char *)memory)[i])); /* old processors take it for a nop */
#else
    __builtin_prefetch((char *)memory + i, 1, 3);
#endif
  }
}

/* Pauses the core for a moment. For loops that poll memory until another core writes it. */
static inline void tu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
