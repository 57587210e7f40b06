# Interface target with the language level, the warnings and the code generation options of every target of the project.
# Optimisation is -O2 in Release; only ISA files (see add_layer.cmake) get -O3 and instruction-set flags.
include_guard(GLOBAL)

find_package(Threads REQUIRED)

add_library(project_options INTERFACE)
target_compile_features(project_options INTERFACE cxx_std_20)
set_target_properties(project_options PROPERTIES INTERFACE_POSITION_INDEPENDENT_CODE ON)
target_link_libraries(project_options INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
# CMake's own default is -O3, which costs build time and gains nothing outside the ISA files.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
# For code that is not worth the time of optimising it for speed.
set(RG_SMALL "$<$<CONFIG:Release>:-Os>")

set(RG_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough)
if(RG_WERROR)
    list(APPEND RG_WARNINGS -Werror)
endif()
target_compile_options(project_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${RG_WARNINGS}>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # AVX intrinsics headers of g++ 12 initialise a vector from itself, and report it in the caller's file (GCC bug 105593).
    target_compile_options(project_options INTERFACE
        "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-uninitialized;-Wno-psabi>")
endif()

# RG_X86 decides whether ISA files are compiled; sources see it as the macro RG_X86 (0 or 1).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(RG_X86 ON)
else()
    set(RG_X86 OFF)
endif()
target_compile_definitions(project_options INTERFACE RG_X86=$<BOOL:${RG_X86}>)
