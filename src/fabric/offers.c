/* offers.c: what libfabric offers on this host, and which of it is used. */
#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "fabric/fabric.h"

/* ---- what the user wishes ---- */

tutti_err tu_fabric_read_wish(struct tu_fabric_wish *wish, struct tu_error *error) {
  const char *text = tu_env("TUTTI_FABRIC");
  *wish = (struct tu_fabric_wish){.how = TU_FABRIC_AUTO};
  if (!text || strcmp(text, "auto") == 0) return TUTTI_OK;
  wish->how = strcmp(text, "none") == 0 ? TU_FABRIC_NONE : TU_FABRIC_NAMED;
  const size_t length = strcspn(text, "/");
  const char *domain = text[length] == '/' ? text + length + 1 : "";
  if (wish->how == TU_FABRIC_NONE) return TUTTI_OK;
  if (length == 0 || length >= sizeof wish->provider || strlen(domain) >= sizeof wish->domain ||
      (text[length] == '/' && !*domain))
    return tu_fail(
        error, TUTTI_ERR_ENVIRONMENT,
        "TUTTI_FABRIC is '%.100s'; expected auto, none, or a provider of libfabric with or without a domain, "
        "such as verbs or efa/rdmap0s6-rdm; `tutti info --fabrics` lists them",
        text);
  memcpy(wish->provider, text, length);
  memcpy(wish->domain, domain, strlen(domain));
  return TUTTI_OK;
}

static bool is_filled(const char *folder) {
  DIR *d = opendir(folder);
  bool any = false;
  for (const struct dirent *e; d && !any && (e = readdir(d));) any = e->d_name[0] != '.';
  if (d) closedir(d);
  return any;
}

/* InfiniBand, RoCE, iWARP, Omni-Path and EFA devices are in the first folder, Slingshot in the second. */
bool tu_fabric_has_device(void) { return is_filled("/sys/class/infiniband") || is_filled("/sys/class/cxi"); }

/* ---- what there is ---- */

static void set_hints(struct tu_fi_info *hints) {
  hints->caps = TU_FI_MSG | TU_FI_RMA;
  hints->mode = TU_FI_CONTEXT | TU_FI_CONTEXT2 | TU_FI_RX_CQ_DATA;
  hints->ep_attr->type = TU_FI_EP_RDM;
  hints->domain_attr->mr_mode =
      TU_FI_MR_LOCAL | TU_FI_MR_VIRT_ADDR | TU_FI_MR_ALLOCATED | TU_FI_MR_PROV_KEY | TU_FI_MR_ENDPOINT;
  hints->domain_attr->threading = TU_FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = TU_FI_RM_ENABLED;
  hints->domain_attr->cq_data_size = TU_FABRIC_DATA_BITS / 8;
}

/* fi_freeinfo frees the texts of hints, too. */
static bool set_text(char **text, const char *value) {
  *text = value && *value ? strdup(value) : NULL;
  return *text || !value || !*value;
}

struct tu_fi_info *tu_fabric_list(const struct tu_fabric_library *library, const char *provider, const char *domain) {
  struct tu_fi_info *hints = library->dupinfo(NULL), *list = NULL;
  const uint32_t version = library->version() < TU_FI_VERSION_1_17 ? library->version() : TU_FI_VERSION_1_17;
  if (!hints) return NULL;
  set_hints(hints);
  if (set_text(&hints->fabric_attr->prov_name, provider) && set_text(&hints->domain_attr->name, domain) &&
      library->getinfo(version, NULL, NULL, 0, hints, &list) != 0)
    list = NULL;
  library->freeinfo(hints);
  return list;
}

bool tu_fabric_is_software(const struct tu_fi_info *info) {
  static const char *const cores[] = {"tcp", "sockets", "udp", "net", "shm", "sm2", "efa_shm"};
  const char *name = info->fabric_attr->prov_name;
  const size_t length = strcspn(name, ";");
  for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++)
    if (strlen(cores[i]) == length && memcmp(name, cores[i], length) == 0) return true;
  return false;
}

static bool is_same_address(const struct tu_fi_info *info, const struct sockaddr *own) {
  const struct sockaddr *a = info->src_addr;
  if (!a || !own || info->src_addrlen < sizeof *a || info->addr_format < TU_FI_SOCKADDR ||
      info->addr_format > TU_FI_SOCKADDR_IN6 || a->sa_family != own->sa_family)
    return false;
  if (a->sa_family == AF_INET)
    return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
           ((const struct sockaddr_in *)(const void *)own)->sin_addr.s_addr;
  return a->sa_family == AF_INET6 &&
         memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                &((const struct sockaddr_in6 *)(const void *)own)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

const struct tu_fi_info *tu_fabric_choose(const struct tu_fi_info *list, const struct tu_fabric_wish *wish,
                                          const struct sockaddr *own) {
  const struct tu_fi_info *first = NULL;
  for (const struct tu_fi_info *i = list; i; i = i->next) {
    if (wish->how == TU_FABRIC_AUTO && tu_fabric_is_software(i)) continue;
    if (*wish->domain && strcmp(wish->domain, i->domain_attr->name) != 0) continue;
    if (is_same_address(i, own)) return i;
    if (!first) first = i;
  }
  return first;
}
