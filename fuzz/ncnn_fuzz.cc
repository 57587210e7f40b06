// The reader of `.ncnn.param` and `.ncnn.bin`, and what it makes of them, compiled and run; see param_model.h.
#include "common/error.h"
#include "param_model.h"
#include "pnnx/model_reader.h"
#include "run_model.h"
#include "target.h"

#include <charconv>

namespace refactor::fuzz {

namespace {

constexpr size_t kMaxInput = 8192, kMadeUp = 1 << 18;

frontend::Model load(std::string_view param, std::string const& bytes) {
    return pnnx::load_ncnn(param, mem_manager::Blob::copy_of(bytes.data(), bytes.size()));
}

/// Loads with as many zeros (tagged weights of f32) as the layers read: what is too much the refusal says.
frontend::Model load_made_up(std::string_view param) {
    std::string const bytes(kMadeUp, '\0');
    try {
        return load(param, bytes);
    } catch (InvalidModel const& error) {
        constexpr std::string_view kBefore = "the bin file has ", kAfter = " bytes that no layer reads";
        std::string_view text = error.what();
        auto at = text.find(kBefore);
        if (at == text.npos || text.find(kAfter, at) == text.npos) throw;
        size_t left = 0;
        std::from_chars(text.data() + at + kBefore.size(), text.data() + text.size(), left);
        require(left <= kMadeUp, "more bytes left than there are", text);
        return load(param, bytes.substr(left));
    }
}

void run(std::string_view input) {
    if (input.size() > kMaxInput) return;
    auto [param, bin, has_bin] = split(input);
    run_model([&, text = param, data = bin,
               given = has_bin] { return given ? load(text, std::string(data)) : load_made_up(text); },
              {});
}

}  // namespace

Target ncnn_target() { return {"ncnn", run, mutate_ncnn}; }

}  // namespace refactor::fuzz
