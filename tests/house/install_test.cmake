# Installs a built tree, moves the installation elsewhere, and there builds and runs the consumer.
#
# cmake -D BUILD_DIR=… -D SCRATCH=… -D CXX=… -D NINJA=… -D LAUNCHER=… [-D SHARED_FROM=source] -P …
# With SHARED_FROM, BUILD_DIR is made from that source first, with shared libraries; it is kept, so
# that only the first run of this test compiles everything.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

if(SHARED_FROM)
  run(${CMAKE_COMMAND} -S ${SHARED_FROM} -B ${BUILD_DIR} ${configure_options}
      -D CMAKE_BUILD_TYPE=Debug -D BUILD_SHARED_LIBS=ON
      -D SHOAL_TESTS=OFF -D SHOAL_TOOLS=OFF -D SHOAL_BENCH=OFF)
  run(${CMAKE_COMMAND} --build ${BUILD_DIR} --parallel 2)
endif()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${SCRATCH}/first)
file(RENAME ${SCRATCH}/first ${SCRATCH}/prefix)

# A link into the build tree would work here and nowhere else.
file(GLOB_RECURSE installed LIST_DIRECTORIES false ${SCRATCH}/prefix/include/*)
foreach(header IN LISTS installed)
  if(IS_SYMLINK ${header})
    message(FATAL_ERROR "${header} is a link")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${SCRATCH}/consumer
    ${configure_options} -D CMAKE_PREFIX_PATH=${SCRATCH}/prefix)
run(${CMAKE_COMMAND} --build ${SCRATCH}/consumer)
run(${SCRATCH}/consumer/consumer)
