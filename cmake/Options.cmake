# What follows from src/options.json, the one description of the options: public headers, the header that walks over
# them, nibble.load of the Python package. Made while configuring, so that no target has to wait for it.
set(NIBBLE_OPTIONS_DIR "${PROJECT_BINARY_DIR}/generated/options")
set(makes_options "${PROJECT_SOURCE_DIR}/scripts/options.py" "${PROJECT_SOURCE_DIR}/src/options.json")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${makes_options})
execute_process(
  COMMAND "${Python3_EXECUTABLE}" ${makes_options} "${NIBBLE_OPTIONS_DIR}"
  COMMAND_ERROR_IS_FATAL ANY)
