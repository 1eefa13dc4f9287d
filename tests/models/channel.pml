/* channel.pml: Promela model of the protocol in docs/CHANNELS.md: a link of one or more channels between two ends, and
 * operations that use the same memory one after the other. tests/model_test.sh lets spin check all states.
 *
 * Each step is a load or a store of one word that the other end sees, or of a payload. Payload and flag are separate
 * stores. This also models merged flags: the flag is the last part of the payload's packet, so an end that sees the
 * flag sees the payload. A receiver's stores into its sender's memory (done, acked) may take any time. The stores of
 * one channel become visible in order (each is a release); stores of two channels become visible in any order.
 * Each worker (sender or receiver of a channel) is a process of its own: any thread of its rank.
 *
 * Every assert must hold, every run must reach its end (no other state is without successors), and there must be no
 * cycle. The asserts say:
 *   - each message that was sent is read once, in order, with its own payload;
 *   - no payload is written while an earlier one in the same slot is not yet released;
 *   - no operation reads or writes memory that its owner uses for another purpose;
 *   - at close, all credits have returned.
 *
 * -D selects a mutation: NO_DRAIN, NO_HANDSHAKE, FLAG_FIRST, ONE_WORD, CLEAR_LATE, NO_LAST, ACK_RELEASED. Each must
 * make the check fail. TWO_WORDS is no mutation: see SOURCES.
 *
 * -DTRACE: the model follows traces of the real code (tests/channel_trace_test.c). Each step that the code reports
 * waits until it is the next event of the trace, with the same numbers. Steps that are not reported (a store becomes
 * visible) may happen at any time. A trace is legal if one run follows it to its end; the search stops at the first
 * such run. */

#ifdef TRACE
#define SLOTS_MAX 4
#define CHANNELS_MAX 3
#define NUMBER short
#define ID(operation, channel, k) ((operation)*512 + (channel)*128 + (k) + 1)
#else
#define SLOTS_MAX 3
#define CHANNELS_MAX 2
#define NUMBER byte
#define ID(operation, channel, k) ((operation)*32 + (channel)*16 + (k) + 1)
#endif

/* ---- the link, known to both ends ---- */

byte channels, slots, operations, messages; /* messages: maximum number of messages of a stream; each has 1 or more */
bool counted, shared;
byte from[CHANNELS_MAX];      /* the sending end of each channel; end `from[0]` is the initiator */
NUMBER length[CHANNELS_MAX];  /* number of messages of a counted stream */

/* ---- memory that both ends see: the words of each end, and the link memory of the senders ---- */

NUMBER called[2], hello[2], closed[2];

typedef line {
  NUMBER sequence; /* the flag: number of the line's message + 1 */
  byte slot;
  bool last;
};
typedef words {
  line lines[SLOTS_MAX];
  NUMBER done, acked;
};
words memory[CHANNELS_MAX]; /* words of each channel, in the link memory of its sender */
NUMBER payload[CHANNELS_MAX * SLOTS_MAX];
#define SLOT(c, s) payload[INDEX(c, s)]
#define INDEX(c, s) ((shared -> from[c] : c) * slots + (s))

/* Stores of a channel's receiver that are not yet visible. */
mtype = { DONE, ACKED };
chan stores[CHANNELS_MAX] = [2 * SLOTS_MAX] of { mtype, NUMBER, NUMBER };

/* ---- local state of each worker and each end ---- */

NUMBER opened[2];                 /* the operation for which the end is open */
byte left[2];                     /* number of workers that have closed their channels */
NUMBER sent[CHANNELS_MAX], taken[CHANNELS_MAX];
bool held[CHANNELS_MAX * SLOTS_MAX]; /* shared slots that are not free, in the view of their end */

/* ---- variables for the asserts only ---- */

NUMBER use[2];                           /* the operation that uses the end's link memory; 0: another purpose */
NUMBER unread[CHANNELS_MAX * SLOTS_MAX]; /* the message in each slot that is not yet released; 0: none */

/* ---- traces ---- */

#ifdef TRACE
NUMBER which, cursor; /* number of the trace; number of its events that the run has followed */
NUMBER event_step, event_end, event_operation, event_channel, event_number, event_slot, event_last;
#define NEXT(step, end, operation, channel, number) \
  (event_step == step && event_end == end && event_operation == operation && event_channel == channel && \
   event_number == number && c_expr { !traces[now.which].legal })
#define NEXT_SLOT(s) (event_slot == (s))
#define NEXT_LAST(l) (event_last == (l))
#define GO c_code { next_event(); }
#else
#define NEXT(step, end, operation, channel, number) true
#define NEXT_SLOT(s) true
#define NEXT_LAST(l) true
#define GO skip
#endif

/* The values of enum tu_link_step. */
#define SEE_PREVIOUS 0
#define CLEAR 1
#define CALL 2
#define HELLO 3
#define SEE_CALL 4
#define SEE_HELLO 6
#define WELCOME 7
#define SEE_WELCOME 8
#define OPEN 9
#define SEE_CREDIT 10
#define ACQUIRE 11
#define FILL 12
#define FLAG 13
#define SEE_ACK 14
#define SEE_FLAG 15
#define ACK 16
#define RELEASE 17
#define DRAINED 18
#define ENDED 19
#define CLOSED 20

/* ---- an end: opens an operation, and closes it when all its channels are closed ---- */

inline clear(me) {
  byte i, c;
  c = 0;
  do
  :: c < channels && from[c] == me ->
    memory[c].done = 0;
    memory[c].acked = 0;
    sent[c] = 0;
    i = 0;
    do
    :: i < slots ->
      memory[c].lines[i].sequence = 0;
      held[INDEX(c, i)] = false;
      i++
    :: else -> break
    od;
    c++
  :: c < channels && from[c] != me -> c++
  :: else -> break
  od;
  i = 0;
  c = 0
}

proctype end_of_link(byte me) {
  NUMBER n = 1;
  do
  :: n <= operations ->
    if
    :: n > 1 -> atomic { closed[1 - me] == n - 1 && NEXT(SEE_PREVIOUS, me, n, 0, n - 1) -> GO }
    :: else
    fi;
#ifndef CLEAR_LATE
    atomic { NEXT(CLEAR, me, n, 0, 0) -> GO; use[me] = n; clear(me) }
#endif
    atomic { NEXT(CALL, me, n, 0, n) -> GO; use[me] = n; called[me] = n }
    if
    :: me == from[0] -> atomic { NEXT(HELLO, me, n, 0, n) -> GO; hello[me] = n }
    :: else
    fi;
#ifdef CLEAR_LATE
    atomic { NEXT(CLEAR, me, n, 0, 0) -> GO; clear(me) }
#endif
#ifndef NO_HANDSHAKE
    atomic { called[1 - me] == n && NEXT(SEE_CALL, me, n, 0, n) -> GO }
    if
    :: me == from[0] -> atomic { hello[1 - me] == n && NEXT(SEE_WELCOME, me, n, 0, n) -> GO }
    :: else ->
      atomic { hello[1 - me] == n && NEXT(SEE_HELLO, me, n, 0, n) -> GO }
      atomic { NEXT(WELCOME, me, n, 0, n) -> GO; hello[me] = n }
    fi;
#endif
    atomic { NEXT(OPEN, me, n, 0, n) -> GO; opened[me] = n }
    atomic {
      left[me] == channels && NEXT(CLOSED, me, n, 0, n) -> GO;
      left[me] = 0;
      use[me] = 0;
      closed[me] = n;
      n++
    }
  :: else -> break
  od
}

/* ---- a sender ---- */

inline write_payload() {
  assert(unread[INDEX(c, slot)] == 0);
  SLOT(c, slot) = ID(n, c, sent[c]);
}

inline write_line(is_last) {
  memory[c].lines[sent[c] % slots].slot = slot;
#ifdef NO_LAST
  memory[c].lines[sent[c] % slots].last = false;
#else
  memory[c].lines[sent[c] % slots].last = is_last;
#endif
  memory[c].lines[sent[c] % slots].sequence = sent[c] + 1;
  unread[INDEX(c, slot)] = ID(n, c, sent[c]);
  slot_of[sent[c] % slots] = slot;
  slot = 0;
  sent[c] = sent[c] + 1;
  over = (counted -> sent[c] == length[c] : is_last);
}

/* Frees the slots of messages that are released according to `done`. */
inline see_done() {
  do
  :: done < memory[c].done ->
    held[INDEX(c, slot_of[done % slots])] = false;
    slot_of[done % slots] = 0;
    done++
  :: else -> break
  od
}

/* MAY_GO_ON: true if more messages may follow the next one. */
#ifdef TRACE
#define MAY_GO_ON true
#else
#define MAY_GO_ON (counted || sent[c] + 1 < messages)
#endif

proctype sender(byte c) {
  byte me = from[c], slot, slot_of[SLOTS_MAX];
  byte phase = 0; /* 0: no slot; 1: a slot is acquired; 2: the slot is filled */
  NUMBER n = 1, done, acked;
  bool over;
  do
  :: n <= operations ->
    atomic { opened[me] == n -> done = 0; acked = 0; over = false }
    do
    /* Acquires a slot. All shared slots are equivalent, so only the lowest free one is tried. */
    :: atomic {
        phase == 0 && !over && !shared && sent[c] - done < slots && NEXT(ACQUIRE, me, n, c, sent[c]) &&
          NEXT_SLOT(sent[c] % slots) -> GO;
        slot = sent[c] % slots;
        phase = 1
      }
#define ACQUIRE_SHARED(s, lower_ones)                                                                     \
  atomic {                                                                                                \
    phase == 0 && !over && shared && s < slots && !held[INDEX(c, s)] && lower_ones && \
      NEXT(ACQUIRE, me, n, c, sent[c]) && NEXT_SLOT(s) -> GO;                               \
    slot = s;                                                                                             \
    held[INDEX(c, s)] = true;                                                                             \
    phase = 1                                                                                             \
  }
    :: ACQUIRE_SHARED(0, true)
    :: ACQUIRE_SHARED(1, held[INDEX(c, 0)])
    :: ACQUIRE_SHARED(2, (held[INDEX(c, 0)] && held[INDEX(c, 1)]))
#if SLOTS_MAX > 3
    :: ACQUIRE_SHARED(3, (held[INDEX(c, 0)] && held[INDEX(c, 1)] && held[INDEX(c, 2)]))
#endif
#ifndef FLAG_FIRST
    /* Fills the slot. */
    :: atomic { phase == 1 && NEXT(FILL, me, n, c, sent[c]) && NEXT_SLOT(slot) -> GO; write_payload(); phase = 2 }
    /* Commits the message. */
    :: atomic {
        phase == 2 && MAY_GO_ON && NEXT(FLAG, me, n, c, sent[c]) && NEXT_SLOT(slot) && NEXT_LAST(false) -> GO;
        write_line(false);
        phase = 0
      }
    :: atomic {
        phase == 2 && !counted && NEXT(FLAG, me, n, c, sent[c]) && NEXT_SLOT(slot) && NEXT_LAST(true) -> GO;
        write_line(true);
        phase = 0
      }
#else
    :: atomic { phase == 1 && MAY_GO_ON -> write_line(false); phase = 2 }
    :: atomic { phase == 1 && !counted -> write_line(true); phase = 2 }
    :: atomic { phase == 2 -> SLOT(c, slot) = ID(n, c, sent[c] - 1); phase = 0 }
#endif
    /* Sees credits and acknowledgements. */
    :: atomic {
        memory[c].done != done && NEXT(SEE_CREDIT, me, n, c, memory[c].done) -> GO;
        see_done()
      }
    :: atomic { memory[c].acked != acked && NEXT(SEE_ACK, me, n, c, memory[c].acked) -> GO; acked = memory[c].acked }
    /* Drains: waits until all messages are released. */
#ifdef NO_DRAIN
    :: atomic { over && phase == 0 -> left[me]++; break }
#else
    :: atomic {
        over && phase == 0 && done == sent[c] && NEXT(DRAINED, me, n, c, sent[c]) -> GO;
        assert(memory[c].done == sent[c] && empty(stores[c]));
        left[me]++;
        break
      }
#endif
    od;
    n++
  :: else -> break
  od
}

/* ---- a receiver ---- */

/* By default, a store carries the value that it had when it was issued. With SOURCES, it carries the value that its
 * source word has when it becomes visible, so the receiver issues no further store of the same kind before. TWO_WORDS:
 * each kind has its own source word, and the protocol stays correct. ONE_WORD: both kinds share one, which is an
 * error. */
#if defined(ONE_WORD) || defined(TWO_WORDS)
#define SOURCES
#endif
#ifdef SOURCES
NUMBER word_value[2 * CHANNELS_MAX];
mtype word_kind[2 * CHANNELS_MAX];
bool pending[2 * CHANNELS_MAX];
#define KIND(kind) (2 * c + (kind == DONE))
#ifdef ONE_WORD
#define WORD(kind) (2 * c)
#else
#define WORD(kind) KIND(kind)
#endif
#define MAY_STORE(kind) (!pending[KIND(kind)])
#define STORE(kind, value) \
  word_value[WORD(kind)] = value; word_kind[WORD(kind)] = kind; pending[KIND(kind)] = true; stores[c]!kind(0, n)
#else
#define MAY_STORE(kind) true
#define STORE(kind, value) stores[c]!kind(value, n)
#endif

#ifdef ACK_RELEASED
#define LATE_ACK true
#else
#define LATE_ACK false
#endif
#ifdef TRACE
#define NEWS true /* the real code may acknowledge the same number again, which changes nothing */
#else
#define NEWS (peeked > acked)
#endif

#define FRONT(k) memory[c].lines[(k) % slots]

proctype receiver(byte c) {
  byte me = 1 - from[c];
  NUMBER n = 1, peeked, acked, ends;
  do
  :: n <= operations ->
    atomic {
      opened[me] == n -> taken[c] = 0;
      peeked = 0;
      acked = 0;
      ends = (counted -> length[c] : 0)
    }
    do
    /* Peeks at the next message. */
    :: atomic {
        (ends == 0 || peeked < ends) && FRONT(peeked).sequence == peeked + 1 && NEXT(SEE_FLAG, me, n, c, peeked) &&
          NEXT_SLOT(FRONT(peeked).slot) && NEXT_LAST(FRONT(peeked).last) -> GO;
        assert(use[1 - me] == n);
        assert(SLOT(c, FRONT(peeked).slot) == ID(n, c, peeked));
        if
        :: FRONT(peeked).last -> ends = peeked + 1
        :: else
        fi;
        peeked++
      }
    /* Acknowledges; not after all is released: releasing counts as acknowledging, and the memory may be reused. */
    :: atomic {
        NEWS && (peeked > taken[c] || LATE_ACK) && MAY_STORE(ACKED) && NEXT(ACK, me, n, c, peeked) -> GO;
        STORE(ACKED, peeked);
        acked = peeked
      }
    /* Releases the oldest message. The worker may have read its payload at any time before. */
    :: atomic {
        peeked > taken[c] && MAY_STORE(DONE) && NEXT(RELEASE, me, n, c, taken[c]) -> GO;
        assert(use[1 - me] == n);
        assert(SLOT(c, FRONT(taken[c]).slot) == ID(n, c, taken[c]));
        unread[INDEX(c, FRONT(taken[c]).slot)] = 0;
        taken[c] = taken[c] + 1;
        STORE(DONE, taken[c])
      }
    /* Ends the stream. */
    :: atomic {
        ends > 0 && taken[c] == ends && NEXT(ENDED, me, n, c, taken[c]) -> GO;
        assert(sent[c] == taken[c]);
        left[me]++;
        break
      }
    od;
    n++
  :: else -> break
  od
}

/* ---- makes stores visible ---- */

proctype wire(byte c) {
  mtype kind;
  NUMBER value, n;
end:
  do
  :: atomic {
      stores[c]?kind(value, n) ->
      assert(use[from[c]] == n);
#ifdef SOURCES
      pending[KIND(kind)] = false;
      value = word_value[WORD(kind)];
      kind = word_kind[WORD(kind)];
#endif
      if
      :: kind == DONE -> memory[c].done = value
      :: kind == ACKED -> memory[c].acked = value
      fi;
      assert(memory[c].acked <= sent[c] && memory[c].done <= sent[c] && sent[c] <= memory[c].done + slots);
      kind = 0;
      value = 0;
      n = 0
    }
  od
}

/* ---- start of all processes ---- */

inline start() {
  run end_of_link(0);
  run end_of_link(1);
  c = 0;
  do
  :: c < channels ->
    run sender(c);
    run receiver(c);
    run wire(c);
    c++
  :: else -> c = 0; break
  od
}

#ifdef TRACE

c_decl {
\#define SLOTS_MAX_OF_TRACES 4
\#define CHANNELS_MAX_OF_TRACES 3
\#include "channel_traces.h"
}
c_code {
\#define LOAD(name) now.event_##name = (short)e->name
static void look_at_event(void) {
  const struct event *e = traces_event(now.which, now.cursor);
  LOAD(step);
  LOAD(end);
  LOAD(operation);
  LOAD(channel);
  LOAD(number);
  LOAD(slot);
  LOAD(last);
}
static void next_event(void) {
  now.cursor++;
  look_at_event();
}
static void begin_trace(void) {
  const struct trace *t = &traces[now.which];
  now.channels = (unsigned char)t->channels;
  now.slots = (unsigned char)t->slots;
  now.operations = (unsigned char)t->operations;
  now.counted = t->counted;
  now.shared = t->shared;
  for (int i = 0; i < t->channels; i++) {
    now.from[i] = (unsigned char)t->from[i];
    now.length[i] = (short)t->length[i];
  }
  look_at_event();
}
}

init {
  byte c;
  atomic {
    c_code { traces_load(); };
    do
    :: c_expr { now.which + 1 < trace_count } -> which++
    :: break
    od;
    c_code { begin_trace(); };
    start()
  }
  c_expr { now.cursor == traces[now.which].count } -> c_code { traces[now.which].legal = 1; }
}

#else

/* Environment variables set the size of the model. */
c_decl {
\#include <stdlib.h>
static unsigned char setting(const char *name, int otherwise) {
  const char *said = getenv(name);
  return (unsigned char)(said ? atoi(said) : otherwise);
}
}

init {
  byte c;
  atomic {
    c_code {
      now.channels = setting("CHANNELS", 1);
      now.slots = setting("SLOTS", 2);
      now.operations = setting("OPERATIONS", 2);
      now.messages = setting("MESSAGES", 3);
      now.counted = setting("COUNTED", 0);
      now.shared = setting("SHARED", 0);
      now.from[1] = setting("BACK", 0); /* 1: channel 1 goes in the other direction */
    };
    do
    :: c < channels ->
      length[c] = 1;
      do
      :: counted && length[c] < messages -> length[c] = length[c] + 1
      :: break
      od;
      c++
    :: else -> break
    od;
    start()
  }
}

#endif
