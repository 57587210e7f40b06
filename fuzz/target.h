#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

/// Fuzz targets: functions that take any bytes and must come back. A typed error of the library is an answer; what is
/// left (`InternalError`, another exception, a broken property) is a defect and ends the process.
namespace refactor::fuzz {

struct Target {
    std::string_view name;  ///< also of the folder in corpus/
    void (*run)(std::string_view input);
    /// Changes `size` bytes of text into at most `most`, knowing the format; null: bytes are mutated as they are.
    size_t (*mutate)(char* text, size_t size, size_t most, uint32_t seed) = nullptr;
};

Target dim_expr_target();
Target ncnn_target();
Target onnx_target();
Target pnnx_target();
Target pnnx_term_target();

/// Says what is wrong and ends the process, unless `condition` holds.
void require(bool condition, char const* what, std::string_view detail = {});

/// Whether `tell` prints what became of an input.
extern bool verbose;
void tell(std::string_view what);

}  // namespace refactor::fuzz
