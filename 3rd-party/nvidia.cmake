# Locates the CUDA compiler and NVIDIA's libraries; included with RG_CUDA=ON only.
#
# The toolkit (nvcc, headers, static cudart) is found by CMake: on the PATH, by CUDACXX, or in /usr/local/cuda. The other libraries
# come from the wheels nvidia-* (requirements/cuda.txt) of the interpreter in use, else from the toolkit. The wheels have no
# unversioned .so files, which is why find_package(CUDAToolkit) misses them.
#
# Defines nvidia::cudart (static) and, where found, nvidia::cublas, nvidia::cublasLt, nvidia::nvrtc, nvidia::nccl, and nvidia::cudnn,
# which building does not need;
# rg_require_nvidia(name...) stops with the missing ones; add_cuda_plugin builds a module that the core loads at run time.
include_guard(GLOBAL)

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin REQUIRED)
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # Ampere, Ada and Hopper binaries; newer cards compile the last one's PTX.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90 CACHE STRING "CUDA architectures")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # CMake before 3.26 does not know that nvcc has it.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)

# nvcc itself may be a wrapper elsewhere, so its folder says nothing; CMake asks it for the toolkit's folders.
list(GET CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES 0 rg_toolkit_include)
set(rg_toolkit "${CMAKE_CUDA_COMPILER_TOOLKIT_ROOT}")
rg_ask_python(RG_NVIDIA_WHEELS "import nvidia; print(';'.join(nvidia.__path__))")
message(STATUS "CUDA toolkit: ${rg_toolkit}; NVIDIA wheels: ${RG_NVIDIA_WHEELS}")

# Where a wheel with the plugin finds the libraries of other wheels, relative to the plugin in site-packages/refactor_graph.
set(RG_CUDA_RPATH "$ORIGIN;$ORIGIN/../nvidia/cu13/lib;$ORIGIN/../nvidia/cudnn/lib;$ORIGIN/../nvidia/nccl/lib")

# rg_find_nvidia(name soname-pattern header folder...): defines nvidia::<name>, or records why it cannot.
function(rg_find_nvidia name pattern header)
    set(roots)
    foreach(wheels IN LISTS RG_NVIDIA_WHEELS)
        foreach(folder IN LISTS ARGN)
            list(APPEND roots "${wheels}/${folder}")
        endforeach()
    endforeach()
    list(APPEND roots "${rg_toolkit}")
    foreach(root IN LISTS roots)
        file(GLOB candidates "${root}/lib/${pattern}" "${root}/lib64/${pattern}")
        if(candidates AND EXISTS "${root}/include/${header}")
            list(SORT candidates COMPARE NATURAL)
            list(GET candidates 0 library)
            add_library(nvidia::${name} SHARED IMPORTED GLOBAL)
            # The toolkit's headers come first: the runtime wheel lacks crt/.
            set_target_properties(nvidia::${name} PROPERTIES
                IMPORTED_LOCATION "${library}"
                INTERFACE_INCLUDE_DIRECTORIES "${rg_toolkit_include};${root}/include")
            message(STATUS "nvidia::${name}: ${library}")
            return()
        endif()
    endforeach()
    message(STATUS "nvidia::${name}: not found (${pattern} and ${header})")
endfunction()

rg_find_nvidia(cublas "libcublas.so.[0-9]*" cublas_v2.h cu13)
rg_find_nvidia(cublasLt "libcublasLt.so.[0-9]*" cublasLt.h cu13)
rg_find_nvidia(nvrtc "libnvrtc.so.[0-9]*" nvrtc.h cu13)
rg_find_nvidia(cudnn "libcudnn.so.[0-9]*" cudnn.h cudnn)
rg_find_nvidia(nccl "libnccl.so.[0-9]*" nccl.h nccl)

add_library(rg_cudart INTERFACE)
add_library(nvidia::cudart ALIAS rg_cudart)
target_include_directories(rg_cudart SYSTEM INTERFACE "${rg_toolkit_include}")
find_library(RG_CUDART cudart_static REQUIRED
    HINTS ${CMAKE_CUDA_HOST_IMPLICIT_LINK_DIRECTORIES} "${rg_toolkit}/lib64" "${rg_toolkit}/lib")
target_link_libraries(rg_cudart INTERFACE "${RG_CUDART}" Threads::Threads ${CMAKE_DL_LIBS} rt)

function(rg_require_nvidia)
    foreach(name IN LISTS ARGN)
        if(NOT TARGET nvidia::${name})
            message(FATAL_ERROR "RG_CUDA=ON needs nvidia::${name}, which was neither found as a wheel of ${Python_EXECUTABLE} nor in "
                "${rg_toolkit}: run `python -m pip install -r requirements/cuda.txt`")
        endif()
    endforeach()
endfunction()

# add_cuda_plugin(name SOURCES file... [LIBRARIES cudart cublasLt ...]): a module beside the Python files, built with the project's
# options but linked with none of its layers, so that it can be loaded, and can say what is missing, on a machine without a GPU.
function(add_cuda_plugin name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;INCLUDES" ${ARGN})
    rg_check_sorted("SOURCES of plugin ${name}" ${ARG_SOURCES})
    rg_require_nvidia(${ARG_LIBRARIES})
    add_library(${name} MODULE ${ARG_SOURCES})
    target_include_directories(${name} PRIVATE ${ARG_INCLUDES})
    target_link_libraries(${name} PRIVATE project_options)
    # Nothing may be left for the core to define, and the static runtime stays inside: another CUDA library may be loaded too.
    target_link_options(${name} PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL)
    foreach(library IN LISTS ARG_LIBRARIES)
        target_link_libraries(${name} PRIVATE nvidia::${library})
    endforeach()
    set_target_properties(${name} PROPERTIES
        CUDA_RUNTIME_LIBRARY Static
        LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/refactor_graph"
        INSTALL_RPATH "${RG_CUDA_RPATH}")
    install(TARGETS ${name} LIBRARY DESTINATION refactor_graph)
endfunction()
