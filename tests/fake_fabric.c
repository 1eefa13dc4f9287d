/* fake_fabric.c: see fake_fabric.h. Objects that are closed stay in memory until fake_fabric_end, so that their use is
 * seen. One mutex guards all. An operation is a list of steps (copy parts of the source, move parts, report to the
 * target, report to the source), each with the number of looks after which it is due. */
#include "tests/fake_fabric.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"

/* Numbers of libfabric that abi.h does not need. */
enum { ETOOSMALL = 257, EOPBADSTATE = 258, ENOKEY_OF_FABRIC = 266 };
enum {
  CLASS_FABRIC = 1,
  CLASS_DOMAIN = 2,
  CLASS_ENDPOINT = 3,
  CLASS_VECTOR = 11,
  CLASS_REGION = 12,
  CLASS_QUEUE = 14,
  CLASSES
};
enum { PROGRESS_MANUAL = 2, VECTOR_MAP = 1, VECTOR_TABLE = 2 };
enum { PRINTED_MAX = 20, PARTS = 2, STEPS = 6 };
#define NOT_AVAILABLE UINT64_MAX /* of keys and addresses */
#define ALL_CAPS                                                                                        \
  (TU_FI_MSG | TU_FI_RMA | TU_FI_READ | TU_FI_WRITE | TU_FI_RECV | TU_FI_TRANSMIT | TU_FI_REMOTE_READ | \
   TU_FI_REMOTE_WRITE)
#define RMA_CAPS (TU_FI_READ | TU_FI_WRITE | TU_FI_REMOTE_READ | TU_FI_REMOTE_WRITE)

/* ---- objects ---- */

struct object {
  size_t class;
  uint32_t number, users; /* users: open objects that need this one */
  bool closed;
  struct domain *domain; /* NULL: a fabric */
  void *memory;
};

struct fabric {
  struct tu_fi_fabric face;
  struct object object;
};

struct domain {
  struct tu_fi_domain face;
  struct object object;
  struct fabric *fabric;
  atomic_bool busy; /* a thread is in a call */
  bool dead;
  uint32_t regions;
};

struct peer {
  tu_fi_addr address;
  struct endpoint *endpoint; /* NULL: removed */
};

struct vector {
  struct tu_fi_av face;
  struct object object;
  struct peer *peers;
  uint32_t count, capacity;
  bool is_table;
};

struct completion {
  struct endpoint *owner;
  void *context;
  bool counts; /* it is of an operation, which counts as open until the completion is read */
  uint64_t flags, data;
  int err, prov_errno;
};

struct queue {
  struct tu_fi_cq face;
  struct object object;
  bool ready;     /* an endpoint of it was enabled */
  int descriptor; /* -1: none */
  bool readable, armed;
  struct completion *entries;
  uint32_t count, capacity;
};

/* What an endpoint knows of another one. */
struct link {
  bool asked;                       /* there was a post */
  bool refuses;                     /* the peer is gone, and this end has noticed it */
  uint32_t looks_here, looks_there; /* that are missing until it is connected */
  /* The last look in which an operation was not carried out, or was not complete: later ones must wait. */
  uint64_t order_stalls, done_stalls;
};

struct endpoint {
  struct tu_fi_ep face;
  struct object object;
  unsigned char name[FAKE_FABRIC_NAME_BYTES];
  struct vector *vector;
  struct queue *sends, *receives;
  bool enabled;
  uint64_t caps, op_flags;
  struct link *links; /* by the peer's ordinal */
  uint32_t ordinal, link_count;
  void **posted; /* contexts of receives */
  uint32_t posted_count, posted_capacity;
  uint32_t open; /* operations whose completion is not read; injected ones until they are carried out */
};

struct region {
  struct tu_fi_mr face;
  struct object object;
  char desc; /* its address is the descriptor */
  unsigned char *memory;
  size_t bytes;
  uint64_t access, key;      /* the program could change face.key */
  struct endpoint *endpoint; /* FI_MR_ENDPOINT: bound to it */
  bool enabled;
};

struct info {
  struct tu_fi_info face;
  struct tu_fi_tx_attr tx;
  struct tu_fi_rx_attr rx;
  struct tu_fi_ep_attr ep;
  struct tu_fi_domain_attr domain;
  struct tu_fi_fabric_attr fabric;
  bool freed;
};

/* What an operation that fails has done. */
enum fate { FINE, NOTHING, A_PART, ALL_BYTES, ALL, FATES };

struct operation {
  struct endpoint *from, *to;
  const char *name;
  bool reads, delivery, has_data, injected;
  bool staged; /* the source is copied first */
  bool early;  /* it may complete before it is carried out */
  bool last_first;
  const unsigned char *source; /* of a write */
  unsigned char *target;       /* of a read: the local memory */
  size_t bytes;
  struct region *region; /* local, if FI_MR_LOCAL */
  uint64_t address, key, data;
  void *context;
  unsigned char *copy;
  uint32_t parts;
  size_t begin[PARTS], size[PARTS];
  uint64_t hash[PARTS];
  uint32_t age; /* looks of its ends */
  uint32_t due_copy[PARTS], due_place[PARTS], due_arrive, due_done;
  uint32_t copied, placed;
  bool arrived;  /* nothing more happens at the target */
  bool done;     /* nothing more happens at the source */
  bool unusable; /* its local region is closed */
  bool idle;     /* looks do not help until the target posts a receive */
  enum fate fate;
  int err, prov_errno;
};

/* Memory that the program must not touch, with what the fake has written there. */
struct scribble {
  void *at;
  uint64_t seed;
};

static const char *const kinds[CLASSES] = {
    [CLASS_FABRIC] = "fabric",         [CLASS_DOMAIN] = "domain", [CLASS_ENDPOINT] = "endpoint",
    [CLASS_VECTOR] = "address vector", [CLASS_REGION] = "region", [CLASS_QUEUE] = "queue"};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t seen[FAKE_FABRIC_RULES];
static struct {
  struct fake_fabric_traits traits;
  uint64_t random, looks;
  uint32_t violations, calls;
  bool killed;
  uint32_t numbers[CLASSES];
  struct object **objects;
  uint32_t object_count, object_capacity;
  struct endpoint **endpoints;
  uint32_t endpoint_count, endpoint_capacity;
  struct queue **queues; /* open ones, as regions */
  uint32_t queue_count, queue_capacity;
  struct region **regions;
  uint32_t region_count, region_capacity;
  struct info **infos;
  uint32_t info_count, info_capacity;
  struct operation **operations; /* in the order of the posts */
  uint32_t operation_count, operation_capacity;
  struct operation **chosen; /* those of a look */
  uint32_t chosen_capacity;
  struct scribble *scribbles;
  uint32_t scribble_count, scribble_capacity;
} fake;

#define ADD(list, count, capacity, item)                      \
  do {                                                        \
    list = tu_grow(list, count, &(capacity), sizeof *(list)); \
    (list)[(count)++] = item;                                 \
  } while (0)

static uint64_t draw(uint64_t count) { return tu_random(&fake.random) % count; }
static bool coin(void) { return draw(2) == 1; }
static bool chance(uint32_t per_1000) { return per_1000 && draw(1000) < per_1000; }
static bool asks(int bit) { return (fake.traits.mr_mode & bit) != 0; }

static void violation(enum fake_fabric_rule rule, const struct object *o, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void violation(enum fake_fabric_rule rule, const struct object *o, const char *format, ...) {
  seen[rule]++;
  if (fake.traits.allowed >> rule & 1) return;
  if (++fake.violations > PRINTED_MAX || fake.traits.quiet) return;
  printf("  fake fabric: ");
  if (o) printf("%s %u: ", kinds[o->class], o->number);
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("%s\n", fake.violations == PRINTED_MAX ? " (more are only counted)" : "");
}

static void add_object(struct object *o, void *memory, size_t class, struct domain *domain) {
  *o = (struct object){.class = class, .number = fake.numbers[class]++, .memory = memory, .domain = domain};
  ADD(fake.objects, fake.object_count, fake.object_capacity, o);
}

static void refresh_descriptors(void);

/* Begins a call on an object. The caller must return by `leave`, also if this returns false: the object is closed. */
static bool enter(struct object *o) {
  if (fake.traits.enters) fake.traits.enters();
  const bool held = o->domain && atomic_exchange(&o->domain->busy, true);
  pthread_mutex_lock(&mutex);
  if (held) violation(FAKE_THREADS, o, "two calls at the same time on objects of its domain");
  if (o->closed) violation(FAKE_CLOSED, o, "used after it was closed");
  return !o->closed;
}

static int leave(struct object *o, int result) {
  refresh_descriptors();
  pthread_mutex_unlock(&mutex);
  if (o->domain) atomic_store(&o->domain->busy, false);
  return result;
}

/* Returns true if this call that opens something must fail. */
static bool refused(void) { return ++fake.calls == fake.traits.refused_call; }

/* ---- contexts ---- */

static size_t context_bytes(void) {
  if (fake.traits.mode & TU_FI_CONTEXT2) return sizeof(struct tu_fi_context2);
  return fake.traits.mode & TU_FI_CONTEXT ? sizeof(struct tu_fi_context2) / 2 : 0;
}

static bool context_is_usable(struct endpoint *ep, const void *context, const char *name) {
  const size_t bytes = context_bytes();
  if (!bytes) return true;
  if (!context) violation(FAKE_CONTEXT_MISSING, &ep->object, "%s: the context is NULL", name);
  const uintptr_t at = (uintptr_t)context;
  for (uint32_t i = 0; context && i < fake.scribble_count; i++) {
    const uintptr_t other = (uintptr_t)fake.scribbles[i].at;
    if (at + bytes <= other || other + bytes <= at) continue;
    violation(FAKE_CONTEXT_SHARED, &ep->object, "%s: the context is that of another open operation", name);
    return false;
  }
  return context != NULL;
}

static void scribble_onto(void *context) {
  if (!context_bytes()) return;
  struct scribble s = {.at = context, .seed = draw(UINT64_MAX)};
  ADD(fake.scribbles, fake.scribble_count, fake.scribble_capacity, s);
  for (size_t i = 0; i < context_bytes() / 8; i++) ((uint64_t *)context)[i] = tu_random(&s.seed);
}

/* Gives a context back to the program; `checks`: looks whether the program has changed it. */
static void release_context(const struct endpoint *ep, const void *context, bool checks) {
  uint32_t i = 0;
  while (i < fake.scribble_count && fake.scribbles[i].at != context) i++;
  if (i == fake.scribble_count) return;
  struct scribble s = fake.scribbles[i];
  fake.scribbles[i] = fake.scribbles[--fake.scribble_count];
  bool same = true;
  for (size_t k = 0; checks && k < context_bytes() / 8; k++) {
    same &= ((const uint64_t *)context)[k] == tu_random(&s.seed);
  }
  if (!same) violation(FAKE_CONTEXT_CHANGED, &ep->object, "the context of an open operation was changed");
}

/* ---- wait descriptors ---- */

static bool is_gone(const struct endpoint *ep) { return ep->object.closed || ep->object.domain->dead; }
static bool has_end(const struct endpoint *ep, const struct queue *q) { return ep->sends == q || ep->receives == q; }

static struct link *link_to(struct endpoint *ep, const struct endpoint *to) {
  if (to->ordinal >= ep->link_count) {
    const uint32_t count = to->ordinal + 4;
    struct link *grown = tu_allocate(count, sizeof *grown);
    if (ep->links) memcpy(grown, ep->links, ep->link_count * sizeof *grown);
    free(ep->links);
    ep->links = grown;
    ep->link_count = count;
  }
  return &ep->links[to->ordinal];
}

/* Counts a look at q for connections that are being made; with q == NULL, counts nothing. Returns true if looks at
 * `asked` are missing. */
static bool connects(const struct queue *q, const struct queue *asked) {
  bool missing = false;
  for (uint32_t i = 0; i < fake.endpoint_count; i++) {
    struct endpoint *ep = fake.endpoints[i];
    for (uint32_t k = 0; !is_gone(ep) && k < ep->link_count; k++) {
      struct link *l = &ep->links[k];
      if (!l->asked || (!l->looks_here && !l->looks_there)) continue;
      if (q && has_end(ep, q) && l->looks_here) l->looks_here--;
      if (q && has_end(fake.endpoints[k], q) && l->looks_there) l->looks_there--;
      missing |= (has_end(ep, asked) && l->looks_here) || (has_end(fake.endpoints[k], asked) && l->looks_there);
    }
  }
  return missing;
}

/* Returns true if the program has a reason to look at the queue. */
static bool has_reason(const struct queue *q) {
  if (q->count) return true;
  for (uint32_t i = 0; i < fake.operation_count; i++) {
    const struct operation *op = fake.operations[i];
    if (!op->idle && (has_end(op->from, q) || has_end(op->to, q))) return true;
  }
  return fake.traits.connecting && connects(NULL, q);
}

static int open_eventfd(void) {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return fd < 0 ? -errno : fd;
}

static void set_eventfd(int fd, bool readable) {
  uint64_t count = 1;
  if (readable ? write(fd, &count, sizeof count) : read(fd, &count, sizeof count)) return;
}

static void close_eventfd(int fd) { close(fd); }

static void refresh_descriptors(void) {
  for (uint32_t i = 0; i < fake.queue_count; i++) {
    struct queue *q = fake.queues[i];
    if (q->descriptor < 0 || q->object.domain->dead) continue;
    const bool readable = (q->armed || !fake.traits.arms) && has_reason(q);
    if (readable != q->readable) fake.traits.descriptor_set(q->descriptor, readable);
    q->readable = readable;
  }
}

/* ---- infos ---- */

static struct info *new_info(void) {
  struct info *info = tu_allocate(1, sizeof *info);
  info->face.tx_attr = &info->tx;
  info->face.rx_attr = &info->rx;
  info->face.ep_attr = &info->ep;
  info->face.domain_attr = &info->domain;
  info->face.fabric_attr = &info->fabric;
  ADD(fake.infos, fake.info_count, fake.info_capacity, info);
  return info;
}

static char *copy_text(const char *text) {
  char *copy = text ? strdup(text) : NULL;
  if (text && !copy) tu_memory_ends(1, strlen(text));
  return copy;
}

static struct tu_fi_info *dup_info(const struct tu_fi_info *from) {
  pthread_mutex_lock(&mutex);
  struct info *info = new_info();
  if (from) {
    info->face.caps = from->caps;
    info->face.mode = from->mode;
    info->face.addr_format = from->addr_format;
    if (from->tx_attr) info->tx = *from->tx_attr;
    if (from->rx_attr) info->rx = *from->rx_attr;
    if (from->ep_attr) info->ep = *from->ep_attr;
    if (from->domain_attr) info->domain = *from->domain_attr;
    if (from->fabric_attr) info->fabric = *from->fabric_attr;
    info->domain.name = copy_text(info->domain.name);
    info->fabric.name = copy_text(info->fabric.name);
    info->fabric.prov_name = copy_text(info->fabric.prov_name);
  }
  pthread_mutex_unlock(&mutex);
  return &info->face;
}

static struct info *find_info(const struct tu_fi_info *face) {
  for (uint32_t i = 0; i < fake.info_count; i++) {
    if (&fake.infos[i]->face == face) return fake.infos[i];
  }
  return NULL;
}

static void free_info(struct tu_fi_info *face) {
  pthread_mutex_lock(&mutex);
  while (face) {
    struct info *info = find_info(face);
    struct tu_fi_info *next = face->next;
    if (!info) violation(FAKE_ARGUMENT, NULL, "fi_freeinfo: the info is not of this provider");
    else if (info->freed) violation(FAKE_CLOSED, NULL, "fi_freeinfo: the info was freed before");
    if (!info || info->freed) break;
    info->freed = true;
    free(info->domain.name);
    free(info->fabric.name);
    free(info->fabric.prov_name);
    free(face->src_addr);
    free(face->dest_addr);
    face = next;
  }
  pthread_mutex_unlock(&mutex);
}

/* Returns true if the hints allow what the provider has: the names, the capabilities, the bits that it asks for, the
 * sizes. */
static bool hints_allow(const struct tu_fi_info *h, const struct info *own) {
  const struct tu_fi_domain_attr *d = h->domain_attr;
  const struct tu_fi_fabric_attr *f = h->fabric_attr;
  const struct tu_fi_tx_attr *t = h->tx_attr;
  if (h->caps & ~ALL_CAPS || own->face.mode & ~h->mode) return false;
  if (f && f->prov_name && strcmp(f->prov_name, own->fabric.prov_name) != 0) return false;
  if (f && f->name && strcmp(f->name, own->fabric.name) != 0) return false;
  if (d && d->name && strcmp(d->name, own->domain.name) != 0) return false;
  if (own->domain.mr_mode & ~(d ? d->mr_mode : 0)) return false;
  if (d && d->threading && d->threading != TU_FI_THREAD_DOMAIN) return false;
  if (d && d->data_progress && d->data_progress != PROGRESS_MANUAL) return false;
  if (d && (d->cq_data_size > own->domain.cq_data_size || d->mr_key_size > own->domain.mr_key_size)) return false;
  if (h->ep_attr && h->ep_attr->type && h->ep_attr->type != TU_FI_EP_RDM) return false;
  if (h->ep_attr && h->ep_attr->max_msg_size > own->ep.max_msg_size) return false;
  if (h->addr_format != TU_FI_FORMAT_UNSPEC) return false;
  if (t && (t->inject_size > own->tx.inject_size || t->size > own->tx.size || t->iov_limit > 1)) return false;
  if (t && (t->msg_order & ~own->tx.msg_order || t->comp_order)) return false;
  return !h->rx_attr || (h->rx_attr->size <= own->rx.size && !(h->rx_attr->msg_order & ~own->rx.msg_order));
}

static void describe(struct info *info, const struct tu_fi_info *hints) {
  const struct fake_fabric_traits *t = &fake.traits;
  /* Read and write after read or write: FI_ORDER_RAR, RAW, WAR, WAW, and the same of RMA alone. */
  const uint64_t order = t->shuffles ? 0 : 0xf0000001bull;
  info->face.caps = hints && hints->caps ? hints->caps : ALL_CAPS;
  info->face.mode = t->mode;
  info->tx = (struct tu_fi_tx_attr){.caps = info->face.caps, .msg_order = order, .iov_limit = 1, .rma_iov_limit = 1};
  info->tx.inject_size = t->inject_bytes;
  info->tx.size = t->operations_max;
  info->tx.op_flags = hints && hints->tx_attr ? hints->tx_attr->op_flags & TU_FI_DELIVERY_COMPLETE : 0;
  info->rx = (struct tu_fi_rx_attr){.caps = info->face.caps, .msg_order = order, .iov_limit = 1};
  info->rx.size = t->receives_max;
  info->ep = (struct tu_fi_ep_attr){.type = TU_FI_EP_RDM, .max_msg_size = t->message_bytes};
  info->domain = (struct tu_fi_domain_attr){.name = copy_text("fake0"), .threading = TU_FI_THREAD_DOMAIN};
  info->domain.control_progress = info->domain.data_progress = PROGRESS_MANUAL;
  info->domain.resource_mgmt = TU_FI_RM_ENABLED;
  info->domain.mr_mode = t->mr_mode;
  info->domain.mr_key_size = t->key_bytes;
  info->domain.cq_data_size = FAKE_FABRIC_DATA_BYTES;
  info->domain.mr_iov_limit = 1;
  info->domain.mr_cnt = t->regions_max;
  info->fabric = (struct tu_fi_fabric_attr){.name = copy_text("fake"), .prov_name = copy_text("fake")};
  info->fabric.api_version = TU_FI_VERSION_1_17;
}

static int get_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                    const struct tu_fi_info *hints, struct tu_fi_info **out) {
  (void)node;
  (void)service;
  if (flags & ~TU_FI_SOURCE) return -EINVAL;
  if (version > TU_FI_VERSION_1_17) return -ENOSYS;
  pthread_mutex_lock(&mutex);
  struct info *info = new_info();
  describe(info, hints);
  const bool found = !hints || hints_allow(hints, info);
  pthread_mutex_unlock(&mutex);
  if (found) *out = &info->face;
  else free_info(&info->face);
  return found ? 0 : -ENODATA;
}

/* ---- how operations proceed ---- */

static void add_completion(struct queue *q, const struct completion *c) { ADD(q->entries, q->count, q->capacity, *c); }

/* Returns the memory of the target, or NULL if the operation may not use it. */
static unsigned char *remote_memory(const struct operation *op) {
  const struct object *by = &op->from->object;
  const unsigned to = op->to->object.number;
  const struct region *r = NULL;
  for (uint32_t i = 0; i < fake.region_count && !r; i++) {
    const struct region *at = fake.regions[i];
    if (at->object.domain == op->to->object.domain && at->key == op->key) r = at;
  }
  if (!r) {
    violation(FAKE_KEY, by, "%s: endpoint %u has no region of key %llx", op->name, to, (unsigned long long)op->key);
    return NULL;
  }
  if (asks(TU_FI_MR_ENDPOINT) && (r->endpoint != op->to || !r->enabled)) {
    violation(FAKE_DISABLED, by, "%s: the region is not enabled for endpoint %u", op->name, to);
    return NULL;
  }
  if (!(r->access & (op->reads ? TU_FI_REMOTE_READ : TU_FI_REMOTE_WRITE))) {
    violation(FAKE_ACCESS, by, "%s: the region of endpoint %u does not allow it", op->name, to);
    return NULL;
  }
  const uint64_t begin = asks(TU_FI_MR_VIRT_ADDR) ? (uintptr_t)r->memory : 0, offset = op->address - begin;
  if (op->address < begin || offset > r->bytes || op->bytes > r->bytes - offset) {
    violation(FAKE_RANGE, by, "%s: %zu bytes at %llx are not within the region of endpoint %u", op->name, op->bytes,
              (unsigned long long)op->address, to);
    return NULL;
  }
  return r->memory + offset;
}

/* The operation does nothing more at the target. */
static void lose(struct operation *op, int err, int prov_errno) {
  op->arrived = true;
  op->err = err;
  op->prov_errno = prov_errno;
}

/* Returns true if the local memory may be used. */
static bool local_is_usable(struct operation *op) {
  if (!op->region || !op->region->object.closed) return true;
  violation(FAKE_LOCAL, &op->from->object, "%s: its region is closed before it completes", op->name);
  op->region = NULL;
  op->unusable = true;
  lose(op, EIO, EFAULT);
  return false;
}

static void check_source(struct operation *op, uint32_t part) {
  if (op->reads || op->injected || op->hash[part] == 0) return;
  if (tu_hash(op->source + op->begin[part], op->size[part], 1) == op->hash[part]) return;
  violation(FAKE_SOURCE_CHANGED, &op->from->object, "%s: its source changes before it completes", op->name);
  memset(op->hash, 0, sizeof op->hash); /* one violation is enough */
}

static void copy_source(struct operation *op) {
  while (op->copied < op->parts && op->age > op->due_copy[op->copied] && local_is_usable(op)) {
    const uint32_t k = op->copied++;
    check_source(op, k);
    memcpy(op->copy + op->begin[k], op->source + op->begin[k], op->size[k]);
  }
}

static void move_part(struct operation *op) {
  const uint32_t k = op->last_first ? op->parts - 1 - op->placed : op->placed;
  if (!op->staged && !local_is_usable(op)) return;
  unsigned char *remote = remote_memory(op);
  if (!remote) {
    /* As tcp;ofi_rxm does: a plain write has succeeded for the source. */
    lose(op, op->reads || op->delivery ? ECANCELED : 0, ENOENT);
    return;
  }
  op->placed++;
  if (!op->staged) check_source(op, k);
  const unsigned char *source = op->staged ? op->copy : op->source;
  if (op->reads) memcpy(op->target + op->begin[k], remote + op->begin[k], op->size[k]);
  else memcpy(remote + op->begin[k], source + op->begin[k], op->size[k]);
}

static uint32_t parts_to_move(const struct operation *op) {
  if (op->fate == NOTHING) return 0;
  return op->fate == A_PART ? op->parts / 2 : op->parts;
}

/* All bytes are in place: reports the remote data, if there is a receive for it. */
static void arrive(struct operation *op) {
  struct endpoint *to = op->to;
  void *context = NULL;
  if (op->has_data && (op->fate == FINE || op->fate == ALL)) {
    if (fake.traits.mode & TU_FI_RX_CQ_DATA) {
      if (!to->posted_count) return;
      context = to->posted[0];
      memmove(to->posted, to->posted + 1, --to->posted_count * sizeof *to->posted);
    }
    add_completion(
        to->receives,
        &(struct completion){
            .owner = to, .context = context, .flags = TU_FI_REMOTE_WRITE | TU_FI_REMOTE_CQ_DATA, .data = op->data});
  }
  op->arrived = true;
}

static void complete(struct operation *op) {
  op->done = true;
  if (op->fate != FINE && !op->err) {
    op->err = EIO;
    op->prov_errno = ECONNABORTED;
  }
  for (uint32_t k = 0; k < op->parts && local_is_usable(op) && !op->unusable; k++) check_source(op, k);
  if (op->err && is_gone(op->to)) link_to(op->from, op->to)->refuses = true;
  if (op->injected) op->from->open--;
  if (is_gone(op->from) || (op->injected && !(op->err && coin()))) return;
  add_completion(op->from->sends, &(struct completion){.owner = op->from,
                                                       .context = op->context,
                                                       .counts = !op->injected,
                                                       .flags = TU_FI_RMA | (op->reads ? TU_FI_READ : TU_FI_WRITE),
                                                       .err = op->err,
                                                       .prov_errno = op->prov_errno});
}

/* Takes the steps that are due. The operation waits for those before it, if operations keep their order. */
static void advance(struct operation *op) {
  struct link *l = link_to(op->from, op->to);
  const bool may_move = fake.traits.shuffles || l->order_stalls != fake.looks;
  const bool may_complete = fake.traits.shuffles || l->done_stalls != fake.looks;
  op->age++;
  if (!op->arrived && is_gone(op->to)) {
    const bool reported = !op->early || coin();
    lose(op, reported ? ECANCELED : 0, ENOTCONN);
  }
  if (op->staged && !op->done) copy_source(op);
  const uint32_t parts = parts_to_move(op);
  while (may_move && !op->arrived && op->placed < parts && op->age > op->due_place[op->placed]) move_part(op);
  if (may_move && !op->arrived && op->placed >= parts && op->age > op->due_arrive) arrive(op);
  const bool may_report = op->arrived || (op->early && op->copied == op->parts);
  if (op->injected && op->arrived && !op->done) complete(op);
  if (!op->injected && !op->done && may_complete && may_report && op->age > op->due_done) complete(op);

  if (!op->arrived) l->order_stalls = fake.looks;
  if (!op->done && !op->injected) l->done_stalls = fake.looks;
  const bool copies = op->staged && op->copied < op->parts;
  const bool reports = !op->injected && !op->done && may_complete && (op->early || op->arrived);
  op->idle = !copies && !reports && (op->arrived || !may_move || (op->placed >= parts && op->age > op->due_arrive));
}

static void free_operation(struct operation *op) {
  free(op->copy);
  free(op);
}

static void sweep(void) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < fake.operation_count; i++) {
    struct operation *op = fake.operations[i];
    if (op->arrived && op->done) free_operation(op);
    else fake.operations[kept++] = op;
  }
  fake.operation_count = kept;
}

/* A look at a queue. */
static void look(const struct queue *q) {
  uint32_t count = 0;
  fake.looks++;
  if (fake.traits.connecting) connects(q, q);
  for (uint32_t i = 0; i < fake.operation_count; i++) {
    struct operation *op = fake.operations[i];
    if (has_end(op->from, q) || has_end(op->to, q)) ADD(fake.chosen, count, fake.chosen_capacity, op);
  }
  for (uint32_t i = count; fake.traits.shuffles && i > 1; i--) {
    const uint64_t k = draw(i);
    struct operation *op = fake.chosen[k];
    fake.chosen[k] = fake.chosen[i - 1];
    fake.chosen[i - 1] = op;
  }
  for (uint32_t i = 0; i < count; i++) advance(fake.chosen[i]);
  sweep();
}

/* ---- posts ---- */

struct request {
  const char *name;
  bool reads, delivery, has_data, injected;
  const void *source;
  void *target;
  size_t bytes;
  const void *desc;
  tu_fi_addr peer;
  uint64_t address, key, data;
  void *context;
};

static bool has_cap(const struct endpoint *ep, uint64_t cap) {
  if (!(ep->caps & TU_FI_RMA)) return false;
  return !(ep->caps & RMA_CAPS) || ep->caps & cap;
}

static struct endpoint *find_peer(const struct vector *v, tu_fi_addr address) {
  for (uint32_t i = 0; i < v->count; i++) {
    if (v->peers[i].address == address && v->peers[i].endpoint) return v->peers[i].endpoint;
  }
  return NULL;
}

/* Finds the region of the local memory. Returns false if it does not allow the operation. */
static bool find_local(const struct endpoint *ep, const struct request *r, struct region **region) {
  *region = NULL;
  if (!asks(TU_FI_MR_LOCAL) || r->injected || r->bytes == 0) return true;
  for (uint32_t i = 0; i < fake.region_count; i++) {
    if (&fake.regions[i]->desc == r->desc) *region = fake.regions[i];
  }
  const struct region *at = *region;
  const uintptr_t begin = r->reads ? (uintptr_t)r->target : (uintptr_t)r->source;
  const char *wrong = NULL;
  if (!at || at->object.domain != ep->object.domain) wrong = "no region of this domain";
  else if (begin < (uintptr_t)at->memory || begin - (uintptr_t)at->memory > at->bytes) wrong = "another region";
  else if (r->bytes > at->bytes - (begin - (uintptr_t)at->memory)) wrong = "a region that ends before the memory";
  else if (!(at->access & (r->reads ? TU_FI_READ : TU_FI_WRITE))) wrong = "a region without this access";
  if (wrong) violation(FAKE_LOCAL, &ep->object, "%s: the descriptor is that of %s", r->name, wrong);
  if (wrong || !asks(TU_FI_MR_ENDPOINT) || (at->endpoint == ep && at->enabled)) return !wrong;
  violation(FAKE_DISABLED, &ep->object, "%s: the local region is not enabled for this endpoint", r->name);
  return false;
}

/* Returns 0 if the rules allow the operation. */
static int check_request(struct endpoint *ep, const struct request *r, struct endpoint **to, struct region **region) {
  const struct object *o = &ep->object;
  if (!ep->enabled) {
    violation(FAKE_STATE, o, "%s: the endpoint is not enabled", r->name);
    return -EOPBADSTATE;
  }
  *to = find_peer(ep->vector, r->peer);
  if (!*to) {
    violation(FAKE_ADDRESS, o, "%s: address %llx is not in the address vector", r->name, (unsigned long long)r->peer);
    return -EINVAL;
  }
  const bool far = has_cap(*to, r->reads ? TU_FI_REMOTE_READ : TU_FI_REMOTE_WRITE);
  if (!has_cap(ep, r->reads ? TU_FI_READ : TU_FI_WRITE) || !far) {
    violation(FAKE_CAPABILITY, o, "%s: the capabilities of the %s do not include it", r->name,
              far ? "endpoint" : "peer");
    return -EOPNOTSUPP;
  }
  if (r->bytes > fake.traits.message_bytes || (r->injected && r->bytes > fake.traits.inject_bytes)) {
    violation(FAKE_LENGTH, o, "%s: %zu bytes are too many", r->name, r->bytes);
    return -EMSGSIZE;
  }
  if (r->bytes && !(r->reads ? r->target : r->source)) {
    violation(FAKE_ARGUMENT, o, "%s: the local memory is NULL", r->name);
    return -EINVAL;
  }
  if (r->has_data && r->data >> 8 * FAKE_FABRIC_DATA_BYTES)
    violation(FAKE_DATA, o, "%s: data %llx is wider than cq_data_size", r->name, (unsigned long long)r->data);
  if (!find_local(ep, r, region)) return -EINVAL;
  return r->injected || context_is_usable(ep, r->context, r->name) ? 0 : -EINVAL;
}

/* Returns true if the post returns -EAGAIN. */
static bool must_wait(struct endpoint *ep, struct endpoint *to) {
  struct link *l = link_to(ep, to);
  if (!l->asked) l->looks_here = l->looks_there = fake.traits.connecting;
  l->asked = true;
  if (l->looks_here || l->looks_there || chance(fake.traits.busy_per_1000)) return true;
  if (is_gone(to) && coin()) l->refuses = true;
  return l->refuses || ep->open >= fake.traits.operations_max;
}

/* Draws when the steps of an operation are due. */
static void plan(struct operation *op) {
  uint32_t due[STEPS];
  for (uint32_t i = 0; i < STEPS; i++) {
    const uint32_t value = (uint32_t)draw((uint64_t)fake.traits.late + 1);
    uint32_t k = i;
    for (; k > 0 && due[k - 1] > value; k--) due[k] = due[k - 1];
    due[k] = value;
  }
  for (uint32_t k = 0; k < PARTS; k++) {
    op->due_copy[k] = due[k];
    op->due_place[k] = due[PARTS + k];
  }
  op->due_arrive = due[4];
  op->due_done = op->early ? due[1 + draw(4)] : due[5];
}

static void add_operation(struct endpoint *ep, const struct request *r, struct endpoint *to, struct region *region) {
  struct operation *op = tu_allocate(1, sizeof *op);
  *op = (struct operation){.from = ep,
                           .to = to,
                           .name = r->name,
                           .reads = r->reads,
                           .has_data = r->has_data,
                           .injected = r->injected,
                           .source = r->source,
                           .target = r->target,
                           .bytes = r->bytes,
                           .region = region,
                           .address = r->address,
                           .key = r->key,
                           .context = r->context};
  op->delivery = r->delivery || (!r->injected && ep->op_flags & TU_FI_DELIVERY_COMPLETE);
  op->data = r->data & ((UINT64_C(1) << 8 * FAKE_FABRIC_DATA_BYTES) - 1);
  op->parts = r->bytes == 0 ? 0 : r->bytes > 1 && coin() ? PARTS : 1;
  op->size[0] = op->parts == PARTS ? 1 + draw(r->bytes - 1) : r->bytes;
  op->begin[1] = op->size[0];
  op->size[1] = r->bytes - op->size[0];
  op->last_first = fake.traits.shuffles && coin();
  op->fate = chance(fake.traits.errors_per_1000) ? (enum fate)(NOTHING + draw(FATES - NOTHING)) : FINE;
  op->staged = r->injected || (!r->reads && coin());
  op->early = op->staged && !op->delivery && !r->injected && op->fate == FINE;
  plan(op);
  for (uint32_t k = 0; !r->reads && k < op->parts; k++)
    op->hash[k] = tu_hash(op->source + op->begin[k], op->size[k], 1);
  if (op->staged && r->bytes) op->copy = tu_allocate(r->bytes, 1);
  if (r->injected && r->bytes) memcpy(op->copy, r->source, r->bytes);
  if (r->injected) op->copied = op->parts;
  else scribble_onto(r->context);
  ep->open++;
  ADD(fake.operations, fake.operation_count, fake.operation_capacity, op);
}

static ssize_t post(struct tu_fi_ep *face, const struct request *r) {
  struct endpoint *ep = (struct endpoint *)face;
  if (!enter(&ep->object)) return leave(&ep->object, -EBADF);
  if (ep->object.domain->dead) return leave(&ep->object, -EAGAIN);
  struct endpoint *to = NULL;
  struct region *region = NULL;
  const int err = check_request(ep, r, &to, &region);
  if (err) return leave(&ep->object, err);
  if (must_wait(ep, to)) return leave(&ep->object, -EAGAIN);
  add_operation(ep, r, to, region);
  return leave(&ep->object, 0);
}

static ssize_t post_read(struct tu_fi_ep *ep, void *memory, size_t bytes, void *desc, tu_fi_addr from, uint64_t address,
                         uint64_t key, void *context) {
  return post(ep, &(struct request){.name = "fi_read",
                                    .reads = true,
                                    .target = memory,
                                    .bytes = bytes,
                                    .desc = desc,
                                    .peer = from,
                                    .address = address,
                                    .key = key,
                                    .context = context});
}

static ssize_t post_writedata(struct tu_fi_ep *ep, const void *memory, size_t bytes, void *desc, uint64_t data,
                              tu_fi_addr to, uint64_t address, uint64_t key, void *context) {
  return post(ep, &(struct request){.name = "fi_writedata",
                                    .has_data = true,
                                    .source = memory,
                                    .bytes = bytes,
                                    .desc = desc,
                                    .data = data,
                                    .peer = to,
                                    .address = address,
                                    .key = key,
                                    .context = context});
}

static ssize_t post_injectdata(struct tu_fi_ep *ep, const void *memory, size_t bytes, uint64_t data, tu_fi_addr to,
                               uint64_t address, uint64_t key) {
  return post(ep, &(struct request){.name = "fi_inject_writedata",
                                    .has_data = true,
                                    .injected = true,
                                    .source = memory,
                                    .bytes = bytes,
                                    .data = data,
                                    .peer = to,
                                    .address = address,
                                    .key = key});
}

static ssize_t post_writemsg(struct tu_fi_ep *face, const struct tu_fi_msg_rma *m, uint64_t flags) {
  struct endpoint *ep = (struct endpoint *)face;
  const struct iovec iov = m->iov_count ? m->msg_iov[0] : (struct iovec){0};
  const struct tu_fi_rma_iov rma = m->rma_iov_count ? m->rma_iov[0] : (struct tu_fi_rma_iov){0};
  const bool fits = m->iov_count <= 1 && m->rma_iov_count <= 1;
  const bool known = !(flags & ~(TU_FI_COMPLETION | TU_FI_DELIVERY_COMPLETE | TU_FI_REMOTE_CQ_DATA));
  if (!fits || !known || iov.iov_len != rma.len) {
    enter(&ep->object);
    if (!fits || !known) violation(FAKE_ARGUMENT, &ep->object, "fi_writemsg: flags or counts are not supported");
    else violation(FAKE_LENGTH, &ep->object, "fi_writemsg: lengths of source and target differ");
    return leave(&ep->object, -EINVAL);
  }
  return post(face, &(struct request){.name = "fi_writemsg",
                                      .delivery = flags & TU_FI_DELIVERY_COMPLETE,
                                      .has_data = flags & TU_FI_REMOTE_CQ_DATA,
                                      .source = iov.iov_base,
                                      .bytes = iov.iov_len,
                                      .desc = m->iov_count && m->desc ? m->desc[0] : NULL,
                                      .data = m->data,
                                      .peer = m->addr,
                                      .address = rma.addr,
                                      .key = rma.key,
                                      .context = m->context});
}

static ssize_t post_receive(struct tu_fi_ep *face, void *memory, size_t bytes, void *desc, tu_fi_addr from,
                            void *context) {
  struct endpoint *ep = (struct endpoint *)face;
  struct object *o = &ep->object;
  (void)memory;
  (void)desc;
  (void)from;
  if (!enter(o)) return leave(o, -EBADF);
  if (o->domain->dead) return leave(o, -EAGAIN);
  if (!ep->enabled) violation(FAKE_STATE, o, "fi_recv: the endpoint is not enabled");
  if (bytes) violation(FAKE_ARGUMENT, o, "fi_recv: there are no messages, so the length must be 0");
  if (!(ep->caps & TU_FI_MSG)) violation(FAKE_CAPABILITY, o, "fi_recv: the capabilities do not include FI_MSG");
  if (!ep->enabled || bytes || !(ep->caps & TU_FI_MSG)) return leave(o, -EINVAL);
  if (!context_is_usable(ep, context, "fi_recv")) return leave(o, -EINVAL);
  if (ep->posted_count >= fake.traits.receives_max || chance(fake.traits.busy_per_1000)) return leave(o, -EAGAIN);
  scribble_onto(context);
  ADD(ep->posted, ep->posted_count, ep->posted_capacity, context);
  for (uint32_t i = 0; i < fake.operation_count; i++) {
    if (fake.operations[i]->to == ep) fake.operations[i]->idle = false;
  }
  return leave(o, 0);
}

/* ---- completion queues ---- */

static void take_completion(struct queue *q, uint32_t at) {
  const struct completion *c = &q->entries[at];
  if (!c->owner->object.closed && c->context) release_context(c->owner, c->context, true);
  if (c->counts) c->owner->open--;
}

static void drop_completions(struct queue *q, uint32_t count) {
  q->count -= count;
  memmove(q->entries, q->entries + count, q->count * sizeof *q->entries);
}

static ssize_t read_queue(struct tu_fi_cq *face, void *entries, size_t count) {
  struct queue *q = (struct queue *)face;
  struct object *o = &q->object;
  if (!enter(o)) return leave(o, -EBADF);
  if (o->domain->dead) return leave(o, -EAGAIN);
  if (!q->ready) {
    violation(FAKE_STATE, o, "fi_cq_read: no endpoint of this queue is enabled");
    return leave(o, -EINVAL);
  }
  look(q);
  q->armed = false;
  if (!q->count) return leave(o, -EAGAIN);
  uint32_t n = 0;
  while (n < count && n < q->count && !q->entries[n].err) n++;
  if (n == 0) return leave(o, q->entries[0].err ? -TU_FI_EAVAIL : 0);
  if (fake.traits.late) n = 1 + (uint32_t)draw(n);
  for (uint32_t i = 0; i < n; i++) {
    const struct completion *c = &q->entries[i];
    take_completion(q, i);
    ((struct tu_fi_cq_data_entry *)entries)[i] =
        (struct tu_fi_cq_data_entry){.op_context = c->context, .flags = c->flags, .data = c->data};
  }
  drop_completions(q, n);
  return leave(o, (int)n);
}

static ssize_t read_error(struct tu_fi_cq *face, struct tu_fi_cq_err_entry *entry, uint64_t flags) {
  struct queue *q = (struct queue *)face;
  struct object *o = &q->object;
  if (!enter(o)) return leave(o, -EBADF);
  if (flags) violation(FAKE_ARGUMENT, o, "fi_cq_readerr: flags are not supported");
  if (entry->err_data_size && !entry->err_data)
    violation(FAKE_ARGUMENT, o, "fi_cq_readerr: err_data is NULL, but err_data_size is not 0");
  if (!q->count || !q->entries[0].err || o->domain->dead) return leave(o, -EAGAIN);
  const struct completion c = q->entries[0];
  take_completion(q, 0);
  drop_completions(q, 1);
  *entry = (struct tu_fi_cq_err_entry){.op_context = c.context, .flags = c.flags, .err = c.err};
  entry->prov_errno = c.prov_errno;
  return leave(o, 1);
}

static const char *explain(struct tu_fi_cq *cq, int prov_errno, const void *data, char *text, size_t bytes) {
  (void)cq;
  (void)data;
  const char *reason = strerror(prov_errno);
  if (text && bytes) snprintf(text, bytes, "%s", reason);
  return reason;
}

static int control_queue(struct tu_fi_fid *fid, int command, void *argument) {
  struct queue *q = (struct queue *)fid;
  if (!enter(&q->object)) return leave(&q->object, -EBADF);
  if (command != TU_FI_GETWAIT || q->descriptor < 0) return leave(&q->object, -ENOSYS);
  *(int *)argument = q->descriptor;
  return leave(&q->object, 0);
}

static int try_wait(struct tu_fi_fabric *fabric, struct tu_fi_fid **fids, int count) {
  (void)fabric;
  int result = 0;
  for (int i = 0; i < count; i++) {
    struct queue *q = (struct queue *)fids[i];
    if (fids[i]->fclass != CLASS_QUEUE) return -EINVAL;
    if (!enter(&q->object)) return leave(&q->object, -EBADF);
    if (q->descriptor < 0) violation(FAKE_ARGUMENT, &q->object, "fi_trywait: the queue has no descriptor");
    else if (has_reason(q)) result = -EAGAIN;
    else q->armed = true;
    leave(&q->object, 0);
  }
  return result;
}

/* ---- closing ---- */

/* Counts a violation if other objects need this one. */
static bool is_needed(const struct object *o) {
  if (o->users) violation(FAKE_CLOSE_ORDER, o, "closed while %u objects need it", o->users);
  return o->users > 0;
}

static int close_fabric(struct tu_fi_fid *fid) {
  struct fabric *f = (struct fabric *)fid;
  if (!enter(&f->object)) return leave(&f->object, -EBADF);
  if (is_needed(&f->object)) return leave(&f->object, -EBUSY);
  f->object.closed = true;
  return leave(&f->object, 0);
}

static int close_domain(struct tu_fi_fid *fid) {
  struct domain *d = (struct domain *)fid;
  if (!enter(&d->object)) return leave(&d->object, -EBADF);
  if (is_needed(&d->object)) return leave(&d->object, -EBUSY);
  d->object.closed = true;
  d->fabric->object.users--;
  return leave(&d->object, 0);
}

static int close_vector(struct tu_fi_fid *fid) {
  struct vector *v = (struct vector *)fid;
  if (!enter(&v->object)) return leave(&v->object, -EBADF);
  if (is_needed(&v->object)) return leave(&v->object, -EBUSY);
  v->object.closed = true;
  v->object.domain->object.users--;
  return leave(&v->object, 0);
}

static int close_queue(struct tu_fi_fid *fid) {
  struct queue *q = (struct queue *)fid;
  if (!enter(&q->object)) return leave(&q->object, -EBADF);
  if (is_needed(&q->object)) return leave(&q->object, -EBUSY);
  q->object.closed = true;
  q->object.domain->object.users--;
  uint32_t i = 0;
  while (fake.queues[i] != q) i++;
  fake.queues[i] = fake.queues[--fake.queue_count];
  if (q->descriptor >= 0) fake.traits.descriptor_close(q->descriptor);
  return leave(&q->object, 0);
}

static int close_region(struct tu_fi_fid *fid) {
  struct region *r = (struct region *)fid;
  if (!enter(&r->object)) return leave(&r->object, -EBADF);
  r->object.closed = true;
  r->object.domain->object.users--;
  r->object.domain->regions--;
  if (r->endpoint && !r->endpoint->object.closed) r->endpoint->object.users--;
  uint32_t i = 0;
  while (fake.regions[i] != r) i++;
  fake.regions[i] = fake.regions[--fake.region_count];
  return leave(&r->object, 0);
}

/* Removes completions of an endpoint from a queue, or, if they stay, takes their contexts for the program's. */
static void end_completions(struct queue *q, const struct endpoint *ep, bool discards) {
  uint32_t kept = 0;
  for (uint32_t i = 0; q && i < q->count; i++) {
    if (q->entries[i].owner == ep) release_context(ep, q->entries[i].context, false);
    if (q->entries[i].owner != ep || !discards) q->entries[kept++] = q->entries[i];
  }
  if (q) q->count = kept;
}

/* The endpoint makes no more moves. Operations that are out of its hands may stay, if `sent`. */
static void end_endpoint(struct endpoint *ep, bool sent, bool discards) {
  for (uint32_t i = 0; i < fake.operation_count; i++) {
    struct operation *op = fake.operations[i];
    if (op->from != ep) continue;
    if (!op->injected && !op->done) release_context(ep, op->context, false);
    const bool stays = sent && (op->injected || op->done) && !(fake.traits.loses_on_close && coin());
    if (!stays) op->arrived = true;
    if (!stays || !op->injected) op->done = true;
  }
  sweep();
  for (uint32_t i = 0; i < ep->posted_count; i++) release_context(ep, ep->posted[i], false);
  ep->posted_count = 0;
  end_completions(ep->sends, ep, discards);
  if (ep->receives != ep->sends) end_completions(ep->receives, ep, discards);
  for (uint32_t i = 0; i < fake.operation_count; i++) {
    if (fake.operations[i]->to == ep) fake.operations[i]->idle = false;
  }
}

static int close_endpoint(struct tu_fi_fid *fid) {
  struct endpoint *ep = (struct endpoint *)fid;
  struct object *o = &ep->object;
  if (!enter(o)) return leave(o, -EBADF);
  if (o->users) violation(FAKE_REGION_BOUND, o, "closed while %u regions are bound to it", o->users);
  if (o->users && !(fake.traits.allowed >> FAKE_REGION_BOUND & 1)) return leave(o, -EBUSY);
  end_endpoint(ep, !o->domain->dead, coin());
  o->closed = true;
  o->domain->object.users--;
  if (ep->vector) ep->vector->object.users--;
  if (ep->sends) ep->sends->object.users--;
  if (ep->receives) ep->receives->object.users--;
  return leave(o, 0);
}

void fake_fabric_kill(const void *name, size_t bytes) {
  pthread_mutex_lock(&mutex);
  const struct domain *dead = NULL;
  for (uint32_t i = 0; i < fake.endpoint_count; i++) {
    const struct endpoint *ep = fake.endpoints[i];
    if (bytes == sizeof ep->name && memcmp(ep->name, name, bytes) == 0) dead = ep->object.domain;
  }
  if (!dead) violation(FAKE_ARGUMENT, NULL, "fake_fabric_kill: no endpoint has this name");
  for (uint32_t i = 0; dead && i < fake.endpoint_count; i++) {
    struct endpoint *ep = fake.endpoints[i];
    if (ep->object.domain != dead) continue;
    ep->object.domain->dead = true;
    end_endpoint(ep, false, true);
  }
  fake.killed |= dead != NULL;
  refresh_descriptors();
  pthread_mutex_unlock(&mutex);
}

/* ---- endpoints and regions ---- */

static int bind_endpoint(struct tu_fi_fid *fid, struct tu_fi_fid *other, uint64_t flags) {
  struct endpoint *ep = (struct endpoint *)fid;
  struct object *o = &ep->object;
  if (!enter(o)) return leave(o, -EBADF);
  const bool is_queue = other->fclass == CLASS_QUEUE, is_vector = other->fclass == CLASS_VECTOR;
  const bool known = is_queue ? flags && !(flags & ~(TU_FI_TRANSMIT | TU_FI_RECV)) : is_vector && flags == 0;
  if (!known) violation(FAKE_ARGUMENT, o, "fi_ep_bind: object or flags are not supported");
  if (!known) return leave(o, -EINVAL);
  struct queue *q = (struct queue *)other;
  struct vector *v = (struct vector *)other;
  const struct object *with = is_queue ? &q->object : &v->object;
  const bool sends = is_queue && flags & TU_FI_TRANSMIT, receives = is_queue && flags & TU_FI_RECV;
  const bool again = (is_vector && ep->vector) || (sends && ep->sends) || (receives && ep->receives);
  if (ep->enabled || again) violation(FAKE_STATE, o, "fi_ep_bind: enabled, or bound before");
  if (with->closed) violation(FAKE_CLOSED, with, "bound after it was closed");
  if (with->domain != o->domain) violation(FAKE_ARGUMENT, o, "fi_ep_bind: the object is of another domain");
  if (ep->enabled || again || with->closed || with->domain != o->domain) return leave(o, -EINVAL);
  if (is_vector) ep->vector = v;
  if (sends) ep->sends = q;
  if (receives) ep->receives = q;
  if (is_vector) v->object.users++;
  else q->object.users += (uint32_t)sends + receives;
  return leave(o, 0);
}

static int control_endpoint(struct tu_fi_fid *fid, int command, void *argument) {
  struct endpoint *ep = (struct endpoint *)fid;
  struct object *o = &ep->object;
  (void)argument;
  if (!enter(o)) return leave(o, -EBADF);
  if (command != TU_FI_ENABLE) return leave(o, -ENOSYS);
  if (refused()) return leave(o, -ENOMEM);
  const bool bound = ep->vector && ep->sends && ep->receives;
  if (!bound || ep->enabled) {
    violation(FAKE_STATE, o, "fi_enable: %s", bound ? "enabled before" : "not bound to all that it needs");
    return leave(o, -EOPBADSTATE);
  }
  ep->enabled = ep->sends->ready = ep->receives->ready = true;
  return leave(o, 0);
}

static int get_name(struct tu_fi_fid *fid, void *name, size_t *bytes) {
  struct endpoint *ep = (struct endpoint *)fid;
  if (!enter(&ep->object)) return leave(&ep->object, -EBADF);
  if (!ep->enabled) {
    violation(FAKE_STATE, &ep->object, "fi_getname: the endpoint is not enabled");
    return leave(&ep->object, -EOPBADSTATE);
  }
  const size_t room = *bytes;
  *bytes = sizeof ep->name;
  memcpy(name, ep->name, tu_min(room, sizeof ep->name));
  return leave(&ep->object, room < sizeof ep->name ? -ETOOSMALL : 0);
}

static int bind_region(struct tu_fi_fid *fid, struct tu_fi_fid *other, uint64_t flags) {
  struct region *r = (struct region *)fid;
  struct object *o = &r->object;
  if (!enter(o)) return leave(o, -EBADF);
  if (!asks(TU_FI_MR_ENDPOINT)) return leave(o, -ENOSYS);
  struct endpoint *ep = (struct endpoint *)other;
  if (other->fclass != CLASS_ENDPOINT || flags || ep->object.domain != o->domain) {
    violation(FAKE_ARGUMENT, o, "fi_mr_bind: not to an endpoint of this domain, or with flags");
    return leave(o, -EINVAL);
  }
  if (ep->object.closed) violation(FAKE_CLOSED, &ep->object, "bound to a region after it was closed");
  if (r->endpoint) violation(FAKE_STATE, o, "fi_mr_bind: bound before");
  if (ep->object.closed || r->endpoint) return leave(o, -EINVAL);
  r->endpoint = ep;
  ep->object.users++;
  return leave(o, 0);
}

static uint64_t key_mask(void) {
  return fake.traits.key_bytes >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * fake.traits.key_bytes) - 1;
}

static bool key_is_used(const struct domain *d, uint64_t key) {
  for (uint32_t i = 0; i < fake.region_count; i++) {
    if (fake.regions[i]->object.domain == d && fake.regions[i]->key == key) return true;
  }
  return false;
}

static uint64_t new_key(const struct domain *d) {
  uint64_t key;
  do {
    key = tu_random(&fake.random) & key_mask();
  } while (key == NOT_AVAILABLE || key_is_used(d, key));
  return key;
}

static int control_region(struct tu_fi_fid *fid, int command, void *argument) {
  struct region *r = (struct region *)fid;
  struct object *o = &r->object;
  (void)argument;
  if (!enter(o)) return leave(o, -EBADF);
  if (command != TU_FI_ENABLE || !asks(TU_FI_MR_ENDPOINT)) return leave(o, -ENOSYS);
  if (!r->endpoint || r->enabled) {
    violation(FAKE_STATE, o, "fi_mr_enable: %s", r->enabled ? "enabled before" : "not bound to an endpoint");
    return leave(o, -EOPBADSTATE);
  }
  if (refused()) return leave(o, -ENOMEM);
  r->enabled = true;
  if (asks(TU_FI_MR_PROV_KEY)) r->face.key = r->key = new_key(o->domain);
  return leave(o, 0);
}

static struct tu_fi_ops region_ops = {
    .size = sizeof region_ops, .close = close_region, .bind = bind_region, .control = control_region};

/* Returns true if all pages of the memory are there. */
static bool is_resident(const void *memory, size_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)memory + bytes;
  unsigned char there[512];
  for (uintptr_t at = (uintptr_t)memory / page * page; at < end; at += sizeof there * page) {
    const uintptr_t pages = tu_min((end - at + page - 1) / page, sizeof there);
    if (mincore((void *)at, pages * page, there) != 0) return false;
    for (uintptr_t i = 0; i < pages; i++) {
      if (!(there[i] & 1)) return false;
    }
  }
  return true;
}

/* Returns 0 if the region may be registered. */
static int check_region(const struct domain *d, const void *memory, size_t bytes, uint64_t access, uint64_t key) {
  const struct object *o = &d->object;
  if (!bytes || !memory || !access || access & ~(RMA_CAPS | TU_FI_RECV | TU_FI_TRANSMIT)) {
    violation(FAKE_ARGUMENT, o, "fi_mr_reg: no bytes, or an access that is not supported");
    return -EINVAL;
  }
  if (asks(TU_FI_MR_ALLOCATED) && !is_resident(memory, bytes)) {
    violation(FAKE_NOT_ALLOCATED, o, "fi_mr_reg: pages of the memory are not allocated");
    return -EFAULT;
  }
  if (refused() || (fake.traits.regions_max && d->regions >= fake.traits.regions_max)) return -ENOMEM;
  if (asks(TU_FI_MR_PROV_KEY)) return 0;
  if (key & ~key_mask()) {
    violation(FAKE_KEY_TOO_WIDE, o, "fi_mr_reg: key %llx is wider than mr_key_size", (unsigned long long)key);
    return -EINVAL;
  }
  return key_is_used(d, key) ? -ENOKEY_OF_FABRIC : 0;
}

static int register_memory(struct tu_fi_fid *fid, const void *memory, size_t bytes, uint64_t access, uint64_t offset,
                           uint64_t key, uint64_t flags, struct tu_fi_mr **out, void *context) {
  struct domain *d = (struct domain *)fid;
  struct object *o = &d->object;
  if (!enter(o)) return leave(o, -EBADF);
  if (offset || flags) violation(FAKE_ARGUMENT, o, "fi_mr_reg: offset and flags must be 0");
  const int err = offset || flags ? -EINVAL : check_region(d, memory, bytes, access, key);
  if (err) return leave(o, err);
  struct region *r = tu_allocate(1, sizeof *r);
  add_object(&r->object, r, CLASS_REGION, d);
  r->face.fid = (struct tu_fi_fid){.fclass = CLASS_REGION, .context = context, .ops = &region_ops};
  r->face.mem_desc = &r->desc;
  r->key = !asks(TU_FI_MR_PROV_KEY) ? key : asks(TU_FI_MR_ENDPOINT) ? NOT_AVAILABLE : new_key(d);
  r->face.key = r->key;
  r->memory = (unsigned char *)(uintptr_t)memory;
  r->bytes = bytes;
  r->access = access;
  ADD(fake.regions, fake.region_count, fake.region_capacity, r);
  d->regions++;
  o->users++;
  *out = &r->face;
  return leave(o, 0);
}

/* ---- address vectors ---- */

static struct endpoint *find_endpoint(const void *name) {
  for (uint32_t i = 0; i < fake.endpoint_count; i++) {
    struct endpoint *ep = fake.endpoints[i];
    if (ep->enabled && memcmp(ep->name, name, sizeof ep->name) == 0) return ep;
  }
  return NULL;
}

static int insert_names(struct tu_fi_av *face, const void *names, size_t count, tu_fi_addr *addresses, uint64_t flags,
                        void *context) {
  struct vector *v = (struct vector *)face;
  struct object *o = &v->object;
  (void)context;
  if (!enter(o)) return leave(o, -EBADF);
  if (flags) violation(FAKE_ARGUMENT, o, "fi_av_insert: flags are not supported");
  if (flags) return leave(o, -EINVAL);
  int inserted = 0;
  for (size_t i = 0; i < count; i++) {
    struct peer p = {.endpoint = find_endpoint((const unsigned char *)names + i * FAKE_FABRIC_NAME_BYTES)};
    p.address = v->is_table ? v->count : (v->count + 1) * UINT64_C(0x9e3779b97f4a7c15);
    if (addresses) addresses[i] = p.endpoint ? p.address : NOT_AVAILABLE;
    if (!p.endpoint) continue;
    ADD(v->peers, v->count, v->capacity, p);
    inserted++;
  }
  return leave(o, inserted);
}

static void remove_peer(struct vector *v, struct peer *p) {
  uint32_t open = 0;
  for (uint32_t i = 0; i < fake.operation_count; i++) {
    const struct operation *op = fake.operations[i];
    open += op->from->vector == v && op->to == p->endpoint && !op->from->object.closed && !op->done;
  }
  if (open) violation(FAKE_ADDRESS, &v->object, "fi_av_remove: %u operations to this address are open", open);
  p->endpoint = NULL;
}

static int remove_names(struct tu_fi_av *face, tu_fi_addr *addresses, size_t count, uint64_t flags) {
  struct vector *v = (struct vector *)face;
  struct object *o = &v->object;
  if (!enter(o)) return leave(o, -EBADF);
  if (flags) violation(FAKE_ARGUMENT, o, "fi_av_remove: flags are not supported");
  int err = flags ? -EINVAL : 0;
  for (size_t i = 0; i < count && !err; i++) {
    if (!find_peer(v, addresses[i])) err = -EINVAL;
    if (err) violation(FAKE_ADDRESS, o, "fi_av_remove: address %llx is not in it", (unsigned long long)addresses[i]);
    for (uint32_t k = 0; k < v->count; k++) {
      if (v->peers[k].address == addresses[i] && v->peers[k].endpoint) remove_peer(v, &v->peers[k]);
    }
  }
  return leave(o, err);
}

/* ---- opening ---- */

static struct tu_fi_ops vector_ops = {.size = sizeof vector_ops, .close = close_vector};
static struct tu_fi_ops_av vector_own_ops = {
    .size = sizeof vector_own_ops, .insert = insert_names, .remove = remove_names};

static int open_vector(struct tu_fi_domain *face, struct tu_fi_av_attr *attr, struct tu_fi_av **out, void *context) {
  struct domain *d = (struct domain *)face;
  struct object *o = &d->object;
  if (!enter(o)) return leave(o, -EBADF);
  const bool known = attr->type <= VECTOR_TABLE && !attr->flags && !attr->name && !attr->rx_ctx_bits;
  if (!known) violation(FAKE_ARGUMENT, o, "fi_av_open: attributes are not supported");
  if (!known) return leave(o, -EINVAL);
  if (refused()) return leave(o, -ENOMEM);
  struct vector *v = tu_allocate(1, sizeof *v);
  add_object(&v->object, v, CLASS_VECTOR, d);
  v->face.fid = (struct tu_fi_fid){.fclass = CLASS_VECTOR, .context = context, .ops = &vector_ops};
  v->face.ops = &vector_own_ops;
  v->is_table = attr->type == VECTOR_TABLE;
  if (!attr->type) attr->type = VECTOR_MAP;
  o->users++;
  *out = &v->face;
  return leave(o, 0);
}

static struct tu_fi_ops queue_ops = {.size = sizeof queue_ops, .close = close_queue, .control = control_queue};
static struct tu_fi_ops_cq queue_own_ops = {
    .size = sizeof queue_own_ops, .read = read_queue, .readerr = read_error, .strerror = explain};

static int open_queue(struct tu_fi_domain *face, struct tu_fi_cq_attr *attr, struct tu_fi_cq **out, void *context) {
  struct domain *d = (struct domain *)face;
  struct object *o = &d->object;
  if (!enter(o)) return leave(o, -EBADF);
  const bool known = attr->format == TU_FI_CQ_FORMAT_DATA && !attr->flags && !attr->wait_cond;
  if (!known) violation(FAKE_ARGUMENT, o, "fi_cq_open: format or flags are not supported");
  if (!known) return leave(o, -EINVAL);
  const bool waits = attr->wait_obj == TU_FI_WAIT_FD;
  if (attr->wait_obj != TU_FI_WAIT_NONE && (!waits || fake.traits.no_descriptor)) return leave(o, -ENOSYS);
  if (refused()) return leave(o, -ENOMEM);
  const int descriptor = waits ? fake.traits.descriptor_open() : -1;
  if (waits && descriptor < 0) return leave(o, descriptor);
  struct queue *q = tu_allocate(1, sizeof *q);
  add_object(&q->object, q, CLASS_QUEUE, d);
  q->face.fid = (struct tu_fi_fid){.fclass = CLASS_QUEUE, .context = context, .ops = &queue_ops};
  q->face.ops = &queue_own_ops;
  q->descriptor = descriptor;
  ADD(fake.queues, fake.queue_count, fake.queue_capacity, q);
  o->users++;
  *out = &q->face;
  return leave(o, 0);
}

static struct tu_fi_ops endpoint_ops = {
    .size = sizeof endpoint_ops, .close = close_endpoint, .bind = bind_endpoint, .control = control_endpoint};
static struct tu_fi_ops_cm endpoint_cm = {.size = sizeof endpoint_cm, .getname = get_name};
static struct tu_fi_ops_msg endpoint_msg = {.size = sizeof endpoint_msg, .recv = post_receive};
static struct tu_fi_ops_rma endpoint_rma = {.size = sizeof endpoint_rma,
                                            .read = post_read,
                                            .writemsg = post_writemsg,
                                            .writedata = post_writedata,
                                            .injectdata = post_injectdata};

static int open_endpoint(struct tu_fi_domain *face, struct tu_fi_info *info, struct tu_fi_ep **out, void *context) {
  struct domain *d = (struct domain *)face;
  struct object *o = &d->object;
  if (!enter(o)) return leave(o, -EBADF);
  const struct info *from = find_info(info);
  const bool known = from && !from->freed && info->ep_attr->type == TU_FI_EP_RDM;
  if (!known) violation(FAKE_ARGUMENT, o, "fi_endpoint: the info is not one of fi_getinfo, or not of type FI_EP_RDM");
  if (!known) return leave(o, -EINVAL);
  if (refused()) return leave(o, -ENOMEM);
  struct endpoint *ep = tu_allocate(1, sizeof *ep);
  add_object(&ep->object, ep, CLASS_ENDPOINT, d);
  ep->face.fid = (struct tu_fi_fid){.fclass = CLASS_ENDPOINT, .context = context, .ops = &endpoint_ops};
  ep->face.cm = &endpoint_cm;
  ep->face.msg = &endpoint_msg;
  ep->face.rma = &endpoint_rma;
  ep->caps = info->caps;
  ep->op_flags = info->tx_attr->op_flags;
  ep->ordinal = fake.endpoint_count;
  const uint64_t hash = tu_hash(&ep->ordinal, sizeof ep->ordinal, fake.traits.seed);
  memcpy(ep->name, "fake", 4);
  memcpy(ep->name + 4, &ep->ordinal, sizeof ep->ordinal);
  memcpy(ep->name + 8, &hash, sizeof hash);
  ADD(fake.endpoints, fake.endpoint_count, fake.endpoint_capacity, ep);
  o->users++;
  *out = &ep->face;
  return leave(o, 0);
}

static struct tu_fi_ops domain_ops = {.size = sizeof domain_ops, .close = close_domain};
static struct tu_fi_ops_domain domain_own_ops = {
    .size = sizeof domain_own_ops, .av_open = open_vector, .cq_open = open_queue, .endpoint = open_endpoint};
static struct tu_fi_ops_mr domain_mr = {.size = sizeof domain_mr, .reg = register_memory};

static int open_domain(struct tu_fi_fabric *face, struct tu_fi_info *info, struct tu_fi_domain **out, void *context) {
  struct fabric *f = (struct fabric *)face;
  struct object *o = &f->object;
  if (!enter(o)) return leave(o, -EBADF);
  const struct info *from = find_info(info);
  const bool known = from && !from->freed && !(fake.traits.mr_mode & ~info->domain_attr->mr_mode);
  if (!known) violation(FAKE_ARGUMENT, o, "fi_domain: the info is not one of fi_getinfo");
  if (!known) return leave(o, -EINVAL);
  if (refused()) return leave(o, -ENOMEM);
  struct domain *d = tu_allocate(1, sizeof *d);
  add_object(&d->object, d, CLASS_DOMAIN, d);
  d->face.fid = (struct tu_fi_fid){.fclass = CLASS_DOMAIN, .context = context, .ops = &domain_ops};
  d->face.ops = &domain_own_ops;
  d->face.mr = &domain_mr;
  d->fabric = f;
  o->users++;
  *out = &d->face;
  return leave(o, 0);
}

static struct tu_fi_ops fabric_ops = {.size = sizeof fabric_ops, .close = close_fabric};
static struct tu_fi_ops_fabric fabric_own_ops = {
    .size = sizeof fabric_own_ops, .domain = open_domain, .trywait = try_wait};

static int open_fabric(struct tu_fi_fabric_attr *attr, struct tu_fi_fabric **out, void *context) {
  if (!attr->prov_name || strcmp(attr->prov_name, "fake") != 0) return -ENODATA;
  pthread_mutex_lock(&mutex);
  struct fabric *f = refused() ? NULL : tu_allocate(1, sizeof *f);
  if (f) {
    add_object(&f->object, f, CLASS_FABRIC, NULL);
    f->face.fid = (struct tu_fi_fid){.fclass = CLASS_FABRIC, .context = context, .ops = &fabric_ops};
    f->face.ops = &fabric_own_ops;
    f->face.api_version = TU_FI_VERSION_1_17;
    *out = &f->face;
  }
  pthread_mutex_unlock(&mutex);
  return f ? 0 : -ENOMEM;
}

/* ---- begin and end ---- */

static void free_all(void) {
  for (uint32_t i = 0; i < fake.queue_count; i++) {
    struct queue *q = fake.queues[i];
    const bool may_call = fake.traits.descriptor_close == close_eventfd || !q->object.domain->dead;
    if (q->descriptor >= 0 && may_call) fake.traits.descriptor_close(q->descriptor);
  }
  for (uint32_t i = 0; i < fake.endpoint_count; i++) {
    free(fake.endpoints[i]->links);
    free(fake.endpoints[i]->posted);
  }
  for (uint32_t i = 0; i < fake.object_count; i++) {
    struct object *o = fake.objects[i];
    if (o->class == CLASS_QUEUE) free(((struct queue *)o->memory)->entries);
    if (o->class == CLASS_VECTOR) free(((struct vector *)o->memory)->peers);
  }
  for (uint32_t i = 0; i < fake.object_count; i++) free(fake.objects[i]->memory);
  for (uint32_t i = 0; i < fake.operation_count; i++) free_operation(fake.operations[i]);
  for (uint32_t i = 0; i < fake.info_count; i++) {
    if (!fake.infos[i]->freed) free_info(&fake.infos[i]->face);
  }
  for (uint32_t i = 0; i < fake.info_count; i++) free(fake.infos[i]);
  void *const lists[] = {fake.objects, fake.endpoints,  fake.queues, fake.regions,
                         fake.infos,   fake.operations, fake.chosen, fake.scribbles};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) free(lists[i]);
  memset(&fake, 0, sizeof fake);
}

void fake_fabric_begin(const struct fake_fabric_traits *traits) {
  free_all();
  memset(seen, 0, sizeof seen);
  fake.traits = *traits;
  struct fake_fabric_traits *t = &fake.traits;
  fake.random = tu_hash(&t->seed, sizeof t->seed, 0);
  if (!t->operations_max) t->operations_max = 64;
  if (!t->receives_max) t->receives_max = 64;
  if (!t->inject_bytes && !t->injects_nothing) t->inject_bytes = 8;
  if (!t->key_bytes) t->key_bytes = 8;
  if (!t->message_bytes) t->message_bytes = SIZE_MAX;
  if (t->descriptor_open) return;
  t->descriptor_open = open_eventfd;
  t->descriptor_set = set_eventfd;
  t->descriptor_close = close_eventfd;
}

uint32_t fake_fabric_end(void) {
  for (uint32_t i = 0; i < fake.object_count; i++) {
    const struct object *o = fake.objects[i];
    const bool excused = o->domain ? o->domain->dead : fake.killed;
    if (!o->closed && !excused) violation(FAKE_LEFT_OPEN, o, "not closed");
  }
  for (uint32_t i = 0; i < fake.info_count && !fake.killed; i++) {
    if (!fake.infos[i]->freed) violation(FAKE_LEFT_OPEN, NULL, "an info is not freed");
  }
  const uint32_t violations = fake.violations;
  free_all();
  return violations;
}

uint32_t fake_fabric_seen(enum fake_fabric_rule rule) {
  pthread_mutex_lock(&mutex);
  const uint32_t count = seen[rule];
  pthread_mutex_unlock(&mutex);
  return count;
}

uint32_t fake_fabric_open(void) {
  pthread_mutex_lock(&mutex);
  uint32_t count = fake.operation_count;
  for (uint32_t i = 0; i < fake.queue_count; i++) count += fake.queues[i]->count;
  pthread_mutex_unlock(&mutex);
  return count;
}

static const char *describe_error(int error) {
  if (error < 0) {
    pthread_mutex_lock(&mutex);
    violation(FAKE_ARGUMENT, NULL, "fi_strerror: errors are positive");
    pthread_mutex_unlock(&mutex);
  }
  return error == ENOKEY_OF_FABRIC ? "Required key not available" : strerror(error < 0 ? -error : error);
}

static uint32_t get_version(void) { return TU_FI_VERSION_1_17; }

const struct tu_fabric_library fake_fabric = {.getinfo = get_info,
                                              .freeinfo = free_info,
                                              .dupinfo = dup_info,
                                              .fabric = open_fabric,
                                              .strerror = describe_error,
                                              .version = get_version};
