/* abi.h: the part of the ABI of libfabric.so.1 that the library uses: struct fi_info of symbol version FABRIC_1.3 (read
 * from the headers of libfabric 1.17; later libraries keep this version). The build does not need libfabric. The names
 * differ from those of its headers, so that a test can include both and compare them (tests/fabric_abi_test.c).
 *
 * Objects of libfabric have tables of functions. Functions that are not used are `void (*)(void)` here. The first field of
 * a table is its size in the library that is loaded, which may have fewer functions. */
#ifndef TU_FABRIC_ABI_H
#define TU_FABRIC_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define TU_FI_VERSION_1_17 65553u /* major << 16 | minor */

/* Capabilities, and flags of operations and completions. */
#define TU_FI_MSG 0x2ull
#define TU_FI_RMA 0x4ull
#define TU_FI_READ 0x100ull
#define TU_FI_WRITE 0x200ull
#define TU_FI_RECV 0x400ull
#define TU_FI_TRANSMIT 0x800ull
#define TU_FI_REMOTE_READ 0x1000ull
#define TU_FI_REMOTE_WRITE 0x2000ull
#define TU_FI_REMOTE_CQ_DATA 0x20000ull
#define TU_FI_COMPLETION 0x1000000ull
#define TU_FI_DELIVERY_COMPLETE 0x10000000ull
#define TU_FI_SOURCE 0x200000000000000ull /* fi_getinfo: node and service are addresses of this host */

/* Mode bits: what a provider asks of the program. */
#define TU_FI_CONTEXT 0x800000000000000ull
#define TU_FI_CONTEXT2 0x10000000000000ull
#define TU_FI_RX_CQ_DATA 0x100000000000000ull

/* Modes of memory registration. */
enum {
  TU_FI_MR_LOCAL = 0x4,
  TU_FI_MR_VIRT_ADDR = 0x10,
  TU_FI_MR_ALLOCATED = 0x20,
  TU_FI_MR_PROV_KEY = 0x40,
  TU_FI_MR_ENDPOINT = 0x200
};

enum { TU_FI_EP_RDM = 3 };
enum { TU_FI_FORMAT_UNSPEC = 0, TU_FI_SOCKADDR = 1, TU_FI_SOCKADDR_IN = 2, TU_FI_SOCKADDR_IN6 = 3 };
enum { TU_FI_THREAD_DOMAIN = 3, TU_FI_RM_ENABLED = 2 };
enum { TU_FI_CQ_FORMAT_DATA = 3, TU_FI_WAIT_NONE = 0, TU_FI_WAIT_FD = 3 };
enum { TU_FI_GETWAIT = 5, TU_FI_ENABLE = 6 }; /* commands of control */
enum { TU_FI_EAVAIL = 259 };                  /* errors up to 255 are those of errno.h */

/* Memory that a provider may use while an operation is open, if it has asked for one of the two context modes. */
struct tu_fi_context2 {
  void *internal[8];
};

struct tu_fi_fid;
struct tu_fi_ops {
  size_t size;
  int (*close)(struct tu_fi_fid *fid);
  int (*bind)(struct tu_fi_fid *fid, struct tu_fi_fid *other, uint64_t flags);
  int (*control)(struct tu_fi_fid *fid, int command, void *argument);
  void (*unused[3])(void);
};
/* The base struct of all objects. */
struct tu_fi_fid {
  size_t fclass;
  void *context;
  struct tu_fi_ops *ops;
};

/* ---- what fi_getinfo takes and returns ---- */

struct tu_fi_tx_attr {
  uint64_t caps, mode, op_flags, msg_order, comp_order;
  size_t inject_size, size, iov_limit, rma_iov_limit;
  uint32_t tclass;
};
struct tu_fi_rx_attr {
  uint64_t caps, mode, op_flags, msg_order, comp_order;
  size_t total_buffered_recv, size, iov_limit;
};
struct tu_fi_ep_attr {
  uint32_t type, protocol, protocol_version;
  size_t max_msg_size, msg_prefix_size, max_order_raw_size, max_order_war_size, max_order_waw_size;
  uint64_t mem_tag_format;
  size_t tx_ctx_cnt, rx_ctx_cnt, auth_key_size;
  uint8_t *auth_key;
};
struct tu_fi_domain_attr {
  struct tu_fi_domain *domain;
  char *name;
  uint32_t threading, control_progress, data_progress, resource_mgmt, av_type;
  int mr_mode;
  size_t mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_ep_tx_ctx, max_ep_rx_ctx,
      max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit;
  uint64_t caps, mode;
  uint8_t *auth_key;
  size_t auth_key_size, max_err_data, mr_cnt;
  uint32_t tclass;
};
struct tu_fi_fabric_attr {
  struct tu_fi_fabric *fabric;
  char *name, *prov_name;
  uint32_t prov_version, api_version;
};
struct tu_fi_info {
  struct tu_fi_info *next;
  uint64_t caps, mode;
  uint32_t addr_format;
  size_t src_addrlen, dest_addrlen;
  void *src_addr, *dest_addr;
  struct tu_fi_fid *handle;
  struct tu_fi_tx_attr *tx_attr;
  struct tu_fi_rx_attr *rx_attr;
  struct tu_fi_ep_attr *ep_attr;
  struct tu_fi_domain_attr *domain_attr;
  struct tu_fi_fabric_attr *fabric_attr;
  void *nic;
};

/* ---- objects ---- */

struct tu_fi_domain;
struct tu_fi_ops_fabric {
  size_t size;
  int (*domain)(struct tu_fi_fabric *fabric, struct tu_fi_info *info, struct tu_fi_domain **domain, void *context);
  void (*unused[3])(void);
  int (*trywait)(struct tu_fi_fabric *fabric, struct tu_fi_fid **fids, int count);
  void (*unused_domain2)(void);
};
struct tu_fi_fabric {
  struct tu_fi_fid fid;
  struct tu_fi_ops_fabric *ops;
  uint32_t api_version;
};

struct tu_fi_cq;
struct tu_fi_cq_attr {
  size_t size;
  uint64_t flags;
  uint32_t format, wait_obj;
  int signaling_vector;
  uint32_t wait_cond;
  void *wait_set;
};
struct tu_fi_av;
struct tu_fi_av_attr {
  uint32_t type;
  int rx_ctx_bits;
  size_t count, ep_per_node;
  const char *name;
  void *map_addr;
  uint64_t flags;
};
struct tu_fi_ep;
struct tu_fi_ops_domain {
  size_t size;
  int (*av_open)(struct tu_fi_domain *domain, struct tu_fi_av_attr *attr, struct tu_fi_av **av, void *context);
  int (*cq_open)(struct tu_fi_domain *domain, struct tu_fi_cq_attr *attr, struct tu_fi_cq **cq, void *context);
  int (*endpoint)(struct tu_fi_domain *domain, struct tu_fi_info *info, struct tu_fi_ep **ep, void *context);
  void (*unused[8])(void);
};
struct tu_fi_mr;
struct tu_fi_ops_mr {
  size_t size;
  int (*reg)(struct tu_fi_fid *domain, const void *memory, size_t bytes, uint64_t access, uint64_t offset,
             uint64_t requested_key, uint64_t flags, struct tu_fi_mr **mr, void *context);
  void (*unused[2])(void);
};
struct tu_fi_domain {
  struct tu_fi_fid fid;
  struct tu_fi_ops_domain *ops;
  struct tu_fi_ops_mr *mr;
};
struct tu_fi_mr {
  struct tu_fi_fid fid;
  void *mem_desc;
  uint64_t key;
};

typedef uint64_t tu_fi_addr;
struct tu_fi_ops_av {
  size_t size;
  int (*insert)(struct tu_fi_av *av, const void *names, size_t count, tu_fi_addr *addresses, uint64_t flags,
                void *context);
  void (*unused[2])(void);
  int (*remove)(struct tu_fi_av *av, tu_fi_addr *addresses, size_t count, uint64_t flags);
  void (*unused_others[3])(void);
};
struct tu_fi_av {
  struct tu_fi_fid fid;
  struct tu_fi_ops_av *ops;
};

struct tu_fi_cq_data_entry {
  void *op_context;
  uint64_t flags;
  size_t len;
  void *buf;
  uint64_t data;
};
struct tu_fi_cq_err_entry {
  void *op_context;
  uint64_t flags;
  size_t len;
  void *buf;
  uint64_t data, tag;
  size_t olen;
  int err, prov_errno;
  void *err_data;
  size_t err_data_size;
};
struct tu_fi_ops_cq {
  size_t size;
  ssize_t (*read)(struct tu_fi_cq *cq, void *entries, size_t count);
  void (*unused_readfrom)(void);
  ssize_t (*readerr)(struct tu_fi_cq *cq, struct tu_fi_cq_err_entry *entry, uint64_t flags);
  void (*unused[3])(void);
  const char *(*strerror)(struct tu_fi_cq *cq, int prov_errno, const void *err_data, char *text, size_t bytes);
};
struct tu_fi_cq {
  struct tu_fi_fid fid;
  struct tu_fi_ops_cq *ops;
};

struct tu_fi_ops_cm {
  size_t size;
  void (*unused_setname)(void);
  int (*getname)(struct tu_fi_fid *ep, void *name, size_t *bytes);
  void (*unused[7])(void);
};
struct tu_fi_ops_msg {
  size_t size;
  ssize_t (*recv)(struct tu_fi_ep *ep, void *memory, size_t bytes, void *desc, tu_fi_addr from, void *context);
  void (*unused[8])(void);
};
struct tu_fi_rma_iov {
  uint64_t addr;
  size_t len;
  uint64_t key;
};
struct tu_fi_msg_rma {
  const struct iovec *msg_iov;
  void **desc;
  size_t iov_count;
  tu_fi_addr addr;
  const struct tu_fi_rma_iov *rma_iov;
  size_t rma_iov_count;
  void *context;
  uint64_t data;
};
struct tu_fi_ops_rma {
  size_t size;
  ssize_t (*read)(struct tu_fi_ep *ep, void *memory, size_t bytes, void *desc, tu_fi_addr from, uint64_t address,
                  uint64_t key, void *context);
  void (*unused[4])(void);
  ssize_t (*writemsg)(struct tu_fi_ep *ep, const struct tu_fi_msg_rma *message, uint64_t flags);
  void (*unused_inject)(void);
  ssize_t (*writedata)(struct tu_fi_ep *ep, const void *memory, size_t bytes, void *desc, uint64_t data, tu_fi_addr to,
                       uint64_t address, uint64_t key, void *context);
  ssize_t (*injectdata)(struct tu_fi_ep *ep, const void *memory, size_t bytes, uint64_t data, tu_fi_addr to,
                        uint64_t address, uint64_t key); /* used only by tests (fabric.h, tu_fabric_write) */
};
struct tu_fi_ep {
  struct tu_fi_fid fid;
  void *ops;
  struct tu_fi_ops_cm *cm;
  struct tu_fi_ops_msg *msg;
  struct tu_fi_ops_rma *rma;
  void *unused[3];
};

/* The functions that the library asks for by name; all others are reached through objects. */
struct tu_fabric_library {
  int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                 const struct tu_fi_info *hints, struct tu_fi_info **info);
  void (*freeinfo)(struct tu_fi_info *info);
  struct tu_fi_info *(*dupinfo)(const struct tu_fi_info *info); /* NULL: returns an empty one, for hints */
  int (*fabric)(struct tu_fi_fabric_attr *attr, struct tu_fi_fabric **fabric, void *context);
  const char *(*strerror)(int error);
  uint32_t (*version)(void);
};

#endif
