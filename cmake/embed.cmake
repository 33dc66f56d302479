# SPDX-License-Identifier: Apache-2.0
# cmake -DFILES="a;b" -DOUT=x.c -P embed.cmake: the files as byte arrays, behind one table. Bytes, since string
# literals have limits and `char` warns on non-ASCII.
# cmake -DFILE=a -DSYMBOL=s -DOUT=x.c -P embed.cmake: one file, as s_bytes and s_byte_count.
if(SYMBOL)
  file(READ "${FILE}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  file(WRITE "${OUT}" "/* Made by cmake/embed.cmake. */\n#include <stddef.h>\n\n"
    "extern const unsigned char ${SYMBOL}_bytes[];\nextern const size_t ${SYMBOL}_byte_count;\n"
    "const unsigned char ${SYMBOL}_bytes[] = {${bytes}};\nconst size_t ${SYMBOL}_byte_count = sizeof ${SYMBOL}_bytes;\n")
  return()
endif()
set(text "/* Made by cmake/embed.cmake. */\n#include \"runtime/program.h\"\n\n")
set(table "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  string(MAKE_C_IDENTIFIER "${name}" id)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND text "static const unsigned char ${id}[] = {${bytes}0};\n")
  string(APPEND table "    {\"${name}\", ${id}, sizeof ${id} - 1},\n")
endforeach()
string(APPEND text "\nconst cla_source cla_sources[] = {\n${table}    {0, 0, 0},\n};\n")
file(WRITE "${OUT}" "${text}")
