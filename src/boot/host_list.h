/* host_list.h: the hosts of a job that `tutti run` starts: a list from the command line, or a file. */
#ifndef TU_HOST_LIST_H
#define TU_HOST_LIST_H

#include "base/base.h"

enum {
  TU_HOST_NAME_BYTES = 256,
  TU_HOSTS_MAX = 4096,
  TU_HOST_SLOTS_MAX = 65536, /* of all hosts together */
};

struct tu_host {
  char name[TU_HOST_NAME_BYTES]; /* [USER@]HOST as ssh takes it: an IPv6 address has no brackets */
  uint32_t slots;                /* maximum number of ranks */
};

struct tu_host_list {
  struct tu_host *hosts; /* in the order in which they are first named */
  uint32_t count, capacity;
  uint32_t slots; /* of all hosts */
};

/* Reads HOST[:SLOTS],..., where HOST is a name, an IPv4 address or an IPv6 address in brackets, with or without USER@.
 * A host that is named twice adds its slots. `name` is that of the list in messages. Errors: TUTTI_ERR_ARGUMENT. In both
 * cases the caller calls tu_host_list_fini. */
tutti_err tu_host_list_read(const char *text, size_t bytes, const char *name, struct tu_host_list *list,
                            struct tu_error *error);
/* Reads the text of a file, which has a host per line, as HOST, HOST:SLOTS or HOST slots=N. '#' begins a comment. */
tutti_err tu_host_list_read_file(const char *text, size_t bytes, const char *path, struct tu_host_list *list,
                                 struct tu_error *error);
void tu_host_list_fini(struct tu_host_list *list);

/* Sets host_of[rank] for each of `ranks` ranks, at most list->slots. Hosts are filled in the order of the list, or, with
 * by_host, get a rank each in turn while they have slots. */
void tu_host_list_place(const struct tu_host_list *list, uint32_t ranks, bool by_host, uint32_t *host_of);

#endif
