/* fake_fabric_test.c: the fake provider of libfabric itself. Each rule is broken once and must be seen; each mode
 * works; random traffic between three endpoints, where every byte and every completion is checked. */
#include "tests/fake_fabric.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/base.h"
#include "tests/test.h"

enum { SIDES = 3, MEMORY = 256, ALL_MODES = TU_FI_MR_LOCAL | TU_FI_MR_VIRT_ADDR | TU_FI_MR_ALLOCATED };
enum { ALL_MR = ALL_MODES | TU_FI_MR_PROV_KEY | TU_FI_MR_ENDPOINT, LOOKS = 400 };
#define ALL_MODE (TU_FI_CONTEXT | TU_FI_CONTEXT2 | TU_FI_RX_CQ_DATA)
#define ACCESS (TU_FI_READ | TU_FI_WRITE | TU_FI_REMOTE_READ | TU_FI_REMOTE_WRITE)

/* A process with one endpoint. */
struct side {
  struct tu_fi_info *info;
  struct tu_fi_fabric *fabric;
  struct tu_fi_domain *domain;
  struct tu_fi_av *av;
  struct tu_fi_cq *cq;
  struct tu_fi_ep *ep;
  struct tu_fi_mr *mr; /* of `memory` */
  unsigned char name[FAKE_FABRIC_NAME_BYTES];
  tu_fi_addr peers[SIDES];
  int descriptor; /* -1: none */
  unsigned char memory[MEMORY];
  struct tu_fi_context2 contexts[8], receives[4];
};

static struct fake_fabric_traits traits; /* of the current test */

static struct tu_fi_info *get_info(int mr_mode, uint64_t mode) {
  struct tu_fi_info *hints = fake_fabric.dupinfo(NULL), *info = NULL;
  hints->caps = TU_FI_MSG | TU_FI_RMA;
  hints->mode = mode;
  hints->ep_attr->type = TU_FI_EP_RDM;
  hints->domain_attr->mr_mode = mr_mode;
  hints->domain_attr->threading = TU_FI_THREAD_DOMAIN;
  hints->domain_attr->name = strdup("fake0");
  hints->fabric_attr->prov_name = strdup("fake");
  const int err = fake_fabric.getinfo(TU_FI_VERSION_1_17, NULL, NULL, 0, hints, &info);
  fake_fabric.freeinfo(hints);
  return err ? NULL : info;
}

/* Registers memory. Returns NULL if a call fails. */
static struct tu_fi_mr *add_region(struct side *s, void *memory, size_t bytes, uint64_t access, uint64_t key) {
  struct tu_fi_mr *mr;
  if (s->domain->mr->reg(&s->domain->fid, memory, bytes, access, 0, key, 0, &mr, NULL)) return NULL;
  if (!(traits.mr_mode & TU_FI_MR_ENDPOINT)) return mr;
  if (mr->fid.ops->bind(&mr->fid, &s->ep->fid, 0) == 0 && mr->fid.ops->control(&mr->fid, TU_FI_ENABLE, NULL) == 0)
    return mr;
  mr->fid.ops->close(&mr->fid);
  return NULL;
}

static int close_fid(struct tu_fi_fid *fid) { return fid->ops->close(fid); }

/* Closes what is open. Returns the number of calls that failed. */
static uint32_t close_side(struct side *s) {
  uint32_t failed = 0;
  if (s->mr) failed += close_fid(&s->mr->fid) != 0;
  if (s->ep) failed += close_fid(&s->ep->fid) != 0;
  if (s->av) failed += close_fid(&s->av->fid) != 0;
  if (s->cq) failed += close_fid(&s->cq->fid) != 0;
  if (s->domain) failed += close_fid(&s->domain->fid) != 0;
  if (s->fabric) failed += close_fid(&s->fabric->fid) != 0;
  if (s->info) fake_fabric.freeinfo(s->info);
  return failed;
}

/* Opens an endpoint and enables it. Returns the result of the first call that fails. */
static int open_endpoint(struct side *s) {
  struct tu_fi_av_attr av = {.count = SIDES};
  struct tu_fi_cq_attr cq = {.format = TU_FI_CQ_FORMAT_DATA, .wait_obj = TU_FI_WAIT_FD};
  size_t bytes = sizeof s->name;
  int err = fake_fabric.fabric(s->info->fabric_attr, &s->fabric, NULL);
  if (!err) err = s->fabric->ops->domain(s->fabric, s->info, &s->domain, NULL);
  if (!err) err = s->domain->ops->av_open(s->domain, &av, &s->av, NULL);
  if (!err) err = s->domain->ops->cq_open(s->domain, &cq, &s->cq, NULL);
  if (err == -ENOSYS) {
    cq.wait_obj = TU_FI_WAIT_NONE;
    err = s->domain->ops->cq_open(s->domain, &cq, &s->cq, NULL);
  }
  if (!err) err = s->domain->ops->endpoint(s->domain, s->info, &s->ep, NULL);
  if (!err) err = s->ep->fid.ops->bind(&s->ep->fid, &s->av->fid, 0);
  if (!err) err = s->ep->fid.ops->bind(&s->ep->fid, &s->cq->fid, TU_FI_TRANSMIT | TU_FI_RECV);
  if (!err) err = s->ep->fid.ops->control(&s->ep->fid, TU_FI_ENABLE, NULL);
  if (!err) err = s->ep->cm->getname(&s->ep->fid, s->name, &bytes);
  if (!err && cq.wait_obj) err = s->cq->fid.ops->control(&s->cq->fid, TU_FI_GETWAIT, &s->descriptor);
  return err;
}

/* Makes a process with registered memory of value 0x55. Returns false if a call fails. */
static bool open_side(struct side *s) {
  *s = (struct side){.descriptor = -1, .info = get_info(ALL_MR, ALL_MODE)};
  memset(s->memory, 0x55, sizeof s->memory);
  if (!s->info || open_endpoint(s)) return false;
  s->mr = add_region(s, s->memory, sizeof s->memory, ACCESS, 7);
  return s->mr != NULL;
}

static bool meet(struct side *sides, uint32_t count) {
  bool all = true;
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < count; k++) {
      all &= sides[i].av->ops->insert(sides[i].av, sides[k].name, 1, &sides[i].peers[k], 0, NULL) == 1;
    }
  }
  return all;
}

/* Begins a test with `count` processes that know each other. */
static void begin(struct side *sides, uint32_t count) {
  fake_fabric_begin(&traits);
  bool opened = true;
  for (uint32_t i = 0; i < count; i++) opened &= open_side(&sides[i]);
  CHECK(opened && meet(sides, count), "a process does not open");
}

static void end(struct side *sides, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t failed = close_side(&sides[i]);
    CHECK(!failed, "%u objects of process %u do not close", failed, i);
  }
  const uint32_t violations = fake_fabric_end();
  CHECK(violations == 0, "%u violations", violations);
}

/* Returns the address of a byte of a process's memory for its peers. */
static uint64_t at(const struct side *s, const void *byte) {
  const uintptr_t a = (uintptr_t)byte;
  return traits.mr_mode & TU_FI_MR_VIRT_ADDR ? a : a - (uintptr_t)s->memory;
}

static ssize_t look(struct side *s, struct tu_fi_cq_data_entry *entry) {
  *entry = (struct tu_fi_cq_data_entry){0};
  return s->cq->ops->read(s->cq, entry, 1);
}

/* An operation on the first bytes of both memories, with contexts[number]. */
static ssize_t write_data(struct side *from, struct side *to, uint32_t to_index, size_t bytes, uint64_t data,
                          uint32_t number) {
  return from->ep->rma->writedata(from->ep, from->memory, bytes, from->mr->mem_desc, data, from->peers[to_index],
                                  at(to, to->memory), to->mr->key, &from->contexts[number]);
}

static ssize_t write_message(struct side *from, struct side *to, uint32_t to_index, size_t bytes, uint64_t flags,
                             uint32_t number) {
  const struct iovec iov = {.iov_base = from->memory, .iov_len = bytes};
  const struct tu_fi_rma_iov rma = {.addr = at(to, to->memory), .len = bytes, .key = to->mr->key};
  void *desc = from->mr->mem_desc;
  const struct tu_fi_msg_rma m = {.msg_iov = &iov,
                                  .desc = &desc,
                                  .iov_count = 1,
                                  .addr = from->peers[to_index],
                                  .rma_iov = &rma,
                                  .rma_iov_count = 1,
                                  .context = &from->contexts[number],
                                  .data = 9};
  return from->ep->rma->writemsg(from->ep, &m, flags | TU_FI_COMPLETION);
}

static ssize_t read_from(struct side *s, struct side *from, uint32_t from_index, size_t bytes, uint32_t number) {
  return s->ep->rma->read(s->ep, s->memory, bytes, s->mr->mem_desc, s->peers[from_index], at(from, from->memory),
                          from->mr->key, &s->contexts[number]);
}

static ssize_t post_receive(struct side *s, uint32_t number) {
  return s->ep->msg->recv(s->ep, NULL, 0, NULL, UINT64_MAX, &s->receives[number]);
}

/* Looks until a completion is there. Returns what the last look has returned. */
static ssize_t await(struct side *looks, struct side *also, struct tu_fi_cq_data_entry *entry) {
  ssize_t n = -EAGAIN;
  struct tu_fi_cq_data_entry other;
  for (uint32_t i = 0; i < LOOKS && n == -EAGAIN; i++) {
    n = look(looks, entry);
    if (n == -EAGAIN && also) CHECK(look(also, &other) == -EAGAIN, "a completion that was not expected");
  }
  return n;
}

/* ---- opening ---- */

static void test_offers(void) {
  traits = (struct fake_fabric_traits){.mr_mode = ALL_MR, .mode = ALL_MODE, .key_bytes = 4};
  fake_fabric_begin(&traits);
  struct tu_fi_info *info = get_info(ALL_MR, ALL_MODE);
  CHECK(info, "all bits offered, but nothing found");
  if (!info) return;
  CHECK(info->domain_attr->mr_mode == ALL_MR && info->mode == ALL_MODE, "bits %x %llx", info->domain_attr->mr_mode,
        (unsigned long long)info->mode);
  CHECK(info->domain_attr->mr_key_size == 4 && info->domain_attr->cq_data_size == 4, "sizes");
  CHECK(info->tx_attr->inject_size == 8 && !info->next, "inject size %zu", info->tx_attr->inject_size);
  struct tu_fi_info *copy = fake_fabric.dupinfo(info);
  fake_fabric.freeinfo(info);
  CHECK(strcmp(copy->fabric_attr->prov_name, "fake") == 0 && strcmp(copy->domain_attr->name, "fake0") == 0, "names");
  fake_fabric.freeinfo(copy);
  for (int bit = 1; bit <= ALL_MR; bit *= 2) {
    if (bit & ALL_MR) CHECK(!get_info(ALL_MR & ~bit, ALL_MODE), "bit %x was not offered", (unsigned)bit);
  }
  CHECK(!get_info(ALL_MR, ALL_MODE & ~TU_FI_CONTEXT2), "FI_CONTEXT2 was not offered");
  CHECK(!get_info(ALL_MR, ALL_MODE & ~TU_FI_RX_CQ_DATA), "FI_RX_CQ_DATA was not offered");
  CHECK(strlen(fake_fabric.strerror(266)) > 0 && fake_fabric.version() == TU_FI_VERSION_1_17, "names and version");
  CHECK(fake_fabric_end() == 0, "violations");
}

/* Each call that opens something fails once; the rest closes. */
static void test_refused(void) {
  traits = (struct fake_fabric_traits){.mr_mode = TU_FI_MR_ENDPOINT};
  bool opens = false;
  for (uint32_t call = 1; !opens && call < 20; call++) {
    struct side s;
    traits.refused_call = call;
    fake_fabric_begin(&traits);
    opens = open_side(&s);
    CHECK(opens == (call > 8), "call %u", call);
    CHECK(close_side(&s) == 0 && fake_fabric_end() == 0, "call %u: not closed", call);
  }
  traits = (struct fake_fabric_traits){.regions_max = 1};
  struct side s;
  begin(&s, 1);
  CHECK(!add_region(&s, s.memory, 8, ACCESS, 8), "there are two regions");
  end(&s, 1);
}

/* ---- modes ---- */

static void exchange(struct side *s) {
  struct tu_fi_cq_data_entry e;
  struct side *a = &s[0], *b = &s[1];
  void *const received = traits.mode & TU_FI_RX_CQ_DATA ? &b->receives[0] : NULL;
  memset(a->memory, 1, MEMORY);
  if (received) CHECK(post_receive(b, 0) == 0, "receive");
  CHECK(write_data(a, b, 1, 100, 0xfffffff1, 0) == 0, "write");
  CHECK(memcmp(b->memory, "UUUU", 4) == 0, "written without a look");
  CHECK(look(b, &e) == 1 && e.data == 0xfffffff1 && e.op_context == received && e.len == 0, "remote data");
  CHECK(e.flags == (TU_FI_REMOTE_WRITE | TU_FI_REMOTE_CQ_DATA), "flags %llx", (unsigned long long)e.flags);
  CHECK(b->memory[0] == 1 && b->memory[99] == 1 && b->memory[100] == 0x55, "bytes of a write");
  CHECK(look(a, &e) == 1 && e.op_context == &a->contexts[0] && e.flags == (TU_FI_RMA | TU_FI_WRITE), "completion");

  memset(a->memory, 2, MEMORY);
  CHECK(write_message(a, b, 1, 50, TU_FI_DELIVERY_COMPLETE, 1) == 0, "write without data");
  CHECK(look(a, &e) == 1 && e.op_context == &a->contexts[1], "completion after delivery");
  CHECK(b->memory[49] == 2 && b->memory[50] == 1, "bytes of a write without data");

  CHECK(read_from(a, b, 1, 60, 2) == 0 && a->memory[55] == 2, "read");
  CHECK(look(b, &e) == -EAGAIN && a->memory[55] == 1 && a->memory[49] == 2 && a->memory[60] == 2, "bytes of a read");
  CHECK(look(a, &e) == 1 && e.flags == (TU_FI_RMA | TU_FI_READ), "completion of a read");

  unsigned char injected[8] = "injected";
  if (received) CHECK(post_receive(b, 0) == 0 && post_receive(b, 1) == 0, "receives");
  CHECK(a->ep->rma->injectdata(a->ep, injected, 8, 3, a->peers[1], at(b, b->memory), b->mr->key) == 0, "inject");
  memset(injected, 0, sizeof injected);
  CHECK(a->ep->rma->injectdata(a->ep, NULL, 0, 4, a->peers[1], 0, 0) == 0, "signal");
  CHECK(look(a, &e) == -EAGAIN, "an injected write completes at the source");
  CHECK(look(b, &e) == 1 && e.data == 3 && memcmp(b->memory, "injected", 8) == 0, "injected data");
  CHECK(look(b, &e) == 1 && e.data == 4 && e.op_context == (received ? &b->receives[1] : NULL), "signal");
  CHECK(fake_fabric_open() == 0, "open operations");
}

static void test_modes(void) {
  static const int bits[] = {TU_FI_MR_LOCAL, TU_FI_MR_VIRT_ADDR, TU_FI_MR_ALLOCATED, TU_FI_MR_PROV_KEY,
                             TU_FI_MR_ENDPOINT};
  static const uint64_t modes[] = {TU_FI_CONTEXT, TU_FI_CONTEXT2, TU_FI_RX_CQ_DATA};
  for (uint32_t set = 0; set < 256 && !test_failures; set++) {
    struct side s[2];
    traits = (struct fake_fabric_traits){.seed = set, .key_bytes = set % 3 ? 8 : 4};
    for (uint32_t k = 0; k < 5; k++) traits.mr_mode |= set >> k & 1 ? bits[k] : 0;
    for (uint32_t k = 0; k < 3; k++) traits.mode |= set >> (5 + k) & 1 ? modes[k] : 0;
    begin(s, 2);
    exchange(s);
    end(s, 2);
    if (test_failures) printf("  with mr_mode %x, mode %llx\n", traits.mr_mode, (unsigned long long)traits.mode);
  }
}

/* ---- rules ---- */

static struct side pair[2]; /* of a rule that is broken */

static void look_at_both(void) {
  struct tu_fi_cq_data_entry e;
  for (uint32_t i = 0; i < 4; i++) look(&pair[i % 2], &e);
}

static void *call_often(void *argument) {
  struct tu_fi_cq_data_entry e;
  (void)argument;
  while (!fake_fabric_seen(FAKE_THREADS)) look(&pair[0], &e);
  return NULL;
}

static void break_threads(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, call_often, NULL);
  call_often(NULL);
  pthread_join(thread, NULL);
}

static void break_closed(void) {
  struct tu_fi_mr *mr = add_region(&pair[0], pair[0].memory, 8, ACCESS, 9);
  close_fid(&mr->fid);
  CHECK(close_fid(&mr->fid) == -EBADF, "closed twice");
}

static void break_close_order(void) { CHECK(close_fid(&pair[0].cq->fid) == -EBUSY, "closed"); }

static void break_region_bound(void) {
  const int result = close_fid(&pair[0].ep->fid);
  CHECK(result == (traits.allowed ? 0 : -EBUSY), "closed: %d", result);
  if (!result) pair[0].ep = NULL;
}

static void break_left_open(void) { add_region(&pair[0], pair[0].memory, 8, ACCESS, 9); }

static void break_state(void) {
  struct tu_fi_ep *ep = pair[0].ep;
  CHECK(ep->fid.ops->control(&ep->fid, TU_FI_ENABLE, NULL) < 0, "enabled twice");
}

static void break_argument(void) { CHECK(write_message(&pair[0], &pair[1], 1, 8, 1, 0) == -EINVAL, "unknown flag"); }

static void break_capability(void) {
  struct side *s = &pair[0];
  struct tu_fi_ep *ep;
  struct tu_fi_info *info = fake_fabric.dupinfo(s->info);
  info->caps = TU_FI_RMA | TU_FI_READ;
  s->domain->ops->endpoint(s->domain, info, &ep, NULL);
  fake_fabric.freeinfo(info);
  ep->fid.ops->bind(&ep->fid, &s->av->fid, 0);
  ep->fid.ops->bind(&ep->fid, &s->cq->fid, TU_FI_TRANSMIT | TU_FI_RECV);
  ep->fid.ops->control(&ep->fid, TU_FI_ENABLE, NULL);
  CHECK(ep->rma->writedata(ep, NULL, 0, NULL, 1, s->peers[1], 0, 0, &s->contexts[0]) < 0, "written");
  close_fid(&ep->fid);
}

static void break_length(void) {
  struct side *s = &pair[0];
  CHECK(s->ep->rma->injectdata(s->ep, s->memory, 9, 1, s->peers[1], 0, 7) == -EMSGSIZE, "injected 9 bytes");
}

static void break_data(void) {
  struct tu_fi_cq_data_entry e;
  CHECK(write_data(&pair[0], &pair[1], 1, 8, UINT64_C(1) << 32 | 5, 0) == 0, "not written");
  CHECK(look(&pair[1], &e) == 1 && e.data == 5, "data are not cut off");
}

static void break_address(void) {
  struct side *s = &pair[0];
  tu_fi_addr gone = s->peers[1];
  CHECK(s->av->ops->remove(s->av, &gone, 1, 0) == 0, "not removed");
  CHECK(write_data(s, &pair[1], 1, 8, 1, 0) == -EINVAL, "written to an address that is removed");
}

static void break_address_open(void) {
  struct side *s = &pair[0];
  CHECK(write_message(s, &pair[1], 1, 8, TU_FI_DELIVERY_COMPLETE, 0) == 0, "not written");
  CHECK(s->av->ops->remove(s->av, &s->peers[1], 1, 0) == 0, "not removed");
}

static void break_local(void) {
  struct side *s = &pair[0];
  CHECK(s->ep->rma->writedata(s->ep, s->memory, 8, NULL, 1, s->peers[1], 0, 7, &s->contexts[0]) == -EINVAL, "written");
}

static void break_local_range(void) {
  struct side *s = &pair[0];
  unsigned char other[8] = {0};
  CHECK(s->ep->rma->writedata(s->ep, other, 8, s->mr->mem_desc, 1, s->peers[1], 0, 7, &s->contexts[0]) == -EINVAL,
        "written");
  CHECK(write_data(s, &pair[1], 1, MEMORY + 1, 1, 0) == -EINVAL, "written from the end of a region");
}

static void break_local_access(void) {
  struct side *s = &pair[0];
  struct tu_fi_mr *mr = add_region(s, s->memory, 8, TU_FI_WRITE, 9);
  CHECK(s->ep->rma->read(s->ep, s->memory, 8, mr->mem_desc, s->peers[1], 0, 7, &s->contexts[0]) == -EINVAL, "read");
  close_fid(&mr->fid);
}

static void break_local_closed(void) {
  struct tu_fi_cq_data_entry e;
  CHECK(read_from(&pair[0], &pair[1], 1, 8, 0) == 0, "not posted");
  close_fid(&pair[0].mr->fid);
  pair[0].mr = NULL;
  CHECK(look(&pair[0], &e) == -TU_FI_EAVAIL, "no error");
}

static void break_source(void) {
  CHECK(write_data(&pair[0], &pair[1], 1, 8, 1, 0) == 0, "not posted");
  pair[0].memory[3]++;
}

static void break_key(void) {
  struct tu_fi_cq_data_entry e;
  struct side *s = &pair[0];
  CHECK(s->ep->rma->writedata(s->ep, s->memory, 8, s->mr->mem_desc, 1, s->peers[1], 0, 99, &s->contexts[0]) == 0,
        "key");
  CHECK(await(s, &pair[1], &e) == 1, "a plain write with a wrong key fails");
  CHECK(look(&pair[1], &e) == -EAGAIN && pair[1].memory[0] == 0x55, "it has arrived");
}

static void break_key_delivery(void) {
  struct tu_fi_cq_data_entry e;
  struct tu_fi_cq_err_entry error = {0};
  pair[1].mr->key++;
  CHECK(write_message(&pair[0], &pair[1], 1, 8, TU_FI_DELIVERY_COMPLETE | TU_FI_REMOTE_CQ_DATA, 0) == 0, "key");
  CHECK(await(&pair[0], &pair[1], &e) == -TU_FI_EAVAIL, "no error");
  CHECK(pair[0].cq->ops->readerr(pair[0].cq, &error, 0) == 1 && error.err == ECANCELED, "error %d", error.err);
  CHECK(error.op_context == &pair[0].contexts[0], "context of the error");
}

static void break_range(void) {
  struct side *s = &pair[0];
  unsigned char byte;
  struct tu_fi_mr *mr = add_region(s, &byte, 1, ACCESS, 9);
  CHECK(s->ep->rma->read(s->ep, &byte, 1, mr->mem_desc, s->peers[1], MEMORY, 7, &s->contexts[0]) == 0, "not posted");
  look_at_both();
  close_fid(&mr->fid);
}

static void break_access(void) {
  struct side *s = &pair[1];
  struct tu_fi_mr *mr = add_region(s, s->memory, MEMORY, TU_FI_REMOTE_READ, 9);
  CHECK(pair[0].ep->rma->injectdata(pair[0].ep, "x", 1, 1, pair[0].peers[1], 0, 9) == 0, "not posted");
  look_at_both();
  close_fid(&mr->fid);
}

static void break_disabled(void) {
  struct side *s = &pair[1];
  struct tu_fi_mr *mr;
  s->domain->mr->reg(&s->domain->fid, s->memory, MEMORY, ACCESS, 0, 9, 0, &mr, NULL);
  CHECK(pair[0].ep->rma->injectdata(pair[0].ep, "x", 1, 1, pair[0].peers[1], 0, 9) == 0, "not posted");
  look_at_both();
  close_fid(&mr->fid);
}

static void break_allocated(void) {
  void *fresh = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(!add_region(&pair[0], fresh, 1 << 20, ACCESS, 9), "registered");
  memset(fresh, 1, 1 << 20);
  struct tu_fi_mr *mr = add_region(&pair[0], (char *)fresh + 5, (1 << 20) - 5, ACCESS, 9);
  CHECK(mr, "not registered");
  if (mr) close_fid(&mr->fid);
  munmap(fresh, 1 << 20);
}

static void break_key_width(void) { CHECK(!add_region(&pair[0], pair[0].memory, 8, ACCESS, UINT64_C(1) << 32), "key"); }

static void break_context_missing(void) {
  struct side *s = &pair[0];
  CHECK(s->ep->rma->writedata(s->ep, NULL, 0, NULL, 1, s->peers[1], 0, 0, NULL) == -EINVAL, "no context");
}

static void break_context_shared(void) {
  struct side *s = &pair[0];
  char *inside = (char *)&s->contexts[0] + 8;
  CHECK(write_data(s, &pair[1], 1, 0, 1, 0) == 0, "not posted");
  CHECK(s->ep->rma->writedata(s->ep, NULL, 0, NULL, 1, s->peers[1], 0, 0, inside) == -EINVAL, "context used twice");
}

static void break_context_changed(void) {
  CHECK(write_data(&pair[0], &pair[1], 1, 0, 1, 0) == 0, "not posted");
  pair[0].contexts[0].internal[2] = NULL;
}

static const struct {
  enum fake_fabric_rule rule;
  void (*run)(void);
  int mr_mode;
  uint64_t mode;
} rules[] = {
    {FAKE_THREADS, break_threads, 0, 0},
    {FAKE_CLOSED, break_closed, 0, 0},
    {FAKE_CLOSE_ORDER, break_close_order, 0, 0},
    {FAKE_REGION_BOUND, break_region_bound, TU_FI_MR_ENDPOINT, 0},
    {FAKE_LEFT_OPEN, break_left_open, 0, 0},
    {FAKE_STATE, break_state, 0, 0},
    {FAKE_ARGUMENT, break_argument, 0, 0},
    {FAKE_CAPABILITY, break_capability, 0, 0},
    {FAKE_LENGTH, break_length, 0, 0},
    {FAKE_DATA, break_data, 0, 0},
    {FAKE_ADDRESS, break_address, 0, 0},
    {FAKE_ADDRESS, break_address_open, 0, 0},
    {FAKE_LOCAL, break_local, TU_FI_MR_LOCAL, 0},
    {FAKE_LOCAL, break_local_range, TU_FI_MR_LOCAL, 0},
    {FAKE_LOCAL, break_local_access, TU_FI_MR_LOCAL, 0},
    {FAKE_LOCAL, break_local_closed, TU_FI_MR_LOCAL, 0},
    {FAKE_SOURCE_CHANGED, break_source, 0, 0},
    {FAKE_KEY, break_key, 0, 0},
    {FAKE_KEY, break_key_delivery, TU_FI_MR_PROV_KEY | TU_FI_MR_VIRT_ADDR, 0},
    {FAKE_RANGE, break_range, 0, 0},
    {FAKE_ACCESS, break_access, 0, 0},
    {FAKE_DISABLED, break_disabled, TU_FI_MR_ENDPOINT, 0},
    {FAKE_NOT_ALLOCATED, break_allocated, TU_FI_MR_ALLOCATED, 0},
    {FAKE_KEY_TOO_WIDE, break_key_width, 0, 0},
    {FAKE_CONTEXT_MISSING, break_context_missing, 0, TU_FI_CONTEXT},
    {FAKE_CONTEXT_SHARED, break_context_shared, 0, TU_FI_CONTEXT},
    {FAKE_CONTEXT_CHANGED, break_context_changed, 0, TU_FI_CONTEXT2},
};

static void break_rule(size_t i, bool allowed) {
  traits = (struct fake_fabric_traits){.seed = i, .key_bytes = 4, .quiet = true};
  traits.mr_mode = rules[i].mr_mode;
  traits.mode = rules[i].mode;
  if (allowed) traits.allowed = UINT64_C(1) << rules[i].rule;
  begin(pair, 2);
  rules[i].run();
  look_at_both();
  close_side(&pair[0]);
  close_side(&pair[1]);
  const uint32_t violations = fake_fabric_end();
  for (int rule = 0; rule < FAKE_FABRIC_RULES; rule++) {
    const bool is = rule == (int)rules[i].rule;
    /* A domain that is not closed leaves its fabric. */
    if (rule == FAKE_CLOSE_ORDER && rules[i].rule == FAKE_LEFT_OPEN) continue;
    CHECK((fake_fabric_seen((enum fake_fabric_rule)rule) > 0) == is, "case %zu: rule %d was seen %u times", i, rule,
          fake_fabric_seen((enum fake_fabric_rule)rule));
  }
  CHECK((violations > 0) != allowed || rules[i].rule == FAKE_LEFT_OPEN, "case %zu: %u violations", i, violations);
}

static void test_rules(void) {
  uint64_t broken = 0;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    break_rule(i, false);
    break_rule(i, true);
    broken |= UINT64_C(1) << rules[i].rule;
  }
  CHECK(broken == (UINT64_C(1) << FAKE_FABRIC_RULES) - 1, "a rule has no case: %llx", (unsigned long long)broken);
}

/* Two regions with the same key are no violation. */
static void test_key_twice(void) {
  traits = (struct fake_fabric_traits){0};
  begin(pair, 1);
  struct tu_fi_mr *mr;
  struct tu_fi_domain *d = pair[0].domain;
  CHECK(d->mr->reg(&d->fid, pair[0].memory, 8, ACCESS, 0, 7, 0, &mr, NULL) == -266, "key used twice");
  end(pair, 1);
}

/* ---- order, delays, errors ---- */

/* Posts writes with data 0 to 7, and reads what arrives. Returns true if that is in order, and so are the
 * completions. */
static bool arrives_in_order(void) {
  struct side s[2];
  begin(s, 2);
  for (uint32_t i = 0; i < 8; i++) {
    CHECK(write_data(&s[0], &s[1], 1, 16, i, i) == 0, "post %u", i);
  }
  struct tu_fi_cq_data_entry e;
  bool in_order = true;
  uint64_t next = 0, completed = 0;
  for (uint32_t i = 0; i < LOOKS && completed < 8; i++) {
    if (look(&s[0], &e) != 1) continue;
    in_order &= e.op_context == &s[0].contexts[completed++];
  }
  while (next < 8 && look(&s[1], &e) == 1) in_order &= e.data == next++;
  CHECK(completed == 8 && next == 8 && fake_fabric_open() == 0, "%u completed, %u arrived", (unsigned)completed,
        (unsigned)next);
  end(s, 2);
  return in_order;
}

static void test_order(void) {
  uint32_t shuffled = 0;
  for (uint64_t seed = 0; seed < 40 && !test_failures; seed++) {
    traits = (struct fake_fabric_traits){.seed = seed, .late = (uint32_t)seed % 7};
    CHECK(arrives_in_order(), "seed %u: not in order", (unsigned)seed);
    traits.shuffles = true;
    shuffled += !arrives_in_order();
  }
  CHECK(shuffled > 20, "%u of 40 are not in order", shuffled);
}

/* A plain write may complete before it has arrived; one with delivery complete not. */
static void test_early(void) {
  uint32_t before[2] = {0}, parts = 0, later = 0;
  for (uint64_t seed = 0; seed < 200 && !test_failures; seed++) {
    const bool delivery = seed % 2;
    struct side s[2];
    struct tu_fi_cq_data_entry e;
    traits = (struct fake_fabric_traits){.seed = seed, .late = 5};
    begin(s, 2);
    memset(s[0].memory, 1, MEMORY);
    write_message(&s[0], &s[1], 1, MEMORY, delivery ? TU_FI_DELIVERY_COMPLETE : 0, 0);
    uint32_t looks = 0;
    for (bool done = false; !done && looks < 10; looks++) {
      done = look(&s[0], &e) == 1;
      const bool first = s[1].memory[0] == 1, last = s[1].memory[MEMORY - 1] == 1;
      if (done) before[delivery] += !first || !last;
      parts += first != last;
    }
    CHECK(looks <= traits.late + 1, "%u looks", looks);
    for (uint32_t i = 0; i <= traits.late; i++) look(&s[1], &e);
    CHECK(s[1].memory[0] == 1 && s[1].memory[MEMORY - 1] == 1 && fake_fabric_open() == 0, "not carried out");
    later += looks > 1;
    end(s, 2);
  }
  CHECK(before[0] > 5 && before[1] == 0, "complete before they arrive: %u plain, %u delivered", before[0], before[1]);
  CHECK(parts > 10 && later > 50, "%u in parts, %u late", parts, later);
}

/* An operation that fails has done nothing, a part, all bytes, or all; only the last reports its data. */
static void test_errors(void) {
  uint32_t kinds[2][2] = {{0}}, partly = 0; /* [all bytes are there][remote data] */
  for (uint64_t seed = 0; seed < 200 && !test_failures; seed++) {
    struct side s[2];
    struct tu_fi_cq_data_entry e;
    struct tu_fi_cq_err_entry error = {0};
    traits = (struct fake_fabric_traits){.seed = seed, .errors_per_1000 = 1000};
    begin(s, 2);
    memset(s[0].memory, 1, MEMORY);
    CHECK(write_data(&s[0], &s[1], 1, MEMORY, 1, 3) == 0, "not posted");
    CHECK(look(&s[0], &e) == -TU_FI_EAVAIL && look(&s[0], &e) == -TU_FI_EAVAIL, "no error");
    CHECK(s[0].cq->ops->readerr(s[0].cq, &error, 0) == 1 && error.op_context == &s[0].contexts[3], "error entry");
    CHECK(error.err == EIO && s[0].cq->ops->strerror(s[0].cq, error.prov_errno, NULL, NULL, 0), "error %d", error.err);
    CHECK(s[0].cq->ops->readerr(s[0].cq, &error, 0) == -EAGAIN, "two error entries");
    const bool first = s[1].memory[0] == 1, last = s[1].memory[MEMORY - 1] == 1;
    kinds[first && last][look(&s[1], &e) == 1]++;
    partly += first != last;
    end(s, 2);
  }
  CHECK(kinds[0][0] > 75 && kinds[1][0] > 10 && kinds[1][1] > 10 && kinds[0][1] == 0, "kinds %u %u %u %u", kinds[0][0],
        kinds[1][0], kinds[1][1], kinds[0][1]);
  CHECK(partly > 10, "%u in part", partly);
}

static void test_busy(void) {
  struct side s[2];
  struct tu_fi_cq_data_entry e;
  traits = (struct fake_fabric_traits){.operations_max = 3, .connecting = 2};
  begin(s, 2);
  CHECK(write_data(&s[0], &s[1], 1, 0, 1, 0) == -EAGAIN, "connected at once");
  for (uint32_t i = 0; i < 5; i++) look(&s[0], &e);
  CHECK(write_data(&s[0], &s[1], 1, 0, 1, 0) == -EAGAIN, "connected without the peer");
  struct pollfd p = {.fd = s[1].descriptor, .events = POLLIN};
  CHECK(poll(&p, 1, 0) == 1, "the peer sleeps");
  look(&s[1], &e);
  CHECK(write_data(&s[0], &s[1], 1, 0, 1, 0) == -EAGAIN, "connected after one look of the peer");
  look(&s[1], &e);
  CHECK(poll(&p, 1, 0) == 0, "the peer does not sleep");
  for (uint32_t i = 0; i < 3; i++) CHECK(write_data(&s[0], &s[1], 1, 0, 1, i) == 0, "post %u", i);
  CHECK(write_data(&s[0], &s[1], 1, 0, 1, 3) == -EAGAIN, "4 operations");
  CHECK(look(&s[0], &e) == 1 && write_data(&s[0], &s[1], 1, 0, 1, 3) == 0, "after a completion");
  while (fake_fabric_open()) look(&s[0], &e), look(&s[1], &e);
  end(s, 2);
  uint32_t busy = 0;
  traits = (struct fake_fabric_traits){.busy_per_1000 = 500};
  begin(s, 2);
  for (uint32_t i = 0; i < 100; i++) {
    busy += write_data(&s[0], &s[1], 1, 0, 1, 0) == -EAGAIN;
    look(&s[0], &e);
    look(&s[1], &e);
  }
  CHECK(busy > 25 && busy < 75, "%u of 100 posts return -EAGAIN", busy);
  end(s, 2);
}

/* A write with data waits for a receive, and so do those after it. Waiting does not keep the descriptors readable. */
static void test_receives(void) {
  struct side s[2];
  struct tu_fi_cq_data_entry e;
  traits = (struct fake_fabric_traits){.mode = TU_FI_RX_CQ_DATA | TU_FI_CONTEXT, .receives_max = 2};
  begin(s, 2);
  write_message(&s[0], &s[1], 1, 8, TU_FI_DELIVERY_COMPLETE | TU_FI_REMOTE_CQ_DATA, 0);
  write_message(&s[0], &s[1], 1, 8, TU_FI_DELIVERY_COMPLETE, 1);
  struct pollfd p[2] = {{.fd = s[0].descriptor, .events = POLLIN}, {.fd = s[1].descriptor, .events = POLLIN}};
  CHECK(poll(p, 2, 0) == 2, "not readable");
  CHECK(look(&s[0], &e) == -EAGAIN && look(&s[1], &e) == -EAGAIN, "done without a receive");
  CHECK(poll(p, 2, 0) == 0, "readable, but looks do not help");
  CHECK(post_receive(&s[1], 0) == 0 && post_receive(&s[1], 1) == 0 && post_receive(&s[1], 2) == -EAGAIN, "receives");
  CHECK(poll(p, 2, 0) == 2, "not readable after a receive");
  CHECK(look(&s[1], &e) == 1 && e.op_context == &s[1].receives[0] && e.data == 9, "remote data");
  CHECK(look(&s[0], &e) == 1 && look(&s[0], &e) == 1, "completions");
  end(s, 2);
}

static void test_descriptors(void) {
  struct side s[2];
  struct tu_fi_cq_data_entry e;
  traits = (struct fake_fabric_traits){.no_descriptor = true};
  begin(s, 1);
  CHECK(s[0].descriptor == -1, "there is a descriptor");
  end(s, 1);
  for (uint32_t arms = 0; arms < 2; arms++) {
    traits = (struct fake_fabric_traits){.arms = arms};
    begin(s, 2);
    struct pollfd p = {.fd = s[1].descriptor, .events = POLLIN};
    struct tu_fi_fid *fid = &s[1].cq->fid;
    struct tu_fi_fabric *f = s[1].fabric;
    CHECK(poll(&p, 1, 0) == 0, "readable at first");
    if (arms) {
      write_data(&s[0], &s[1], 1, 0, 1, 0);
      CHECK(poll(&p, 1, 0) == 0 && f->ops->trywait(f, &fid, 1) == -EAGAIN, "readable without fi_trywait");
      CHECK(look(&s[1], &e) == 1 && look(&s[0], &e) == 1, "completions");
    }
    CHECK(f->ops->trywait(f, &fid, 1) == 0, "fi_trywait");
    write_data(&s[0], &s[1], 1, 0, 1, 0);
    CHECK(poll(&p, 1, 0) == 1 && poll(&p, 1, 0) == 1, "not readable");
    CHECK(f->ops->trywait(f, &fid, 1) == -EAGAIN, "fi_trywait with an entry");
    CHECK(look(&s[1], &e) == 1 && poll(&p, 1, 0) == 0, "readable after the last entry");
    CHECK(look(&s[0], &e) == 1, "completion");
    write_data(&s[0], &s[1], 1, 0, 1, 0);
    CHECK(poll(&p, 1, 0) == (arms ? 0 : 1), "armed by an earlier fi_trywait");
    CHECK(look(&s[1], &e) == 1 && look(&s[0], &e) == 1, "completions");
    end(s, 2);
  }
}

static int simulated = -1, closed_descriptors;
static int open_simulated(void) { return 1000; }
static void set_simulated(int descriptor, bool readable) { simulated = descriptor == 1000 ? readable : -1; }
static void close_simulated(int descriptor) { closed_descriptors += descriptor == 1000; }

static void test_simulated_descriptors(void) {
  struct side s[1];
  struct tu_fi_cq_data_entry e;
  traits = (struct fake_fabric_traits){
      .descriptor_open = open_simulated, .descriptor_set = set_simulated, .descriptor_close = close_simulated};
  begin(s, 1);
  CHECK(s[0].descriptor == 1000 && write_data(&s[0], &s[0], 0, 4, 1, 0) == 0 && simulated == 1, "not readable");
  while (look(&s[0], &e) != -EAGAIN) continue;
  CHECK(simulated == 0, "readable");
  end(s, 1);
  CHECK(closed_descriptors == 1, "%d closed", closed_descriptors);
}

/* ---- ends ---- */

static void test_kill(void) {
  uint32_t failed = 0, refused = 0;
  for (uint64_t seed = 0; seed < 100 && !test_failures; seed++) {
    static struct side s[2];
    struct tu_fi_cq_data_entry e;
    struct tu_fi_cq_err_entry error = {0};
    traits = (struct fake_fabric_traits){.seed = seed, .late = 3, .mode = TU_FI_CONTEXT};
    begin(s, 2);
    CHECK(write_message(&s[0], &s[1], 1, 16, TU_FI_DELIVERY_COMPLETE, 0) == 0, "not posted");
    CHECK(write_message(&s[1], &s[0], 0, 16, TU_FI_REMOTE_CQ_DATA, 0) == 0, "not posted");
    if (seed % 3) look(&s[1], &e);
    fake_fabric_kill(s[1].name, sizeof s[1].name);
    memset(&s[1], 0xff, sizeof s[1]); /* the provider must not need its memory */
    ssize_t n = -EAGAIN;
    for (uint32_t i = 0; i < 10; i++) {
      const ssize_t got = look(&s[0], &e);
      if (got != -EAGAIN) n = got;
      if (got == -TU_FI_EAVAIL) break;
    }
    const bool failure = n == -TU_FI_EAVAIL;
    if (failure) CHECK(s[0].cq->ops->readerr(s[0].cq, &error, 0) == 1, "no error entry");
    if (failure) CHECK(error.err == ECANCELED && error.prov_errno == ENOTCONN, "error %d", error.err);
    CHECK(failure || seed % 3, "a write to the dead does not fail");
    failed += failure;
    ssize_t result = 0;
    ssize_t first = 0;
    for (uint32_t i = 0; i < LOOKS && result == 0; i++) {
      result = s[0].ep->rma->injectdata(s[0].ep, NULL, 0, 1, s[0].peers[1], 0, 0);
      if (i == 0) first = result;
      if (look(&s[0], &e) == -TU_FI_EAVAIL) s[0].cq->ops->readerr(s[0].cq, &error, 0);
    }
    refused += result == -EAGAIN;
    CHECK(!failure || first == -EAGAIN, "accepted after a failure");
    for (uint32_t i = 0; i < 5; i++)
      CHECK(s[0].ep->rma->injectdata(s[0].ep, NULL, 0, 1, s[0].peers[1], 0, 0) == -EAGAIN, "accepted again");
    while (fake_fabric_open()) {
      if (look(&s[0], &e) == -TU_FI_EAVAIL) s[0].cq->ops->readerr(s[0].cq, &error, 0);
    }
    end(s, 1);
  }
  CHECK(failed > 30 && refused == 100, "%u failed, %u refused", failed, refused);
}

/* Writes to itself; no data, no bytes. */
static ssize_t write_own(struct side *s, void *context) {
  const struct iovec iov = {.iov_base = NULL};
  const struct tu_fi_rma_iov rma = {.len = 0};
  const struct tu_fi_msg_rma m = {
      .msg_iov = &iov, .iov_count = 1, .addr = s->peers[1], .rma_iov = &rma, .rma_iov_count = 1, .context = context};
  return s->ep->rma->writemsg(s->ep, &m, TU_FI_COMPLETION);
}

/* What an endpoint has posted does not use its memory after it is closed. */
static void test_close(void) {
  uint32_t arrived = 0, failed = 0;
  for (uint64_t seed = 0; seed < 100 && !test_failures; seed++) {
    struct side s[2];
    struct tu_fi_cq_data_entry e;
    traits = (struct fake_fabric_traits){.seed = seed, .late = 4, .mode = TU_FI_CONTEXT2, .loses_on_close = true};
    begin(s, 2);
    CHECK(write_data(&s[0], &s[1], 1, 16, 5, 0) == 0, "not posted");
    CHECK(s[0].ep->rma->injectdata(s[0].ep, "x", 1, 6, s[0].peers[1], at(&s[1], s[1].memory), s[1].mr->key) == 0,
          "inject");
    CHECK(write_message(&s[1], &s[0], 0, 0, TU_FI_DELIVERY_COMPLETE, 0) == 0, "not posted");
    if (seed % 2) look(&s[0], &e);
    CHECK(close_fid(&s[0].ep->fid) == 0, "not closed");
    s[0].ep = NULL;
    /* Its contexts are the program's again: another endpoint may use one. */
    CHECK(write_own(&s[1], &s[0].contexts[0]) == 0, "the context is in use");
    memset(s[0].contexts + 1, 7, sizeof s[0].contexts - sizeof s[0].contexts[0]);
    memset(s[0].memory, 7, sizeof s[0].memory);
    for (uint32_t i = 0; i < 20; i++) {
      const ssize_t n = look(&s[1], &e);
      struct tu_fi_cq_err_entry error = {0};
      if (n == -TU_FI_EAVAIL) failed += s[1].cq->ops->readerr(s[1].cq, &error, 0) == 1;
      if (n == 1 && e.flags & TU_FI_REMOTE_CQ_DATA) arrived++;
    }
    while (look(&s[0], &e) == 1) continue;
    CHECK(fake_fabric_open() == 0 && s[1].memory[1] != 7, "open, or memory of a closed endpoint");
    end(s, 2);
  }
  CHECK(failed > 50 && arrived > 30 && arrived < 170, "%u failed, %u arrived", failed, arrived);
}

/* ---- threads ---- */

static atomic_uint threads_failed;

/* Writes to the other process, and waits for its write, in turns. The peer may be one turn ahead, so turns use two
 * slots. */
static void *play(void *argument) {
  const uint32_t me = *(const uint32_t *)argument;
  struct side *s = &pair[me], *peer = &pair[1 - me];
  uint32_t received = 0;
  for (uint32_t turn = 1; turn <= 300; turn++) {
    const uint64_t address = 128 + 32 * (turn % 2);
    bool written = false;
    memset(s->memory, (int)(turn + me), 32);
    if (s->ep->rma->writedata(s->ep, s->memory, 32, NULL, turn, s->peers[1 - me], address, peer->mr->key, NULL)) {
      threads_failed++;
      break;
    }
    while (!written || received < turn) {
      struct tu_fi_cq_data_entry e;
      if (look(s, &e) != 1) continue;
      if (!(e.flags & TU_FI_REMOTE_CQ_DATA)) {
        written = true;
        continue;
      }
      const unsigned char *slot = s->memory + 128 + 32 * (e.data % 2), expected = (unsigned char)(e.data + 1 - me);
      if (e.data != ++received || slot[0] != expected || slot[31] != expected) threads_failed++;
    }
  }
  return NULL;
}

static void test_threads(void) {
  const uint32_t numbers[2] = {0, 1};
  pthread_t thread;
  traits = (struct fake_fabric_traits){.seed = 3, .late = 2};
  begin(pair, 2);
  uint32_t other = numbers[1], own = numbers[0];
  pthread_create(&thread, NULL, play, &other);
  play(&own);
  pthread_join(thread, NULL);
  CHECK(threads_failed == 0, "%u wrong bytes or data", threads_failed);
  end(pair, 2);
}

/* ---- random traffic ---- */

enum { OPS = 20, SLOT = 40, FILL = 0xee };
enum verb { READ, WRITE, WRITE_DELIVERED, WRITE_DATA, WRITE_DATA_DELIVERED, INJECT, SIGNAL, VERBS };

struct op {
  enum verb verb;
  uint32_t to, bytes;
  bool posted, done, failed;
  uint32_t arrived; /* remote completions */
};

struct player {
  struct side side;
  struct tu_fi_mr *region;
  struct memory {
    unsigned char source[OPS][SLOT], result[OPS][SLOT], fixed[SLOT], window[SIDES][OPS][SLOT];
  } memory;
  struct op ops[OPS];
  struct tu_fi_context2 contexts[OPS], receives[6];
  bool receive_posted[6];
  uint32_t posted, completed[SIDES], reported[SIDES]; /* numbers: the next operation of a peer is not lower */
};

static struct player players[SIDES];
static uint64_t random_state, trace;

static uint64_t draw(uint64_t count) { return tu_random(&random_state) % count; }
static unsigned char pattern(uint32_t player, uint32_t op, uint32_t i) {
  return (unsigned char)(player * 83 + op * 7 + i);
}

static bool has_pattern(const unsigned char *bytes, uint32_t count, uint32_t player, uint32_t op) {
  bool same = true;
  for (uint32_t i = 0; i < count; i++) same &= bytes[i] == pattern(player, op, i);
  return same;
}

static bool is_delivered(enum verb v) { return v == WRITE_DELIVERED || v == WRITE_DATA_DELIVERED; }
static bool has_data(enum verb v) { return v >= WRITE_DATA; }
static bool is_injected(enum verb v) { return v == INJECT || v == SIGNAL; }

static void draw_traits(uint64_t seed) {
  static const int bits[] = {TU_FI_MR_LOCAL, TU_FI_MR_VIRT_ADDR, TU_FI_MR_ALLOCATED, TU_FI_MR_PROV_KEY,
                             TU_FI_MR_ENDPOINT};
  traits = (struct fake_fabric_traits){.seed = seed, .late = (uint32_t)draw(4) * (uint32_t)draw(4)};
  for (uint32_t i = 0; i < 5; i++) traits.mr_mode |= draw(2) ? bits[i] : 0;
  traits.mode = (draw(3) ? 0 : TU_FI_CONTEXT) | (draw(3) ? 0 : TU_FI_CONTEXT2) | (draw(3) ? 0 : TU_FI_RX_CQ_DATA);
  traits.no_descriptor = draw(4) == 0;
  traits.arms = draw(2);
  traits.shuffles = draw(2);
  traits.connecting = draw(2) ? 0 : (uint32_t)draw(4);
  traits.busy_per_1000 = draw(2) ? 0 : 300;
  traits.errors_per_1000 = draw(3) ? 0 : 100;
  traits.operations_max = draw(2) ? 0 : 1 + (uint32_t)draw(5);
  traits.receives_max = draw(2) ? 0 : 1 + (uint32_t)draw(3);
  traits.key_bytes = draw(2) ? 4 : 8;
}

static void prepare_player(uint32_t p) {
  struct player *y = &players[p];
  memset(y, 0, sizeof *y);
  memset(&y->memory, FILL, sizeof y->memory);
  for (uint32_t i = 0; i < SLOT; i++) y->memory.fixed[i] = pattern(p, 255, i);
  for (uint32_t k = 0; k < OPS; k++) {
    struct op *op = &y->ops[k];
    op->verb = (enum verb)draw(VERBS);
    op->to = (uint32_t)draw(SIDES);
    op->bytes = op->verb == SIGNAL ? 0 : (uint32_t)draw(op->verb == INJECT ? 9 : SLOT + 1);
    for (uint32_t i = 0; i < SLOT; i++) y->memory.source[k][i] = pattern(p, k, i);
  }
}

static uint64_t address_in(const struct player *y, const void *byte) {
  const uintptr_t a = (uintptr_t)byte;
  return traits.mr_mode & TU_FI_MR_VIRT_ADDR ? a : a - (uintptr_t)&y->memory;
}

static ssize_t post_op(uint32_t p, uint32_t k) {
  struct player *y = &players[p];
  const struct op *op = &y->ops[k];
  struct tu_fi_ep *ep = y->side.ep;
  struct player *to = &players[op->to];
  const uint64_t address = address_in(to, op->verb == READ ? to->memory.fixed : to->memory.window[p][k]);
  const tu_fi_addr peer = y->side.peers[op->to];
  void *desc = traits.mr_mode & TU_FI_MR_LOCAL ? y->region->mem_desc : NULL;
  const uint64_t data = p * OPS + k, key = to->region->key;
  if (op->verb == READ)
    return ep->rma->read(ep, y->memory.result[k], op->bytes, desc, peer, address, key, &y->contexts[k]);
  if (op->verb == WRITE_DATA)
    return ep->rma->writedata(ep, y->memory.source[k], op->bytes, desc, data, peer, address, key, &y->contexts[k]);
  if (is_injected(op->verb)) {
    const ssize_t err = ep->rma->injectdata(ep, y->memory.source[k], op->bytes, data, peer, address, key);
    if (!err) memset(y->memory.source[k], 0, SLOT);
    return err;
  }
  const struct iovec iov = {.iov_base = y->memory.source[k], .iov_len = op->bytes};
  const struct tu_fi_rma_iov rma = {.addr = address, .len = op->bytes, .key = key};
  const struct tu_fi_msg_rma m = {.msg_iov = &iov,
                                  .desc = &desc,
                                  .iov_count = 1,
                                  .addr = peer,
                                  .rma_iov = &rma,
                                  .rma_iov_count = 1,
                                  .context = &y->contexts[k],
                                  .data = data};
  return ep->rma->writemsg(ep, &m,
                           TU_FI_COMPLETION | (is_delivered(op->verb) ? TU_FI_DELIVERY_COMPLETE : 0) |
                               (has_data(op->verb) ? TU_FI_REMOTE_CQ_DATA : 0));
}

/* A completion at the source. */
static void take_own(uint32_t p, void *context, int err) {
  struct player *y = &players[p];
  if (!context) { /* an injected write has failed; which one is not known */
    CHECK(err, "player %u: a completion without a context", p);
    return;
  }
  const uint32_t k = (uint32_t)((struct tu_fi_context2 *)context - y->contexts);
  struct op *op = &y->ops[k];
  CHECK(k < OPS && op->posted && !op->done && !is_injected(op->verb), "player %u: a completion of operation %u", p, k);
  if (k >= OPS) return;
  op->done = true;
  op->failed = err != 0;
  CHECK(!err || traits.errors_per_1000, "player %u: operation %u fails with %d", p, k, err);
  CHECK(traits.shuffles || k >= y->completed[op->to], "player %u: operation %u is not complete in order", p, k);
  y->completed[op->to] = k;
  if (op->verb == READ && !err) CHECK(has_pattern(y->memory.result[k], op->bytes, op->to, 255), "bytes of a read");
  if (is_delivered(op->verb) && !err) {
    CHECK(has_pattern(players[op->to].memory.window[p][k], op->bytes, p, k), "player %u: %u is not delivered", p, k);
  }
  memset(y->memory.source[k], 0, SLOT);
}

static void take_remote(uint32_t p, const struct tu_fi_cq_data_entry *e) {
  struct player *y = &players[p];
  const uint32_t from = (uint32_t)e->data / OPS, k = (uint32_t)e->data % OPS;
  CHECK(from < SIDES && players[from].ops[k].to == p && has_data(players[from].ops[k].verb), "strange data");
  if (from >= SIDES) return;
  struct op *op = &players[from].ops[k];
  CHECK(op->arrived++ == 0, "operation %u of player %u arrives twice", k, from);
  CHECK(has_pattern(y->memory.window[from][k], op->bytes, from, k), "operation %u of %u is reported too early", k,
        from);
  CHECK(traits.shuffles || k >= y->reported[from], "operation %u of %u arrives out of order", k, from);
  y->reported[from] = k;
  if (!(traits.mode & TU_FI_RX_CQ_DATA)) {
    CHECK(!e->op_context, "a context without a receive");
    return;
  }
  const uint32_t r = (uint32_t)((struct tu_fi_context2 *)e->op_context - y->receives);
  CHECK(r < 6 && y->receive_posted[r], "no receive");
  if (r < 6) y->receive_posted[r] = false;
}

static void look_as(uint32_t p) {
  struct player *y = &players[p];
  struct tu_fi_cq_data_entry entries[3];
  const ssize_t n = y->side.cq->ops->read(y->side.cq, entries, 1 + draw(3));
  trace = trace * 31 + (uint64_t)n;
  for (ssize_t i = 0; i < n; i++) {
    trace = trace * 31 + entries[i].data;
    if (entries[i].flags & TU_FI_REMOTE_CQ_DATA) take_remote(p, &entries[i]);
    else take_own(p, entries[i].op_context, 0);
  }
  struct tu_fi_cq_err_entry error = {0};
  if (n == -TU_FI_EAVAIL) {
    CHECK(y->side.cq->ops->readerr(y->side.cq, &error, 0) == 1 && error.err, "no error entry");
    take_own(p, error.op_context, error.err);
  }
  for (uint32_t r = 0; r < 6 && traits.mode & TU_FI_RX_CQ_DATA; r++) {
    if (y->receive_posted[r]) continue;
    y->receive_posted[r] = y->side.ep->msg->recv(y->side.ep, NULL, 0, NULL, UINT64_MAX, &y->receives[r]) == 0;
  }
}

/* Returns true if a program that sleeps on its descriptor would not wake. */
static bool sleeps(uint32_t p) {
  struct side *s = &players[p].side;
  struct tu_fi_fid *fid = &s->cq->fid;
  struct pollfd f = {.fd = s->descriptor, .events = POLLIN};
  if (s->descriptor < 0 || s->fabric->ops->trywait(s->fabric, &fid, 1) != 0) return false;
  bool receives = !(traits.mode & TU_FI_RX_CQ_DATA);
  for (uint32_t r = 0; r < 6; r++) receives |= players[p].receive_posted[r];
  return receives && poll(&f, 1, 0) == 0;
}

static void run_traffic(void) {
  uint32_t idle = 0;
  for (uint32_t step = 0; step < 30000 && idle < 300; step++) {
    const uint32_t p = (uint32_t)draw(SIDES);
    struct player *y = &players[p];
    const bool posts = y->posted < OPS;
    bool all_posted = true;
    for (uint32_t i = 0; i < SIDES; i++) all_posted &= players[i].posted == OPS;
    if (all_posted && !fake_fabric_open()) return;
    if (posts && draw(2)) {
      const ssize_t err = post_op(p, y->posted);
      CHECK(err == 0 || err == -EAGAIN, "player %u: post %u returns %zd", p, y->posted, err);
      if (!err) y->ops[y->posted++].posted = true;
    }
    if (!posts && sleeps(p)) idle++;
    else idle = 0, look_as(p);
  }
  FAIL("%u operations do not end", fake_fabric_open());
}

static void check_op(uint32_t p, uint32_t k) {
  const struct op *op = &players[p].ops[k];
  const unsigned char *slot = players[op->to].memory.window[p][k];
  const uint32_t written = op->verb == READ ? 0 : op->bytes;
  const bool unsure = op->failed || (is_injected(op->verb) && traits.errors_per_1000);
  CHECK(op->done || is_injected(op->verb), "player %u: operation %u does not complete", p, k);
  for (uint32_t i = 0; i < SLOT; i++) {
    const bool is_new = i < written && slot[i] == pattern(p, k, i), is_old = slot[i] == FILL;
    CHECK(unsure && i < written ? is_new || is_old : i < written ? is_new : is_old, "player %u, %u: byte %u", p, k, i);
  }
  CHECK(op->arrived == has_data(op->verb) || (unsure && op->arrived == 0), "player %u: %u arrives %u times", p, k,
        op->arrived);
  const unsigned char *result = players[p].memory.result[k];
  for (uint32_t i = op->verb == READ ? op->bytes : 0; i < SLOT; i++) CHECK(result[i] == FILL, "byte after a read");
}

/* Returns a number that depends on all that has happened. */
static uint64_t play_seed(uint64_t seed) {
  random_state = seed * 977 + 5;
  trace = 0;
  draw_traits(seed);
  fake_fabric_begin(&traits);
  struct side sides[SIDES];
  for (uint32_t p = 0; p < SIDES; p++) {
    prepare_player(p);
    CHECK(open_side(&sides[p]), "process %u does not open", p);
  }
  CHECK(meet(sides, SIDES), "an address is not inserted");
  for (uint32_t p = 0; p < SIDES; p++) {
    close_fid(&sides[p].mr->fid);
    sides[p].mr = NULL;
    players[p].side = sides[p];
    players[p].region = add_region(&players[p].side, &players[p].memory, sizeof players[p].memory, ACCESS, 12 + p);
    CHECK(players[p].region, "not registered");
  }
  if (!test_failures) run_traffic();
  for (uint32_t p = 0; p < SIDES && !test_failures; p++) {
    for (uint32_t k = 0; k < OPS; k++) check_op(p, k);
  }
  for (uint32_t p = 0; p < SIDES; p++) {
    players[p].side.mr = players[p].region;
    CHECK(close_side(&players[p].side) == 0, "not closed");
  }
  CHECK(fake_fabric_end() == 0, "violations");
  return trace;
}

static void test_traffic(void) {
  const uint64_t first = getenv("TEST_SEED") ? test_seed() : 0;
  const uint64_t count = getenv("TEST_SEED") ? 1 : test_long() ? 20000 : 1000;
  for (uint64_t seed = first; seed < first + count && !test_failures; seed++) {
    const uint64_t same = play_seed(seed);
    if (seed % 20 == 0) CHECK(play_seed(seed) == same, "not the same again");
    if (test_failures) printf("  TEST_SEED=%llu\n", (unsigned long long)seed);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"offers", test_offers},
      {"refused", test_refused},
      {"modes", test_modes},
      {"rules", test_rules},
      {"key_twice", test_key_twice},
      {"order", test_order},
      {"early", test_early},
      {"errors", test_errors},
      {"busy", test_busy},
      {"receives", test_receives},
      {"descriptors", test_descriptors},
      {"simulated_descriptors", test_simulated_descriptors},
      {"kill", test_kill},
      {"close", test_close},
      {"threads", test_threads},
      {"traffic", test_traffic},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
