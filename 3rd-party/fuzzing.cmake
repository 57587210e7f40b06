# Sets everything up for fuzzing (RG_FUZZ=ON): Clang with the address and undefined-behaviour sanitizers and libFuzzer's
# coverage. Include it before sanitizers.
include_guard(GLOBAL)

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "RG_FUZZ=ON needs Clang (libFuzzer), the compiler is ${CMAKE_CXX_COMPILER_ID}: "
        "configure with -DCMAKE_CXX_COMPILER=clang++")
endif()
set(RG_SANITIZE "fuzzer-no-link,address,undefined")
