# Precompiled headers: reading the standard library costs each source about half a second of a processor.
#
# They are a matter of the build alone: every source still includes what it uses. `make lint` reads all of them without
# (tools/lint/tidy.py), and RG_PRECOMPILE=OFF builds so.
#
# rg_precompile(target header...)    `target` reads the headers of the standard library and these from one precompiled file
# rg_reuse_precompiled(target from)  `target` takes that of `from`, which must be compiled with the same options
include_guard(GLOBAL)

option(RG_PRECOMPILE "Precompile the headers that most sources include" ON)

# What most sources of every layer include.
set(RG_PRECOMPILED_STANDARD <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory> <mutex> <optional>
    <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>)

if(RG_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Of what is inlined from a precompiled header g++ forgets that it is a system header, and shows its false alarms
    # (GCC bugs 105329, 105651).
    target_compile_options(project_options INTERFACE
        "$<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>")
endif()
if(RG_PRECOMPILE AND CMAKE_CXX_COMPILER_LAUNCHER MATCHES "(^|/)ccache$")
    # What ccache asks for before it caches sources with a precompiled header, and depend mode: where ccache compares
    # preprocessed text it misses a changed comment, hands out the old precompiled header, and g++, which knows a
    # `#pragma once` header by the sum of its bytes, includes the new one again (ccache issue 1615). The namespace keeps
    # off what other modes have stored.
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_DEPEND=1 CCACHE_NAMESPACE=refactor_graph
        CCACHE_SLOPPINESS=pch_defines,time_macros ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

function(rg_precompile target)
    if(RG_PRECOMPILE)
        target_precompile_headers(${target} PRIVATE ${RG_PRECOMPILED_STANDARD} ${ARGN})
    endif()
endfunction()

function(rg_reuse_precompiled target from)
    if(RG_PRECOMPILE)
        target_precompile_headers(${target} REUSE_FROM ${from})
    endif()
endfunction()
