#include "common/error.h"
#include "common/half.h"
#include "kernel/ops/lookup.h"
#include "kernel/procedures/lookup.h"

#include <cstring>
#include <unordered_map>

namespace refactor::kernel {

namespace {

using runtime::Value;

class KeyIndex {
    std::unordered_map<std::string, int64_t> texts_;
    std::unordered_map<uint64_t, int64_t> codes_;

public:
    explicit KeyIndex(LookupKeys const& keys) {
        for (size_t i = 0; i < keys.texts.size(); ++i) texts_.emplace(keys.texts[i], static_cast<int64_t>(i));
        for (size_t i = 0; i < keys.codes.size(); ++i) codes_.emplace(keys.codes[i], static_cast<int64_t>(i));
    }

    /// Numbers of the keys that the elements are, -1 for others.
    std::vector<int64_t> find(Value const& x) const {
        std::vector<int64_t> numbers;
        numbers.reserve(static_cast<size_t>(x.count()));
        switch (x.dtype) {
            case DataType::String:
                for (auto const& text : x.contents->strings) numbers.push_back(position(texts_, text));
                break;
            case DataType::F32:
                find_codes(x.data<float>(), x.count(), numbers);
                break;
            case DataType::F64:
                find_codes(x.data<double>(), x.count(), numbers);
                break;
            case DataType::I16:
                find_codes(x.data<int16_t>(), x.count(), numbers);
                break;
            case DataType::I32:
                find_codes(x.data<int32_t>(), x.count(), numbers);
                break;
            default:
                find_codes(x.data<int64_t>(), x.count(), numbers);
        }
        return numbers;
    }

private:
    template <class Map, class Key>
    static int64_t position(Map const& map, Key const& key) {
        auto it = map.find(key);
        return it == map.end() ? -1 : it->second;
    }
    template <class T>
    void find_codes(T const* x, int64_t count, std::vector<int64_t>& numbers) const {
        for (int64_t i = 0; i < count; ++i) numbers.push_back(position(codes_, lookup_code(x[i])));
    }
};

class TextLookup final : public runtime::Procedure {
    TextLookupInfo info_;
    KeyIndex index_;

public:
    explicit TextLookup(TextLookupInfo info) : info_(std::move(info)), index_(info_.keys) {}
    std::string id() const override { return "lookup:cpu:hash:string"; }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto const& x = *inputs[0];
        auto numbers = index_.find(x);
        if (info_.values.dtype == DataType::String) {
            auto const& texts = info_.values.contents->strings;
            auto const& other = info_.fallback.contents->strings[0];
            std::vector<std::string> elements;
            elements.reserve(numbers.size());
            for (auto i : numbers) elements.push_back(i < 0 ? other : texts[static_cast<size_t>(i)]);
            outputs[0] = Value::strings(x.dims, std::move(elements));
            return;
        }
        auto bytes = storage_bytes(info_.values.dtype, 1);
        auto* y = static_cast<std::byte*>(outputs[0].resize(info_.values.dtype, x.dims));
        auto const *values = info_.values.data<std::byte>(), *other = info_.fallback.data<std::byte>();
        for (auto i : numbers) {
            std::memcpy(y, i < 0 ? other : values + static_cast<size_t>(i) * bytes, bytes);
            y += bytes;
        }
    }
};

class OneHotCategories final : public runtime::Procedure {
    KeyIndex index_;
    int64_t count_;
    bool strict_;

public:
    explicit OneHotCategories(CategoryInfo const& info)
        : index_(info.categories),
          count_(static_cast<int64_t>(info.categories.texts.size() + info.categories.codes.size())),
          strict_(info.strict) {}
    std::string id() const override { return "one_hot:cpu:hash:string"; }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto const& x = *inputs[0];
        Value whole;
        if (x.dtype != DataType::String) {
            auto* data = whole.resize(DataType::I64, x.dims);
            convert(x.dtype, x.data<void>(), DataType::I64, data, x.count());
        }
        auto numbers = index_.find(x.dtype == DataType::String ? x : whole);
        auto dims = x.dims;
        dims.push_back(count_);
        auto* y = static_cast<float*>(outputs[0].resize(DataType::F32, dims));
        std::fill_n(y, static_cast<int64_t>(numbers.size()) * count_, 0.f);
        for (size_t i = 0; i < numbers.size(); ++i, y += count_) {
            if (numbers[i] >= 0) y[numbers[i]] = 1;
            if (numbers[i] < 0 && strict_) refuse(x, whole, i);
        }
    }

private:
    [[noreturn]] void refuse(Value const& x, Value const& whole, size_t i) const {
        auto text =
            x.dtype == DataType::String ? '"' + x.contents->strings[i] + '"' : std::to_string(whole.data<int64_t>()[i]);
        throw InvalidInput("element " + std::to_string(i) + " is " + text + ", which is none of the " +
                           std::to_string(count_) + " categories");
    }
};

}  // namespace

std::shared_ptr<runtime::Procedure const> make_text_lookup(TextLookupInfo info) {
    return std::make_shared<TextLookup>(std::move(info));
}

std::shared_ptr<runtime::Procedure const> make_one_hot_categories(CategoryInfo info) {
    return std::make_shared<OneHotCategories>(info);
}

}  // namespace refactor::kernel
