// Range and Slice whose bounds are data: the host reads these, the device does the rest.
#include "common/error.h"
#include "common/half.h"
#include "cuda/device_procedure.h"
#include "cuda/device_selects.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "range/range_length.h"
#include "slice/window.h"

#include <map>
#include <mutex>

namespace refactor::kernel::cuda {

using runtime::Value;

namespace {

class OpenRange final : public DeviceProcedure {
    std::unique_ptr<Kernel> fill_;

    static int64_t length_of(Inputs inputs) {
        auto dtype = inputs[0]->dtype;
        if (dtype == DataType::F64) return RangeOf<double>::of(inputs, dtype).count;
        if (is_float(dtype)) return RangeOf<float>::of(inputs, DataType::F32).count;
        return RangeOf<int64_t>::of(inputs, DataType::I64).count;
    }

protected:
    void compute(DeviceCall& call, Inputs inputs, Outputs outputs) const override {
        auto const& x = *inputs[0];
        Dims dims{length_of(inputs)};
        auto* y = call.make(outputs[0], x.dtype, dims);
        auto scalar = row_major(x.dtype, {});
        if (dims[0] > 0)
            call.run(*fill_, {{scalar, call.here(x)}, {scalar, call.here(*inputs[2])}},
                     {{row_major(x.dtype, dims), y}});
    }

public:
    OpenRange(std::string id, Library const& library, std::unique_ptr<Kernel> fill)
        : DeviceProcedure(std::move(id), library), fill_(std::move(fill)) {}
};

class OpenSlice final : public DeviceProcedure {
    DataType dtype_;
    mutable std::mutex mutex_;
    mutable std::map<std::vector<int64_t>, std::unique_ptr<Kernel>> kernels_;  ///< by steps

public:
    /// Null: there is none.
    Kernel const* kernel_of(Dims const& steps) const {
        std::lock_guard lock(mutex_);
        auto& kernel = kernels_[{steps.begin(), steps.end()}];
        Dims open(steps.size(), -1);
        if (!kernel)
            kernel =
                kernel_for(library().device(), SliceInfo{steps}, {row_major(dtype_, open)}, {row_major(dtype_, open)});
        return kernel.get();
    }

protected:
    void compute(DeviceCall& call, Inputs inputs, Outputs outputs) const override {
        auto const& x = *inputs[0];
        auto window = SliceWindow::of(inputs);
        auto* y = call.make(outputs[0], x.dtype, window.sizes);
        if (element_count(window.sizes) == 0) return;
        // Of one element along an axis, the step may be anything.
        for (size_t axis = 0; axis < window.sizes.size(); ++axis)
            if (window.sizes[axis] == 1) window.steps[axis] = 1;
        auto const* kernel = kernel_of(window.steps);
        if (!kernel) throw Unsupported("a Slice of rank " + std::to_string(x.dims.size()) + " on a GPU");
        call.run(*kernel, {call.argument(x)}, {{row_major(x.dtype, window.sizes), y}}, window.starts);
    }

public:
    OpenSlice(std::string id, Library const& library, DataType dtype)
        : DeviceProcedure(std::move(id), library), dtype_(dtype) {}
};

}  // namespace

ProcedurePtr open_range_nvrtc(mem_manager::Device& place, DataType x) {
    auto library = Library::on(place);
    if (!library) return nullptr;
    auto fill = kernel_for(place, RangeInfo{}, {row_major(x, {}), row_major(x, {})}, {row_major(x, {-1})});
    if (!fill) return nullptr;
    return std::make_shared<OpenRange>("range:nvidia:nvrtc:" + std::string(name_of(x)), *library, std::move(fill));
}

ProcedurePtr open_slice_nvrtc(mem_manager::Device& place, DataType x, size_t rank) {
    auto library = Library::on(place);
    if (!library) return nullptr;
    auto made = std::make_shared<OpenSlice>("slice:nvidia:nvrtc:" + std::string(name_of(x)), *library, x);
    return made->kernel_of(Dims(rank, 1)) ? made : nullptr;
}

}  // namespace refactor::kernel::cuda
