#include "common/error.h"
#include "kernel/procedures/sequence.h"

#include <algorithm>
#include <numeric>

namespace refactor::kernel {

namespace {

using runtime::CallContext;
using runtime::Value;
using Inputs = std::span<Value const* const>;
using Outputs = std::span<Value>;

/// Sizes of a tensor around one axis.
struct Around {
    int64_t outer = 1, size = 1, inner = 1;

    Around(Dims const& dims, size_t axis) : size(dims[axis]) {
        for (size_t i = 0; i < dims.size(); ++i)
            if (i != axis) (i < axis ? outer : inner) *= dims[i];
    }
};

size_t axis_of(int64_t axis, size_t rank) {
    auto count = static_cast<int64_t>(rank);
    if (axis < -count || axis >= count)
        throw InvalidInput("the axis " + std::to_string(axis) + " is outside of [" + std::to_string(-count) + ", " +
                           std::to_string(count) + ")");
    return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

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

    static std::vector<int64_t> sizes_of(Value const* split, int64_t size) {
        if (!split) return std::vector<int64_t>(static_cast<size_t>(size), 1);
        auto at = [&](int64_t i) {
            return split->dtype == DataType::I64 ? split->data<int64_t>()[i] : split->data<int32_t>()[i];
        };
        std::vector<int64_t> sizes;
        if (split->dims.empty()) {
            auto step = at(0);
            if (step <= 0) throw InvalidInput("split is " + std::to_string(step) + ", expected at least 1");
            for (int64_t begin = 0; begin < size; begin += step) sizes.push_back(std::min(step, size - begin));
            return sizes;
        }
        for (int64_t i = 0; i < split->count(); ++i) sizes.push_back(at(i));
        auto negative = std::any_of(sizes.begin(), sizes.end(), [](auto part) { return part < 0; });
        // Each part is at most the whole, so that the sum cannot overflow before it is seen to be too large.
        int64_t sum = 0;
        for (auto part : sizes) sum = std::min<int64_t>(sum + std::min(part, size + 1), size + 1);
        if (negative || sum != size) throw InvalidInput("the sizes in split do not add up to " + std::to_string(size));
        return sizes;
    }

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
        for (auto size : sizes_of(split, around.size)) {
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

    void check(std::vector<Value> const& parts, size_t axis) const {
        for (size_t i = 1; i < parts.size(); ++i) {
            bool fits = parts[i].dtype == parts[0].dtype && parts[i].dims.size() == parts[0].dims.size();
            for (size_t k = 0; fits && k < parts[0].dims.size(); ++k)
                fits = parts[i].dims[k] == parts[0].dims[k] || (k == axis && !new_axis_);
            if (!fits)
                throw InvalidInput("element " + std::to_string(i) + " is " + describe(parts[i]) + ", element 0 is " +
                                   describe(parts[0]));
        }
    }

public:
    ConcatFromSequence(int64_t axis, bool new_axis) : axis_(axis), new_axis_(new_axis) {}
    std::string id() const override { return "concat_from_sequence:cpu:copy:any"; }
    void call(Inputs in, Outputs out, CallContext const&) const override {
        auto const& parts = in[0]->contents->elements;
        if (parts.empty()) throw InvalidInput("the sequence has no elements to concatenate");
        auto dims = parts[0].dims;
        auto axis = axis_of(axis_, dims.size() + new_axis_);
        check(parts, axis);
        std::vector<int64_t> sizes;
        for (auto const& part : parts) sizes.push_back(new_axis_ ? 1 : part.dims[axis]);
        if (new_axis_) dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
        dims[axis] = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
        Around whole(dims, axis);
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

ProcedurePtr make_split_to_sequence(int64_t axis, bool keep_axis) {
    return std::make_shared<SplitToSequence>(axis, keep_axis);
}
ProcedurePtr make_concat_from_sequence(int64_t axis, bool new_axis) {
    return std::make_shared<ConcatFromSequence>(axis, new_axis);
}

}  // namespace refactor::kernel
