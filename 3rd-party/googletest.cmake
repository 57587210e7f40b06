# Defines refactor::gtest (GoogleTest with its main). Looked for in this order:
#   1. RG_GTEST_SOURCE, a folder with include/gtest and src/gtest-all.cc;
#   2. an installed GoogleTest (find_package);
#   3. the sources that the PyPI package ros-gtest-vendor puts into <prefix>/src/gtest_vendor.
include_guard(GLOBAL)

set(RG_GTEST_SOURCE "" CACHE PATH "Folder of the GoogleTest sources (with include/ and src/)")
set(rg_gtest_source "${RG_GTEST_SOURCE}")
add_library(rg_gtest INTERFACE)
add_library(refactor::gtest ALIAS rg_gtest)

if(NOT rg_gtest_source)
    find_package(GTest QUIET)
    if(NOT TARGET GTest::gtest_main)
        rg_ask_python(rg_python_prefix "import sys; print(sys.prefix)")
        set(rg_gtest_source "${rg_python_prefix}/src/gtest_vendor")
    endif()
endif()

if(rg_gtest_source)
    if(NOT EXISTS "${rg_gtest_source}/src/gtest-all.cc")
        message(FATAL_ERROR "GoogleTest was not found (looked for ${rg_gtest_source}/src/gtest-all.cc): run "
            "`python -m pip install ros-gtest-vendor`, set RG_GTEST_SOURCE, or configure with -DRG_BUILD_TESTS=OFF")
    endif()
    add_library(rg_gtest_main STATIC "${rg_gtest_source}/src/gtest-all.cc" "${rg_gtest_source}/src/gtest_main.cc")
    target_include_directories(rg_gtest_main SYSTEM PUBLIC "${rg_gtest_source}/include" PRIVATE "${rg_gtest_source}")
    target_compile_options(rg_gtest_main PRIVATE -w)
    target_link_libraries(rg_gtest_main PUBLIC Threads::Threads)
    target_link_libraries(rg_gtest INTERFACE rg_gtest_main)
    message(STATUS "GoogleTest: sources in ${rg_gtest_source}")
else()
    target_link_libraries(rg_gtest INTERFACE GTest::gtest_main)
    message(STATUS "GoogleTest: installed ${GTest_VERSION}")
endif()
