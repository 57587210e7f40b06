#include "common/half.h"
#include "cuda/device_selects.h"
#include "range/fill_range.h"
#include "range/range_length.h"

namespace refactor::kernel {

namespace {

using runtime::Value;

template <class T>
void fill(std::span<Value const* const> inputs, Value& output, DataType computed) {
    auto [start, delta, count] = RangeOf<T>::of(inputs, computed);
    auto dtype = inputs[0]->dtype;
    auto* target = output.resize(dtype, Dims{count});
    std::vector<T> scratch(dtype == computed ? 0 : static_cast<size_t>(count));
    auto* elements = dtype == computed ? static_cast<T*>(target) : scratch.data();
    fill_range<T>(elements, count, start, delta);
    if (dtype != computed) convert(computed, scratch.data(), dtype, target, count);
}

class Range final : public runtime::Procedure {
public:
    std::string id() const override { return "range:cpu:sequential:any"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto dtype = inputs[0]->dtype;
        if (dtype == DataType::F64)
            fill<double>(inputs, outputs[0], dtype);
        else if (is_float(dtype))
            fill<float>(inputs, outputs[0], DataType::F32);
        else
            fill<int64_t>(inputs, outputs[0], DataType::I64);
    }
};

}  // namespace

ProcedurePtr make_range(DataType x, mem_manager::Device* place) {
    auto there = place ? cuda::open_range_nvrtc(*place, x) : nullptr;
    return there ? there : std::make_shared<Range>();
}

}  // namespace refactor::kernel
