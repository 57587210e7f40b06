// What Python hands to `onnx::ModelBuilder`, compiled and run; see onnx_text.h for the input.
#include "onnx_text.h"
#include "target.h"

namespace refactor::fuzz {

namespace {

constexpr size_t kMaxInput = 8192;

void run(std::string_view text) {
    if (text.size() > kMaxInput) return;
    auto input = parse_onnx(text);
    run_model([&] { return std::move(input.builder).build(); }, input.settings);
}

}  // namespace

Target onnx_target() { return {"onnx", run, mutate_onnx}; }

}  // namespace refactor::fuzz
