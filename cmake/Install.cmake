# What `cmake --install` and the wheel put where. The wheel has the same tree, below the Python package, but for the
# command, which goes where the environment keeps its commands.
include(CMakePackageConfigHelpers)

set(lib_dir "${CMAKE_INSTALL_LIBDIR}")
set(include_dir "${CMAKE_INSTALL_INCLUDEDIR}")
set(bin_dir "${CMAKE_INSTALL_BINDIR}")
if(SKBUILD)
  set(lib_dir lib)
  set(include_dir include)
  set(bin_dir "${SKBUILD_SCRIPTS_DIR}")
endif()
set(config_dir "${lib_dir}/cmake/nibble")

if(TARGET nibble)
  set_target_properties(nibble PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS nibble EXPORT nibble LIBRARY DESTINATION "${lib_dir}")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/nibble" DESTINATION "${include_dir}")
  install(DIRECTORY "${NIBBLE_OPTIONS_DIR}/nibble" DESTINATION "${include_dir}")
  install(EXPORT nibble NAMESPACE nibble:: FILE nibble-targets.cmake DESTINATION "${config_dir}")
  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/nibble-config.cmake.in" "${PROJECT_BINARY_DIR}/nibble-config.cmake"
    INSTALL_DESTINATION "${config_dir}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/nibble-config-version.cmake" COMPATIBILITY SameMinorVersion)
  install(
    FILES "${PROJECT_BINARY_DIR}/nibble-config.cmake" "${PROJECT_BINARY_DIR}/nibble-config-version.cmake"
    DESTINATION "${config_dir}")
endif()

if(TARGET nibble_executorch)
  # In site-packages, libexecutorch.so lies in the executorch wheel: nibble/lib and executorch/lib are neighbours.
  set_target_properties(nibble_executorch PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/../../executorch/lib")
  install(TARGETS nibble_executorch LIBRARY DESTINATION "${lib_dir}")
endif()

if(TARGET nibble_cli AND SKBUILD)
  install(TARGETS nibble_cli LIBRARY DESTINATION "${lib_dir}")
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/python/command.py" DESTINATION "${bin_dir}" RENAME nibble)
elseif(TARGET nibble_cli)
  file(RELATIVE_PATH to_lib "/${bin_dir}" "/${lib_dir}")
  set_target_properties(nibble_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${to_lib}")
  install(TARGETS nibble_cli RUNTIME DESTINATION "${bin_dir}")
endif()

if(SKBUILD)
  install(FILES "${NIBBLE_OPTIONS_DIR}/_load.py" DESTINATION .)
endif()
