/* primes.cpp: an example in C++17. The ranks find the primes below a limit, each in its part of the numbers, and collect
 * them on all ranks. Ranks find different numbers of primes, so the blocks differ in size.
 *
 *   c++ -std=c++17 primes.cpp $(pkg-config --cflags --libs tutti) -o primes
 *   tutti run -n 4 -- ./primes 1000 */
#include <cstdio>
#include <cstdlib>
#include <tutti/tutti.hpp>
#include <vector>

static bool is_prime(long n) {
  for (long d = 2; d * d <= n; d++)
    if (n % d == 0) return false;
  return n > 1;
}

/* A gap between two primes: the difference, and the first prime. */
struct gap {
  long size, after;
};

static gap largest_gap(const std::vector<long> &primes) {
  gap largest{0, 0};
  for (std::size_t i = 1; i < primes.size(); i++)
    if (primes[i] - primes[i - 1] > largest.size) largest = {primes[i] - primes[i - 1], primes[i - 1]};
  return largest;
}

static void find_primes(long limit) {
  tutti::options options;
  options.join_timeout_ms = 20000;
  const tutti::comm world = tutti::comm::init(options);
  const long rank = world.rank(), ranks = world.ranks();

  std::vector<long> mine;
  for (long n = limit * rank / ranks; n < limit * (rank + 1) / ranks; n++)
    if (is_prime(n)) mine.push_back(n);

  const std::size_t total = world.allreduce(mine.size(), tutti::op::sum);  // one value
  const std::vector<std::size_t> counts = world.allgather(mine.size());    // one value of each rank
  std::vector<long> primes(total);
  world.allgatherv(mine, primes, {counts});

  const gap largest = largest_gap(primes);
  if (rank == 0 && total > 0)
    std::printf("%zu primes below %ld; the last is %ld; the largest gap is %ld, after %ld\n", total, limit,
                primes.back(), largest.size, largest.after);
}

int main(int argc, char **argv) {
  const long limit = argc == 2 ? std::strtol(argv[1], nullptr, 10) : 0;
  if (limit < 1 || limit > 100000000) {
    std::fprintf(stderr, "usage: %s LIMIT, with a LIMIT of 1 to 100000000\n", argv[0]);
    return 2;
  }
  try {
    find_primes(limit);
    return 0;
  } catch (const tutti::error &e) {
    std::fprintf(stderr, "%s: %s\n", tutti_err_name(e.code()), e.what());
    return 1;
  }
}
