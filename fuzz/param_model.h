#pragma once
#include "frontend/model.h"
#include "mem_manager/blob.h"

#include <memory>
#include <string>
#include <string_view>

namespace refactor::fuzz {

/// Inputs of the PNNX and ncnn targets: the text of a `.param` file, and behind a line `%bin` the bytes of the `.bin`
/// file; without the line weights are made up.
struct ParamInput {
    std::string_view param, bin;
    bool has_bin = false;
};
ParamInput split(std::string_view input);

/// Changes one word, line or number of the text, by the words of the operators that there are.
size_t mutate_pnnx(char* text, size_t size, size_t most, uint32_t seed);
size_t mutate_ncnn(char* text, size_t size, size_t most, uint32_t seed);

}  // namespace refactor::fuzz
