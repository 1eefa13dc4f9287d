# Installation rules: libraries, headers, command, man pages, pkg-config files, CMake package.
include(CMakePackageConfigHelpers)

set_target_properties(tutti_cli PROPERTIES INSTALL_RPATH "")
install(TARGETS tutti_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS tutti tutti_static tutti_pto EXPORT tuttiTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

# The suffix of a man page is its section. Pages that are symbolic links are aliases and are installed as links.
file(GLOB pages CONFIGURE_DEPENDS docs/man/*.[1-9])
foreach(page ${pages})
  string(REGEX REPLACE "^.*\\." "" section ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

# Completion, where bash-completion and zsh look for it.
if(NOT CMAKE_CROSSCOMPILING)
  install(FILES ${CMAKE_BINARY_DIR}/completion/tutti DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${CMAKE_BINARY_DIR}/completion/_tutti DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

# tutti.pc computes the prefix from its own location, so that an installed tree can be moved.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH pc_up /prefix/${pc_dir} /prefix)
  set(pc_prefix "\${pcfiledir}/${pc_up}")
  string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# Lists hwloc's libraries instead of "Requires.private: hwloc": the private libraries of hwloc (-ludev) are not needed
# with the shared hwloc, and may not be installed.
list(JOIN HWLOC_LDFLAGS " " hwloc_flags)
configure_file(cmake/tutti.pc.in tutti.pc @ONLY)
configure_file(cmake/tutti-pto.pc.in tutti-pto.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tutti.pc ${CMAKE_BINARY_DIR}/tutti-pto.pc DESTINATION ${pc_dir})

# find_package(tutti) defines tutti::tutti, tutti::tutti_static and tutti::pto.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${package_dir})
configure_package_config_file(cmake/tuttiConfig.cmake.in tuttiConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0, minor versions may be incompatible with each other.
write_basic_package_version_file(tuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tuttiConfig.cmake ${CMAKE_BINARY_DIR}/tuttiConfigVersion.cmake
  DESTINATION ${package_dir})
