#include "common/error.h"
#include "common/half.h"
#include "cuda/device_selects.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refactor::kernel {

namespace {

using runtime::Value;

template <class T>
bool less(T const& a, T const& b) {
    if constexpr (std::is_floating_point_v<T>) return a < b || (std::isnan(b) && !std::isnan(a));
    return a < b;
}

/// Slices of x along an axis: `count` of them, each of `outer` runs of `inner` elements.
struct Slices {
    int64_t count = 0, outer = 1, inner = 1;

    template <class T>
    int compare(T const* x, int64_t a, int64_t b) const {
        for (int64_t o = 0; o < outer; ++o) {
            auto const *p = x + (o * count + a) * inner, *q = x + (o * count + b) * inner;
            for (int64_t i = 0; i < inner; ++i) {
                if (less(p[i], q[i])) return -1;
                if (less(q[i], p[i])) return 1;
            }
        }
        return 0;
    }
};

/// What is distinct: first occurrence of each group, in the order of the output; group of each slice; sizes.
struct Groups {
    std::vector<int64_t> first, inverse, sizes;
};

template <class T>
Groups group(T const* x, Slices const& slices, bool sorted) {
    std::vector<int64_t> order(static_cast<size_t>(slices.count));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return slices.compare(x, a, b) < 0; });
    Groups groups;
    groups.inverse.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
        // Sorting is stable: the first of a group is its first occurrence.
        if (i == 0 || slices.compare(x, order[i - 1], order[i]) != 0)
            groups.first.push_back(order[i]), groups.sizes.push_back(0);
        groups.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(groups.first.size()) - 1;
        ++groups.sizes.back();
    }
    if (sorted) return groups;
    std::vector<int64_t> by_place(groups.first.size()), rank(groups.first.size());
    std::iota(by_place.begin(), by_place.end(), int64_t{0});
    auto at = [](std::vector<int64_t>& list, int64_t i) -> int64_t& { return list[static_cast<size_t>(i)]; };
    std::sort(by_place.begin(), by_place.end(),
              [&](auto a, auto b) { return at(groups.first, a) < at(groups.first, b); });
    Groups placed;
    for (size_t i = 0; i < by_place.size(); ++i) {
        at(rank, by_place[i]) = static_cast<int64_t>(i);
        placed.first.push_back(at(groups.first, by_place[i])), placed.sizes.push_back(at(groups.sizes, by_place[i]));
    }
    for (auto i : groups.inverse) placed.inverse.push_back(at(rank, i));
    return placed;
}

Groups group_values(Value const& x, Slices const& slices, bool sorted) {
    auto typed = [&]<class T>(T const*) { return group(x.data<T>(), slices, sorted); };
    switch (x.dtype) {
        case DataType::String:
            return group(x.contents->strings.data(), slices, sorted);
        case DataType::F32:
            return typed(static_cast<float const*>(nullptr));
        case DataType::F64:
            return typed(static_cast<double const*>(nullptr));
        case DataType::Bool:
        case DataType::U8:
            return typed(static_cast<uint8_t const*>(nullptr));
        case DataType::I8:
            return typed(static_cast<int8_t const*>(nullptr));
        case DataType::U16:
            return typed(static_cast<uint16_t const*>(nullptr));
        case DataType::I16:
            return typed(static_cast<int16_t const*>(nullptr));
        case DataType::U32:
            return typed(static_cast<uint32_t const*>(nullptr));
        case DataType::I32:
            return typed(static_cast<int32_t const*>(nullptr));
        case DataType::U64:
            return typed(static_cast<uint64_t const*>(nullptr));
        case DataType::I64:
            return typed(static_cast<int64_t const*>(nullptr));
        default:
            break;
    }
    std::vector<float> wide(static_cast<size_t>(x.count()));
    if (!is_float(x.dtype) || !convert(x.dtype, x.data<std::byte>(), DataType::F32, wide.data(), x.count()))
        throw Unsupported("Unique of " + std::string(name_of(x.dtype)));
    return group(wide.data(), slices, sorted);
}

class Unique final : public runtime::Procedure {
    std::optional<int64_t> axis_;
    bool sorted_;

    static void set(Value& target, std::vector<int64_t> const& numbers) {
        auto* data = static_cast<int64_t*>(target.resize(DataType::I64, {static_cast<int64_t>(numbers.size())}));
        std::copy(numbers.begin(), numbers.end(), data);
    }

    static void gather(Value const& x, Slices const& slices, std::vector<int64_t> const& kept, Dims dims,
                       Value& target) {
        auto count = static_cast<int64_t>(kept.size());
        auto each = [&](auto const& copy) {
            for (int64_t o = 0; o < slices.outer; ++o)
                for (int64_t k = 0; k < count; ++k)
                    copy((o * slices.count + kept[static_cast<size_t>(k)]) * slices.inner,
                         (o * count + k) * slices.inner);
        };
        if (x.dtype == DataType::String) {
            std::vector<std::string> texts(static_cast<size_t>(element_count(dims)));
            each([&](int64_t from, int64_t to) {
                std::copy_n(x.contents->strings.begin() + from, slices.inner, texts.begin() + to);
            });
            target = Value::strings(std::move(dims), std::move(texts));
            return;
        }
        auto bytes = bits_of(x.dtype) / 8;
        auto* data = static_cast<std::byte*>(target.resize(x.dtype, dims));
        each([&](int64_t from, int64_t to) {
            std::copy_n(x.data<std::byte>() + from * bytes, slices.inner * bytes, data + to * bytes);
        });
    }

public:
    Unique(std::optional<int64_t> axis, bool sorted) : axis_(axis), sorted_(sorted) {}
    std::string id() const override { return "unique:cpu:sort:any"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto const& x = *inputs[0];
        Slices slices{x.count()};
        Dims dims{x.count()};
        size_t axis = 0;
        if (axis_) {
            dims = x.dims, axis = static_cast<size_t>(*axis_ < 0 ? *axis_ + static_cast<int64_t>(dims.size()) : *axis_);
            slices.count = dims[axis];
            for (size_t i = 0; i < dims.size(); ++i)
                if (i != axis) (i < axis ? slices.outer : slices.inner) *= dims[i];
        }
        auto groups = group_values(x, slices, sorted_);
        dims[axis] = static_cast<int64_t>(groups.first.size());
        gather(x, slices, groups.first, std::move(dims), outputs[0]);
        if (outputs.size() > 1) set(outputs[1], groups.first);
        if (outputs.size() > 2) set(outputs[2], groups.inverse);
        if (outputs.size() > 3) set(outputs[3], groups.sizes);
    }
};

}  // namespace

ProcedurePtr make_unique(DataType x, std::optional<int64_t> axis, bool sorted, mem_manager::Device* place) {
    auto there = place ? cuda::unique_nvrtc(*place, x, axis, sorted) : nullptr;
    return there ? there : std::make_shared<Unique>(axis, sorted);
}

}  // namespace refactor::kernel
