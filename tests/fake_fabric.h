/* fake_fabric.h: a fake provider of libfabric, for tests without libfabric and without a network. `fake_fabric` is a
 * table of functions like the one that the library gets from libfabric.so.1 (src/fabric/abi.h). All endpoints live in
 * one process. A test that includes this header links the library fake_fabric: add its name to the list in
 * cmake/tests.cmake.
 *
 * The provider is strict, slow and unkind, within what the manual pages of libfabric 1.17 allow:
 *
 * - It checks how the program uses it. A broken rule (enum fake_fabric_rule) is a violation: it is printed with a
 *   sentence and counted, and most calls then fail. fake_fabric_end returns the count.
 * - Nothing moves but in a read of a completion queue, which is called a *look*: memory of a program is read and
 *   written only there (injected data: also in the call). A look concerns the operations that have one of their two
 *   ends at that queue. An operation is carried out in one of its next looks (trait `late`), perhaps in two parts at
 *   two looks.
 * - A plain write may complete before it is carried out: its source has been copied then, and what happens to it later
 *   is not reported to the source. One with FI_DELIVERY_COMPLETE completes after all its bytes are in place. So do
 *   reads.
 * - Remote data appears at the target after all bytes of its write are in place: flags FI_REMOTE_WRITE |
 *   FI_REMOTE_CQ_DATA, len 0, op_context NULL or, with FI_RX_CQ_DATA, that of the receive that it has used up.
 * - A wait descriptor is readable (level) as long as its queue has entries, or an operation has an end there or a
 *   connection is being made, and looks help. They do not help an operation that waits for a receive. fi_trywait
 *   returns 0 in the other cases.
 * - Without `shuffles`, operations of one endpoint to one peer are carried out in the order of the posts, and complete
 *   in that order. There is no order between different peers.
 *
 * What it supports: what the comments of the rules name, and fi_getinfo, fi_dupinfo, fi_freeinfo, fi_fabric, fi_domain,
 * fi_av_open, _insert, _remove, fi_cq_open (FI_CQ_FORMAT_DATA), fi_endpoint (FI_EP_RDM), fi_ep_bind, fi_enable,
 * fi_getname, fi_mr_reg, _bind, _enable, fi_read, fi_writemsg, fi_writedata, fi_inject_writedata, fi_recv (0 bytes),
 * fi_cq_read, _readerr, _strerror, FI_GETWAIT, fi_trywait, fi_close. Other functions of the tables are NULL. fi_getinfo
 * offers one thing: prov_name "fake", domain "fake0", fabric "fake". Names of endpoints have FAKE_FABRIC_NAME_BYTES, in
 * the format FI_FORMAT_UNSPEC.
 *
 * Decisions depend on the seed and on the order of calls alone, not on addresses, times or threads: a program of one
 * thread sees the same each time. Strings that the program puts into hints must come from the malloc of the C library
 * (strdup), as with libfabric, because fi_freeinfo frees them. */
#ifndef FAKE_FABRIC_H
#define FAKE_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/abi.h"

extern const struct tu_fabric_library fake_fabric;

enum { FAKE_FABRIC_NAME_BYTES = 16, FAKE_FABRIC_DATA_BYTES = 4 /* cq_data_size */ };

/* The rules. A rule that names a bit of mr_mode or mode applies only if the traits have that bit. */
enum fake_fabric_rule {
  FAKE_THREADS,     /* FI_THREAD_DOMAIN: two calls at the same time on objects of one domain */
  FAKE_CLOSED,      /* use of an object that is closed */
  FAKE_CLOSE_ORDER, /* an object is closed while others need it; the call returns -EBUSY */
  /* FI_MR_ENDPOINT: an endpoint is closed before a region that is bound to it: -EBUSY. If the rule is allowed, the
   * region becomes useless instead. The manual does not name this rule, but providers have it. */
  FAKE_REGION_BOUND,
  FAKE_LEFT_OPEN,  /* at the end, an object is not closed, or an info not freed */
  FAKE_STATE,      /* a call too early or too late: before or after an endpoint, a queue or a region is enabled */
  FAKE_ARGUMENT,   /* an argument that is wrong, or that the fake does not support */
  FAKE_CAPABILITY, /* an operation that the capabilities of the endpoint's info do not include */
  FAKE_LENGTH,     /* longer than inject_size or max_msg_size; lengths of source and target differ */
  FAKE_DATA,       /* remote data does not fit into cq_data_size; the rest is cut off */
  FAKE_ADDRESS,    /* a peer that is not in the address vector; or it is removed while operations to it are open */
  /* FI_MR_LOCAL: the descriptor is not that of a region that contains the local buffer with access FI_WRITE (write) or
   * FI_READ (read), or the region is closed while the operation needs it */
  FAKE_LOCAL,
  FAKE_SOURCE_CHANGED, /* the source of a write changes before the write completes */
  FAKE_KEY,            /* no region of the target has this key (perhaps not any more), when bytes are to be moved */
  FAKE_RANGE,  /* the bytes are not within the region: FI_MR_VIRT_ADDR: of its addresses, else counted from its begin */
  FAKE_ACCESS, /* the region was registered without FI_REMOTE_WRITE or FI_REMOTE_READ */
  FAKE_DISABLED,        /* FI_MR_ENDPOINT: the region is not bound to this endpoint, or not enabled */
  FAKE_NOT_ALLOCATED,   /* FI_MR_ALLOCATED: a page of a new region is not in memory */
  FAKE_KEY_TOO_WIDE,    /* a requested key does not fit into mr_key_size */
  FAKE_CONTEXT_MISSING, /* FI_CONTEXT, FI_CONTEXT2: an operation has no context */
  FAKE_CONTEXT_SHARED,  /* the context overlaps that of another operation or receive whose completion is not read yet */
  FAKE_CONTEXT_CHANGED, /* the program has written into the context before it has read the completion */
  FAKE_FABRIC_RULES
};

struct fake_fabric_traits {
  uint64_t seed;
  /* What the provider asks of the program. If the hints do not offer all of it, fi_getinfo returns -ENODATA. */
  int mr_mode;   /* TU_FI_MR_* */
  uint64_t mode; /* TU_FI_CONTEXT, TU_FI_CONTEXT2, TU_FI_RX_CQ_DATA */

  bool no_descriptor; /* fi_cq_open refuses FI_WAIT_FD with -ENOSYS */
  bool arms;     /* a descriptor becomes readable only if fi_trywait has returned 0 since the last look at its queue */
  bool shuffles; /* operations to the same peer are carried out, and complete, in any order */
  bool loses_on_close;  /* writes that have completed, and injected ones, may be lost if their endpoint is closed */
  bool injects_nothing; /* inject_size is 0: only signals, of 0 bytes */
  bool quiet;           /* violations are not printed */
  /* An operation is carried out, and completes, within `late` + 1 looks of its ends, unless it or, without `shuffles`,
   * one before it waits for a receive. If late > 0, a look may also return fewer entries than there are. */
  uint32_t late;
  uint32_t connecting;    /* posts to a peer return -EAGAIN until each end has looked so often since the first post */
  uint32_t busy_per_1000; /* posts and receives that return -EAGAIN */
  /* Operations that complete with an error, EIO. It has done nothing, or moved a part of its bytes, or all of them, or
   * has been carried out with its remote data (the network has lost the acknowledgement). An injected write that fails
   * is reported with op_context NULL, or not at all. */
  uint32_t errors_per_1000;
  uint32_t operations_max; /* of an endpoint, until their completions are read; further posts return -EAGAIN. 0: 64 */
  uint32_t receives_max;   /* of an endpoint; further ones return -EAGAIN. 0: 64 */
  uint32_t regions_max;    /* of a domain; further ones fail with -ENOMEM. 0: any number */
  /* The call of this number, counted from 1, that opens, enables or registers fails with -ENOMEM. */
  uint32_t refused_call;
  uint64_t inject_bytes;  /* inject_size. 0: 8 */
  uint64_t key_bytes;     /* mr_key_size. 0: 8 */
  uint64_t message_bytes; /* max_msg_size. 0: SIZE_MAX */
  uint64_t allowed;       /* rules (1 << rule) whose violations are neither printed nor counted */

  /* Called at the beginning of each call on an object, before anything is locked; NULL: nothing is called. It may switch
   * to another stack, which may call the provider. */
  void (*enters)(void);
  /* Wait descriptors. All NULL: each is an eventfd. Other functions may simulate them; they are called in calls of the
   * provider, and must not call it. Descriptors of processes that were killed are not closed by them. */
  int (*descriptor_open)(void); /* returns a descriptor that is not readable, or -errno */
  void (*descriptor_set)(int descriptor, bool readable);
  void (*descriptor_close)(int descriptor);
};

/* Forgets all objects and begins anew. No thread may be in a call of the provider, here and in fake_fabric_end. */
void fake_fabric_begin(const struct fake_fabric_traits *traits);

/* Frees all memory of the provider, also of objects that are not closed. Returns the number of violations that are not
 * allowed. Objects of processes that were killed do not count; after a kill, fabrics and infos do not count either. */
uint32_t fake_fabric_end(void);

/* Returns how often a rule was broken since fake_fabric_begin, also if that is allowed. After fake_fabric_end the
 * counts stay. */
uint32_t fake_fabric_seen(enum fake_fabric_rule rule);

/* Returns the number of operations that are not carried out, or that are not complete, and of completions that are not
 * read. */
uint32_t fake_fabric_open(void);

/* The process of this endpoint dies: nothing of its domain moves any more, and its memory is not used. Operations to it
 * that are open fail with ECANCELED, prov_errno ENOTCONN (plain writes may also complete without an error). A post to
 * it may be accepted and fail in this way, until one has failed or has returned -EAGAIN; from then on each post returns
 * -EAGAIN. What the dead process itself calls does no harm: posts and looks return -EAGAIN. An endpoint that is closed
 * looks the same to its peers. */
void fake_fabric_kill(const void *name, size_t bytes);

#endif
