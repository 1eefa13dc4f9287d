/* channel.hpp: owners for tutti/channel.h in C++17. Messages are written and read by the functions of C, which need no
 * templates; check() throws their errors. See tutti_hpp(3).
 *
 *   tutti::channel to_next(world, 1, TUTTI_CHANNEL_SENDS);
 *   void *slot;
 *   tutti::check(tutti_channel_acquire(to_next.get(), 0, &slot));
 */
#ifndef TUTTI_CHANNEL_HPP
#define TUTTI_CHANNEL_HPP

#include <tutti/channel.h>
#include <tutti/tutti.hpp>

namespace tutti {

/* Options of a link; see tutti_channel_options. An aggregate, as tutti::options. */
struct channel_options {
  std::uint32_t slots = 0;
  std::size_t slot_bytes = 0;
  tutti_channel_ending ending = TUTTI_CHANNEL_MARKED;
  std::uint64_t messages = 0;
  bool shared = false;
  bool separate_flag = false;
  std::uint32_t link = 0;
  void *memory = nullptr;
  std::size_t memory_bytes = 0;
  int timeout_ms = 0;
};

namespace detail {

inline tutti_channel_options lowered(const channel_options &o) {
  tutti_channel_options made{};
  made.slots = o.slots;
  made.slot_bytes = o.slot_bytes;
  made.ending = o.ending;
  made.messages = o.messages;
  made.shared = o.shared;
  made.separate_flag = o.separate_flag;
  made.link = o.link;
  made.memory = o.memory;
  made.memory_bytes = o.memory_bytes;
  made.timeout_ms = o.timeout_ms;
  return made;
}

}  // namespace detail

/* Owner of one end of a channel, or empty. It must end before its communicator.
 *
 * The destructor closes the channel; at a sender it waits until the receiver has released all slots. In two cases it
 * fails the communicator instead, so that no rank waits for this one: if the stream is not over, and if the destructor
 * runs because of an exception and would have to wait. It reports no error. */
class channel {
 public:
  channel() noexcept = default;
  /* Builds a link of one channel, and waits until it is ready (tutti_channel_open). */
  channel(comm_view of, number peer, tutti_channel_direction direction, const channel_options &options = {})
      : comm_(of) {
    const tutti_channel_options made = detail::lowered(options);
    check(tutti_channel_open(of.get(), peer, direction, &made, &raw_));
  }
  /* Takes over a channel of the C API, which belongs to this communicator. */
  channel(comm_view of, tutti_channel *raw) noexcept : comm_(of), raw_(raw) {}
  channel(channel &&other) noexcept : comm_(other.comm_), raw_(other.release()) {}
  channel &operator=(channel &&other) noexcept {
    if (this == &other) return *this;
    end();
    comm_ = other.comm_;
    raw_ = other.release();
    return *this;
  }
  ~channel() { end(); }

  /* Closes the channel, whose stream must be over; waits at most timeout_ms ms, or without limit if it is 0. After an
   * error the object is empty if the communicator has failed; otherwise the channel stays open. */
  void close(int timeout_ms = 0) {
    const tutti_err err = tutti_channel_close(raw_, timeout_ms);
    const std::string message = err == TUTTI_OK ? "" : tutti_error_message(nullptr);
    if (err == TUTTI_OK || tutti_progress(comm_.get(), 0) != TUTTI_OK) raw_ = nullptr;
    if (err != TUTTI_OK) detail::fail(err, message);
  }

  /* Returns true if there is a channel. */
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  tutti_channel *get() const noexcept { return raw_; }
  /* Returns the channel of the C API, and gives up its ownership. */
  tutti_channel *release() noexcept { return std::exchange(raw_, nullptr); }

 private:
  void end() noexcept {
    bool closed = false;
    tutti_channel *raw = release();
    const tutti_err err = tutti_channel_try_close(raw, &closed);
    if (closed) return;
    if (err != TUTTI_OK || unwinding_) tutti_abort(comm_.get(), "a tutti::channel has ended before its stream");
    const tutti_err ignored = tutti_channel_close(raw, 0);
    static_cast<void>(ignored);
  }

  comm_view comm_;
  tutti_channel *raw_ = nullptr;
  detail::unwinding unwinding_;
};

/* Owner of a builder of channels. The destructor frees it, which cannot fail; the channels stay. */
class channel_builder : public detail::owner<tutti_channel_builder, tutti_channel_builder_free> {
 public:
  channel_builder() noexcept = default;
  explicit channel_builder(comm_view of, const channel_options &options = {}) : comm_(of) {
    const tutti_channel_options made = detail::lowered(options);
    check(tutti_channel_builder_create(of.get(), &made, &raw_));
  }

  /* Adds a channel to rank `to`, or from rank `from`, and returns its index in the result of build(). messages: the
   * number of messages of a counted stream; 0: a marked stream. */
  std::size_t add_sender(number to, std::uint64_t messages = 0) {
    check(tutti_channel_add_sender(raw_, to, messages, nullptr));
    return count_++;
  }
  std::size_t add_receiver(number from, std::uint64_t messages = 0) {
    check(tutti_channel_add_receiver(raw_, from, messages, nullptr));
    return count_++;
  }
  /* Builds this rank's ends of all added channels, and does not wait for the other ends (tutti_channel_build). */
  std::vector<channel> build() {
    std::vector<channel> made(count_);
    std::vector<tutti_channel *> raw(count_);
    check(tutti_channel_build(raw_, raw.data()));
    for (std::size_t i = 0; i < count_; i++) made[i] = channel(comm_, raw[i]);
    return made;
  }

 private:
  comm_view comm_;
  std::size_t count_ = 0;
};

}  // namespace tutti

#endif
