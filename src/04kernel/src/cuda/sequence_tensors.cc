// Sequences of parts of tensors. What a sequence holds stays on the device.
#include "cuda/device_procedure.h"
#include "cuda/device_sequences.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "sequence/parts.h"

#include <array>

namespace refactor::kernel::cuda {

using runtime::Value;

namespace {

class Splitter final : public DeviceProcedure {
    int64_t axis_;
    bool keep_axis_;
    std::unique_ptr<Kernel> slice_;

protected:
    void compute(DeviceCall& call, Inputs inputs, Outputs outputs) const override {
        auto const& x = *inputs[0];
        auto axis = axis_of(axis_, x.dims.size());
        Around around(x.dims, axis);
        auto const* split = inputs.size() > 1 ? inputs[1] : nullptr;
        Argument whole{row_major(x.dtype, {around.outer, around.size, around.inner}), call.here(x)};
        std::vector<Value> parts;
        int64_t begin = 0;
        for (auto size : split_sizes(split, around.size)) {
            auto dims = x.dims;
            if (split || keep_axis_)
                dims[axis] = size;
            else
                dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
            auto& part = parts.emplace_back();
            auto* target = call.make(part, x.dtype, dims);
            std::array<int64_t, 3> starts{0, begin, 0};
            if (part.count() > 0)
                call.run(*slice_, {whole}, {{row_major(x.dtype, {around.outer, size, around.inner}), target}}, starts);
            begin += size;
        }
        outputs[0] = Value::sequence(std::move(parts));
    }

public:
    Splitter(std::string id, Library const& library, int64_t axis, bool keep_axis, std::unique_ptr<Kernel> slice)
        : DeviceProcedure(std::move(id), library), axis_(axis), keep_axis_(keep_axis), slice_(std::move(slice)) {}
};

class Joiner final : public DeviceProcedure {
    /// Parts that one launch joins, well within the words of its argument.
    static constexpr size_t kMostParts = 16;
    DataType dtype_;
    int64_t axis_;
    bool new_axis_;
    std::vector<std::unique_ptr<Kernel>> concats_;  ///< by the number of parts less one

    /// Joins along the middle of three axes; in steps if there are many.
    Argument join(DeviceCall& call, std::vector<Argument> parts, void* target) const {
        while (parts.size() > kMostParts) {
            std::vector<Argument> joined;
            for (size_t first = 0; first < parts.size(); first += kMostParts) {
                auto last = std::min(first + kMostParts, parts.size());
                joined.push_back(join_few(call, std::span(parts).subspan(first, last - first), nullptr));
            }
            parts = std::move(joined);
        }
        return join_few(call, parts, target);
    }

    /// `target` null: somewhere.
    Argument join_few(DeviceCall& call, std::span<Argument const> parts, void* target) const {
        auto type = parts[0].type;
        type.dims[1] = 0;
        for (auto const& part : parts) type.dims[1] += part.type.dims[1];
        if (!target) target = call.scratch(static_cast<int64_t>(storage_bytes(dtype_, type.count())));
        Argument whole{std::move(type), target};
        if (whole.type.count() > 0) call.run(*concats_[parts.size() - 1], parts, {&whole, 1});
        return whole;
    }

protected:
    void compute(DeviceCall& call, Inputs inputs, Outputs outputs) const override {
        auto const& parts = inputs[0]->contents->elements;
        Joined joined(parts, axis_, new_axis_);
        Around whole(joined.dims, joined.axis);
        std::vector<Argument> arguments;
        for (size_t i = 0; i < parts.size(); ++i)
            arguments.push_back({row_major(dtype_, {whole.outer, joined.sizes[i], whole.inner}), call.here(parts[i])});
        join(call, std::move(arguments), call.make(outputs[0], dtype_, joined.dims));
    }

public:
    Joiner(std::string id, Library const& library, DataType dtype, int64_t axis, bool new_axis)
        : DeviceProcedure(std::move(id), library), dtype_(dtype), axis_(axis), new_axis_(new_axis) {
        auto open = row_major(dtype, {-1, -1, -1});
        for (size_t count = 1; count <= kMostParts; ++count)
            concats_.push_back(
                kernel_for(library.device(), ConcatInfo{1}, std::vector<TensorDesc>(count, open), {open}));
    }
    bool can_join() const { return concats_.back() != nullptr; }
};

}  // namespace

ProcedurePtr split_to_sequence_nvrtc(mem_manager::Device& place, DataType x, int64_t axis, bool keep_axis) {
    auto library = Library::on(place);
    if (!library) return nullptr;
    auto open = row_major(x, {-1, -1, -1});
    auto slice = kernel_for(place, SliceInfo{{1, 1, 1}}, {open}, {open});
    if (!slice) return nullptr;
    return std::make_shared<Splitter>("split_to_sequence:nvidia:nvrtc:" + std::string(name_of(x)), *library, axis,
                                      keep_axis, std::move(slice));
}

ProcedurePtr concat_from_sequence_nvrtc(mem_manager::Device& place, DataType x, int64_t axis, bool new_axis) {
    auto library = Library::on(place);
    if (!library) return nullptr;
    auto made = std::make_shared<Joiner>("concat_from_sequence:nvidia:nvrtc:" + std::string(name_of(x)), *library, x,
                                         axis, new_axis);
    return made->can_join() ? made : nullptr;
}

}  // namespace refactor::kernel::cuda
