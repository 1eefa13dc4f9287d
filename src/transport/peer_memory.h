/* peer_memory.h: reads the private memory of other processes of this host, without a copy through the segment. The kernel
 * copies (process_vm_readv). It does so only for processes that may trace each other: usually those of one user, in one
 * container, without the restrictions of Yama (/proc/sys/kernel/yama/ptrace_scope). So each rank tries it before its first
 * program with messages that may be read (engine/engine.c). */
#ifndef TU_PEER_MEMORY_H
#define TU_PEER_MEMORY_H

#include "transport/transport.h"

/* Publishes, in the head of this rank's slice, where its process has a word that the other ranks can try to read. */
void tu_peer_memory_offer(struct tu_slice_head *head);
/* Called once all ranks have joined. Tries to read that word of each other rank of the segment, and publishes whether that
 * worked. */
void tu_peer_memory_try(struct tu_transport *t);
/* The same, but only the first time. */
void tu_peer_memory_ask(struct tu_transport *t);
/* Returns true if that rank of the segment reads the memory of all others. */
static inline bool tu_peer_memory_reads(const struct tu_transport *t, uint32_t rank) {
  return atomic_load_explicit(&tu_transport_head(t, rank)->reads_peers, memory_order_relaxed) != 0;
}
/* Returns true if other processes can read this memory now. They cannot read memory of devices, nor any memory of a process
 * that has made itself not dumpable. Tries the first and the last byte only. */
bool tu_peer_memory_is_readable(const void *memory, size_t bytes);
/* Reads memory of the process of that rank of the segment. Returns false, and sets errno, if that is not possible. */
bool tu_peer_memory_read(const struct tu_transport *t, uint32_t rank, uint64_t from, void *to, size_t bytes);

#endif
