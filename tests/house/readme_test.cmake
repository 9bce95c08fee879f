# Builds and runs README's example against an installation, so that what newcomers copy works.
#
# cmake -D BUILD_DIR=… -D README=… -D SCRATCH=… -D CXX=… -D NINJA=… -D LAUNCHER=… -P …
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(READ ${README} text)
string(FIND "${text}" "```cpp\n" start)
if(start EQUAL -1)
  message(FATAL_ERROR "README has no C++ example")
endif()
math(EXPR start "${start} + 7")
string(SUBSTRING "${text}" ${start} -1 text)
string(FIND "${text}" "```" end)
string(SUBSTRING "${text}" 0 ${end} example)

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${SCRATCH}/prefix)
file(COPY ${CMAKE_CURRENT_LIST_DIR}/consumer/CMakeLists.txt DESTINATION ${SCRATCH}/source)
file(WRITE ${SCRATCH}/source/main.cpp "${example}")
run(${CMAKE_COMMAND} -S ${SCRATCH}/source -B ${SCRATCH}/build
    ${configure_options} -D CMAKE_PREFIX_PATH=${SCRATCH}/prefix)
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
run(${SCRATCH}/build/consumer)
