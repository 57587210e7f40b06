#include "common/error.h"
#include "cuda/device_sequences.h"
#include "sequence/parts.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

using runtime::CallContext;
using runtime::Value;
using Inputs = std::span<Value const* const>;
using Outputs = std::span<Value>;

/// Copies `rows` runs of `count` elements between tensors with `from_step` and `to_step` elements a row.
class Runs {
    Value const& source_;
    Value* target_ = nullptr;
    std::vector<std::string>* texts_ = nullptr;
    int64_t bytes_ = 0;

public:
    Runs(Value const& source, Value& target) : source_(source), target_(&target), bytes_(bits_of(source.dtype) / 8) {
        if (!bytes_) throw Unsupported("parts of tensors of type " + std::string(name_of(source.dtype)));
    }
    Runs(Value const& source, std::vector<std::string>& texts) : source_(source), texts_(&texts) {}

    void copy(int64_t rows, int64_t count, int64_t from, int64_t from_step, int64_t to, int64_t to_step) const {
        for (int64_t row = 0; row < rows; ++row) {
            auto f = from + row * from_step, t = to + row * to_step;
            if (texts_)
                std::copy_n(source_.contents->strings.begin() + f, count, texts_->begin() + t);
            else
                std::copy_n(source_.data<std::byte>() + f * bytes_, count * bytes_,
                            const_cast<std::byte*>(target_->data<std::byte>()) + t * bytes_);
        }
    }
};

Value part_of(Value const& x, Around const& around, int64_t begin, int64_t count, Dims dims) {
    if (x.dtype == DataType::String) {
        std::vector<std::string> texts(static_cast<size_t>(around.outer * count * around.inner));
        Runs(x, texts).copy(around.outer, count * around.inner, begin * around.inner, around.size * around.inner, 0,
                            count * around.inner);
        return Value::strings(std::move(dims), std::move(texts));
    }
    Value part;
    part.resize(x.dtype, dims);
    Runs(x, part).copy(around.outer, count * around.inner, begin * around.inner, around.size * around.inner, 0,
                       count * around.inner);
    return part;
}

class SplitToSequence final : public runtime::Procedure {
    int64_t axis_;
    bool keep_axis_;

public:
    SplitToSequence(int64_t axis, bool keep_axis) : axis_(axis), keep_axis_(keep_axis) {}
    std::string id() const override { return "split_to_sequence:cpu:copy:any"; }
    void call(Inputs in, Outputs out, CallContext const&) const override {
        auto const& x = *in[0];
        auto axis = axis_of(axis_, x.dims.size());
        Around around(x.dims, axis);
        auto const* split = in.size() > 1 ? in[1] : nullptr;
        std::vector<Value> parts;
        int64_t begin = 0;
        for (auto size : split_sizes(split, around.size)) {
            auto dims = x.dims;
            if (split || keep_axis_)
                dims[axis] = size;
            else
                dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
            parts.push_back(part_of(x, around, begin, size, std::move(dims)));
            begin += size;
        }
        out[0] = Value::sequence(std::move(parts));
    }
};

class ConcatFromSequence final : public runtime::Procedure {
    int64_t axis_;
    bool new_axis_;

public:
    ConcatFromSequence(int64_t axis, bool new_axis) : axis_(axis), new_axis_(new_axis) {}
    std::string id() const override { return "concat_from_sequence:cpu:copy:any"; }
    void call(Inputs in, Outputs out, CallContext const&) const override {
        auto const& parts = in[0]->contents->elements;
        Joined joined(parts, axis_, new_axis_);
        auto const& sizes = joined.sizes;
        auto dims = joined.dims;
        Around whole(dims, joined.axis);
        bool is_text = parts[0].dtype == DataType::String;
        std::vector<std::string> texts(is_text ? static_cast<size_t>(element_count(dims)) : 0);
        if (!is_text) out[0].resize(parts[0].dtype, dims);
        int64_t begin = 0;
        for (size_t i = 0; i < parts.size(); ++i) {
            auto run = sizes[i] * whole.inner;
            auto copier = is_text ? Runs(parts[i], texts) : Runs(parts[i], out[0]);
            copier.copy(whole.outer, run, 0, run, begin * whole.inner, whole.size * whole.inner);
            begin += sizes[i];
        }
        if (is_text) out[0] = Value::strings(std::move(dims), std::move(texts));
    }
};

}  // namespace

ProcedurePtr make_split_to_sequence(DataType x, int64_t axis, bool keep_axis, mem_manager::Device* place) {
    auto there = place ? cuda::split_to_sequence_nvrtc(*place, x, axis, keep_axis) : nullptr;
    return there ? there : std::make_shared<SplitToSequence>(axis, keep_axis);
}
ProcedurePtr make_concat_from_sequence(DataType x, int64_t axis, bool new_axis, mem_manager::Device* place) {
    auto there = place ? cuda::concat_from_sequence_nvrtc(*place, x, axis, new_axis) : nullptr;
    return there ? there : std::make_shared<ConcatFromSequence>(axis, new_axis);
}

}  // namespace refactor::kernel
