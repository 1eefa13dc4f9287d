/* topology.hpp: owners for tutti/topology.h in C++17. See tutti_hpp(3). */
#ifndef TUTTI_TOPOLOGY_HPP
#define TUTTI_TOPOLOGY_HPP

#include <tutti/topology.h>
#include <tutti/tutti.hpp>

namespace tutti {

/* Owner of a cluster. The destructor frees it, which cannot fail. */
class cluster : public detail::owner<tutti_cluster, tutti_cluster_free> {
 public:
  using owner::owner;
  /* Loads a preset, a generated cluster, or a file. Without `reserve`, the links that the preset reserves are not used;
   * see tutti_cluster_load. */
  static cluster load(const std::string &what, const std::optional<std::string> &reserve = std::nullopt) {
    tutti_cluster *made = nullptr;
    check(tutti_cluster_load(what.c_str(), reserve ? reserve->c_str() : nullptr, &made));
    return cluster(made);
  }
  std::uint32_t chips() const { return tutti_cluster_chips(raw_); }
};

/* Owner of the description of a kind of chip. The destructor frees it, which cannot fail. */
class soc : public detail::owner<tutti_soc, tutti_soc_free> {
 public:
  using owner::owner;
  /* Reads a description from a YAML file (tutti_soc_load). */
  static soc load(const std::string &path) {
    tutti_soc *made = nullptr;
    check(tutti_soc_load(path.c_str(), &made));
    return soc(made);
  }
  std::uint32_t channels() const { return tutti_soc_channels(raw_); }
};

}  // namespace tutti

#endif
