# Sets everything up for fuzzing (RG_FUZZ=ON): Clang with the address and undefined-behaviour sanitizers and libFuzzer's
# coverage. Include it after project_options and add_layer.
include_guard(GLOBAL)

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "RG_FUZZ=ON needs Clang (libFuzzer), the compiler is ${CMAKE_CXX_COMPILER_ID}: "
        "configure with -DCMAKE_CXX_COMPILER=clang++")
endif()
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    message(FATAL_ERROR "RG_FUZZ=ON needs CMAKE_BUILD_TYPE=Debug, which is what checks graphs after every pass")
endif()
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
# vptr: the largest share of the time of compiling, for casts that the project hardly has.
target_compile_options(project_options INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
target_link_options(project_options INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr)
# Intrinsics take minutes to compile with every check; what they can do wrong is to leave their memory.
foreach(isa IN ITEMS AVX2 AVX512 AVX512VNNI)
    list(APPEND RG_ISA_${isa} -fno-sanitize=undefined)
endforeach()
