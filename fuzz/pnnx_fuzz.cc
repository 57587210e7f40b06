// The reader of `.pnnx.param` and `.pnnx.bin`, and what it makes of them, compiled and run; see param_model.h.
#include "07pnnx/src/param_file.h"
#include "07pnnx/src/test_archive.h"
#include "param_model.h"
#include "pnnx/model_reader.h"
#include "run_model.h"
#include "target.h"

namespace refactor::fuzz {

namespace {

constexpr size_t kMaxInput = 8192;
constexpr int64_t kMaxWeight = 1 << 16;

/// Weights for every attribute that the text announces, of the right sizes.
std::string made_up(std::string_view param) {
    frontend::Problems problems;
    std::vector<std::pair<std::string, std::string>> entries;
    int64_t total = 0;
    for (auto const& node : pnnx::parse_param(param, problems)) {
        for (auto const& [key, type] : node.attributes) {
            int64_t count = 1;
            bool fits = type.dtype != DataType::Undefined;
            for (auto const& dim : type.dims) {
                auto const* size = std::get_if<int64_t>(&dim);
                fits = fits && size && !__builtin_mul_overflow(count, *size, &count) && count <= kMaxWeight;
            }
            if (!fits || (total += count) > kMaxWeight) continue;
            std::string data(storage_bytes(type.dtype, count), '\0');
            fill(type.dtype, data.data(), count, {0.5, -1, 2, 0, -0.25});
            entries.emplace_back(node.name + "." + key, std::move(data));
        }
    }
    return pnnx::zip_of(entries);
}

void run(std::string_view input) {
    if (input.size() > kMaxInput) return;
    auto [param, bin, has_bin] = split(input);
    auto archive = has_bin ? std::string(bin) : made_up(param);
    auto make = [&, text = param] {
        return pnnx::load_pnnx(text, mem_manager::Blob::copy_of(archive.data(), archive.size()));
    };
    run_model(make, {});
}

}  // namespace

ParamInput split(std::string_view input) {
    constexpr std::string_view kMark = "\n%bin\n";
    auto at = input.find(kMark);
    if (at == input.npos) return {input, {}, false};
    return {input.substr(0, at + 1), input.substr(at + kMark.size()), true};
}

Target pnnx_target() { return {"pnnx", run, mutate_pnnx}; }

}  // namespace refactor::fuzz
