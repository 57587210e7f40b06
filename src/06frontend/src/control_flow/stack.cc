#include "common/error.h"
#include "control_flow/session_state.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <cstring>

namespace refactor::frontend {

using runtime::Value;

void Stack::push(Value const& value) {
    if (value.kind != runtime::ValueKind::Tensor)
        throw InvalidInput("iteration " + std::to_string(count_) + " gives a " +
                           std::string(runtime::name_of(value.kind)) + ", expected a tensor");
    if (count_ && (value.dtype != dtype_ || !(value.dims == dims_)))
        throw InvalidInput("iteration " + std::to_string(count_) + " gives " + describe(value) + ", the first gave " +
                           runtime::describe(dtype_, dims_) + "; what is stacked must have one size");
    dtype_ = value.dtype, dims_ = value.dims;
    ++count_;
    if (dtype_ == DataType::String) {
        auto const& elements = value.contents->strings;
        strings_.insert(strings_.end(), elements.begin(), elements.end());
        return;
    }
    if (bits_of(dtype_) < 8) throw Unsupported("stacking values of type " + std::string(name_of(dtype_)));
    auto const host = on_host(value);
    auto const* data = host.data<std::byte>();
    bytes_.insert(bytes_.end(), data, data + storage_bytes(dtype_, value.count()));
}

void Stack::push_zeros(DataType dtype, Dims dims) {
    for (auto& size : dims) size = std::max<int64_t>(size, 0);
    auto const& own = count_ ? dims_ : dims;
    auto type = count_ ? dtype_ : dtype;
    if (type == DataType::String)
        return push(Value::strings(own, std::vector<std::string>(static_cast<size_t>(element_count(own)))));
    Value zeros;
    std::memset(zeros.resize(type, own), 0, storage_bytes(type, element_count(own)));
    push(zeros);
}

void Stack::finish(Value& target, int64_t axis, bool reversed, DataType dtype, Dims const& dims) {
    if (!count_) {
        dtype_ = dtype, dims_ = dims;
        for (auto& size : dims_) size = std::max<int64_t>(size, 0);
    }
    Dims full = dims_;
    full.insert(full.begin() + axis, count_);
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < static_cast<int64_t>(dims_.size()); ++i)
        (i < axis ? outer : inner) *= dims_[static_cast<size_t>(i)];
    auto place = [&](int64_t o, int64_t t, auto const& copy) {
        auto from = (reversed ? count_ - 1 - t : t) * outer * inner + o * inner;
        copy(from, (o * count_ + t) * inner);
    };
    if (dtype_ == DataType::String) {
        std::vector<std::string> elements(strings_.size());
        for (int64_t o = 0; o < outer; ++o)
            for (int64_t t = 0; t < count_; ++t)
                place(o, t, [&](int64_t from, int64_t to) {
                    std::move(strings_.begin() + from, strings_.begin() + from + inner, elements.begin() + to);
                });
        target = Value::strings(full, std::move(elements));
        return;
    }
    auto* data = static_cast<std::byte*>(target.resize(dtype_, full));
    auto size = bits_of(dtype_) / 8;
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t t = 0; t < count_; ++t)
            place(o, t, [&](int64_t from, int64_t to) {
                if (inner)
                    std::memcpy(data + to * size, bytes_.data() + from * size, static_cast<size_t>(inner * size));
            });
}

}  // namespace refactor::frontend
