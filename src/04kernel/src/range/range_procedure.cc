#include "common/error.h"
#include "common/half.h"
#include "kernel/procedures/select.h"

#include <cmath>

namespace refactor::kernel {

namespace {

using runtime::Value;

template <class T>
T scalar(Value const& value, DataType dtype) {
    T number{};
    convert(value.dtype, value.data<void>(), dtype, &number, 1);
    return number;
}

int64_t length(double start, double limit, double delta) {
    auto count = std::ceil((limit - start) / delta);
    if (!(std::abs(count) < 0x1p40)) throw InvalidInput("the range would have " + std::to_string(count) + " elements");
    return std::max(static_cast<int64_t>(count), int64_t{0});
}

int64_t length(int64_t start, int64_t limit, int64_t delta) {
    if (delta > 0 ? start >= limit : start <= limit) return 0;
    // Differences of 64 bit integers fit into 64 bits without a sign.
    auto span = delta > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                          : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
    auto step = delta > 0 ? static_cast<uint64_t>(delta) : 0 - static_cast<uint64_t>(delta);
    auto count = (span - 1) / step + 1;
    if (count >> 40) throw InvalidInput("the range would have " + std::to_string(count) + " elements");
    return static_cast<int64_t>(count);
}

template <class T>
void fill(std::span<Value const* const> inputs, Value& output, DataType computed) {
    auto start = scalar<T>(*inputs[0], computed), limit = scalar<T>(*inputs[1], computed),
         delta = scalar<T>(*inputs[2], computed);
    if (delta == T{}) throw InvalidInput("delta is 0");
    auto dtype = inputs[0]->dtype;
    auto count = length(start, limit, delta);
    auto* target = output.resize(dtype, Dims{count});
    std::vector<T> scratch(dtype == computed ? 0 : static_cast<size_t>(count));
    auto* elements = dtype == computed ? static_cast<T*>(target) : scratch.data();
    for (int64_t i = 0; i < count; ++i) elements[i] = static_cast<T>(start + static_cast<T>(i) * delta);
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

ProcedurePtr make_range() { return std::make_shared<Range>(); }

}  // namespace refactor::kernel
