/* host_list.c: reads a list or a file of hosts, and places ranks on them. A name may hold only characters that no shell
 * and no option parser could take for something else. */
#include "boot/host_list.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define FORMS "HOST, HOST:SLOTS or [IPV6]:SLOTS, with or without USER@"

/* A part of the text: a host with its slots, and where it stands. */
struct piece {
  const char *begin, *end;
  const char *name; /* of the list or file */
  const char *unit; /* "line" or "host" */
  uint32_t number;  /* of the line or host, from 1 */
};

static void trim(struct piece *p) {
  while (p->begin < p->end && isspace((unsigned char)*p->begin)) p->begin++;
  while (p->begin < p->end && isspace((unsigned char)p->end[-1])) p->end--;
}

/* Returns an error that quotes the piece; characters that are not printable are shown as '?'. */
static tutti_err refuse(const struct piece *p, struct tu_error *error, const char *expected) {
  char found[64], where[160];
  size_t length = tu_min((size_t)(p->end - p->begin), sizeof found - 1);
  for (size_t i = 0; i < length; i++) found[i] = isprint((unsigned char)p->begin[i]) ? p->begin[i] : '?';
  found[length] = '\0';
  if (strcmp(p->unit, "line") == 0) snprintf(where, sizeof where, "%.120s:%u", p->name, p->number);
  else snprintf(where, sizeof where, "%.120s, %s %u", p->name, p->unit, p->number);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: expected %s, found '%s'", where, expected, found);
}

static bool is_plain(const char *begin, const char *end) {
  if (begin == end || *begin == '-') return false;
  for (; begin < end; begin++)
    if (!isalnum((unsigned char)*begin) && *begin != '.' && *begin != '_' && *begin != '-') return false;
  return true;
}

/* An IPv6 address; it may have a zone, which is the name of an interface. */
static bool is_ipv6(const char *begin, const char *end) {
  char text[INET6_ADDRSTRLEN];
  unsigned char address[16];
  const char *zone = memchr(begin, '%', (size_t)(end - begin));
  const size_t length = (size_t)((zone ? zone : end) - begin);
  if (length >= sizeof text || (zone && !is_plain(zone + 1, end))) return false;
  memcpy(text, begin, length);
  text[length] = '\0';
  return inet_pton(AF_INET6, text, address) == 1;
}

static bool read_slots(const char *begin, const char *end, uint32_t *slots) {
  char text[8];
  uint64_t number;
  const size_t length = (size_t)(end - begin);
  if (length >= sizeof text) return false;
  memcpy(text, begin, length);
  text[length] = '\0';
  if (!tu_parse_uint(text, TU_HOST_SLOTS_MAX, &number) || number == 0) return false;
  *slots = (uint32_t)number;
  return true;
}

static tutti_err add(struct tu_host_list *list, const struct piece *p, const char *name, uint32_t slots,
                     struct tu_error *error) {
  if (list->slots + slots > TU_HOST_SLOTS_MAX) return refuse(p, error, "at most 65536 slots on all hosts");
  list->slots += slots;
  for (uint32_t i = 0; i < list->count; i++) {
    if (strcmp(list->hosts[i].name, name) != 0) continue;
    list->hosts[i].slots += slots;
    return TUTTI_OK;
  }
  if (list->count == TU_HOSTS_MAX) return refuse(p, error, "at most 4096 hosts");
  list->hosts = tu_grow(list->hosts, list->count, &list->capacity, sizeof *list->hosts);
  struct tu_host *host = &list->hosts[list->count++];
  snprintf(host->name, sizeof host->name, "%s", name);
  host->slots = slots;
  return TUTTI_OK;
}

/* Reads one host. `slots`: what a file states as slots=N; 0: nothing. */
static tutti_err read_host(struct tu_host_list *list, const struct piece *p, uint32_t slots, struct tu_error *error) {
  char name[TU_HOST_NAME_BYTES];
  const size_t bytes = (size_t)(p->end - p->begin);
  const char *at = bytes ? memchr(p->begin, '@', bytes) : NULL;
  const char *host = at ? at + 1 : p->begin, *end = p->end, *colon;
  if (at && !is_plain(p->begin, at)) return refuse(p, error, FORMS);
  if (host < p->end && *host == '[') {
    end = memchr(host, ']', (size_t)(p->end - host));
    if (!end || !is_ipv6(++host, end)) return refuse(p, error, "an IPv6 address in brackets, as in [fe80::1]:4");
    colon = end + 1;
  } else {
    if (is_ipv6(host, p->end)) return refuse(p, error, "brackets around an IPv6 address, as in [fe80::1]:4");
    colon = host < p->end ? memchr(host, ':', (size_t)(p->end - host)) : NULL;
    if (!colon) colon = p->end;
    end = colon;
    if (!is_plain(host, end)) return refuse(p, error, FORMS);
  }
  if (colon < p->end && slots) return refuse(p, error, "the slots once, as HOST:SLOTS or as slots=N");
  if (colon < p->end && (*colon != ':' || !read_slots(colon + 1, p->end, &slots)))
    return refuse(p, error, "a number of slots from 1 to 65536 after ':'");
  const size_t user = at ? (size_t)(at + 1 - p->begin) : 0, rest = (size_t)(end - host);
  if (user + rest >= sizeof name) return refuse(p, error, "a name of at most 255 characters");
  memcpy(name, p->begin, user);
  memcpy(name + user, host, rest);
  name[user + rest] = '\0';
  return add(list, p, name, slots ? slots : 1, error);
}

tutti_err tu_host_list_read(const char *text, size_t bytes, const char *name, struct tu_host_list *list,
                            struct tu_error *error) {
  const char *end = text + bytes;
  *list = (struct tu_host_list){0};
  for (uint32_t number = 1;; number++) {
    const char *comma = text < end ? memchr(text, ',', (size_t)(end - text)) : NULL;
    struct piece p = {.begin = text, .end = comma ? comma : end, .name = name, .unit = "host", .number = number};
    trim(&p);
    tutti_err err = read_host(list, &p, 0, error);
    if (err != TUTTI_OK || !comma) return err;
    text = comma + 1;
  }
}

/* Reads a line without its comment. */
static tutti_err read_line(struct tu_host_list *list, struct piece p, struct tu_error *error) {
  static const char key[] = "slots=";
  const size_t key_bytes = sizeof key - 1;
  const struct piece line = p;
  uint32_t slots = 0;
  while (p.begin < p.end && !isspace((unsigned char)*p.begin)) p.begin++;
  trim(&p); /* what follows the host */
  struct piece host = line;
  if (p.begin < p.end) {
    const bool is_key = (size_t)(p.end - p.begin) > key_bytes && memcmp(p.begin, key, key_bytes) == 0;
    if (!is_key || !read_slots(p.begin + key_bytes, p.end, &slots))
      return refuse(&p, error, "slots=N, with N from 1 to 65536, or nothing, after the host");
    host.end = p.begin;
    trim(&host);
  }
  return read_host(list, &host, slots, error);
}

tutti_err tu_host_list_read_file(const char *text, size_t bytes, const char *path, struct tu_host_list *list,
                                 struct tu_error *error) {
  const char *end = text + bytes;
  *list = (struct tu_host_list){0};
  for (uint32_t number = 1; text < end; number++) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    struct piece p = {.begin = text, .end = newline ? newline : end, .name = path, .unit = "line", .number = number};
    const char *comment = memchr(p.begin, '#', (size_t)(p.end - p.begin));
    if (comment) p.end = comment;
    trim(&p);
    tutti_err err = p.begin < p.end ? read_line(list, p, error) : TUTTI_OK;
    if (err != TUTTI_OK) return err;
    text = newline ? newline + 1 : end;
  }
  if (list->count > 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%.120s: expected a host per line, found none", path);
}

void tu_host_list_fini(struct tu_host_list *list) { free(list->hosts); }

void tu_host_list_place(const struct tu_host_list *list, uint32_t ranks, bool by_host, uint32_t *host_of) {
  tu_assert(ranks <= list->slots);
  uint32_t rank = 0;
  if (!by_host) {
    for (uint32_t host = 0; host < list->count; host++)
      for (uint32_t slot = 0; slot < list->hosts[host].slots && rank < ranks; slot++) host_of[rank++] = host;
    return;
  }
  for (uint32_t turn = 0; rank < ranks; turn++)
    for (uint32_t host = 0; host < list->count && rank < ranks; host++)
      if (list->hosts[host].slots > turn) host_of[rank++] = host;
}
