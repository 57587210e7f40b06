#include "common/error.h"
#include "common/half.h"
#include "kernel/procedures/select.h"

#include <algorithm>
#include <numeric>

namespace refactor::kernel {

namespace {

using runtime::Value;

std::vector<int64_t> integers(Value const& value) {
    std::vector<int64_t> numbers(static_cast<size_t>(value.count()));
    convert(value.dtype, value.data<void>(), DataType::I64, numbers.data(), value.count());
    return numbers;
}

/// By axis of the operand.
struct Window {
    Dims sizes, starts, steps;
};

/// As numpy: a bound counts from the end if it is negative, then it is clamped.
void set_axis(Window& window, size_t axis, int64_t start, int64_t end, int64_t step) {
    if (step == 0) throw InvalidInput("the step of axis " + std::to_string(axis) + " is 0");
    auto size = window.sizes[axis];
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    auto clamp = [&](int64_t bound) { return std::clamp(bound < 0 ? bound + size : bound, low, high); };
    auto first = clamp(start), last = clamp(end);
    auto span = step > 0 ? last - first : first - last;
    auto pace = step == INT64_MIN ? INT64_MAX : std::abs(step);
    window.sizes[axis] = span > 0 ? (span - 1) / pace + 1 : 0;
    window.starts[axis] = first, window.steps[axis] = step;
}

Window window_of(std::span<Value const* const> inputs) {
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
    Window window{inputs[0]->dims, Dims(rank), Dims(rank, 1)};
    for (size_t i = 0; i < axes.size(); ++i) {
        auto axis = axes[i] < 0 ? axes[i] + static_cast<int64_t>(rank) : axes[i];
        if (axis < 0 || axis >= static_cast<int64_t>(rank))
            throw InvalidInput("axis " + std::to_string(axes[i]) + " is out of range for " + describe(*inputs[0]));
        set_axis(window, static_cast<size_t>(axis), starts[i], ends[i], steps[i]);
    }
    return window;
}

/// Calls `copy(from, to, count)` for runs of consecutive elements of the result, which are `step` apart in the operand.
template <class Copy>
void each_run(Dims const& dims, Window const& window, Copy const& copy) {
    auto rank = dims.size();
    if (element_count(window.sizes) == 0) return;
    // Whole trailing axes join the run.
    size_t run_axis = rank;
    int64_t run = 1, inner = 1;
    while (run_axis > 0) {
        --run_axis;
        bool whole = window.sizes[run_axis] == dims[run_axis] && window.steps[run_axis] == 1;
        run *= window.sizes[run_axis];
        if (!whole) break;
        inner *= dims[run_axis];
    }
    bool dense = rank == 0 || window.steps[run_axis] == 1;
    if (!dense) run = inner;
    auto outer_axes = dense ? run_axis : run_axis + 1;
    Dims strides(rank, 1), at(rank);
    for (size_t axis = rank; axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
    int64_t base = 0;
    for (size_t axis = 0; axis < rank; ++axis) base += window.starts[axis] * strides[axis];
    for (int64_t to = 0, count = element_count(window.sizes); to < count; to += run) {
        auto from = base;
        for (size_t axis = 0; axis < outer_axes; ++axis) from += at[axis] * window.steps[axis] * strides[axis];
        copy(from, to, run);
        for (size_t axis = outer_axes; axis-- > 0;) {
            if (++at[axis] < window.sizes[axis]) break;
            at[axis] = 0;
        }
    }
}

class Slice final : public runtime::Procedure {
public:
    std::string id() const override { return "slice:cpu:copy:any"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto const& x = *inputs[0];
        auto window = window_of(inputs);
        if (x.dtype == DataType::String) {
            std::vector<std::string> texts(static_cast<size_t>(element_count(window.sizes)));
            each_run(x.dims, window, [&](int64_t from, int64_t to, int64_t count) {
                std::copy_n(x.contents->strings.begin() + from, count, texts.begin() + to);
            });
            outputs[0] = Value::strings(window.sizes, std::move(texts));
            return;
        }
        auto bytes = bits_of(x.dtype) / 8;
        if (!bytes) throw Unsupported("Slice of " + std::string(name_of(x.dtype)) + " by bounds that depend on data");
        auto* target = static_cast<std::byte*>(outputs[0].resize(x.dtype, window.sizes));
        each_run(x.dims, window, [&](int64_t from, int64_t to, int64_t count) {
            std::copy_n(x.data<std::byte>() + from * bytes, count * bytes, target + to * bytes);
        });
    }
};

}  // namespace

ProcedurePtr make_slice() { return std::make_shared<Slice>(); }

}  // namespace refactor::kernel
