#include "common/error.h"
#include "cuda/device_selects.h"
#include "slice/window.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

using runtime::Value;

/// Calls `copy(from, to, count)` for runs of consecutive elements of the result, which are `step` apart in the operand.
template <class Copy>
void each_run(Dims const& dims, SliceWindow const& window, Copy const& copy) {
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
        auto window = SliceWindow::of(inputs);
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

ProcedurePtr make_slice(DataType x, size_t rank, mem_manager::Device* place) {
    auto there = place ? cuda::open_slice_nvrtc(*place, x, rank) : nullptr;
    return there ? there : std::make_shared<Slice>();
}

}  // namespace refactor::kernel
