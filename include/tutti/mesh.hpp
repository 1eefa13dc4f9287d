/* mesh.hpp: owner for tutti/mesh.h in C++17. See tutti_hpp(3).
 *
 *   tutti::mesh mesh(world, {2, 4});
 *   mesh.line(1).allreduce(x, tutti::op::sum);  // among the four ranks of this rank's line along axis 1
 */
#ifndef TUTTI_MESH_HPP
#define TUTTI_MESH_HPP

#include <tutti/mesh.h>
#include <initializer_list>
#include <tutti/tutti.hpp>

namespace tutti {

/* Owner of a mesh, or empty.
 *
 * The destructor is collective: it waits until all ranks free the mesh (tutti_mesh_free). If it runs because of an
 * exception, the other ranks may not come. Then it fails the mesh, so that no rank waits. It reports no error. */
class mesh : public detail::owner<tutti_mesh, tutti_mesh_free> {
 public:
  using owner::owner;
  /* Collective: makes a mesh of the ranks of a communicator, which may end before the mesh. */
  mesh(comm_view of, span<const std::uint32_t> extents) {
    check(tutti_mesh_create(of.get(), static_cast<std::uint32_t>(extents.size()), extents.data(), &raw_));
  }
  mesh(comm_view of, std::initializer_list<std::uint32_t> extents)
      : mesh(of, span<const std::uint32_t>(extents.begin(), extents.size())) {}
  mesh(mesh &&) noexcept = default;
  mesh &operator=(mesh &&) noexcept = default;
  ~mesh() {
    if (raw_ && unwinding_) fail();
  }

  /* Frees the mesh as the destructor does, but throws an error. The object is empty afterwards. */
  void free() { check(tutti_mesh_free(release())); }

  std::uint32_t axes() const { return tutti_mesh_axes(raw_); }
  /* Returns the number of ranks along an axis; 0 if there is no such axis. */
  std::uint32_t extent(number axis) const { return tutti_mesh_extent(raw_, axis); }
  /* Returns the communicator of this rank's line along an axis, which the mesh owns; empty if there is no such axis. */
  comm_view line(number axis) const { return comm_view(tutti_mesh_line(raw_, axis)); }

 private:
  /* Fails all communicators of the mesh. The lines are aborted with a reason. The planes have no handle in the API;
   * they fail because the library refuses a call on the mesh. */
  void fail() noexcept {
    for (std::uint32_t axis = 0; axis < axes(); axis++)
      tutti_abort(tutti_mesh_line(raw_, axis), "an exception has ended a tutti::mesh");
    tutti_mesh_tensor none{};
    none.mesh = raw_;
    const tutti_err refused = tutti_reshard(&none, &none);
    static_cast<void>(refused);
  }

  detail::unwinding unwinding_;
};

}  // namespace tutti

#endif
