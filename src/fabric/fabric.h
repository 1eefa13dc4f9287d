/* fabric.h: an endpoint of libfabric: reads and writes memory of other processes (RMA). libfabric is loaded when it is
 * first needed; a machine without it needs no other build.
 *
 * What differs between providers ends here: the modes of memory registration, memory for contexts, posted receives for
 * completion data, completion queues without a descriptor. */
#ifndef TU_FABRIC_H
#define TU_FABRIC_H

#include <sys/socket.h>

#include "base/base.h"
#include "fabric/abi.h"

enum {
  TU_FABRIC_TEXT_CHARS = 64,
  TU_FABRIC_NAME_BYTES = 64, /* maximum size of an endpoint's name */
  TU_FABRIC_DATA_BITS = 32   /* of the data that a completion carries; EFA and verbs have no more */
};

struct tu_fabric;
struct tu_job;

/* ---- what there is (offers.c) ---- */

/* What TUTTI_FABRIC asks for. */
enum tu_fabric_how {
  TU_FABRIC_AUTO, /* the first provider that drives a network of its own, if the host has one */
  TU_FABRIC_NONE,
  TU_FABRIC_NAMED
};
struct tu_fabric_wish {
  enum tu_fabric_how how;
  char provider[TU_FABRIC_TEXT_CHARS], domain[TU_FABRIC_TEXT_CHARS]; /* of TU_FABRIC_NAMED; domain "": any */
};
/* Reads TUTTI_FABRIC: auto, none, PROVIDER, or PROVIDER/DOMAIN. Error: TUTTI_ERR_ENVIRONMENT. */
tutti_err tu_fabric_read_wish(struct tu_fabric_wish *wish, struct tu_error *error);

/* Returns true if this host has a device that a provider may drive. Takes microseconds, where loading libfabric takes
 * 0.3 s. */
bool tu_fabric_has_device(void);

/* Loads libfabric, once per process. Errors: TUTTI_ERR_ENVIRONMENT (names the package). */
tutti_err tu_fabric_load(const struct tu_fabric_library **library, struct tu_error *error);

/* Returns a list of what suits the library: endpoints that are reliable and not connected, with RMA and 4 bytes of
 * completion data. provider, domain: NULL or "": any; the providers of libfabric 1.17 return other domains, too. Empty: NULL.
 * Freed by library->freeinfo. */
struct tu_fi_info *tu_fabric_list(const struct tu_fabric_library *library, const char *provider, const char *domain);
/* Returns true if the provider carries its data over sockets of the kernel, or memory of one host. AUTO leaves it out,
 * because the library's own sockets and memory are faster. */
bool tu_fabric_is_software(const struct tu_fi_info *info);
/* Opens the fabric that is wished. *fabric NULL: AUTO has found none. own: as below. Errors: as tu_fabric_open and
 * tu_fabric_load. */
tutti_err tu_fabric_open_wish(const struct tu_fabric_wish *wish, const struct sockaddr *own, struct tu_fabric **fabric,
                              struct tu_error *error);
/* Chooses one of the list. own: address of this rank's connections to other hosts; if the names of endpoints are IP
 * addresses, one with the same address is preferred; NULL: any. NULL: no info suits. */
const struct tu_fi_info *tu_fabric_choose(const struct tu_fi_info *list, const struct tu_fabric_wish *wish,
                                          const struct sockaddr *own);

/* ---- in a job (meet.c) ---- */

/* Collective: opens the fabric that this rank wishes, and finds the ranks of other hosts that have the same one: speaks[r]
 * becomes true for each of them; NULL: out of memory. *fabric NULL: this rank uses none, because it wishes or finds none,
 * or no other rank has it. Errors: those of the job; and, on this rank alone, TUTTI_ERR_ENVIRONMENT and
 * TUTTI_ERR_MEMORY. */
tutti_err tu_fabric_meet(struct tu_job *job, struct tu_fabric **fabric, bool speaks[], struct tu_error *error);

/* ---- an endpoint (endpoint.c); one thread at a time uses it ---- */

/* An operation. The caller owns it, and must not free it before it is done. */
struct tu_fabric_op {
  struct tu_fi_context2 context; /* must be the first member */
  /* Called in tu_fabric_look. error: 0, or a number of errno.h. */
  void (*done)(struct tu_fabric_op *op, int error);
  bool reports; /* of a split write that was refused: its bytes are on their way, so only the report is left */
};

struct tu_fabric {
  const struct tu_fabric_library *library;
  struct tu_fi_info *info;
  struct tu_fi_fabric *fabric;
  struct tu_fi_domain *domain;
  struct tu_fi_av *av;
  struct tu_fi_cq *cq;
  struct tu_fi_ep *ep;
  int descriptor; /* readable if a look may find something, once tu_fabric_arm has returned true; -1: there is none */
  unsigned char name[TU_FABRIC_NAME_BYTES];
  size_t name_bytes;
  struct tu_fabric_region *regions; /* list of what is registered */
  /* For completion data, if the provider asks for them; [receive_count]. Those that are not posted: [idle_count]. */
  struct tu_fabric_op *receives, **idle_receives;
  size_t receive_count, idle_count;
  bool splits;                    /* tu_fabric_write writes the bytes first, and then 0 bytes with the data */
  struct tu_fabric_op first_part; /* that of all such writes */
};

/* Memory that the endpoint may use. */
struct tu_fabric_region {
  struct tu_fabric_region *next;
  struct tu_fi_mr *mr; /* NULL: the provider needs none for this use, or it is not registered */
  unsigned char *base;
  size_t bytes;
  uint64_t address, key; /* for ranks that read or write it: of its first byte */
};

/* Opens an endpoint. info: of the list above; copied. Errors: TUTTI_ERR_ENVIRONMENT, TUTTI_ERR_MEMORY; the message names
 * the provider and the step that failed. */
tutti_err tu_fabric_open(const struct tu_fabric_library *library, const struct tu_fi_info *info,
                         struct tu_fabric **fabric, struct tu_error *error);
/* Ends the registration of all regions, and frees the endpoint. Operations that are not done never will be; no memory is
 * used any more. NULL is ignored. */
void tu_fabric_close(struct tu_fabric *f);

/* Registers memory. access: TU_FI_READ and TU_FI_WRITE (this rank reads into it, writes from it), TU_FI_REMOTE_READ,
 * TU_FI_REMOTE_WRITE. The key is random where the program may choose it. The region must stay at its place until it is
 * concealed, or the endpoint closed. */
tutti_err tu_fabric_expose(struct tu_fabric *f, void *base, size_t bytes, uint64_t access,
                           struct tu_fabric_region *region, struct tu_error *error);
/* Ends that. No rank may use the region any more. Does nothing if it is not registered. */
void tu_fabric_conceal(struct tu_fabric *f, struct tu_fabric_region *region);

/* Returns true if memory that this rank reads into or writes from must be registered. */
static inline bool tu_fabric_needs_local(const struct tu_fabric *f) {
  return f->info->domain_attr->mr_mode & TU_FI_MR_LOCAL;
}
/* Returns the region that contains the memory; NULL: none. */
const struct tu_fabric_region *tu_fabric_find(const struct tu_fabric *f, const void *memory, size_t bytes);

/* Makes an endpoint of that name known. Returns false if that fails. */
bool tu_fabric_add(struct tu_fabric *f, const void *name, tu_fi_addr *peer);

/* Begin operations; they return false if that is not possible now: look, and try again. The op of a write of bytes that was
 * refused may only be used for that write.
 * write: writes to the peer's memory, 0 bytes or more, and reports `data` to it. It is done when the memory at `from` may
 *   change. It is never injected: if a connection ends, libfabric 1.17 (tcp;ofi_rxm) fails on injected writes that have not
 *   left, because they have no context.
 * put: writes to the peer's memory. It is done when the data is there.
 * read: reads the peer's memory. here: the region that has `from` or `to`. */
bool tu_fabric_write(struct tu_fabric *f, tu_fi_addr peer, const struct tu_fabric_region *here, const void *from,
                     size_t bytes, uint64_t address, uint64_t key, uint32_t data, struct tu_fabric_op *op);
bool tu_fabric_put(struct tu_fabric *f, tu_fi_addr peer, const struct tu_fabric_region *here, const void *from,
                   size_t bytes, uint64_t address, uint64_t key, struct tu_fabric_op *op);
bool tu_fabric_read(struct tu_fabric *f, tu_fi_addr peer, const struct tu_fabric_region *here, void *to, size_t bytes,
                    uint64_t address, uint64_t key, struct tu_fabric_op *op);

/* Makes progress, ends operations, and calls `arrived` for each write of another endpoint. Returns true if
 * there was anything. */
bool tu_fabric_look(struct tu_fabric *f, void (*arrived)(void *context, uint32_t data), void *context);
/* Returns false if a look may find something now. Otherwise the descriptor tells. */
bool tu_fabric_arm(struct tu_fabric *f);
/* Returns true if the provider has refused receives for lack of room. Writes of peers may wait for them, and the descriptor
 * does not tell; a later look posts them. */
static inline bool tu_fabric_lacks_receives(const struct tu_fabric *f) { return f->idle_count > 0; }

#endif
