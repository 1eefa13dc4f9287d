/* frames.c: frames in a stream of bytes. */
#include "transport/frames.h"

#include <stdlib.h>
#include <string.h>

/* A copied frame that waits until it can be sent. */
struct tu_posted_frame {
  struct tu_posted_frame *next;
  struct tu_frame_prefix prefix;
  unsigned char body[];
};

/* ---- sending ---- */

static void begin(struct tu_frames_out *out, const struct tu_frame_prefix *prefix, const void *body) {
  out->prefix = *prefix;
  out->body = body;
  out->sent = 0;
  out->total = sizeof out->prefix + prefix->body_bytes;
}

static struct tu_frame_prefix prefix_of(const void *head, size_t body_bytes) {
  struct tu_frame_prefix prefix = {.body_bytes = body_bytes};
  memcpy(prefix.head, head, sizeof prefix.head);
  return prefix;
}

void tu_frames_begin(struct tu_frames_out *out, const void *head, const void *body, size_t bytes) {
  const struct tu_frame_prefix prefix = prefix_of(head, bytes);
  begin(out, &prefix, body);
}

bool tu_frames_post(struct tu_frames_out *out, const void *head, const void *body, size_t bytes) {
  struct tu_posted_frame *p = malloc(sizeof *p + bytes);
  if (!p) return false;
  *p = (struct tu_posted_frame){.prefix = prefix_of(head, bytes)};
  if (bytes > 0) memcpy(p->body, body, bytes);
  if (out->last) out->last->next = p;
  else out->first = p;
  out->last = p;
  return true;
}

void tu_frames_write(unsigned char *to, const void *head, const void *body, size_t bytes) {
  const struct tu_frame_prefix prefix = prefix_of(head, bytes);
  memcpy(to, &prefix, sizeof prefix);
  if (bytes > 0) memcpy(to + sizeof prefix, body, bytes);
}

/* What is kept counts as a copied frame whose prefix has been sent. */
bool tu_frames_keep(struct tu_frames_out *out, const unsigned char *rest, size_t bytes) {
  struct tu_posted_frame *p = malloc(sizeof *p + bytes);
  if (!p) return false;
  *p = (struct tu_posted_frame){.prefix.body_bytes = bytes};
  memcpy(p->body, rest, bytes);
  begin(out, &p->prefix, p->body);
  out->sent = sizeof out->prefix;
  out->leaving = p;
  return true;
}

static void free_leaving(struct tu_frames_out *out) {
  free(out->leaving);
  out->leaving = NULL;
}

int tu_frames_parts(struct tu_frames_out *out, struct iovec parts[2]) {
  int count = 0;
  struct tu_posted_frame *p = out->first;
  if (out->sent == out->total && p) {
    out->first = p->next;
    if (!out->first) out->last = NULL;
    out->leaving = p;
    begin(out, &p->prefix, p->body);
  }
  if (out->sent == out->total) return 0;
  if (out->sent < sizeof out->prefix)
    parts[count++] = (struct iovec){(unsigned char *)&out->prefix + out->sent, sizeof out->prefix - out->sent};
  const size_t of_body = out->sent > sizeof out->prefix ? out->sent - sizeof out->prefix : 0;
  if (out->prefix.body_bytes > of_body)
    parts[count++] = (struct iovec){(void *)((uintptr_t)out->body + of_body), out->prefix.body_bytes - of_body};
  return count;
}

void tu_frames_sent(struct tu_frames_out *out, size_t bytes) {
  out->sent += bytes;
  if (out->sent == out->total) free_leaving(out);
}

bool tu_frames_detach(struct tu_frames_out *out) {
  struct tu_posted_frame *p = malloc(sizeof *p + out->prefix.body_bytes);
  if (!p) return false;
  memcpy(p->body, out->body, out->prefix.body_bytes);
  out->leaving = p;
  out->body = p->body;
  return true;
}

void tu_frames_drop(struct tu_frames_out *out) {
  free_leaving(out);
  for (struct tu_posted_frame *next; out->first; out->first = next) {
    next = out->first->next;
    free(out->first);
  }
  out->last = NULL;
  out->sent = out->total = 0;
}

/* ---- receiving ---- */

/* Counts bytes that have come into the prefix or the body of the current frame. They complete it, or a part of it. */
void tu_frames_received(struct tu_frames_in *in, struct tu_wire_reader *reader, uint32_t from, size_t count) {
  const bool in_prefix = in->received < sizeof in->prefix;
  in->received += count;
  if (in_prefix && in->received == sizeof in->prefix)
    in->body = reader->begin(reader, from, in->prefix.head, in->prefix.body_bytes);
  if (in->received < sizeof in->prefix || tu_frames_missing(in) > 0) return;
  in->received = 0;
  reader->end(reader, from, in->prefix.head, in->body, in->prefix.body_bytes);
}

size_t tu_frames_take(struct tu_frames_in *in, struct tu_wire_reader *reader, uint32_t from, const unsigned char *bytes,
                      size_t count) {
  if (!tu_frames_in_body(in)) {
    count = tu_min(count, sizeof in->prefix - in->received);
    memcpy((unsigned char *)&in->prefix + in->received, bytes, count);
  } else {
    count = tu_min(count, tu_frames_missing(in));
    if (in->body) memcpy(in->body + tu_frames_at(in), bytes, count);
  }
  tu_frames_received(in, reader, from, count);
  return count;
}

void tu_frames_lose(struct tu_frames_in *in, struct tu_wire_reader *reader, uint32_t from) {
  if (tu_frames_in_body(in)) reader->lost(reader, from, in->prefix.head, in->body);
  in->received = 0;
}
