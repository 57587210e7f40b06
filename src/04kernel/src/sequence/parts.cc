#include "sequence/parts.h"

#include "common/error.h"

#include <algorithm>
#include <numeric>

namespace refactor::kernel {

using runtime::Value;

namespace {

void check(std::vector<Value> const& parts, size_t axis, bool new_axis) {
    for (size_t i = 1; i < parts.size(); ++i) {
        bool fits = parts[i].dtype == parts[0].dtype && parts[i].dims.size() == parts[0].dims.size();
        for (size_t k = 0; fits && k < parts[0].dims.size(); ++k)
            fits = parts[i].dims[k] == parts[0].dims[k] || (k == axis && !new_axis);
        if (!fits)
            throw InvalidInput("element " + std::to_string(i) + " is " + describe(parts[i]) + ", element 0 is " +
                               describe(parts[0]));
    }
}

}  // namespace

size_t axis_of(int64_t axis, size_t rank) {
    auto count = static_cast<int64_t>(rank);
    if (axis < -count || axis >= count)
        throw InvalidInput("the axis " + std::to_string(axis) + " is outside of [" + std::to_string(-count) + ", " +
                           std::to_string(count) + ")");
    return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

std::vector<int64_t> split_sizes(Value const* split, int64_t size) {
    if (!split) return std::vector<int64_t>(static_cast<size_t>(size), 1);
    auto host = on_host(*split);
    auto at = [&](int64_t i) {
        return host.dtype == DataType::I64 ? host.data<int64_t>()[i] : host.data<int32_t>()[i];
    };
    std::vector<int64_t> sizes;
    if (host.dims.empty()) {
        auto step = at(0);
        if (step <= 0) throw InvalidInput("split is " + std::to_string(step) + ", expected at least 1");
        for (int64_t begin = 0; begin < size; begin += step) sizes.push_back(std::min(step, size - begin));
        return sizes;
    }
    for (int64_t i = 0; i < host.count(); ++i) sizes.push_back(at(i));
    auto negative = std::any_of(sizes.begin(), sizes.end(), [](auto part) { return part < 0; });
    // Each part is at most the whole, so that the sum cannot overflow before it is seen to be too large.
    int64_t sum = 0;
    for (auto part : sizes) sum = std::min<int64_t>(sum + std::min(part, size + 1), size + 1);
    if (negative || sum != size) throw InvalidInput("the sizes in split do not add up to " + std::to_string(size));
    return sizes;
}

Joined::Joined(std::vector<Value> const& parts, int64_t along, bool new_axis) {
    if (parts.empty()) throw InvalidInput("the sequence has no elements to concatenate");
    dims = parts[0].dims;
    axis = axis_of(along, dims.size() + new_axis);
    check(parts, axis, new_axis);
    for (auto const& part : parts) sizes.push_back(new_axis ? 1 : part.dims[axis]);
    if (new_axis) dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    dims[axis] = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

}  // namespace refactor::kernel
