# Finds the interpreter; other modules ask it where the packages from PyPI are.
include_guard(GLOBAL)

if(RG_BUILD_PYTHON)
    find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
else()
    find_package(Python 3.10 COMPONENTS Interpreter)
endif()

# Sets `out` to what `code` prints, or to "" if Python is missing or the code fails.
function(rg_ask_python out code)
    set(answer "")
    if(Python_EXECUTABLE)
        execute_process(COMMAND "${Python_EXECUTABLE}" -c "${code}"
            OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status ERROR_QUIET)
        if(NOT status EQUAL 0)
            set(answer "")
        endif()
    endif()
    set(${out} "${answer}" PARENT_SCOPE)
endfunction()
