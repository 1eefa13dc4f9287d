/* base.c: assertions, errors with messages, checked allocation, hashing, clocks, a seeded random generator. */
#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void tu_assert_failed(const char *condition, const char *file, int line) {
  fprintf(stderr, "tutti: internal error: %s:%d: assertion '%s' failed; please report this bug in the library\n", file,
          line, condition);
  abort();
}

tutti_err tu_fail(struct tu_error *error, tutti_err code, const char *format, ...) {
  if (!error) return code;
  /* Print into another buffer first: the arguments may point into error->text (when an earlier message is extended). */
  char text[sizeof error->text];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  error->code = code;
  memcpy(error->text, text, sizeof text);
  return code;
}

tutti_err tu_fail_in(const char *function, struct tu_error *error) {
  return tu_fail(error, error->code, "%s: %s", function, error->text);
}

tutti_err tu_fail_errno(struct tu_error *error, const char *format, ...) {
  int number = errno;
  tutti_err code = number == ENOMEM ? TUTTI_ERR_MEMORY : TUTTI_ERR_SYSTEM;
  if (!error) return code;
  char text[sizeof error->text];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return tu_fail(error, code, "%s: %s", text, strerror(number));
}

tutti_err tu_fail_memory(struct tu_error *error, size_t bytes, const char *format, ...) {
  if (!error) return TUTTI_ERR_MEMORY;
  char thing[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(thing, sizeof thing, format, arguments);
  va_end(arguments);
  return tu_fail(error, TUTTI_ERR_MEMORY, "out of memory: %s: cannot allocate %zu bytes; " TU_MORE_MEMORY, thing,
                 bytes);
}

void (*tu_when_memory_ends)(size_t bytes);

void tu_memory_ends(size_t count, size_t item_bytes) {
  size_t bytes;
  if (!tu_multiply(count, item_bytes, &bytes)) bytes = SIZE_MAX;
  if (tu_when_memory_ends) tu_when_memory_ends(bytes);
  fprintf(stderr, "tutti: out of memory: cannot allocate %zu bytes; " TU_MORE_MEMORY "\n", bytes);
  abort();
}

void *tu_try_allocate(size_t count, size_t item_bytes) {
  /* calloc of 0 bytes may return NULL, and callers would interpret NULL as a failure. */
  return calloc(count ? count : 1, item_bytes ? item_bytes : 1);
}

void *tu_allocate(size_t count, size_t item_bytes) {
  void *memory = tu_try_allocate(count, item_bytes);
  if (!memory) tu_memory_ends(count, item_bytes);
  return memory;
}

void *tu_try_grow(void *array, uint32_t count, uint32_t *capacity, size_t item_bytes) {
  tu_assert(count <= *capacity);
  if (count < *capacity) return array;
  uint32_t next = *capacity ? *capacity * 2 : 8;
  size_t bytes;
  if (next <= *capacity || !tu_multiply(next, item_bytes, &bytes)) return NULL;
  char *grown = realloc(array, bytes);
  if (!grown) return NULL;
  size_t used_bytes = *capacity * item_bytes;
  memset(grown + used_bytes, 0, bytes - used_bytes);
  *capacity = next;
  return grown;
}

void *tu_grow(void *array, uint32_t count, uint32_t *capacity, size_t item_bytes) {
  void *grown = tu_try_grow(array, count, capacity, item_bytes);
  if (!grown) tu_memory_ends(2 * (size_t)*capacity, item_bytes);
  return grown;
}

/* Returns x mixed by the finaliser of splitmix64: every input bit affects all output bits. */
static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t tu_hash(const void *data, size_t bytes, uint64_t seed) {
  const unsigned char *at = data;
  uint64_t hash = mix(seed + 0x9e3779b97f4a7c15u) ^ bytes;
  for (size_t left = bytes; left > 0;) {
    uint64_t word = 0;
    size_t step = tu_min(left, sizeof word);
    memcpy(&word, at, step);
    hash = mix(hash ^ word) + 0x9e3779b97f4a7c15u;
    at += step;
    left -= step;
  }
  return mix(hash);
}

static uint64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t tu_clock_ns(void) { return read_clock(CLOCK_MONOTONIC); }

int tu_clock_left_ms(uint64_t deadline_ns) {
  uint64_t now = tu_clock_ns();
  if (now >= deadline_ns) return 0;
  uint64_t ms = (deadline_ns - now + 999999) / 1000000;
  return ms > INT_MAX ? INT_MAX : (int)ms;
}
uint64_t tu_clock_coarse_ns(void) { return read_clock(CLOCK_MONOTONIC_COARSE); }

uint64_t tu_random(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15u;
  return mix(*state);
}
