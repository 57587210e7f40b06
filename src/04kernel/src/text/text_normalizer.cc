#include "common/error.h"
#include "kernel/procedures/text.h"
#include "movement/ranges.h"
#include "unicode_case.h"

#include <unordered_set>

namespace refactor::kernel {

using runtime::CallContext;
using runtime::Value;

namespace {

using Case = TextNormalizerInfo::Case;

// Of about ten letters.
constexpr double kNormalizeNs = 100;

std::string changed(std::string const& source, Case to) {
    return to == Case::Lower ? text::lower(source) : to == Case::Upper ? text::upper(source) : source;
}

class TextNormalizer final : public runtime::Procedure {
    TextNormalizerInfo info_;
    std::unordered_set<std::string> stops_;

    bool is_stop(std::string const& word) const {
        if (stops_.empty()) return false;
        return stops_.contains(info_.case_sensitive ? word : text::lower(word));
    }

public:
    explicit TextNormalizer(TextNormalizerInfo info) : info_(std::move(info)) {
        for (auto const& word : info_.stop_words) stops_.insert(info_.case_sensitive ? word : text::lower(word));
    }
    std::string id() const override { return "normalize:cpu:text:string"; }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs, CallContext const& c) const override {
        auto dims = inputs[0]->dims;
        if (dims.empty() || dims.size() > 2 || (dims.size() == 2 && dims[0] != 1))
            throw InvalidInput("expected string[C] or string[1, C], got " + describe(*inputs[0]));
        auto const& x = inputs[0]->contents->strings;
        std::vector<std::string> words(x.size());
        std::vector<uint8_t> kept(x.size());
        movement::for_ranges(*c.pool, inputs[0]->count(), kNormalizeNs, [&](int64_t begin, int64_t end) {
            for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
                if ((kept[i] = !is_stop(x[i]))) words[i] = changed(x[i], info_.change);
        });
        std::vector<std::string> y;
        for (size_t i = 0; i < words.size(); ++i)
            if (kept[i]) y.push_back(std::move(words[i]));
        if (y.empty()) y.emplace_back();
        dims.back() = static_cast<int64_t>(y.size());
        outputs[0] = Value::strings(std::move(dims), std::move(y));
    }
};

}  // namespace

ProcedurePtr make_text_normalizer(TextNormalizerInfo info) { return std::make_shared<TextNormalizer>(std::move(info)); }

}  // namespace refactor::kernel
