/* hamilton.h: a ring through all vertices of a small graph, by exact search. Private to topology/. */
#ifndef TU_HAMILTON_H
#define TU_HAMILTON_H

#include "base/base.h"

#define TU_HAMILTON_MAX 63u

enum tu_answer { TU_FOUND, TU_NONE_EXISTS, TU_GAVE_UP };

/* Vertex v is linked to those whose bits are set in linked[v]; no vertex to itself. order[count]: a ring, if one was found.
 * *tries: how many steps the search made; it gives up after TU_HAMILTON_TRIES. */
#define TU_HAMILTON_TRIES 1000000u
enum tu_answer tu_hamilton(const uint64_t linked[], uint32_t count, uint32_t order[], uint32_t *tries);

#endif
