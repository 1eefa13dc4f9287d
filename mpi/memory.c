/* memory.c: MPI_Alloc_mem gives memory of tutti_alloc, which the ranks of a host share. If there is none left, it gives memory
 * of the MPI. */
#include <pthread.h>

#include "door.h"

static struct tm_map blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

TM_EXPORT int MPI_Alloc_mem(MPI_Aint bytes, MPI_Info info, void *base) {
  void *memory = NULL;
  if (!tm_door.open || bytes <= 0 || !base || tutti_alloc(tm_door.world, (size_t)bytes, &memory) != TUTTI_OK)
    return PMPI_Alloc_mem(bytes, info, base);
  pthread_mutex_lock(&lock);
  const bool kept = tm_map_set(&blocks, TM_KEY(memory), memory);
  pthread_mutex_unlock(&lock);
  if (!kept) {
    tutti_free(tm_door.world, memory);
    return PMPI_Alloc_mem(bytes, info, base);
  }
  *(void **)base = memory;
  return MPI_SUCCESS;
}

TM_EXPORT int MPI_Free_mem(void *base) {
  pthread_mutex_lock(&lock);
  void *memory = base ? tm_map_remove(&blocks, TM_KEY(base)) : NULL;
  pthread_mutex_unlock(&lock);
  if (!memory) return PMPI_Free_mem(base);
  if (tm_door.open) tutti_free(tm_door.world, memory);
  return MPI_SUCCESS;
}
