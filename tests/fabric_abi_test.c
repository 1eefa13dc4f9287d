/* fabric_abi_test.c: compares src/fabric/abi.h with the headers of libfabric. Without them the test is skipped. */
#include "fabric/abi.h"

#if __has_include(<rdma/fabric.h>)
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(struct theirs), "size of " #theirs)
#define SAME_PLACE(ours, theirs, field) \
  _Static_assert(offsetof(struct ours, field) == offsetof(struct theirs, field), "offset of " #theirs "." #field)
#define SAME_VALUE(ours, theirs) _Static_assert((uint64_t)(ours) == (uint64_t)(theirs), "value of " #theirs)

SAME_SIZE(tu_fi_fid, fid);
SAME_PLACE(tu_fi_fid, fid, ops);
SAME_SIZE(tu_fi_ops, fi_ops);
SAME_PLACE(tu_fi_ops, fi_ops, close);
SAME_PLACE(tu_fi_ops, fi_ops, bind);
SAME_PLACE(tu_fi_ops, fi_ops, control);

SAME_SIZE(tu_fi_info, fi_info);
SAME_PLACE(tu_fi_info, fi_info, mode);
SAME_PLACE(tu_fi_info, fi_info, addr_format);
SAME_PLACE(tu_fi_info, fi_info, src_addrlen);
SAME_PLACE(tu_fi_info, fi_info, src_addr);
SAME_PLACE(tu_fi_info, fi_info, tx_attr);
SAME_PLACE(tu_fi_info, fi_info, fabric_attr);
SAME_SIZE(tu_fi_tx_attr, fi_tx_attr);
SAME_PLACE(tu_fi_tx_attr, fi_tx_attr, inject_size);
SAME_PLACE(tu_fi_tx_attr, fi_tx_attr, size);
SAME_PLACE(tu_fi_tx_attr, fi_tx_attr, iov_limit);
SAME_SIZE(tu_fi_rx_attr, fi_rx_attr);
SAME_PLACE(tu_fi_rx_attr, fi_rx_attr, size);
SAME_SIZE(tu_fi_ep_attr, fi_ep_attr);
SAME_PLACE(tu_fi_ep_attr, fi_ep_attr, type);
SAME_PLACE(tu_fi_ep_attr, fi_ep_attr, protocol);
SAME_PLACE(tu_fi_ep_attr, fi_ep_attr, max_msg_size);
SAME_SIZE(tu_fi_domain_attr, fi_domain_attr);
SAME_PLACE(tu_fi_domain_attr, fi_domain_attr, name);
SAME_PLACE(tu_fi_domain_attr, fi_domain_attr, threading);
SAME_PLACE(tu_fi_domain_attr, fi_domain_attr, resource_mgmt);
SAME_PLACE(tu_fi_domain_attr, fi_domain_attr, mr_mode);
SAME_PLACE(tu_fi_domain_attr, fi_domain_attr, mr_key_size);
SAME_PLACE(tu_fi_domain_attr, fi_domain_attr, cq_data_size);
SAME_SIZE(tu_fi_fabric_attr, fi_fabric_attr);
SAME_PLACE(tu_fi_fabric_attr, fi_fabric_attr, name);
SAME_PLACE(tu_fi_fabric_attr, fi_fabric_attr, prov_name);
SAME_PLACE(tu_fi_fabric_attr, fi_fabric_attr, prov_version);

SAME_SIZE(tu_fi_fabric, fid_fabric);
SAME_PLACE(tu_fi_fabric, fid_fabric, ops);
SAME_SIZE(tu_fi_ops_fabric, fi_ops_fabric);
SAME_PLACE(tu_fi_ops_fabric, fi_ops_fabric, domain);
SAME_PLACE(tu_fi_ops_fabric, fi_ops_fabric, trywait);
SAME_SIZE(tu_fi_domain, fid_domain);
SAME_PLACE(tu_fi_domain, fid_domain, ops);
SAME_PLACE(tu_fi_domain, fid_domain, mr);
SAME_SIZE(tu_fi_ops_domain, fi_ops_domain);
SAME_PLACE(tu_fi_ops_domain, fi_ops_domain, av_open);
SAME_PLACE(tu_fi_ops_domain, fi_ops_domain, cq_open);
SAME_PLACE(tu_fi_ops_domain, fi_ops_domain, endpoint);
SAME_SIZE(tu_fi_ops_mr, fi_ops_mr);
SAME_PLACE(tu_fi_ops_mr, fi_ops_mr, reg);
SAME_SIZE(tu_fi_mr, fid_mr);
SAME_PLACE(tu_fi_mr, fid_mr, mem_desc);
SAME_PLACE(tu_fi_mr, fid_mr, key);
SAME_SIZE(tu_fi_av_attr, fi_av_attr);
SAME_PLACE(tu_fi_av_attr, fi_av_attr, count);
SAME_SIZE(tu_fi_av, fid_av);
SAME_PLACE(tu_fi_av, fid_av, ops);
SAME_SIZE(tu_fi_ops_av, fi_ops_av);
SAME_PLACE(tu_fi_ops_av, fi_ops_av, insert);
SAME_PLACE(tu_fi_ops_av, fi_ops_av, remove);
SAME_SIZE(tu_fi_cq_attr, fi_cq_attr);
SAME_PLACE(tu_fi_cq_attr, fi_cq_attr, format);
SAME_PLACE(tu_fi_cq_attr, fi_cq_attr, wait_obj);
SAME_SIZE(tu_fi_cq, fid_cq);
SAME_PLACE(tu_fi_cq, fid_cq, ops);
SAME_SIZE(tu_fi_ops_cq, fi_ops_cq);
SAME_PLACE(tu_fi_ops_cq, fi_ops_cq, read);
SAME_PLACE(tu_fi_ops_cq, fi_ops_cq, readerr);
SAME_PLACE(tu_fi_ops_cq, fi_ops_cq, strerror);
SAME_SIZE(tu_fi_cq_data_entry, fi_cq_data_entry);
SAME_PLACE(tu_fi_cq_data_entry, fi_cq_data_entry, flags);
SAME_PLACE(tu_fi_cq_data_entry, fi_cq_data_entry, data);
SAME_SIZE(tu_fi_cq_err_entry, fi_cq_err_entry);
SAME_PLACE(tu_fi_cq_err_entry, fi_cq_err_entry, flags);
SAME_PLACE(tu_fi_cq_err_entry, fi_cq_err_entry, err);
SAME_PLACE(tu_fi_cq_err_entry, fi_cq_err_entry, prov_errno);
SAME_PLACE(tu_fi_cq_err_entry, fi_cq_err_entry, err_data);
SAME_SIZE(tu_fi_ep, fid_ep);
SAME_PLACE(tu_fi_ep, fid_ep, cm);
SAME_PLACE(tu_fi_ep, fid_ep, msg);
SAME_PLACE(tu_fi_ep, fid_ep, rma);
SAME_SIZE(tu_fi_ops_cm, fi_ops_cm);
SAME_PLACE(tu_fi_ops_cm, fi_ops_cm, getname);
SAME_SIZE(tu_fi_ops_msg, fi_ops_msg);
SAME_PLACE(tu_fi_ops_msg, fi_ops_msg, recv);
SAME_SIZE(tu_fi_ops_rma, fi_ops_rma);
SAME_PLACE(tu_fi_ops_rma, fi_ops_rma, read);
SAME_PLACE(tu_fi_ops_rma, fi_ops_rma, writemsg);
SAME_PLACE(tu_fi_ops_rma, fi_ops_rma, writedata);
SAME_PLACE(tu_fi_ops_rma, fi_ops_rma, injectdata);
SAME_SIZE(tu_fi_rma_iov, fi_rma_iov);
SAME_PLACE(tu_fi_rma_iov, fi_rma_iov, len);
SAME_PLACE(tu_fi_rma_iov, fi_rma_iov, key);
SAME_SIZE(tu_fi_msg_rma, fi_msg_rma);
SAME_PLACE(tu_fi_msg_rma, fi_msg_rma, desc);
SAME_PLACE(tu_fi_msg_rma, fi_msg_rma, addr);
SAME_PLACE(tu_fi_msg_rma, fi_msg_rma, rma_iov);
SAME_PLACE(tu_fi_msg_rma, fi_msg_rma, context);
SAME_PLACE(tu_fi_msg_rma, fi_msg_rma, data);
SAME_SIZE(tu_fi_context2, fi_context2);

SAME_VALUE(TU_FI_MSG, FI_MSG);
SAME_VALUE(TU_FI_RMA, FI_RMA);
SAME_VALUE(TU_FI_READ, FI_READ);
SAME_VALUE(TU_FI_WRITE, FI_WRITE);
SAME_VALUE(TU_FI_RECV, FI_RECV);
SAME_VALUE(TU_FI_TRANSMIT, FI_TRANSMIT);
SAME_VALUE(TU_FI_REMOTE_READ, FI_REMOTE_READ);
SAME_VALUE(TU_FI_REMOTE_WRITE, FI_REMOTE_WRITE);
SAME_VALUE(TU_FI_REMOTE_CQ_DATA, FI_REMOTE_CQ_DATA);
SAME_VALUE(TU_FI_COMPLETION, FI_COMPLETION);
SAME_VALUE(TU_FI_DELIVERY_COMPLETE, FI_DELIVERY_COMPLETE);
SAME_VALUE(TU_FI_SOURCE, FI_SOURCE);
SAME_VALUE(TU_FI_CONTEXT, FI_CONTEXT);
SAME_VALUE(TU_FI_CONTEXT2, FI_CONTEXT2);
SAME_VALUE(TU_FI_RX_CQ_DATA, FI_RX_CQ_DATA);
SAME_VALUE(TU_FI_MR_LOCAL, FI_MR_LOCAL);
SAME_VALUE(TU_FI_MR_VIRT_ADDR, FI_MR_VIRT_ADDR);
SAME_VALUE(TU_FI_MR_ALLOCATED, FI_MR_ALLOCATED);
SAME_VALUE(TU_FI_MR_PROV_KEY, FI_MR_PROV_KEY);
SAME_VALUE(TU_FI_MR_ENDPOINT, FI_MR_ENDPOINT);
SAME_VALUE(TU_FI_EP_RDM, FI_EP_RDM);
SAME_VALUE(TU_FI_FORMAT_UNSPEC, FI_FORMAT_UNSPEC);
SAME_VALUE(TU_FI_SOCKADDR, FI_SOCKADDR);
SAME_VALUE(TU_FI_SOCKADDR_IN, FI_SOCKADDR_IN);
SAME_VALUE(TU_FI_SOCKADDR_IN6, FI_SOCKADDR_IN6);
SAME_VALUE(TU_FI_THREAD_DOMAIN, FI_THREAD_DOMAIN);
SAME_VALUE(TU_FI_RM_ENABLED, FI_RM_ENABLED);
SAME_VALUE(TU_FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_DATA);
SAME_VALUE(TU_FI_WAIT_NONE, FI_WAIT_NONE);
SAME_VALUE(TU_FI_WAIT_FD, FI_WAIT_FD);
SAME_VALUE(TU_FI_GETWAIT, FI_GETWAIT);
SAME_VALUE(TU_FI_ENABLE, FI_ENABLE);
SAME_VALUE(TU_FI_EAVAIL, FI_EAVAIL);
SAME_VALUE(TU_FI_VERSION_1_17, FI_VERSION(1, 17));

int main(void) { return 0; }
#else
#include <stdio.h>

int main(void) {
  puts("skipped: rdma/fabric.h is missing; tools/setup fabrics installs libfabric-dev");
  return 77;
}
#endif
