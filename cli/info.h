/* info.h: functions of `tutti info` that have their own files. */
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The distance between the first two CPUs that this process may use, measured with cache lines. */
struct info_distance {
  uint32_t cpus[2];
  uint32_t line_ns; /* time in which a cache line gets from one CPU to the other, in ns */
  uint32_t fill_ns; /* time to overwrite the lines of TU_STREAM_BYTES that are in the other CPU's cache, in ns */
  bool far;         /* true: a channel between these CPUs treats them as far apart (see mover/channel.h) */
};
/* Measures the distance between two CPUs, in a few milliseconds. Returns false if there is only one CPU or if the
 * measurement failed. */
bool info_distance(struct info_distance *d);

/* What a rank of this host would use for ranks of other hosts: sockets alone, or also a fabric of libfabric; and what
 * libfabric offers here. */
struct info_fabrics;
/* Finds that out, by opening the fabric that TUTTI_FABRIC asks for. libfabric is loaded if that is necessary for this, or
 * if `lists` is set. The caller passes the result to info_fabrics_end. */
struct info_fabrics *info_fabrics_ask(bool lists);
/* Print what is used and why, in one line; and what libfabric offers, if it was asked. */
void info_fabrics_print_wire(const struct info_fabrics *f);
void info_fabrics_print_list(const struct info_fabrics *f);
/* Writes both as fields of an object. */
struct json;
void info_fabrics_json(const struct info_fabrics *f, struct json *j);
/* Frees it. If a job of several hosts would not start, prints why; returns the exit status. */
int info_fabrics_end(struct info_fabrics *f);

/* The options of `tutti info --reshard`; NULL: option not given. */
struct info_reshard {
  const char *from, *to, *mesh, *shape, *type;
  bool json;
};
/* Prints the steps that convert a tensor from one distribution to another; returns the exit status. */
int info_reshard(const struct info_reshard *asked);

#endif
