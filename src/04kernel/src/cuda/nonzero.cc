// NonZero and Compress: what is selected is counted, then written.
#include "common/error.h"
#include "cuda/device_selects.h"
#include "cuda/selection.h"
#include "sequence/parts.h"

namespace refactor::kernel::cuda {

using runtime::Value;

namespace {

/// The bits of a word that make it something else than zero; none for types that nothing is said about.
uint64_t mask_of(DataType dtype) {
    auto bits = bits_of(dtype);
    if (dtype == DataType::F16 || dtype == DataType::BF16 || dtype == DataType::F32 || dtype == DataType::F64)
        return ~uint64_t{0} >> (65 - bits);
    bool whole = dtype == DataType::Bool || (is_integer(dtype) && bits >= 8);
    return whole ? ~uint64_t{0} : 0;
}

class NonZero final : public DeviceProcedure {
public:
    using DeviceProcedure::DeviceProcedure;

protected:
    void compute(DeviceCall& call, Inputs inputs, Outputs outputs) const override {
        auto const& x = *inputs[0];
        Selection selection(call, code_, call.here(x), x.count(), bits_of(x.dtype) / 8, mask_of(x.dtype));
        auto* target = call.make(outputs[0], DataType::I64, {static_cast<int64_t>(x.dims.size()), selection.total()});
        selection.write_coordinates(static_cast<int64_t*>(target), x.dims);
    }
};

class Compress final : public DeviceProcedure {
    std::optional<int64_t> axis_;
    Taker taker_;

    [[noreturn]] static void refuse(Selection const& behind, DeviceCall& call, int64_t first, int64_t size) {
        auto* positions = call.scratch_of<int64_t>(behind.total());
        behind.write_positions(positions);
        auto last = first + call.read(positions + behind.total() - 1);
        throw InvalidInput("the condition asks for element " + std::to_string(last) + ", x has " +
                           std::to_string(size));
    }

protected:
    void compute(DeviceCall& call, Inputs inputs, Outputs outputs) const override {
        auto const &x = *inputs[0], &condition = *inputs[1];
        auto dims = axis_ ? x.dims : Dims{x.count()};
        auto axis = axis_ ? axis_of(*axis_, dims.size()) : 0;
        auto [outer, size, inner] = Around(dims, axis);
        auto const* flags = static_cast<uint8_t const*>(call.here(condition));
        auto inside = std::min(size, condition.count());
        Selection behind(call, code_, flags + inside, condition.count() - inside, 1);
        if (behind.total() > 0) refuse(behind, call, inside, size);
        Selection selection(call, code_, flags, inside, 1);
        auto total = selection.total();
        auto* positions = call.scratch_of<int64_t>(total);
        selection.write_positions(positions);
        dims[axis] = total;
        auto* y = call.make(outputs[0], x.dtype, dims);
        taker_.take(call, {row_major(x.dtype, {outer, size, inner}), call.here(x)},
                    {row_major(DataType::I64, {total}), positions}, {row_major(x.dtype, {outer, total, inner}), y});
    }

public:
    Compress(std::string id, Library const& library, std::optional<int64_t> axis, Taker taker)
        : DeviceProcedure(std::move(id), library), axis_(axis), taker_(std::move(taker)) {}
};

}  // namespace

ProcedurePtr nonzero_nvrtc(mem_manager::Device& place, DataType x) {
    auto library = Library::on(place);
    if (!library || !mask_of(x)) return nullptr;
    return std::make_shared<NonZero>("nonzero:nvidia:nvrtc:" + std::string(name_of(x)), *library);
}

ProcedurePtr compress_nvrtc(mem_manager::Device& place, DataType x, std::optional<int64_t> axis) {
    auto library = Library::on(place);
    if (!library || bits_of(x) < 8) return nullptr;
    Taker taker(place, x);
    if (!taker) return nullptr;
    return std::make_shared<Compress>("compress:nvidia:nvrtc:" + std::string(name_of(x)), *library, axis,
                                      std::move(taker));
}

}  // namespace refactor::kernel::cuda
