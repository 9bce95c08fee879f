# As a subproject Shoal is a library and nothing else: no program, no test, nothing to install.
#
# cmake -D SOURCE_DIR=… -D SCRATCH=… -D CXX=… -D NINJA=… -D LAUNCHER=… -P …
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/subproject -B ${SCRATCH}/build
    ${configure_options} -D SHOAL_SOURCE_DIR=${SOURCE_DIR})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build --target consumer)

run(${CMAKE_COMMAND} --install ${SCRATCH}/build --prefix ${SCRATCH}/prefix)
file(GLOB_RECURSE installed ${SCRATCH}/prefix/*)
if(installed)
  message(FATAL_ERROR "As a subproject Shoal should install nothing, but installs ${installed}")
endif()
