/* points.h: included before every source file of the simulated library. Each atomic operation becomes a switch point:
 * the world may let another rank run before it, and also after it if it writes. The operations themselves are
 * unchanged: with WORLD_PLAIN, they have no switch points, and compile to the code of <stdatomic.h> (points_test.sh).
 * In the world all ranks run on one thread, so no memory order is needed. */
#ifndef WORLD_POINTS_H
#define WORLD_POINTS_H

#include <stdatomic.h>

#pragma GCC diagnostic ignored "-Wshadow" /* an operation may be an argument of another */

unsigned world_direct_bytes(void); /* the value of TU_DIRECT_BYTES and TU_READ_BYTES */

#ifdef WORLD_PLAIN
#define WORLD_ORDER(o) (o)
#define world_point() ((void)0)
#else
#define WORLD_ORDER(o) __ATOMIC_RELAXED
/* Countdown to the next decision of the world. */
extern int world_left;
void world_decide(void);
static inline void world_point(void) {
  if (--world_left <= 0) world_decide();
}
#endif

#undef atomic_init
#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence

#define atomic_init(p, v)                                \
  __extension__({                                        \
    __auto_type world_p = (p);                           \
    __typeof__((void)0, *world_p) world_v = (v);         \
    __atomic_store(world_p, &world_v, __ATOMIC_RELAXED); \
  })
#define atomic_load_explicit(p, o)                    \
  __extension__({                                     \
    __auto_type world_p = (p);                        \
    __typeof__((void)0, *world_p) world_v;            \
    world_point();                                    \
    __atomic_load(world_p, &world_v, WORLD_ORDER(o)); \
    world_v;                                          \
  })
#define atomic_load(p) atomic_load_explicit(p, __ATOMIC_SEQ_CST)
#define atomic_store_explicit(p, v, o)                 \
  __extension__({                                      \
    __auto_type world_p = (p);                         \
    __typeof__((void)0, *world_p) world_v = (v);       \
    world_point();                                     \
    __atomic_store(world_p, &world_v, WORLD_ORDER(o)); \
    world_point();                                     \
  })
#define atomic_store(p, v) atomic_store_explicit(p, v, __ATOMIC_SEQ_CST)
#define atomic_exchange_explicit(p, v, o)                             \
  __extension__({                                                     \
    __auto_type world_p = (p);                                        \
    __typeof__((void)0, *world_p) world_v = (v), world_old;           \
    world_point();                                                    \
    __atomic_exchange(world_p, &world_v, &world_old, WORLD_ORDER(o)); \
    world_point();                                                    \
    world_old;                                                        \
  })
#define atomic_exchange(p, v) atomic_exchange_explicit(p, v, __ATOMIC_SEQ_CST)
#define WORLD_FETCH(operation, p, v, o)                                           \
  __extension__({                                                                 \
    world_point();                                                                \
    __auto_type world_old = __atomic_fetch_##operation((p), (v), WORLD_ORDER(o)); \
    world_point();                                                                \
    world_old;                                                                    \
  })
#define atomic_fetch_add_explicit(p, v, o) WORLD_FETCH(add, p, v, o)
#define atomic_fetch_add(p, v) atomic_fetch_add_explicit(p, v, __ATOMIC_SEQ_CST)
#define atomic_fetch_sub_explicit(p, v, o) WORLD_FETCH(sub, p, v, o)
#define atomic_fetch_sub(p, v) atomic_fetch_sub_explicit(p, v, __ATOMIC_SEQ_CST)
#define atomic_fetch_or_explicit(p, v, o) WORLD_FETCH(or, p, v, o)
#define atomic_fetch_or(p, v) atomic_fetch_or_explicit(p, v, __ATOMIC_SEQ_CST)
#define atomic_fetch_and_explicit(p, v, o) WORLD_FETCH(and, p, v, o)
#define atomic_fetch_and(p, v) atomic_fetch_and_explicit(p, v, __ATOMIC_SEQ_CST)
#define WORLD_COMPARE_EXCHANGE(p, e, v, weak, o, f)                                                            \
  __extension__({                                                                                              \
    __auto_type world_p = (p);                                                                                 \
    __typeof__((void)0, *world_p) world_v = (v);                                                               \
    world_point();                                                                                             \
    bool world_done = __atomic_compare_exchange(world_p, (e), &world_v, weak, WORLD_ORDER(o), WORLD_ORDER(f)); \
    world_point();                                                                                             \
    world_done;                                                                                                \
  })
#define atomic_compare_exchange_strong_explicit(p, e, v, o, f) WORLD_COMPARE_EXCHANGE(p, e, v, 0, o, f)
#define atomic_compare_exchange_strong(p, e, v) \
  atomic_compare_exchange_strong_explicit(p, e, v, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#ifdef WORLD_PLAIN
#define atomic_compare_exchange_weak_explicit(p, e, v, o, f) WORLD_COMPARE_EXCHANGE(p, e, v, 1, o, f)
#define atomic_thread_fence(o) __atomic_thread_fence(o)
#else /* a weak exchange never fails for no reason */
#define atomic_compare_exchange_weak_explicit(p, e, v, o, f) atomic_compare_exchange_strong_explicit(p, e, v, o, f)
#define atomic_thread_fence(o) world_point()
/* A rank has one thread. */
#define _Thread_local
#endif
#define atomic_compare_exchange_weak(p, e, v) \
  atomic_compare_exchange_weak_explicit(p, e, v, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

#endif
