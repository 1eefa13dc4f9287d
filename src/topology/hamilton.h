/* hamilton.h: exact search for a Hamiltonian cycle in a small graph. Private to topology/. */
#ifndef TU_HAMILTON_H
#define TU_HAMILTON_H

#include "base/base.h"

#define TU_HAMILTON_MAX 63u

enum tu_answer { TU_FOUND, TU_NONE_EXISTS, TU_GAVE_UP };

/* Searches for a ring (Hamiltonian cycle) through all `count` vertices. Bit w of linked[v] says whether v and w are
 * linked; no vertex is linked to itself. If a ring is found, writes it to order[count]. *tries receives the number of
 * search steps. After TU_HAMILTON_TRIES steps the search gives up. */
#define TU_HAMILTON_TRIES 1000000u
enum tu_answer tu_hamilton(const uint64_t linked[], uint32_t count, uint32_t order[], uint32_t *tries);

#endif
