#include "kernel/procedures/maps.h"

#include "common/error.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>

namespace refactor::kernel {

namespace {

using runtime::Value;
using runtime::ValueKind;

Value const& keys_of(Value const& map) { return map.contents->elements[0]; }
Value const& values_of(Value const& map) { return map.contents->elements[1]; }

/// The number at the beginning of a text, after blanks, as `strtof` and `strtoll` read it.
template <class T>
T parse(std::string const& text) {
    char* end = nullptr;
    T value;
    if constexpr (std::is_same_v<T, float>)
        value = std::strtof(text.c_str(), &end);
    else
        value = std::strtoll(text.c_str(), &end, 10);
    if (end == text.c_str()) throw InvalidInput("a value of the map is \"" + text + "\", expected a number");
    return value;
}

class CastMap final : public runtime::Procedure {
    CastMapInfo info_;

    template <class T>
    static T element(Value const& values, size_t i) {
        if (values.dtype == DataType::String) {
            auto const& text = values.contents->strings[i];
            if constexpr (std::is_same_v<T, std::string>)
                return text;
            else
                return parse<T>(text);
        } else {
            auto value = values.data<float>()[i];
            if constexpr (std::is_same_v<T, std::string>)
                return std::to_string(value);
            else if constexpr (std::is_same_v<T, float>)
                return value;
            else
                return std::abs(value) < 0x1p63f ? static_cast<int64_t>(value) : INT64_MIN;
        }
    }

    /// For each place of the result the number of the value that goes there, -1 for none.
    std::vector<int64_t> places(Value const& map) const {
        auto const* keys = keys_of(map).data<int64_t>();
        auto count = keys_of(map).count();
        std::vector<int64_t> order(static_cast<size_t>(info_.size < 0 ? count : info_.size), -1);
        if (info_.size < 0) {
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return keys[a] < keys[b]; });
            return order;
        }
        for (int64_t i = 0; i < count; ++i) {
            if (keys[i] < 0)
                throw InvalidInput("a key of the map is " + std::to_string(keys[i]) + ", expected at least 0");
            if (keys[i] < info_.size) order[static_cast<size_t>(keys[i])] = i;
        }
        return order;
    }

    template <class T>
    static void fill(T* y, Value const& values, std::vector<int64_t> const& from, T const& missing) {
        for (auto i : from) *y++ = i < 0 ? missing : element<T>(values, static_cast<size_t>(i));
    }

public:
    explicit CastMap(CastMapInfo info) : info_(info) {}
    std::string id() const override { return "cast_map:cpu:reference:" + std::string(name_of(info_.to)); }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto from = places(*inputs[0]);
        auto const& values = values_of(*inputs[0]);
        Dims dims{1, static_cast<int64_t>(from.size())};
        if (info_.to == DataType::String) {
            std::vector<std::string> texts(from.size());
            fill<std::string>(texts.data(), values, from, "0.f");
            outputs[0] = Value::strings(dims, std::move(texts));
        } else if (info_.to == DataType::F32) {
            fill<float>(static_cast<float*>(outputs[0].resize(info_.to, dims)), values, from, 0);
        } else {
            fill<int64_t>(static_cast<int64_t*>(outputs[0].resize(info_.to, dims)), values, from, 0);
        }
    }
};

class DictVectorizer final : public runtime::Procedure {
    VocabularyInfo info_;

    /// For each word the number of the map's value, -1 for none.
    std::vector<int64_t> places(Value const& map) const {
        auto const& keys = keys_of(map);
        return info_.texts.empty() ? find(info_.numbers, keys.data<int64_t>(), keys.count())
                                   : find(info_.texts, keys.contents->strings.data(), keys.count());
    }

    template <class T>
    static std::vector<int64_t> find(std::vector<T> const& words, T const* keys, int64_t count) {
        std::vector<int64_t> order(static_cast<size_t>(count)), places;
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](auto a, auto b) { return keys[a] < keys[b]; });
        for (auto const& word : words) {
            auto it =
                std::lower_bound(order.begin(), order.end(), word, [&](auto i, T const& w) { return keys[i] < w; });
            places.push_back(it != order.end() && keys[*it] == word ? *it : -1);
        }
        return places;
    }

public:
    explicit DictVectorizer(VocabularyInfo info) : info_(std::move(info)) {}
    std::string id() const override { return "dict_vectorizer:cpu:reference:any"; }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto from = places(*inputs[0]);
        auto const& values = values_of(*inputs[0]);
        Dims dims{1, static_cast<int64_t>(from.size())};
        if (values.dtype == DataType::String) {
            std::vector<std::string> texts;
            for (auto i : from)
                texts.push_back(i < 0 ? std::string() : values.contents->strings[static_cast<size_t>(i)]);
            outputs[0] = Value::strings(dims, std::move(texts));
            return;
        }
        auto bytes = storage_bytes(values.dtype, 1);
        auto* y = static_cast<std::byte*>(outputs[0].resize(values.dtype, dims));
        std::memset(y, 0, bytes * from.size());
        for (auto i : from) {
            if (i >= 0) std::memcpy(y, values.data<std::byte>() + static_cast<size_t>(i) * bytes, bytes);
            y += bytes;
        }
    }
};

/// What a value of this kind holds, to be changed; null if it is another, or if somebody else refers to it, too.
std::vector<Value>* own_elements(Value& value, ValueKind kind) {
    if (value.kind != kind || value.contents.use_count() != 1) return nullptr;
    // Made by `Value` as what may change.
    return &const_cast<runtime::Contents&>(*value.contents).elements;
}

class ZipMap final : public runtime::Procedure {
    Value keys_;

    /// Values of a map of the output; one that an earlier run made is used again if nobody else has it.
    float* values_of(Value& map) const {
        auto* parts = own_elements(map, ValueKind::Map);
        bool same = parts && (*parts)[0].blob == keys_.blob && (*parts)[0].contents == keys_.contents;
        if (!same) map = Value::map(keys_, {}), parts = own_elements(map, ValueKind::Map);
        return static_cast<float*>((*parts)[1].resize(DataType::F32, keys_.dims));
    }

public:
    explicit ZipMap(Value keys) : keys_(std::move(keys)) {}
    std::string id() const override { return "zip_map:cpu:reference:f32"; }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto const& x = *inputs[0];
        auto columns = x.dims.back();
        if (columns != keys_.count())
            throw InvalidInput("x has " + std::to_string(columns) + " columns, expected " +
                               std::to_string(keys_.count()) + ", one for each key");
        auto rows = x.dims.size() == 1 ? 1 : x.dims[0];
        auto* maps = own_elements(outputs[0], ValueKind::Sequence);
        if (!maps) outputs[0] = Value::sequence({}), maps = own_elements(outputs[0], ValueKind::Sequence);
        maps->resize(static_cast<size_t>(rows));
        auto const* from = x.data<float>();
        for (auto& map : *maps) std::copy_n(from, columns, values_of(map)), from += columns;
    }
};

}  // namespace

std::shared_ptr<runtime::Procedure const> make_cast_map(CastMapInfo info) { return std::make_shared<CastMap>(info); }

std::shared_ptr<runtime::Procedure const> make_dict_vectorizer(VocabularyInfo info) {
    return std::make_shared<DictVectorizer>(std::move(info));
}

std::shared_ptr<runtime::Procedure const> make_zip_map(Value keys) { return std::make_shared<ZipMap>(std::move(keys)); }

}  // namespace refactor::kernel
