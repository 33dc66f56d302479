# SPDX-License-Identifier: Apache-2.0
# What the Python package (python/pyproject.toml) takes from this build: the shared library, and the declarations of the
# public headers as its foreign function interface reads them, so that they are written down once.
set(declarations "${PROJECT_BINARY_DIR}/generated/declarations.h")
set(no_headers "${PROJECT_BINARY_DIR}/generated/no_headers")
foreach(name IN ITEMS stdbool.h stddef.h stdint.h)
  file(WRITE "${no_headers}/${name}" "")
endforeach()
file(GLOB public_headers CONFIGURE_DEPENDS include/clattn/*.h)
add_custom_command(OUTPUT "${declarations}"
  COMMAND "${CMAKE_C_COMPILER}" -E -P -nostdinc "-I${no_headers}" "-I${PROJECT_SOURCE_DIR}/include" "-D__attribute__(x)="
    -Dinline= "${PROJECT_SOURCE_DIR}/include/clattn/clattn.h" -o "${declarations}"
  DEPENDS ${public_headers} cmake/python.cmake
  VERBATIM)
add_custom_target(clattn_python ALL DEPENDS "${declarations}")
add_dependencies(clattn_python clattn)
install(FILES "${declarations}" DESTINATION clattn COMPONENT python)
install(FILES $<TARGET_FILE:clattn> DESTINATION clattn RENAME libclattn.so COMPONENT python)
