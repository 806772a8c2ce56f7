# A room is a folder of src/ with a library of its own. It sees only the rooms it names: each room compiles against an
# include folder that holds links to just those, so a forbidden include does not compile.

# nibble_room(<name> SEES <rooms...> SOURCES <files...> [LIBRARIES <targets...>] [INCLUDES <dirs...>])
function(nibble_room name)
  cmake_parse_arguments(ARG "" "" "SEES;SOURCES;LIBRARIES;INCLUDES" ${ARGN})
  add_library(nibble_${name} STATIC ${ARG_SOURCES})
  nibble_view(nibble_${name} ${name} ${ARG_SEES})
  target_include_directories(nibble_${name} SYSTEM PRIVATE ${ARG_INCLUDES})
  target_link_libraries(nibble_${name} PRIVATE nibble_fmt ${ARG_LIBRARIES})
  nibble_warnings(nibble_${name})
  nibble_together(nibble_${name})
endfunction()

# Compiles the files of each folder as one, and folders of one to three files together, because most of a file's time goes
# to headers. So names in the anonymous namespaces of what is compiled together differ. A build with NIBBLE_UNITY off, as
# the preset `debug`, shows what a file forgot to include.
function(nibble_together target)
  if(NOT NIBBLE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(folders "")
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    list(APPEND folders "${folder}")
  endforeach()
  foreach(source folder IN ZIP_LISTS sources folders)
    set(count 0)
    foreach(other IN LISTS folders)
      if(other STREQUAL folder)
        math(EXPR count "${count} + 1")
      endif()
    endforeach()
    get_filename_component(group "${folder}" NAME)
    if(count LESS 4)
      set(group few)
    endif()
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Lets a target include the named rooms, and no others. The public API is built on the rooms: who does not see `api`
# gets only those public headers that hold plain types.
function(nibble_view target)
  set(view "${CMAKE_BINARY_DIR}/rooms/${target}")
  # A link of an earlier configuration would let it see more.
  file(REMOVE_RECURSE "${view}")
  file(MAKE_DIRECTORY "${view}")
  foreach(room IN LISTS ARGN)
    file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/${room}" "${view}/${room}" SYMBOLIC)
  endforeach()
  if("api" IN_LIST ARGN)
    file(CREATE_LINK "${PROJECT_SOURCE_DIR}/include/nibble" "${view}/nibble" SYMBOLIC)
  else()
    file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/nibble/*.hpp")
    list(FILTER headers EXCLUDE REGEX "/(nibble|generate)\\.hpp$")
    file(MAKE_DIRECTORY "${view}/nibble")
    foreach(header IN LISTS headers)
      get_filename_component(name "${header}" NAME)
      file(CREATE_LINK "${header}" "${view}/nibble/${name}" SYMBOLIC)
    endforeach()
  endif()
  target_include_directories(${target} PRIVATE "${view}" "${NIBBLE_OPTIONS_DIR}")
endfunction()

function(nibble_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wunused)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 sees these in its own std::variant and std::string code when sanitizers are on.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow)
  endif()
endfunction()

# Embeds a room's WGSL files: their kernels and modules become nibble::wgsl::<name> in "wgsl.hpp".
function(nibble_embed_wgsl target)
  set(out "${CMAKE_BINARY_DIR}/generated/${target}/wgsl.hpp")
  set(script "${PROJECT_SOURCE_DIR}/scripts/embed_wgsl.py")
  add_custom_command(
    OUTPUT "${out}"
    COMMAND "${Python3_EXECUTABLE}" "${script}" "${out}" ${ARGN}
    COMMAND "${CMAKE_COMMAND}" -E touch "${out}"
    DEPENDS ${ARGN} "${script}"
    VERBATIM)
  target_sources(${target} PRIVATE "${out}")
  target_include_directories(${target} PRIVATE "${CMAKE_BINARY_DIR}/generated/${target}")
endfunction()

# C++ for a FlatBuffers schema: nibble_flatc(<target> <schema>...)
function(nibble_flatc target)
  find_program(NIBBLE_FLATC flatc REQUIRED)
  set(dir "${CMAKE_BINARY_DIR}/generated")
  foreach(schema IN LISTS ARGN)
    get_filename_component(stem "${schema}" NAME_WE)
    set(out "${dir}/${stem}_generated.h")
    get_filename_component(folder "${schema}" DIRECTORY)
    add_custom_command(
      OUTPUT "${out}"
      COMMAND "${NIBBLE_FLATC}" --cpp --scoped-enums -I "${folder}" -o "${dir}" "${schema}"
      DEPENDS "${schema}" VERBATIM)
    target_sources(${target} PRIVATE "${out}")
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE "${dir}")
endfunction()
