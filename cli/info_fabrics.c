/* info_fabrics.c: `tutti info --fabrics`, and the same in `tutti info`: what a rank of this host would use for ranks of
 * other hosts, and what libfabric offers here. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/job_address.h"
#include "cli/cli.h"
#include "cli/info.h"
#include "cli/json.h"
#include "fabric/fabric.h"

struct info_fabrics {
  struct tu_fabric_wish wish;
  bool has_device;
  /* err: a job of several hosts does not start. error: why; with AUTO: why sockets are used, although there is a device. */
  tutti_err err;
  struct tu_error error;
  struct tu_fabric *used; /* NULL: sockets alone, or err */
  bool asked;             /* libfabric was loaded, or could not be */
  const struct tu_fabric_library *library;
  struct tu_error library_error;
  struct tu_fi_info *offers;
};

/* ---- asking ---- */

/* Opens what is wished as tu_fabric_meet does, at the address that a rank has before it knows the other hosts. */
static void open_wished(struct info_fabrics *f) {
  const struct tu_job alone = {.ranks = 1};
  struct sockaddr_storage own;
  f->err = tu_job_own_address(&alone, &own, &f->error);
  if (f->err == TUTTI_OK) f->err = tu_fabric_open_wish(&f->wish, (const struct sockaddr *)&own, &f->used, &f->error);
}

struct info_fabrics *info_fabrics_ask(bool lists) {
  struct info_fabrics *f = tu_allocate(1, sizeof *f);
  *f = (struct info_fabrics){.has_device = tu_fabric_has_device()};
  f->err = tu_fabric_read_wish(&f->wish, &f->error);
  const bool opens =
      f->err == TUTTI_OK && (f->wish.how == TU_FABRIC_NAMED || (f->wish.how == TU_FABRIC_AUTO && f->has_device));
  if (opens) open_wished(f);
  f->asked = opens || lists;
  if (f->asked && tu_fabric_load(&f->library, &f->library_error) != TUTTI_OK) f->library = NULL;
  if (f->library) f->offers = tu_fabric_list(f->library, NULL, NULL);
  return f;
}

int info_fabrics_end(struct info_fabrics *f) {
  const int code = f->err == TUTTI_OK ? CLI_GOOD : cli_fail("info", CLI_FAILED, "%s", f->error.text);
  tu_fabric_close(f->used);
  if (f->offers) f->library->freeinfo(f->offers);
  free(f);
  return code;
}

/* ---- what there is ---- */

/* Returns the text of an IP address; NULL: it is none. */
static const char *address_of(const struct tu_fi_info *info, char text[INET6_ADDRSTRLEN]) {
  const struct sockaddr *a = info->src_addr;
  if (!a || info->addr_format < TU_FI_SOCKADDR || info->addr_format > TU_FI_SOCKADDR_IN6) return NULL;
  if (info->src_addrlen >= sizeof(struct sockaddr_in) && a->sa_family == AF_INET)
    return inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, text, INET6_ADDRSTRLEN);
  if (info->src_addrlen >= sizeof(struct sockaddr_in6) && a->sa_family == AF_INET6)
    return inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, text, INET6_ADDRSTRLEN);
  return NULL;
}

static bool is_same(const struct tu_fi_info *a, const struct tu_fi_info *b) {
  char texts[2][INET6_ADDRSTRLEN];
  const char *at = address_of(a, texts[0]), *bt = address_of(b, texts[1]);
  return strcmp(a->fabric_attr->prov_name, b->fabric_attr->prov_name) == 0 &&
         strcmp(a->domain_attr->name, b->domain_attr->name) == 0 && a->ep_attr->protocol == b->ep_attr->protocol &&
         (at && bt ? strcmp(at, bt) == 0 : at == bt);
}

/* libfabric lists an endpoint once for each of its variants; all but the first are left out. */
static bool is_repeated(const struct info_fabrics *f, const struct tu_fi_info *info) {
  const struct tu_fi_info *first = f->offers;
  while (first != info && !is_same(first, info)) first = first->next;
  return first != info;
}

/* ---- what is used, and why ---- */

static const char *why(const struct info_fabrics *f) {
  if (f->err != TUTTI_OK) return f->error.text;
  if (f->used && f->wish.how == TU_FABRIC_AUTO) return "it drives a network of its own";
  if (f->used && tu_fabric_is_software(f->used->info))
    return "TUTTI_FABRIC names it; it drives no network of its own, but uses the kernel's sockets or memory";
  if (f->used) return "TUTTI_FABRIC names it";
  if (f->wish.how == TU_FABRIC_NONE) return "TUTTI_FABRIC=none";
  if (!f->has_device) return "no device of InfiniBand, RoCE, EFA, Omni-Path or Slingshot on this host";
  if (f->error.code != TUTTI_OK) return f->error.text;
  return "this host has a device of another network, but libfabric offers no provider with RMA that drives it";
}

void info_fabrics_print_wire(const struct info_fabrics *f) {
  char text[INET6_ADDRSTRLEN];
  printf("wire        ");
  if (f->err != TUTTI_OK) {
    printf("none: a job of several hosts does not start with this environment\n");
  } else if (!f->used) {
    printf("sockets: %s%s\n", why(f),
           f->asked ? "" : "; libfabric was not loaded (tutti info --fabrics lists what it offers)");
  } else {
    const struct tu_fi_info *i = f->used->info;
    const char *address = address_of(i, text);
    printf("%s on %s%s%s%s, beside sockets: %s\n", i->fabric_attr->prov_name, i->domain_attr->name, address ? " (" : "",
           address ? address : "", address ? ")" : "", why(f));
  }
}

void info_fabrics_print_list(const struct info_fabrics *f) {
  char text[INET6_ADDRSTRLEN];
  uint32_t shown = 0, repeated = 0;
  if (!f->asked) return;
  if (!f->library) {
    printf("\n%s\n", f->library_error.text);
    return;
  }
  for (const struct tu_fi_info *i = f->offers; i; i = i->next) {
    const bool again = is_repeated(f, i);
    repeated += again;
    shown += !again;
  }
  const uint32_t version = f->library->version();
  printf("\nlibfabric %u.%u offers %u endpoint%s of use here (%u with all variants)%s\n", version >> 16,
         version & 0xffff, shown, shown == 1 ? "" : "s", shown + repeated, shown ? ":" : "");
  if (shown) printf("  %-20s %-14s %-28s %8s  %s\n", "provider", "domain", "address", "protocol", "with auto");
  for (const struct tu_fi_info *i = f->offers; i; i = i->next) {
    if (is_repeated(f, i)) continue;
    const char *address = address_of(i, text);
    printf("  %-20s %-14s %-28s %8u  %s\n", i->fabric_attr->prov_name, i->domain_attr->name, address ? address : "-",
           i->ep_attr->protocol, tu_fabric_is_software(i) ? "no" : "yes");
  }
}

/* ---- JSON ---- */

static void print_endpoint(const char *key, const struct tu_fi_info *i, struct json *j) {
  char text[INET6_ADDRSTRLEN];
  json_open(j, key, JSON_OBJECT);
  json_text(j, "provider", i->fabric_attr->prov_name);
  json_text(j, "domain", i->domain_attr->name);
  json_text(j, "address", address_of(i, text));
  json_count(j, "protocol", i->ep_attr->protocol);
  json_bool(j, "auto", !tu_fabric_is_software(i));
  json_close(j, JSON_OBJECT);
}

void info_fabrics_json(const struct info_fabrics *f, struct json *j) {
  const uint32_t version = f->library ? f->library->version() : 0;
  char text[32];
  json_bool(j, "starts", f->err == TUTTI_OK);
  if (f->used) print_endpoint("fabric", f->used->info, j);
  else json_null(j, "fabric");
  json_text(j, "why", why(f));
  snprintf(text, sizeof text, "%u.%u", version >> 16, version & 0xffff);
  json_text(j, "libfabric", f->library ? text : NULL);
  json_text(j, "libfabric_error", f->asked && !f->library ? f->library_error.text : NULL);
  json_open(j, "endpoints", JSON_LIST);
  for (const struct tu_fi_info *i = f->offers; i; i = i->next)
    if (!is_repeated(f, i)) print_endpoint(NULL, i, j);
  json_close(j, JSON_LIST);
}
