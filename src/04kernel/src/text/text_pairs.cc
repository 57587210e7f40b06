#include "broadcast.h"
#include "common/error.h"
#include "kernel/procedures/text.h"
#include "movement/ranges.h"

#include <algorithm>

namespace refactor::kernel {

using runtime::CallContext;
using runtime::Value;

namespace text {

Pairs::Pairs(Dims const& a, Dims const& b) {
    auto rank = std::max(a.size(), b.size());
    dims_.resize(rank, 1), strides_a_.resize(rank, 0), strides_b_.resize(rank, 0);
    auto place = [&](Dims const& from, Dims& strides) {
        int64_t stride = 1;
        auto shift = rank - from.size();
        for (auto axis = from.size(); axis-- > 0;) {
            auto& size = dims_[shift + axis];
            if (size == 1)
                size = from[axis];
            else if (from[axis] != 1 && from[axis] != size)
                throw InvalidInput(runtime::describe(DataType::String, a) + " and " +
                                   runtime::describe(DataType::String, b) + " cannot be broadcast to one shape");
            if (from[axis] != 1) strides[shift + axis] = stride;
            stride *= from[axis];
        }
    };
    place(a, strides_a_), place(b, strides_b_);
}

}  // namespace text

namespace {

// Of about 20 bytes each: comparing them, and making a new one.
constexpr double kCompareNs = 5, kConcatNs = 30;

class TextEqual final : public runtime::Procedure {
public:
    std::string id() const override { return "equal:cpu:text:string"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs, CallContext const& c) const override {
        auto const &a = inputs[0]->contents->strings, &b = inputs[1]->contents->strings;
        text::Pairs pairs(inputs[0]->dims, inputs[1]->dims);
        auto* y = static_cast<bool*>(outputs[0].resize(DataType::Bool, pairs.dims()));
        movement::for_ranges(*c.pool, pairs.count(), kCompareNs, [&](int64_t begin, int64_t end) {
            pairs.visit(begin, end, [&](int64_t i, int64_t k, int64_t l) {
                y[i] = a[static_cast<size_t>(k)] == b[static_cast<size_t>(l)];
            });
        });
    }
};

class TextConcat final : public runtime::Procedure {
public:
    std::string id() const override { return "concat:cpu:text:string"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs, CallContext const& c) const override {
        auto const &a = inputs[0]->contents->strings, &b = inputs[1]->contents->strings;
        text::Pairs pairs(inputs[0]->dims, inputs[1]->dims);
        std::vector<std::string> y(static_cast<size_t>(pairs.count()));
        movement::for_ranges(*c.pool, pairs.count(), kConcatNs, [&](int64_t begin, int64_t end) {
            pairs.visit(begin, end, [&](int64_t i, int64_t k, int64_t l) {
                auto const &first = a[static_cast<size_t>(k)], &second = b[static_cast<size_t>(l)];
                auto& result = y[static_cast<size_t>(i)];
                result.reserve(first.size() + second.size());
                result.append(first).append(second);
            });
        });
        outputs[0] = Value::strings(pairs.dims(), std::move(y));
    }
};

}  // namespace

ProcedurePtr make_text_equal() { return std::make_shared<TextEqual>(); }
ProcedurePtr make_text_concat() { return std::make_shared<TextConcat>(); }

}  // namespace refactor::kernel
