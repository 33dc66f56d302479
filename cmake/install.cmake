# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` and `cpack -G DEB` put where: headers, both libraries, files for find_package and pkg-config,
# the command line with its manual and completion.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(clattn PROPERTIES EXPORT_NAME clattn)
set_target_properties(clattn_static PROPERTIES EXPORT_NAME static)
set(clattn_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/clattn")
install(TARGETS clattn EXPORT clattnTargets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS clattn_static EXPORT clattnStaticTargets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT clattnTargets NAMESPACE clattn:: DESTINATION "${clattn_cmake_dir}")
install(EXPORT clattnStaticTargets NAMESPACE clattn:: DESTINATION "${clattn_cmake_dir}")
install(DIRECTORY include/clattn DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

configure_package_config_file(cmake/clattnConfig.cmake.in clattnConfig.cmake INSTALL_DESTINATION "${clattn_cmake_dir}")
write_basic_package_version_file(clattnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/clattnConfig.cmake" "${PROJECT_BINARY_DIR}/clattnConfigVersion.cmake"
  DESTINATION "${clattn_cmake_dir}")

# The prefix may be another one at installation: the .pc file is written then.
foreach(kind IN ITEMS LIB INCLUDE)
  string(TOLOWER "clattn_pc_${kind}dir" name)
  set(${name} "${CMAKE_INSTALL_${kind}DIR}")
  if(NOT IS_ABSOLUTE "${${name}}")
    set(${name} "\${prefix}/${${name}}")
  endif()
endforeach()
set(clattn_pc_private "${OPENCL_LIBRARY} ${CLBLAST_LIBRARY} ${OPENBLAS_LIBRARY} ${OpenMP_C_FLAGS} -lm")
set(clattn_pc "${CMAKE_INSTALL_LIBDIR}/pkgconfig/clattn.pc")
install(CODE "
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  set(clattn_pc_libdir [[${clattn_pc_libdir}]])
  set(clattn_pc_includedir [[${clattn_pc_includedir}]])
  set(clattn_pc_private \"${clattn_pc_private}\")
  get_filename_component(CMAKE_INSTALL_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  get_filename_component(file \"${clattn_pc}\" ABSOLUTE BASE_DIR \"\${CMAKE_INSTALL_PREFIX}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/cmake/clattn.pc.in\" \"\$ENV{DESTDIR}\${file}\" @ONLY)
  message(STATUS \"Installing: \$ENV{DESTDIR}\${file}\")
")

if(TARGET clattn_cli)
  install(TARGETS clattn_cli)
  # The manual is what --help says.
  set(clattn_manual "${PROJECT_BINARY_DIR}/generated/clattn.1")
  add_custom_command(OUTPUT "${clattn_manual}"
    COMMAND sh "${PROJECT_SOURCE_DIR}/cmake/manual.sh" $<TARGET_FILE:clattn_cli> > "${clattn_manual}"
    DEPENDS clattn_cli cmake/manual.sh
    VERBATIM)
  add_custom_target(clattn_manual ALL DEPENDS "${clattn_manual}")
  install(FILES "${clattn_manual}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
  install(FILES cmake/completion.bash DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME clattn)
endif()
install(FILES README.md CHANGELOG.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" PATTERN api EXCLUDE) # which README.md links to

set(CPACK_PACKAGE_VENDOR "clattn")
set(CPACK_PACKAGE_CONTACT "clattn maintainers <clattn@users.noreply.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Transformer attention on any OpenCL device, and on CPUs")
set(CPACK_PACKAGE_DESCRIPTION
  "Scaled dot-product attention and the Transformer's modules, forward and backward, as a C library and a command line.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenblas0-openmp") # libopenblas0, which is found by itself, may be another build
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "pocl-opencl-icd | opencl-icd")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "gnuplot-nox")
if(top) # packages are of the whole project
  include(CPack)
endif()
