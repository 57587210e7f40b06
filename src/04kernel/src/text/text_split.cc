#include "kernel/procedures/text.h"
#include "movement/ranges.h"
#include "utf8.h"

#include <algorithm>

namespace refactor::kernel {

using runtime::CallContext;
using runtime::Value;

namespace {

using Parts = std::vector<std::string_view>;

// Of a few words each.
constexpr double kSplitNs = 100;

Parts split_at(std::string_view text, std::string_view delimiter, int64_t most) {
    Parts parts;
    while (static_cast<int64_t>(parts.size()) != most) {
        auto end = text.find(delimiter);
        if (end == std::string_view::npos) break;
        parts.push_back(text.substr(0, end));
        text.remove_prefix(end + delimiter.size());
    }
    parts.push_back(text);
    return parts;
}

/// Bytes at the front that are (are not) white space.
size_t run(std::string_view text, bool space) {
    size_t at = 0;
    while (at < text.size()) {
        auto [code, length] = text::decode(text, at);
        if (text::is_space(code) != space) break;
        at += length;
    }
    return at;
}

Parts split_at_spaces(std::string_view text, int64_t most) {
    Parts parts;
    text.remove_prefix(run(text, true));
    while (!text.empty() && static_cast<int64_t>(parts.size()) != most) {
        auto length = run(text, false);
        parts.push_back(text.substr(0, length));
        text.remove_prefix(length);
        text.remove_prefix(run(text, true));
    }
    if (!text.empty()) parts.push_back(text);
    return parts;
}

class TextSplit final : public runtime::Procedure {
    TextSplitInfo info_;

public:
    explicit TextSplit(TextSplitInfo info) : info_(std::move(info)) {}
    std::string id() const override { return "split:cpu:text:string"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs, CallContext const& c) const override {
        auto const& x = inputs[0]->contents->strings;
        auto count = inputs[0]->count();
        std::vector<Parts> all(x.size());
        auto each = [&](auto const& body) {
            movement::for_ranges(*c.pool, count, kSplitNs, [&](int64_t begin, int64_t end) {
                for (auto i = begin; i < end; ++i) body(static_cast<size_t>(i));
            });
        };
        each([&](size_t i) {
            all[i] = info_.delimiter.empty() ? split_at_spaces(x[i], info_.most)
                                             : split_at(x[i], info_.delimiter, info_.most);
        });
        size_t width = 0;
        for (auto const& parts : all) width = std::max(width, parts.size());
        auto dims = inputs[0]->dims;
        auto* numbers = outputs.size() > 1 ? static_cast<int64_t*>(outputs[1].resize(DataType::I64, dims)) : nullptr;
        std::vector<std::string> y(x.size() * width);
        each([&](size_t i) {
            for (size_t k = 0; k < all[i].size(); ++k) y[i * width + k] = all[i][k];
            if (numbers) numbers[i] = static_cast<int64_t>(all[i].size());
        });
        dims.push_back(static_cast<int64_t>(width));
        outputs[0] = Value::strings(std::move(dims), std::move(y));
    }
};

}  // namespace

ProcedurePtr make_text_split(TextSplitInfo info) { return std::make_shared<TextSplit>(std::move(info)); }

}  // namespace refactor::kernel
