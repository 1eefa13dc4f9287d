/* pto_world.hpp: common part of C++ tests with several ranks. The program starts itself under `tutti run`. Each rank
 * then runs all cases for its number of ranks in one world, and rank 0 prints a line for each: "ok NAME" or "FAILED
 * NAME". */
#ifndef PTO_WORLD_HPP
#define PTO_WORLD_HPP

#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <pto/comm/pto_comm_inst.hpp>
#include <set>
#include <string>
#include <vector>

#include "facts.h"

/* A rank that runs a test case. Failures are counted, and the first is printed. The case goes on, so that no other rank
 * waits for this one. */
struct Player {
  tutti_comm *world = nullptr;
  int rank = 0, ranks = 0;
  std::vector<long> numbers; /* parameters of the case */
  int failures = 0;
  const char *name = "";

  long number(size_t i, long otherwise) const { return i < numbers.size() ? numbers[i] : otherwise; }
  int after(int r = 1) const { return (rank + r + ranks) % ranks; }

  __attribute__((format(printf, 3, 4))) void check(bool good, const char *format, ...) {
    if (good || failures++ > 0) return;
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("  %s: rank %d: %s\n", name, rank, text);
  }
  void good(tutti_err err) {
    if (err == TUTTI_OK) return;
    fprintf(stderr, "%s: rank %d: %s: %s\n", name, rank, tutti_err_name(err), tutti_error_message(nullptr));
    tutti_abort(world, name);
    std::_Exit(1);
  }
  void barrier() {
    if (tutti_barrier(world) == TUTTI_OK) return;
    fprintf(stderr, "%s: rank %d: barrier: %s\n", name, rank, tutti_error_message(world));
    std::_Exit(1);
  }
};

/* Memory that all ranks can access while this object lives. Constructor and destructor are collective. A rank must
 * write its own part before a barrier; other ranks read it after that. */
class Memory {
 public:
  Memory(Player &me, size_t bytes) : me_(me) { me.good(tutti_window_create(me.world, nullptr, bytes, &window_)); }
  ~Memory() { /* no collective free after an exception: the other ranks would not take part */
    if (std::uncaught_exceptions() == 0) me_.good(tutti_window_free(window_));
  }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  template <typename T>
  T *at(int rank, size_t element = 0) const {
    return static_cast<T *>(tutti_window_address(window_, static_cast<uint32_t>(rank))) + element;
  }
  template <typename T>
  T *mine(size_t element = 0) const {
    return at<T>(me_.rank, element);
  }
  /* Returns an element of any rank's part, which may be on another host. */
  template <typename T>
  T read(int rank, size_t element = 0) const {
    T value{};
    const size_t shape[] = {1, sizeof value};
    tutti_tensor from, to;
    me_.good(tutti_tensor_strided(&from, {at<T>(rank, element), TUTTI_U8, 2, shape}, nullptr));
    me_.good(tutti_tensor_strided(&to, {&value, TUTTI_U8, 2, shape}, nullptr));
    me_.good(tutti_get(&from, &to, nullptr, nullptr));
    return value;
  }
  tutti_window *window() const { return window_; }

 private:
  Player &me_;
  tutti_window *window_ = nullptr;
};

struct Case {
  const char *name;
  int ranks;
  void (*run)(Player &me);
  std::vector<long> numbers;
};

inline void play_case(Player &me, const Case &c) {
  me.name = c.name;
  me.numbers = c.numbers;
  me.failures = 0;
  try {
    c.run(me);
  } catch (const std::exception &e) {
    fprintf(stderr, "%s: rank %d: %s\n", c.name, me.rank, e.what());
    tutti_abort(me.world, e.what());
    std::_Exit(1);
  }
  fflush(stdout);
  int32_t failures = me.failures;
  me.good(tutti_allreduce(me.world, &failures, &failures, 1, TUTTI_I32, TUTTI_SUM));
  if (me.rank == 0) printf("%s %s\n", failures ? "FAILED" : "ok", c.name);
}

inline int play_all(const std::vector<Case> &cases) {
  tutti_options options = {};
  options.timeout_ms = 60000;
  Player me;
  alarm(300);
  if (tutti_init(&options, &me.world) != TUTTI_OK) {
    fprintf(stderr, "tutti_init: %s\n", tutti_error_message(nullptr));
    return 1;
  }
  me.rank = static_cast<int>(tutti_rank(me.world));
  me.ranks = static_cast<int>(tutti_ranks(me.world));
  for (const Case &c : cases)
    if (c.ranks == me.ranks && c.run) play_case(me, c);
  return tutti_comm_free(me.world) != TUTTI_OK;
}

/* Runs this program on `ranks` ranks; returns the names of the cases that passed. */
inline std::multiset<std::string> start_ranks(int ranks, bool *in_order) {
  char self[4096] = "", command[8192], line[1024];
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) abort();
  /* With TEST_HOSTS, the ranks are on the hosts of that list (placement.h). */
  snprintf(command, sizeof command, "TUTTI_TUNING=none '%s' run -n %d -- %s '%s' --as ranks 2>&1", BUILD_DIR "/tutti",
           ranks, getenv("TEST_HOSTS") ? "'" BUILD_DIR "/tests/place'" : "", self);
  std::multiset<std::string> good;
  fflush(stdout);
  FILE *output = popen(command, "r");
  if (!output) abort();
  while (fgets(line, sizeof line, output)) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "ok ", 3) == 0) good.insert(line + 3);
    else if (strncmp(line, "FAILED ", 7) != 0) printf("%s\n", line);
  }
  *in_order = pclose(output) == 0;
  return good;
}

/* Main function of a test program; with `--as ranks` it runs as a rank. A case for which rank 0 has not printed "ok"
 * has failed. Prints the summary line. */
inline int run_cases(const std::vector<Case> &cases, int argc, char **argv, unsigned skipped = 0) {
  if (argc > 1 && strcmp(argv[1], "--as") == 0) return play_all(cases);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  std::set<int> sizes;
  for (const Case &c : cases) sizes.insert(c.ranks);
  size_t passed = 0, failed = 0;
  for (int ranks : sizes) {
    bool in_order = true;
    std::multiset<std::string> good = start_ranks(ranks, &in_order);
    for (const Case &c : cases) {
      if (c.ranks != ranks) continue;
      const auto found = good.find(c.name);
      if (found == good.end())
        printf("FAILED %s, %d ranks%s\n", c.name, c.ranks, c.run ? "" : ": no function of this name");
      else good.erase(found), passed++;
    }
    if (!in_order) printf("FAILED %d ranks: tutti run failed\n", ranks);
    failed += !in_order;
  }
  failed += cases.size() - passed;
  printf("%zu passed, %zu failed", passed, failed);
  if (skipped) printf(", %u skipped", skipped);
  printf("\n");
  return failed > 0;
}

#endif
