# Finds what Nibble takes from Python wheels: webgpu.h from wgpu; schemas, headers and libexecutorch.so from executorch.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(nibble_find_wheel package result)
  if(DEFINED CACHE{${result}})
    return()
  endif()
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
      "import importlib.util as u; s = u.find_spec('${package}'); print(list(s.submodule_search_locations)[0] if s else '')"
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed OR NOT path)
    message(FATAL_ERROR
      "The Python package '${package}' is not installed for ${Python3_EXECUTABLE}. "
      "Run ./test or ./run, which set up .venv, or: pip install --no-deps --require-hashes -r constraints.txt")
  endif()
  set(${result} "${path}" CACHE PATH "Where the wheel '${package}' lies")
endfunction()

nibble_find_wheel(wgpu NIBBLE_WGPU_WHEEL)
nibble_find_wheel(executorch NIBBLE_EXECUTORCH_WHEEL)
