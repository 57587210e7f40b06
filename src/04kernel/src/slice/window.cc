#include "slice/window.h"

#include "common/error.h"
#include "common/half.h"

#include <algorithm>
#include <numeric>

namespace refactor::kernel {

using runtime::Value;

namespace {

std::vector<int64_t> integers(Value const& value) {
    std::vector<int64_t> numbers(static_cast<size_t>(value.count()));
    convert(value.dtype, on_host(value).data<void>(), DataType::I64, numbers.data(), value.count());
    return numbers;
}

}  // namespace

/// As numpy: a bound counts from the end if it is negative, then it is clamped.
void SliceWindow::set_axis(size_t axis, int64_t start, int64_t end, int64_t step) {
    if (step == 0) throw InvalidInput("the step of axis " + std::to_string(axis) + " is 0");
    auto size = sizes[axis];
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    auto clamp = [&](int64_t bound) { return std::clamp(bound < 0 ? bound + size : bound, low, high); };
    auto first = clamp(start), last = clamp(end);
    auto span = step > 0 ? last - first : first - last;
    auto pace = step == INT64_MIN ? INT64_MAX : std::abs(step);
    sizes[axis] = span > 0 ? (span - 1) / pace + 1 : 0;
    starts[axis] = first, steps[axis] = step;
}

SliceWindow SliceWindow::of(std::span<Value const* const> inputs) {
    auto rank = inputs[0]->dims.size();
    auto given = [&](size_t i) { return inputs.size() > i && inputs[i]; };
    auto starts = integers(*inputs[1]), ends = integers(*inputs[2]);
    std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
    std::iota(axes.begin(), axes.end(), 0);
    if (given(3)) axes = integers(*inputs[3]);
    if (given(4)) steps = integers(*inputs[4]);
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
        throw InvalidInput("starts, ends, axes and steps have " + std::to_string(starts.size()) + ", " +
                           std::to_string(ends.size()) + ", " + std::to_string(axes.size()) + " and " +
                           std::to_string(steps.size()) + " entries, expected equal numbers");
    SliceWindow window{inputs[0]->dims, Dims(rank), Dims(rank, 1)};
    for (size_t i = 0; i < axes.size(); ++i) {
        auto axis = axes[i] < 0 ? axes[i] + static_cast<int64_t>(rank) : axes[i];
        if (axis < 0 || axis >= static_cast<int64_t>(rank))
            throw InvalidInput("axis " + std::to_string(axes[i]) + " is out of range for " + describe(*inputs[0]));
        window.set_axis(static_cast<size_t>(axis), starts[i], ends[i], steps[i]);
    }
    return window;
}

}  // namespace refactor::kernel
