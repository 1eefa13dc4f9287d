/* channel_builder.c: builders of channels. A builder collects the channels of one or more links, checks them, and
 * creates this rank's ends of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/process.h"
#include "base/sized.h"
#include "comm/failure.h"
#include "stream/channel.h"
#include "stream/link.h"

/* Default number of slots. With two slots, the sender can fill one while the receiver reads the other. */
#define SLOTS 2u
#define SLOT_BYTES ((size_t)16 << 10)

struct wanted {
  uint32_t peer;
  uint32_t number; /* number of the channel in the link to `peer` */
};

/* A link that the builder is to create: all its channels with one peer. */
struct sketch {
  uint32_t peer;
  struct tu_link_view view;
  struct tu_link *link;
};

struct tutti_channel_builder {
  tutti_comm *comm;
  tutti_channel_options options; /* the user's options, with default values filled in */
  struct wanted *wanted;         /* [count]: the channels in the order in which they were added */
  uint32_t count, capacity;
  struct sketch *sketches;
  uint32_t links, links_capacity;
  bool built;
};

/* ---- options ---- */

static tutti_err check_memory(const tutti_comm *comm, const tutti_channel_options *o, struct tu_error *error) {
  uint64_t offset;
  if (!o->memory && o->memory_bytes == 0) return TUTTI_OK;
  if (!o->memory || (uintptr_t)o->memory % TU_LINE_BYTES != 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_channel_options: memory is %p, with %zu bytes; expected an address that is a multiple of 64, "
                   "or NULL and 0 bytes",
                   o->memory, o->memory_bytes);
  if (!tu_transport_offers(comm->transport, o->memory, o->memory_bytes, &offset))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_channel_options: %zu bytes at %p do not lie within one allocation of tutti_alloc, or one "
                   "registration of tutti_register, so the other end cannot reach the memory",
                   o->memory_bytes, o->memory);
  return TUTTI_OK;
}

static tutti_err check_options(const tutti_comm *comm, const tutti_channel_options *o, struct tu_error *error) {
  if (o->slots > TU_LINK_SLOTS)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_channel_options: slots is %u; expected 1 to %d, or 0 for the default", o->slots,
                   TU_LINK_SLOTS);
  if (o->slot_bytes > TU_LINK_SLOT_BYTES_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_channel_options: slot_bytes is %zu; expected at most %d",
                   o->slot_bytes, TU_LINK_SLOT_BYTES_MAX);
  if (o->link >= TU_LINKS)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_channel_options: link is %u; expected 0 to %d", o->link,
                   TU_LINKS - 1);
  if (o->ending != TUTTI_CHANNEL_MARKED && o->ending != TUTTI_CHANNEL_COUNTED)
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "tutti_channel_options: ending is unknown; expected TUTTI_CHANNEL_MARKED or TUTTI_CHANNEL_COUNTED, found %d",
        (int)o->ending);
  tutti_err err = tu_check_timeout("tutti_channel_options", "timeout_ms", o->timeout_ms, error);
  return err == TUTTI_OK ? check_memory(comm, o, error) : err;
}

tutti_err tutti_channel_builder_create_sized(tutti_comm *comm, const tutti_channel_options *options,
                                             size_t options_bytes, tutti_channel_builder **builder) {
  struct tu_error error;
  tutti_channel_options o = {0};
  tutti_err err = TUTTI_OK;
  if (builder) *builder = NULL;
  if (!comm || !builder) return tu_refuse_null("tutti_channel_builder_create", comm ? "builder" : "comm");
  if (options)
    err = tu_sized_take(&tu_sized_channel_options, options, options_bytes, &o, "tutti_channel_builder_create", &error);
  if (err == TUTTI_OK) err = tu_refuse_child(comm->process, "tutti_channel_builder_create", &error);
  if (err == TUTTI_OK) err = tu_comm_verdict(comm, &error);
  if (err == TUTTI_OK) err = check_options(comm, &o, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  if (o.slots == 0) o.slots = SLOTS;
  if (o.slot_bytes == 0) o.slot_bytes = SLOT_BYTES;
  tutti_channel_builder *b = tu_try_allocate(1, sizeof *b);
  if (!b) {
    tu_fail_memory(&error, sizeof *b, "a builder of channels");
    return tu_thread_error(&error);
  }
  *b = (tutti_channel_builder){.comm = comm, .options = o};
  *builder = b;
  return TUTTI_OK;
}

void tutti_channel_builder_free(tutti_channel_builder *b) {
  if (!b) return;
  free(b->wanted);
  free(b->sketches);
  free(b);
}

/* ---- adding ---- */

/* Returns the builder's link to the peer. If there is none, adds one. NULL: out of memory. */
static struct sketch *sketch_of(tutti_channel_builder *b, uint32_t peer) {
  for (uint32_t i = 0; i < b->links; i++)
    if (b->sketches[i].peer == peer) return &b->sketches[i];
  struct sketch *sketches = tu_try_grow(b->sketches, b->links, &b->links_capacity, sizeof *sketches);
  if (!sketches) return NULL;
  b->sketches = sketches;
  struct sketch *s = &b->sketches[b->links++];
  const tutti_channel_options *o = &b->options;
  *s = (struct sketch){.peer = peer,
                       .view = {.slots = o->slots,
                                .slot_bytes = (uint32_t)o->slot_bytes,
                                .shared = o->shared,
                                .separate = o->separate_flag || o->shared,
                                .counted = o->ending == TUTTI_CHANNEL_COUNTED}};
  return s;
}

static tutti_err check_channel(const tutti_channel_builder *b, uint32_t peer, uint64_t messages,
                               struct tu_error *error) {
  const tutti_comm *comm = b->comm;
  if (b->built)
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "channels: the builder has been used by tutti_channel_build; create another builder for more channels");
  if (peer >= comm->ranks || peer == comm->rank)
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "channels: rank %u of %u cannot have a channel with rank %u; expected another rank of the communicator",
        comm->rank, comm->ranks, peer);
  if (b->options.ending == TUTTI_CHANNEL_COUNTED && messages == 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "channels: messages is 0; expected at least one message for a counted stream");
  if (b->options.ending == TUTTI_CHANNEL_MARKED && messages != 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "channels: messages is %llu for a marked stream; expected 0, or the ending TUTTI_CHANNEL_COUNTED",
                   (unsigned long long)messages);
  return TUTTI_OK;
}

static tutti_err add(tutti_channel_builder *b, uint32_t peer, bool sends, uint64_t messages, uint32_t *index) {
  struct tu_error error;
  if (!b) return tu_refuse_null(sends ? "tutti_channel_add_sender" : "tutti_channel_add_receiver", "builder");
  if (check_channel(b, peer, messages, &error) != TUTTI_OK) return tu_thread_error(&error);
  struct wanted *wanted = tu_try_grow(b->wanted, b->count, &b->capacity, sizeof *wanted);
  if (wanted) b->wanted = wanted;
  struct sketch *sketch = wanted ? sketch_of(b, peer) : NULL;
  if (!sketch) {
    tu_fail_memory(&error, sizeof *wanted, "a channel with rank %u", peer);
    return tu_thread_error(&error);
  }
  struct tu_link_view *v = &sketch->view;
  if (v->channels == TU_LINK_CHANNELS) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "channels: a link has at most %d channels, and the link to rank %u is full; use another link number",
            TU_LINK_CHANNELS, peer);
    return tu_thread_error(&error);
  }
  if (sends) v->sends |= UINT64_C(1) << v->channels;
  v->messages[v->channels] = messages;
  b->wanted[b->count] = (struct wanted){peer, v->channels++};
  if (index) *index = b->count;
  b->count++;
  return TUTTI_OK;
}

tutti_err tutti_channel_add_sender(tutti_channel_builder *builder, uint32_t to, uint64_t messages, uint32_t *index) {
  return add(builder, to, true, messages, index);
}

tutti_err tutti_channel_add_receiver(tutti_channel_builder *builder, uint32_t from, uint64_t messages,
                                     uint32_t *index) {
  return add(builder, from, false, messages, index);
}

size_t tutti_channel_builder_bytes(const tutti_channel_builder *b) {
  size_t bytes = 0;
  for (uint32_t i = 0; b && i < b->links; i++) bytes += tu_link_memory_bytes(&b->sketches[i].view);
  return bytes;
}

/* ---- building ---- */

/* Creates the links one after the other. If the user gave memory, each link uses its own part of that memory. */
static tutti_err create_links(tutti_channel_builder *b, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  unsigned char *memory = b->options.memory;
  for (uint32_t i = 0; i < b->links && err == TUTTI_OK; i++) {
    struct sketch *s = &b->sketches[i];
    size_t bytes = tu_link_memory_bytes(&s->view);
    if (memory) {
      bool offers = tu_transport_offers(b->comm->transport, memory, bytes, &s->view.offset);
      if (!offers)
        return tu_fail(error, TUTTI_ERR_ARGUMENT,
                       "tutti_channel_build: %zu bytes at %p are no longer memory of tutti_alloc or tutti_register; "
                       "keep this memory until the channels are closed",
                       bytes, (void *)memory);
      s->view.address = (uint64_t)(uintptr_t)memory;
    }
    err = tu_link_create(b->comm->mover, s->peer, b->options.link, &s->view, memory, &s->link, error);
    if (memory) memory += bytes;
  }
  return err;
}

/* Allocates the channels. If out of memory, allocates none of them. */
static tutti_err create_channels(const tutti_channel_builder *b, tutti_channel **channels, struct tu_error *error) {
  for (uint32_t i = 0; i < b->count; i++) {
    if ((channels[i] = tu_try_allocate(1, sizeof *channels[i]))) continue;
    while (i-- > 0) {
      free(channels[i]);
      channels[i] = NULL;
    }
    return tu_fail_memory(error, sizeof *channels[i], "%u channels", b->count);
  }
  return TUTTI_OK;
}

static void hand_out(tutti_channel_builder *b, tutti_channel **channels) {
  for (uint32_t i = 0; i < b->count; i++) {
    channels[i]->comm = b->comm;
    tu_link_adopt(sketch_of(b, b->wanted[i].peer)->link, b->wanted[i].number, &channels[i]->end);
    tu_channel_list(b->comm, channels[i]);
  }
  for (uint32_t i = 0; i < b->links; i++) {
    tu_link_begin(b->sketches[i].link);
    (void)tu_link_advance(b->sketches[i].link);
  }
}

static tutti_err check_build(const tutti_channel_builder *b, tutti_channel *const *channels, struct tu_error *error) {
  if (!b || !channels)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_channel_build: %s is NULL", b ? "channels" : "builder");
  if (!tu_process_is(b->comm->process)) return tu_refuse_child(b->comm->process, "tutti_channel_build", error);
  if (b->built)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_channel_build: the builder has already built its %u channels; create another builder",
                   b->count);
  if (b->count == 0) return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_channel_build: no channel has been added");
  if (b->options.memory && b->options.memory_bytes < tutti_channel_builder_bytes(b))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_channel_build: the senders need %zu bytes of memory, but memory_bytes is %zu",
                   tutti_channel_builder_bytes(b), b->options.memory_bytes);
  return tu_comm_verdict(b->comm, error);
}

tutti_err tutti_channel_build(tutti_channel_builder *b, tutti_channel **channels) {
  struct tu_error error;
  tutti_err err = check_build(b, channels, &error);
  if (err == TUTTI_OK) err = create_links(b, &error);
  if (err == TUTTI_OK) err = create_channels(b, channels, &error);
  for (uint32_t i = 0; err != TUTTI_OK && b && i < b->links; i++) {
    if (b->sketches[i].link && !b->built) tu_link_destroy(b->sketches[i].link, true);
    if (!b->built) b->sketches[i].link = NULL;
  }
  if (err != TUTTI_OK) return tu_thread_error(&error);
  hand_out(b, channels);
  b->built = true;
  return TUTTI_OK;
}

/* ---- one channel ---- */

/* Gives up a channel that did not become ready. After a time-out the end stays allocated, because the peer may still
 * connect to it. After any other error the end is closed. */
static tutti_err give_up(tutti_channel **channel, tutti_err err) {
  if (err != TUTTI_ERR_TIMEOUT) {
    struct tu_error error = {.code = err};
    (void)snprintf(error.text, sizeof error.text, "%s", tutti_error_message(NULL));
    (void)!tutti_channel_close(*channel, 0);
    (void)tu_thread_error(&error);
  } else (*channel)->given_up = true;
  *channel = NULL;
  return err;
}

tutti_err tutti_channel_open_sized(tutti_comm *comm, uint32_t peer, tutti_channel_direction direction,
                                   const tutti_channel_options *options, size_t options_bytes,
                                   tutti_channel **channel) {
  struct tu_error error;
  tutti_channel_builder *b;
  tutti_channel_options o = {0};
  if (channel) *channel = NULL;
  if (!channel || (direction != TUTTI_CHANNEL_SENDS && direction != TUTTI_CHANNEL_RECEIVES)) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_channel_open: channel is NULL, or direction is unknown; expected TUTTI_CHANNEL_SENDS or "
            "TUTTI_CHANNEL_RECEIVES");
    return tu_thread_error(&error);
  }
  tutti_err err = TUTTI_OK;
  if (options) err = tu_sized_take(&tu_sized_channel_options, options, options_bytes, &o, "tutti_channel_open", &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  if ((err = tutti_channel_builder_create(comm, &o, &b)) != TUTTI_OK) return err;
  err = add(b, peer, direction == TUTTI_CHANNEL_SENDS, o.messages, NULL);
  if (err == TUTTI_OK) err = tutti_channel_build(b, channel);
  tutti_channel_builder_free(b);
  if (err != TUTTI_OK) return err;
  err = tutti_channel_ready(*channel, o.timeout_ms);
  return err == TUTTI_OK ? err : give_up(channel, err);
}
