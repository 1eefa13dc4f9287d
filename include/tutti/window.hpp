/* window.hpp: owners for tutti/window.h in C++17: windows, and sessions of one-sided transfers. See tutti_hpp(3).
 *
 *   tutti::window window(world, 1000 * sizeof(float));  // this rank's part
 *   tutti::span<float> next = window.part<float>(1);    // the part of rank 1
 */
#ifndef TUTTI_WINDOW_HPP
#define TUTTI_WINDOW_HPP

#include <tutti/window.h>
#include <tutti/tutti.hpp>

namespace tutti {

/* Owner of a window, or empty. It must end before its communicator.
 *
 * The destructor is collective: it waits until all ranks free the window (tutti_window_free). If it runs because of an
 * exception, the other ranks may not come. Then it fails the communicator, so that no rank waits. It reports no
 * error. */
class window : public detail::owner<tutti_window, tutti_window_free> {
 public:
  window() noexcept = default;
  /* Collective: makes a window in which this rank's part has `bytes` bytes. The library allocates and clears it. */
  window(comm_view of, std::size_t bytes) : window(of, nullptr, bytes) {}
  /* Collective: makes a window of this rank's memory, which is in a tutti::memory or a registration. */
  window(comm_view of, void *memory, std::size_t bytes) : comm_(of) {
    check(tutti_window_create(of.get(), memory, bytes, &raw_));
  }
  window(window &&) noexcept = default;
  window &operator=(window &&) noexcept = default;
  ~window() {
    if (raw_ && unwinding_) tutti_abort(comm_.get(), "an exception has ended a tutti::window");
  }

  /* Frees the window as the destructor does, but throws an error. The object is empty afterwards. */
  void free() { check(tutti_window_free(release())); }

  /* Returns the part of a rank as elements of type T; an empty span if there is no such rank. If the rank runs on another
   * host, the elements can only be named in calls, not read or written. */
  template <typename T>
  span<T> part(number rank) const {
    static_assert(std::is_trivially_copyable_v<T>, "the elements of a window must be trivially copyable");
    return {static_cast<T *>(tutti_window_address(raw_, rank)), tutti_window_bytes(raw_, rank) / sizeof(T)};
  }

  /* Returns the part of a rank as elements that this process can read and write. Throws an error if the rank runs on
   * another host. */
  template <typename T>
  span<T> memory(number rank) const {
    void *first;
    check(tutti_window_memory(raw_, rank, &first));
    return part<T>(rank);
  }

 private:
  comm_view comm_;
  detail::unwinding unwinding_;
};

/* Owner of a session: a queue of one-sided transfers. The destructor waits for its last transfer (tutti_session_free).
 * It reports no error. If a communicator has failed, the next call on that communicator reports this. */
class session : public detail::owner<tutti_session, tutti_session_free> {
 public:
  using owner::owner;
  static session create() {
    tutti_session *made = nullptr;
    check(tutti_session_create(&made));
    return session(made);
  }
  /* Frees the session as the destructor does, but throws an error. The object is empty afterwards. */
  void free() { check(tutti_session_free(release())); }
};

}  // namespace tutti

#endif
