# Compiles and links everything with -fsanitize=${RG_SANITIZE}; the first report ends the process. Include it after project_options
# and add_layer.
include_guard(GLOBAL)

if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    message(FATAL_ERROR "RG_SANITIZE needs CMAKE_BUILD_TYPE=Debug, which is what checks graphs after every pass")
endif()
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
# vptr: the largest share of the time of compiling, for casts that the project hardly has.
target_compile_options(project_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${RG_SANITIZE};-fno-sanitize=vptr;\
-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
# The linker's driver knows no fuzzer-no-link: who makes an executable adds libFuzzer itself.
string(REPLACE "fuzzer-no-link," "" linked "${RG_SANITIZE}")
target_link_options(project_options INTERFACE "-fsanitize=${linked}" -fno-sanitize=vptr)
# Intrinsics take minutes to compile with every check; what they can do wrong is to leave their memory.
foreach(isa IN ITEMS AVX2 AVX512 AVX512VNNI)
    list(APPEND RG_ISA_${isa} -fno-sanitize=undefined)
endforeach()
