/* isa.c: chooses the instruction set that the kernels use: the fastest one of this machine, or the one that TUTTI_ISA
 * names. */
#include "engine/isa.h"

#include <stdatomic.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "engine/kernels_set.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Functions that tell at run time whether this machine has an instruction set. The loader does not choose the set: it
 * would do so before sanitizers are set up, and builds with sanitizers would fail. */
static bool runs_everywhere(void) { return true; }
#if defined(__x86_64__)
static bool has_avx2(void) {
  /* registers of the instruction cpuid, for F16C, which __builtin_cpu_supports does not know in every compiler */
  unsigned a, b, c, d;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

/* All kernel sets, from the slowest to the fastest. */
static const struct {
  const struct tu_kernel_set *set;
  bool (*is_here)(void);
} sets[] = {
    {&tu_kernels_plain, runs_everywhere},
#if defined(__x86_64__)
    {&tu_kernels_sse2, runs_everywhere},
    {&tu_kernels_avx2, has_avx2},
    {&tu_kernels_avx512, has_avx512},
#endif
};
enum { SETS = sizeof sets / sizeof sets[0] };

#define ISA_VARIABLE "TUTTI_ISA"
static const struct tu_kernel_set *_Atomic chosen; /* the kernel set in use; NULL until first use */

static const struct tu_kernel_set *find_set(const char *name) {
  for (uint32_t i = 0; i < SETS; i++)
    if (strcmp(sets[i].set->name, name) == 0 && sets[i].is_here()) return sets[i].set;
  return NULL;
}

/* Returns the kernel set in use. Threads that make the first use at the same time choose the same set. */
const struct tu_kernel_set *tu_kernels(void) {
  const struct tu_kernel_set *set = atomic_load_explicit(&chosen, memory_order_relaxed);
  if (set) return set;
  const char *name = tu_env(ISA_VARIABLE);
  if (name) set = find_set(name);
  for (uint32_t i = SETS; i-- > 0 && !set;)
    if (sets[i].is_here()) set = sets[i].set;
  atomic_store_explicit(&chosen, set, memory_order_relaxed);
  return set;
}

const char *tu_isa_name(uint32_t index) {
  for (uint32_t i = 0; i < SETS; i++)
    if (sets[i].is_here() && index-- == 0) return sets[i].set->name;
  return NULL;
}

const char *tu_isa_used(void) { return tu_kernels()->name; }

bool tu_isa_use(const char *name) {
  const struct tu_kernel_set *set = find_set(name);
  if (set) atomic_store_explicit(&chosen, set, memory_order_relaxed);
  return set;
}

tutti_err tu_isa_check(struct tu_error *error) {
  const char *name = tu_env(ISA_VARIABLE);
  if (!name || find_set(name)) return TUTTI_OK;
  struct tu_text here = {0};
  for (uint32_t i = 0; tu_isa_name(i); i++) tu_text_print(&here, "%s%s", i ? ", " : "", tu_isa_name(i));
  tutti_err err = tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                          "environment: %s is '%.64s'; expected an instruction set that this machine has: %s",
                          ISA_VARIABLE, name, here.chars);
  tu_text_fini(&here);
  return err;
}
