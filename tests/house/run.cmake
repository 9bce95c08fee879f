# run(command…): a command of a test script; its output is shown only if it fails.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${code}:\n${output}")
  endif()
endfunction()

# What a second build needs to be like the one under test.
set(configure_options -G Ninja -D CMAKE_MAKE_PROGRAM=${NINJA} -D CMAKE_CXX_COMPILER=${CXX}
                      -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
