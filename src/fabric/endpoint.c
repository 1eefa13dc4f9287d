/* endpoint.c: an endpoint of libfabric. Options are set by hints alone, never by environment variables, which are the
 * user's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "fabric/fabric.h"

enum {
  ENTRIES = 16,      /* number of completions that are read at once */
  LOOKS = 16,        /* maximum number of such reads in one look */
  RECEIVES_MAX = 512 /* maximum number of posted receives */
};

/* ---- opening ---- */

static tutti_err fail(const struct tu_fabric *f, const char *step, long code, struct tu_error *error) {
  return tu_fail(error, code == -ENOMEM ? TUTTI_ERR_MEMORY : TUTTI_ERR_ENVIRONMENT,
                 "provider %s of libfabric, domain %s: %s failed: %s. `tutti info --fabrics` lists the providers; "
                 "TUTTI_FABRIC=none uses sockets",
                 f->info->fabric_attr->prov_name, f->info->domain_attr->name, step, f->library->strerror((int)-code));
}

static int close_object(struct tu_fi_fid *fid) { return fid->ops->close(fid); }

static tutti_err open_queue(struct tu_fabric *f, struct tu_error *error) {
  const size_t depth = f->info->tx_attr->size + f->info->rx_attr->size;
  struct tu_fi_cq_attr attr = {.size = depth, .format = TU_FI_CQ_FORMAT_DATA, .wait_obj = TU_FI_WAIT_FD};
  int code = f->domain->ops->cq_open(f->domain, &attr, &f->cq, NULL);
  if (code == 0) code = f->cq->fid.ops->control(&f->cq->fid, TU_FI_GETWAIT, &f->descriptor);
  if (code == 0) return TUTTI_OK;
  if (f->cq) (void)close_object(&f->cq->fid);
  f->cq = NULL;
  f->descriptor = -1;
  attr.wait_obj = TU_FI_WAIT_NONE;
  code = f->domain->ops->cq_open(f->domain, &attr, &f->cq, NULL);
  return code == 0 ? TUTTI_OK : fail(f, "fi_cq_open", code, error);
}

static tutti_err enable(struct tu_fabric *f, struct tu_error *error) {
  int code = f->domain->ops->endpoint(f->domain, f->info, &f->ep, NULL);
  if (code != 0) return fail(f, "fi_endpoint", code, error);
  struct tu_fi_fid *fid = &f->ep->fid;
  code = fid->ops->bind(fid, &f->av->fid, 0);
  if (code == 0) code = fid->ops->bind(fid, &f->cq->fid, TU_FI_TRANSMIT | TU_FI_RECV);
  if (code != 0) return fail(f, "fi_ep_bind", code, error);
  code = fid->ops->control(fid, TU_FI_ENABLE, NULL);
  if (code != 0) return fail(f, "fi_enable", code, error);
  f->name_bytes = sizeof f->name;
  code = f->ep->cm->getname(fid, f->name, &f->name_bytes);
  return code == 0 ? TUTTI_OK : fail(f, "fi_getname", code, error);
}

static bool is_receive(const struct tu_fabric *f, const struct tu_fabric_op *op) {
  return (uintptr_t)op - (uintptr_t)f->receives < f->receive_count * sizeof *op;
}

/* Posts receives, which completion data of peers take. Those that cannot be posted now are posted by a later look. */
static void post_receives(struct tu_fabric *f) {
  while (f->idle_count > 0 &&
         f->ep->msg->recv(f->ep, NULL, 0, NULL, UINT64_MAX, &f->idle_receives[f->idle_count - 1]->context) == 0)
    f->idle_count--;
}

static tutti_err make_receives(struct tu_fabric *f, struct tu_error *error) {
  if (!(f->info->mode & TU_FI_RX_CQ_DATA)) return TUTTI_OK;
  const size_t count = tu_min(f->info->rx_attr->size, (size_t)RECEIVES_MAX);
  f->receives = tu_try_allocate(count, sizeof *f->receives);
  f->idle_receives = tu_try_allocate(count, sizeof(struct tu_fabric_op *));
  if (!f->receives || !f->idle_receives)
    return tu_fail_memory(error, count * sizeof *f->receives, "receives of an endpoint of libfabric");
  f->receive_count = f->idle_count = count;
  for (size_t i = 0; i < count; i++) f->idle_receives[i] = &f->receives[i];
  post_receives(f);
  return TUTTI_OK;
}

/* libfabric 1.17 crashes (rxm_handle_comp_error) if a connection ends when a write that reports data is received in part: the
 * lower layer passes on an error without a context. It keeps errors of plain writes to itself, and a write of 0 bytes is
 * never received in part. Both writes go through one connection of TCP, in their order. */
static bool must_split(const struct tu_fi_info *info) {
  const char *name = info->fabric_attr->prov_name;
  const bool crashes = strcmp(name, "tcp;ofi_rxm") == 0 || strcmp(name, "net;ofi_rxm") == 0;
  return crashes && !(info->mode & (TU_FI_CONTEXT | TU_FI_CONTEXT2));
}

/* The second part fails, too, as the connection has ended. If it should arrive, the peer finds an old number in its slot, and
 * ends the path. */
static void end_first_part(struct tu_fabric_op *op, int error) { (void)op, (void)error; }

static tutti_err open_all(struct tu_fabric *f, struct tu_error *error) {
  int code = f->library->fabric(f->info->fabric_attr, &f->fabric, NULL);
  if (code != 0) return fail(f, "fi_fabric", code, error);
  code = f->fabric->ops->domain(f->fabric, f->info, &f->domain, NULL);
  if (code != 0) return fail(f, "fi_domain", code, error);
  struct tu_fi_av_attr attr = {0};
  code = f->domain->ops->av_open(f->domain, &attr, &f->av, NULL);
  if (code != 0) return fail(f, "fi_av_open", code, error);
  tutti_err err = open_queue(f, error);
  if (err == TUTTI_OK) err = enable(f, error);
  return err == TUTTI_OK ? make_receives(f, error) : err;
}

tutti_err tu_fabric_open(const struct tu_fabric_library *library, const struct tu_fi_info *info,
                         struct tu_fabric **fabric, struct tu_error *error) {
  struct tu_fabric *f = tu_try_allocate(1, sizeof *f);
  *fabric = NULL;
  if (!f) return tu_fail_memory(error, sizeof *f, "an endpoint of libfabric");
  *f = (struct tu_fabric){.library = library, .info = library->dupinfo(info), .descriptor = -1};
  if (!f->info) {
    free(f);
    return tu_fail_memory(error, sizeof *info, "an endpoint of libfabric");
  }
  f->splits = must_split(f->info);
  f->first_part.done = end_first_part;
  const tutti_err err = open_all(f, error);
  if (err == TUTTI_OK) *fabric = f;
  else tu_fabric_close(f);
  return err;
}

void tu_fabric_close(struct tu_fabric *f) {
  if (!f) return;
  /* A region that is bound to the endpoint is closed before it, and the others after it, because operations may use them
   * until then. */
  const bool bound = f->info->domain_attr->mr_mode & TU_FI_MR_ENDPOINT;
  while (bound && f->regions) tu_fabric_conceal(f, f->regions);
  if (f->ep) (void)close_object(&f->ep->fid);
  while (f->regions) tu_fabric_conceal(f, f->regions);
  if (f->av) (void)close_object(&f->av->fid);
  if (f->cq) (void)close_object(&f->cq->fid);
  if (f->domain) (void)close_object(&f->domain->fid);
  if (f->fabric) (void)close_object(&f->fabric->fid);
  f->library->freeinfo(f->info);
  free(f->receives);
  free(f->idle_receives);
  free(f);
}

/* ---- memory ---- */

/* Gives each page memory of its own, without changing its contents. */
static void touch(void *base, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < bytes; i += page) (void)__atomic_fetch_add((unsigned char *)base + i, 0, __ATOMIC_RELAXED);
  if (bytes > 0) (void)__atomic_fetch_add((unsigned char *)base + bytes - 1, 0, __ATOMIC_RELAXED);
}

/* Returns a key that other processes cannot guess, of as many bytes as the provider has. */
static uint64_t draw_key(const struct tu_fabric *f) {
  uint64_t key = 0;
  const size_t bytes = tu_min(f->info->domain_attr->mr_key_size, sizeof key);
  (void)!getrandom(&key, bytes, 0);
  return key;
}

static int bind_region(struct tu_fabric *f, struct tu_fi_mr *mr) {
  if (!(f->info->domain_attr->mr_mode & TU_FI_MR_ENDPOINT)) return 0;
  const int code = mr->fid.ops->bind(&mr->fid, &f->ep->fid, 0);
  return code == 0 ? mr->fid.ops->control(&mr->fid, TU_FI_ENABLE, NULL) : code;
}

tutti_err tu_fabric_expose(struct tu_fabric *f, void *base, size_t bytes, uint64_t access,
                           struct tu_fabric_region *region, struct tu_error *error) {
  enum { TRIES = 8, NO_KEY = 266 }; /* the key is in use */
  const int mode = f->info->domain_attr->mr_mode;
  const bool remote = access & (TU_FI_REMOTE_READ | TU_FI_REMOTE_WRITE);
  *region = (struct tu_fabric_region){.base = base, .bytes = bytes};
  if (!remote && !tu_fabric_needs_local(f)) return TUTTI_OK;
  if (mode & TU_FI_MR_ALLOCATED) touch(base, bytes);
  int code = -NO_KEY;
  for (int i = 0; i < TRIES && code == -NO_KEY; i++) {
    const uint64_t wanted = mode & TU_FI_MR_PROV_KEY ? 0 : draw_key(f);
    code = f->domain->mr->reg(&f->domain->fid, base, bytes, access, 0, wanted, 0, &region->mr, NULL);
  }
  if (code != 0) return fail(f, "registration of memory", code, error);
  region->next = f->regions;
  f->regions = region;
  code = bind_region(f, region->mr);
  if (code != 0) {
    tu_fabric_conceal(f, region);
    return fail(f, "registration of memory", code, error);
  }
  region->key = region->mr->key;
  region->address = mode & TU_FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)base : 0;
  return TUTTI_OK;
}

void tu_fabric_conceal(struct tu_fabric *f, struct tu_fabric_region *region) {
  struct tu_fabric_region **link = &f->regions;
  if (!region->mr) return;
  while (*link != region) link = &(*link)->next;
  *link = region->next;
  (void)close_object(&region->mr->fid);
  region->mr = NULL;
}

const struct tu_fabric_region *tu_fabric_find(const struct tu_fabric *f, const void *memory, size_t bytes) {
  for (const struct tu_fabric_region *r = f->regions; r; r = r->next) {
    const uintptr_t at = (uintptr_t)memory - (uintptr_t)r->base;
    if (at <= r->bytes && bytes <= r->bytes - at) return r;
  }
  return NULL;
}

bool tu_fabric_add(struct tu_fabric *f, const void *name, tu_fi_addr *peer) {
  return f->av->ops->insert(f->av, name, 1, peer, 0, NULL) == 1;
}

/* ---- operations ---- */

static void *descriptor_of(const struct tu_fabric_region *here) { return here->mr ? here->mr->mem_desc : NULL; }

/* A post that fails in another way than for lack of room fails when the operation is ended. */
static bool begun(struct tu_fabric_op *op, ssize_t code) {
  if (code == -EAGAIN) return false;
  if (code != 0) op->done(op, (int)-code);
  return true;
}

static ssize_t write_plainly(struct tu_fabric *f, tu_fi_addr peer, const struct tu_fabric_region *here,
                             const void *from, size_t bytes, uint64_t address, uint64_t key, uint64_t flags,
                             struct tu_fabric_op *op) {
  void *desc = descriptor_of(here);
  const struct iovec local = {(void *)(uintptr_t)from, bytes};
  const struct tu_fi_rma_iov remote = {.addr = address, .len = bytes, .key = key};
  const struct tu_fi_msg_rma message = {.msg_iov = &local,
                                        .desc = &desc,
                                        .iov_count = 1,
                                        .addr = peer,
                                        .rma_iov = &remote,
                                        .rma_iov_count = 1,
                                        .context = &op->context};
  return f->ep->rma->writemsg(f->ep, &message, flags | TU_FI_COMPLETION);
}

bool tu_fabric_write(struct tu_fabric *f, tu_fi_addr peer, const struct tu_fabric_region *here, const void *from,
                     size_t bytes, uint64_t address, uint64_t key, uint32_t data, struct tu_fabric_op *op) {
  const bool splits = f->splits && bytes > 0;
  if (splits && !op->reports) {
    const ssize_t code = write_plainly(f, peer, here, from, bytes, address, key, 0, &f->first_part);
    if (code != 0) return begun(op, code);
  }
  const ssize_t code = f->ep->rma->writedata(f->ep, from, splits ? 0 : bytes, descriptor_of(here), data, peer, address,
                                             key, &op->context);
  op->reports = splits && code == -EAGAIN;
  return begun(op, code);
}

bool tu_fabric_put(struct tu_fabric *f, tu_fi_addr peer, const struct tu_fabric_region *here, const void *from,
                   size_t bytes, uint64_t address, uint64_t key, struct tu_fabric_op *op) {
  return begun(op, write_plainly(f, peer, here, from, bytes, address, key, TU_FI_DELIVERY_COMPLETE, op));
}

bool tu_fabric_read(struct tu_fabric *f, tu_fi_addr peer, const struct tu_fabric_region *here, void *to, size_t bytes,
                    uint64_t address, uint64_t key, struct tu_fabric_op *op) {
  return begun(op, f->ep->rma->read(f->ep, to, bytes, descriptor_of(here), peer, address, key, &op->context));
}

/* ---- completions ---- */

static void end(struct tu_fabric *f, const struct tu_fi_cq_data_entry *e, void (*arrived)(void *context, uint32_t data),
                void *context) {
  struct tu_fabric_op *op = e->op_context;
  const bool is_remote = e->flags & TU_FI_REMOTE_CQ_DATA;
  if (is_remote && e->data <= UINT32_MAX) arrived(context, (uint32_t)e->data);
  if (op && is_receive(f, op)) f->idle_receives[f->idle_count++] = op;
  else if (op && !is_remote) op->done(op, 0);
}

static void end_failed(struct tu_fabric *f) {
  struct tu_fi_cq_err_entry entry = {0};
  if (f->cq->ops->readerr(f->cq, &entry, 0) != 1) return;
  struct tu_fabric_op *op = entry.op_context;
  if (op && is_receive(f, op)) f->idle_receives[f->idle_count++] = op;
  else if (op) op->done(op, entry.err > 0 ? entry.err : EIO);
}

bool tu_fabric_look(struct tu_fabric *f, void (*arrived)(void *context, uint32_t data), void *context) {
  struct tu_fi_cq_data_entry entries[ENTRIES];
  bool any = false;
  for (int i = 0; i < LOOKS; i++) {
    const ssize_t n = f->cq->ops->read(f->cq, entries, ENTRIES);
    if (n == -TU_FI_EAVAIL) end_failed(f);
    else if (n <= 0) break;
    for (ssize_t k = 0; k < n; k++) end(f, &entries[k], arrived, context);
    any = true;
    if (n > 0 && n < ENTRIES) break;
  }
  post_receives(f);
  return any;
}

bool tu_fabric_arm(struct tu_fabric *f) {
  struct tu_fi_fid *fids[] = {&f->cq->fid};
  return f->descriptor < 0 || f->fabric->ops->trywait(f->fabric, fids, 1) == 0;
}
