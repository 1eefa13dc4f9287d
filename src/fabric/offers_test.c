/* offers_test.c: tests what TUTTI_FABRIC asks for, and which endpoint of a list is chosen. */
#include <netinet/in.h>

#include "fabric/fabric.h"
#include "test.h"

static void test_wish(void) {
  static const struct {
    const char *text; /* value of TUTTI_FABRIC; NULL: not set */
    bool good;
    enum tu_fabric_how how;
    const char *provider, *domain;
  } table[] = {
      {NULL, true, TU_FABRIC_AUTO, "", ""},
      {"", true, TU_FABRIC_AUTO, "", ""},
      {"auto", true, TU_FABRIC_AUTO, "", ""},
      {"none", true, TU_FABRIC_NONE, "", ""},
      {"verbs", true, TU_FABRIC_NAMED, "verbs", ""},
      {"verbs;ofi_rxm/mlx5_0", true, TU_FABRIC_NAMED, "verbs;ofi_rxm", "mlx5_0"},
      {"psm2/a/b", true, TU_FABRIC_NAMED, "psm2", "a/b"},
      {"/mlx5_0", false, 0, "", ""},
      {"verbs/", false, 0, "", ""},
      {"a234567890123456789012345678901234567890123456789012345678901234", false, 0, "", ""},
      {"a/a234567890123456789012345678901234567890123456789012345678901234", false, 0, "", ""},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_fabric_wish wish;
    struct tu_error error = {0};
    if (table[i].text) setenv("TUTTI_FABRIC", table[i].text, 1);
    const tutti_err err = tu_fabric_read_wish(&wish, &error);
    unsetenv("TUTTI_FABRIC");
    if (!table[i].good) {
      CHECK(err == TUTTI_ERR_ENVIRONMENT, "'%s' was taken", table[i].text);
      CHECK(strstr(error.text, table[i].text) && strstr(error.text, "auto, none"), "'%s'", error.text);
      continue;
    }
    CHECK(err == TUTTI_OK, "'%s': %s", table[i].text, error.text);
    CHECK(wish.how == table[i].how && strcmp(wish.provider, table[i].provider) == 0 &&
              strcmp(wish.domain, table[i].domain) == 0,
          "'%s': %d '%s' '%s'", table[i].text, (int)wish.how, wish.provider, wish.domain);
  }
}

/* ---- a list ---- */

static struct offer {
  const char *provider, *domain;
  uint32_t address; /* 0: the endpoint's name is no IP address */
  struct tu_fi_info info;
  struct tu_fi_fabric_attr fabric_attr;
  struct tu_fi_domain_attr domain_attr;
  struct sockaddr_in name;
} offers[] = {
    {.provider = "tcp;ofi_rxm", .domain = "eth0", .address = 0x0a000001},
    {.provider = "tcp;ofi_rxm", .domain = "lo", .address = 0x7f000001},
    {.provider = "verbs;ofi_rxm", .domain = "mlx5_0", .address = 0x0a010001},
    {.provider = "verbs;ofi_rxm", .domain = "mlx5_1", .address = 0x0a020001},
    {.provider = "efa", .domain = "rdmap0s6-rdm"},
};
enum { OFFERS = sizeof offers / sizeof offers[0] };

/* Returns the offers from `first` to before `end` as libfabric lists them. */
static const struct tu_fi_info *list(size_t first, size_t end) {
  for (size_t i = first; i < end; i++) {
    struct offer *o = &offers[i];
    o->fabric_attr = (struct tu_fi_fabric_attr){.prov_name = (char *)(uintptr_t)o->provider};
    o->domain_attr = (struct tu_fi_domain_attr){.name = (char *)(uintptr_t)o->domain};
    o->name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(o->address)};
    o->info = (struct tu_fi_info){.next = i + 1 < end ? &offers[i + 1].info : NULL,
                                  .addr_format = o->address ? TU_FI_SOCKADDR_IN : 9,
                                  .src_addr = &o->name,
                                  .src_addrlen = sizeof o->name,
                                  .fabric_attr = &o->fabric_attr,
                                  .domain_attr = &o->domain_attr};
  }
  return first < end ? &offers[first].info : NULL;
}

static void test_choice(void) {
  static const struct {
    size_t first, end; /* the part of the offers that libfabric lists */
    enum tu_fabric_how how;
    const char *domain;
    uint32_t own;       /* address of the rank; 0: not known */
    const char *chosen; /* domain; NULL: none */
  } table[] = {
      {0, OFFERS, TU_FABRIC_AUTO, "", 0, "mlx5_0"},
      {0, OFFERS, TU_FABRIC_AUTO, "", 0x0a020001, "mlx5_1"},
      {0, OFFERS, TU_FABRIC_AUTO, "", 0x0a000001, "mlx5_0"},
      {4, OFFERS, TU_FABRIC_AUTO, "", 0x0a000001, "rdmap0s6-rdm"},
      {0, 2, TU_FABRIC_AUTO, "", 0x0a000001, NULL},
      {0, 0, TU_FABRIC_AUTO, "", 0, NULL},
      {0, 2, TU_FABRIC_NAMED, "", 0, "eth0"},
      {0, 2, TU_FABRIC_NAMED, "", 0x7f000001, "lo"},
      /* The list of libfabric 1.17 has other domains than the one that is asked for. */
      {0, 2, TU_FABRIC_NAMED, "lo", 0x0a000001, "lo"},
      {2, 4, TU_FABRIC_NAMED, "mlx5_1", 0, "mlx5_1"},
      {0, 2, TU_FABRIC_NAMED, "eth7", 0x0a000001, NULL},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_fabric_wish wish = {.how = table[i].how};
    memcpy(wish.domain, table[i].domain, strlen(table[i].domain) + 1);
    const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(table[i].own)};
    const struct tu_fi_info *info = tu_fabric_choose(list(table[i].first, table[i].end), &wish,
                                                     table[i].own ? (const struct sockaddr *)(const void *)&own : NULL);
    const char *domain = info ? info->domain_attr->name : "none";
    CHECK(strcmp(domain, table[i].chosen ? table[i].chosen : "none") == 0, "row %zu: %s", i, domain);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"wish", test_wish}, {"choice", test_choice}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
