/* tap.c: a switch in user space that damages what crosses it: `tap NAMESPACE...`. It makes the TAP device eth0 in each
 * network namespace (a path, such as /proc/PID/ns/net), and forwards Ethernet frames between them. Commands come on
 * standard input, one a line; each is answered by a line "ok" or "error: SENTENCE". The end of the input ends the switch.
 *
 *   seed N                numbers the random sequence
 *   delay US              all frames arrive so much later
 *   drop P, double P      probability that a frame is lost, or arrives twice
 *   reorder P [US]        ... is held for so long (2000), so that later frames overtake it
 *   flip P                ... has one bit changed, anywhere behind the Ethernet header
 *   forge P               ... has one bit of its payload changed, and its checksum corrected
 *   limit BYTES           longer IP packets vanish, as behind a router that sends no ICMP; 0: none do
 *   cut A B, mend A B     no frame passes between two hosts, in either direction
 *   down A, up A          ... between a host and all others
 *   calm                  nothing of the above
 *   count                 "ok sent N dropped N ...": how many frames were treated so
 *
 * Only TCP segments are flipped or forged: a wrong address in an ARP reply would cut a connection for minutes. The kernel
 * completes checksums before it hands out a frame, so that a flipped bit makes them wrong. Which frame is damaged
 * follows from the seed and the order of the frames; that order differs from run to run. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ranks.h"

enum { PORTS = 16, FRAME = 65536, QUEUE = 8192, ETHERNET = 14, ADDRESS = 6, BURST = 64, HOLD_US = 2000 };

/* What can happen to a frame. Those before SENT have a probability. */
enum { DROPPED, DOUBLED, REORDERED, FLIPPED, FORGED, SENT, VANISHED, CUT, OVERFLOWED, REFUSED, KINDS };
static const char *const verbs[SENT] = {"drop", "double", "reorder", "flip", "forge"};
static const char *const counts[KINDS] = {"dropped", "doubled",  "reordered", "flipped",    "forged",
                                          "sent",    "vanished", "cut",       "overflowed", "refused"};

struct frame {
  uint64_t due_us, order; /* order: frames that are due at the same time stay in order */
  size_t length;
  uint32_t port;
  uint8_t bytes[];
};

static struct {
  uint32_t ports;
  int fds[PORTS];
  uint8_t address[PORTS][ADDRESS]; /* of the port's host, once it has sent a frame */
  bool cut[PORTS][PORTS], down[PORTS];
  double probability[SENT];
  uint64_t delay_us, hold_us, state, order, count[KINDS];
  size_t limit;
  struct frame *queue[QUEUE]; /* a heap: no frame is due before its parent */
  size_t queued;
} tap;

/* ---- frames that wait ---- */

static bool before(const struct frame *a, const struct frame *b) {
  return a->due_us != b->due_us ? a->due_us < b->due_us : a->order < b->order;
}

static void push(struct frame *f) {
  size_t i = tap.queued++;
  for (; i > 0 && before(f, tap.queue[(i - 1) / 2]); i = (i - 1) / 2) tap.queue[i] = tap.queue[(i - 1) / 2];
  tap.queue[i] = f;
}

static struct frame *pop(void) {
  struct frame *first = tap.queue[0], *last = tap.queue[--tap.queued];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < tap.queued; i = child) {
    if (child + 1 < tap.queued && before(tap.queue[child + 1], tap.queue[child])) child++;
    if (!before(tap.queue[child], last)) break;
    tap.queue[i] = tap.queue[child];
  }
  tap.queue[i] = last;
  return first;
}

static void send_due(uint64_t now_us) {
  while (tap.queued > 0 && tap.queue[0]->due_us <= now_us) {
    struct frame *f = pop();
    /* A device that is down refuses the frame. */
    tap.count[write(tap.fds[f->port], f->bytes, f->length) < 0 ? REFUSED : SENT]++;
    free(f);
  }
}

/* ---- damage ---- */

static bool happens(int what) {
  return tap.probability[what] > 0 &&
         (double)(ranks_random(&tap.state) >> 11) / (double)(1ull << 53) < tap.probability[what];
}

/* Returns where the frame's TCP header begins; 0 if it has none. */
static size_t tcp_header(const uint8_t *bytes, size_t length) {
  size_t at = 0;
  if (length > 34 && bytes[12] == 0x08 && bytes[13] == 0x00 && bytes[23] == IPPROTO_TCP)
    at = ETHERNET + 4 * (bytes[14] & 15u);
  if (length > 54 && bytes[12] == 0x86 && bytes[13] == 0xdd && bytes[20] == IPPROTO_TCP) at = 54;
  return at + 20 <= length ? at : 0;
}

static uint16_t word_at(const uint8_t *bytes) { return (uint16_t)(bytes[0] << 8 | bytes[1]); }

/* Changes a bit of the payload, and the checksum by the same difference (RFC 1624). */
static bool forge(struct frame *f, size_t tcp) {
  const size_t payload = tcp + 4 * (f->bytes[tcp + 12] >> 4);
  if (payload >= f->length) return false;
  const size_t at = payload + ranks_random(&tap.state) % (f->length - payload);
  uint8_t *word = f->bytes + tcp + ((at - tcp) & ~(size_t)1), *sum = f->bytes + tcp + 16;
  if (word + 1 >= f->bytes + f->length) return false; /* half a word, which the checksum pads */
  const uint16_t old = word_at(word);
  f->bytes[at] ^= (uint8_t)(1u << ranks_random(&tap.state) % 8);
  uint32_t total = (uint32_t)(uint16_t)~word_at(sum) + (uint16_t)~old + word_at(word);
  while (total >> 16) total = (total & 0xffff) + (total >> 16);
  sum[0] = (uint8_t)(~total >> 8);
  sum[1] = (uint8_t)~total;
  return true;
}

static void enqueue(const uint8_t *bytes, size_t length, uint32_t port, uint64_t now_us) {
  const size_t tcp = tcp_header(bytes, length);
  struct frame *f = tap.queued < QUEUE ? malloc(sizeof *f + length) : NULL;
  if (!f) {
    tap.count[OVERFLOWED]++;
    return;
  }
  *f = (struct frame){.due_us = now_us + tap.delay_us, .order = tap.order++, .length = length, .port = port};
  memcpy(f->bytes, bytes, length);
  if (tcp && happens(FLIPPED)) {
    f->bytes[ETHERNET + ranks_random(&tap.state) % (length - ETHERNET)] ^=
        (uint8_t)(1u << ranks_random(&tap.state) % 8);
    tap.count[FLIPPED]++;
  }
  if (tcp && happens(FORGED)) tap.count[FORGED] += forge(f, tcp);
  if (happens(REORDERED)) f->due_us += tap.hold_us, tap.count[REORDERED]++;
  push(f);
}

/* Passes a frame on to one port. */
static void pass(const uint8_t *bytes, size_t length, uint32_t from, uint32_t to, uint64_t now_us) {
  if (tap.cut[from][to] || tap.down[from] || tap.down[to]) {
    tap.count[CUT]++;
  } else if (tap.limit > 0 && length > tap.limit + ETHERNET) {
    tap.count[VANISHED]++;
  } else if (happens(DROPPED)) {
    tap.count[DROPPED]++;
  } else {
    enqueue(bytes, length, to, now_us);
    if (!happens(DOUBLED)) return;
    enqueue(bytes, length, to, now_us);
    tap.count[DOUBLED]++;
  }
}

/* Passes a frame on to the port of its receiver; to all others if that is not known, or the frame is for all. */
static void forward(const uint8_t *bytes, size_t length, uint32_t from, uint64_t now_us) {
  if (length < ETHERNET) return;
  memcpy(tap.address[from], bytes + ADDRESS, ADDRESS);
  for (uint32_t to = 0; to < tap.ports; to++)
    if (to != from && memcmp(tap.address[to], bytes, ADDRESS) == 0) {
      pass(bytes, length, from, to, now_us);
      return;
    }
  for (uint32_t to = 0; to < tap.ports; to++)
    if (to != from) pass(bytes, length, from, to, now_us);
}

static void receive(uint32_t port) {
  static uint8_t bytes[FRAME];
  for (int i = 0; i < BURST; i++) {
    const ssize_t length = read(tap.fds[port], bytes, sizeof bytes);
    if (length <= 0) return;
    forward(bytes, (size_t)length, port, ranks_now_us());
  }
}

/* ---- commands ---- */

static void calm(void) {
  memset(tap.cut, 0, sizeof tap.cut);
  memset(tap.down, 0, sizeof tap.down);
  memset(tap.probability, 0, sizeof tap.probability);
  tap.delay_us = tap.limit = 0;
}

static void print_counts(void) {
  printf("ok");
  for (int i = 0; i < KINDS; i++) printf(" %s %llu", counts[i], (unsigned long long)tap.count[i]);
  printf("\n");
}

/* Cuts or mends what a command names: one host, or the way between two. */
static bool connects(const char *verb, int numbers, double a, double b) {
  const bool one = strcmp(verb, "down") == 0 || strcmp(verb, "up") == 0, off = verb[0] == 'd' || verb[0] == 'c';
  if (!one && strcmp(verb, "cut") != 0 && strcmp(verb, "mend") != 0) return false;
  if (numbers != (one ? 1 : 2) || a >= tap.ports || (!one && b >= tap.ports)) return false;
  if (one) tap.down[(uint32_t)a] = off;
  else tap.cut[(uint32_t)a][(uint32_t)b] = tap.cut[(uint32_t)b][(uint32_t)a] = off;
  return true;
}

/* Sets what a command names. */
static bool sets(const char *verb, int numbers, double a, double b) {
  for (int i = 0; i < SENT && numbers > 0 && a <= 1; i++) {
    if (strcmp(verb, verbs[i]) != 0 || (numbers == 2 && i != REORDERED)) continue;
    tap.probability[i] = a;
    if (i == REORDERED) tap.hold_us = numbers == 2 ? (uint64_t)b : HOLD_US;
    return true;
  }
  if (strcmp(verb, "calm") == 0 && numbers == 0) return calm(), true;
  if (numbers != 1) return false;
  if (strcmp(verb, "seed") == 0) return tap.state = (uint64_t)a, true;
  if (strcmp(verb, "delay") == 0) return tap.delay_us = (uint64_t)a, true;
  if (strcmp(verb, "limit") == 0) return tap.limit = (size_t)a, true;
  return false;
}

static void obey(const char *line) {
  char verb[16] = "", rest;
  double a = 0, b = 0;
  const int read = sscanf(line, "%15s %lf %lf %c", verb, &a, &b, &rest);
  if (read == 1 && strcmp(verb, "count") == 0) {
    print_counts();
    return;
  }
  const bool good =
      read >= 1 && read <= 3 && a >= 0 && b >= 0 && (connects(verb, read - 1, a, b) || sets(verb, read - 1, a, b));
  if (good) printf("ok\n");
  else printf("error: expected a command of tests/tap.c, for %u hosts, got '%s'\n", tap.ports, line);
}

/* Obeys the commands on standard input. Returns false at its end. */
static bool listen_to_commands(void) {
  static char text[4096];
  static size_t length;
  const ssize_t got = read(0, text + length, sizeof text - 1 - length);
  if (got <= 0) return false;
  length += (size_t)got;
  text[length] = '\0';
  char *line = text;
  for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = '\0';
    obey(line);
  }
  length -= (size_t)(line - text);
  memmove(text, line, length);
  return true;
}

/* ---- the switch ---- */

/* Makes eth0 in a network namespace. Returns its descriptor; -1 if that fails, after an error message. */
static int make_device(const char *path) {
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI, .ifr_name = "eth0"};
  const int space = open(path, O_RDONLY | O_CLOEXEC);
  int fd = -1;
  if (space < 0 || setns(space, CLONE_NEWNET) != 0)
    printf("error: %s: expected a network namespace: %s\n", path, strerror(errno));
  else if ((fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK)) < 0)
    printf("error: /dev/net/tun: %s; the switch needs the kernel module tun\n", strerror(errno));
  else if (ioctl(fd, TUNSETIFF, &request) != 0)
    printf("error: %s: cannot make the TAP device eth0: %s\n", path, strerror(errno)), close(fd), fd = -1;
  if (space >= 0) close(space);
  return fd;
}

static void run_switch(void) {
  struct pollfd waiting[PORTS + 1] = {{.fd = 0, .events = POLLIN}};
  for (uint32_t i = 0; i < tap.ports; i++) waiting[i + 1] = (struct pollfd){.fd = tap.fds[i], .events = POLLIN};
  for (;;) {
    const uint64_t now_us = ranks_now_us(), due_us = tap.queued > 0 ? tap.queue[0]->due_us : UINT64_MAX;
    const uint64_t left_us = due_us > now_us ? due_us - now_us : 0;
    const struct timespec limit = {.tv_sec = (time_t)(left_us / 1000000), .tv_nsec = (long)(left_us % 1000000) * 1000};
    if (ppoll(waiting, tap.ports + 1, due_us == UINT64_MAX ? NULL : &limit, NULL) < 0 && errno != EINTR) return;
    if (waiting[0].revents && !listen_to_commands()) return;
    for (uint32_t i = 0; i < tap.ports; i++)
      if (waiting[i + 1].revents) receive(i);
    send_due(ranks_now_us());
  }
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc < 2 || argc > PORTS + 1) {
    printf("error: usage: tap NAMESPACE..., at most %d, got %d\n", PORTS, argc - 1);
    return 2;
  }
  for (; tap.ports + 1 < (uint32_t)argc; tap.ports++)
    if ((tap.fds[tap.ports] = make_device(argv[tap.ports + 1])) < 0) return 1;
  printf("ok\n");
  run_switch();
  print_counts();
  return 0;
}
