/* hpp_world.hpp: what the tests of the C++ headers share: a communicator for one case, and the check of an error. */
#ifndef TU_HPP_WORLD_HPP
#define TU_HPP_WORLD_HPP

#include <tutti/tutti.hpp>

#include "pto_world.hpp"

/* Makes a communicator of all ranks for one case, which the case may fail. */
static inline tutti::comm copy_of_world(const Player &me) {
  tutti_comm *made = nullptr;
  tutti::check(tutti_comm_dup(me.world, &made));
  tutti::comm copy(made);
  copy.set_timeout(20000);
  return copy;
}

/* Makes the call, which must throw an error with this code, and with these facts in its message. */
template <typename Call>
static inline void throws(Player &me, const char *what, tutti_err code, const char *words, Call call) {
  try {
    call();
  } catch (const tutti::error &e) {
    me.check(e.code() == code, "%s: found %s: %s", what, tutti_err_name(e.code()), e.what());
    me.check(test_contains(e.what(), words), "%s: '%s' is not in: %s", what, words, e.what());
    return;
  }
  me.check(false, "%s: throws no error; expected one with '%s'", what, words);
}

#endif
