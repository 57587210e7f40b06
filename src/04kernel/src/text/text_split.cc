#include "kernel/procedures/text.h"
#include "movement/ranges.h"
#include "utf8.h"

#include <algorithm>

namespace refactor::kernel {

using runtime::CallContext;
using runtime::Value;

namespace {

// Of a few words each.
constexpr double kSplitNs = 100;

/// Gives the parts to `take`, one after the other, and returns their number.
template <class Take>
int64_t split_at(std::string_view text, std::string_view delimiter, int64_t most, Take const& take) {
    int64_t count = 0;
    for (; count != most; ++count) {
        auto end = text.find(delimiter);
        if (end == std::string_view::npos) break;
        take(text.substr(0, end));
        text.remove_prefix(end + delimiter.size());
    }
    take(text);
    return count + 1;
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

template <class Take>
int64_t split_at_spaces(std::string_view text, int64_t most, Take const& take) {
    int64_t count = 0;
    text.remove_prefix(run(text, true));
    for (; !text.empty() && count != most; ++count) {
        auto length = run(text, false);
        take(text.substr(0, length));
        text.remove_prefix(length);
        text.remove_prefix(run(text, true));
    }
    if (text.empty()) return count;
    take(text);
    return count + 1;
}

class TextSplit final : public runtime::Procedure {
    TextSplitInfo info_;

public:
    explicit TextSplit(TextSplitInfo info) : info_(std::move(info)) {}
    std::string id() const override { return "split:cpu:text:string"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs, CallContext const& c) const override {
        auto const& x = inputs[0]->contents->strings;
        auto count = inputs[0]->count();
        auto each = [&](auto const& body) {
            movement::for_ranges(*c.pool, count, kSplitNs, [&](int64_t begin, int64_t end) {
                for (auto i = begin; i < end; ++i) body(static_cast<size_t>(i));
            });
        };
        auto split = [&](std::string_view text, auto const& take) {
            return info_.delimiter.empty() ? split_at_spaces(text, info_.most, take)
                                           : split_at(text, info_.delimiter, info_.most, take);
        };
        // Twice over the text costs less than keeping the parts of each element.
        std::vector<int64_t> counts(x.size());
        each([&](size_t i) { counts[i] = split(x[i], [](std::string_view) {}); });
        auto width = counts.empty() ? size_t{0} : static_cast<size_t>(*std::max_element(counts.begin(), counts.end()));
        auto dims = inputs[0]->dims;
        if (outputs.size() > 1)
            std::copy(counts.begin(), counts.end(), static_cast<int64_t*>(outputs[1].resize(DataType::I64, dims)));
        std::vector<std::string> y(x.size() * width);
        each([&](size_t i) {
            auto* to = y.data() + i * width;
            split(x[i], [&](std::string_view part) { *to++ = part; });
        });
        dims.push_back(static_cast<int64_t>(width));
        outputs[0] = Value::strings(std::move(dims), std::move(y));
    }
};

}  // namespace

ProcedurePtr make_text_split(TextSplitInfo info) { return std::make_shared<TextSplit>(std::move(info)); }

}  // namespace refactor::kernel
