#include "kernel/procedures/sequence.h"

#include "common/error.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

using runtime::CallContext;
using runtime::Value;
using Inputs = std::span<Value const* const>;
using Outputs = std::span<Value>;

int64_t integer_of(Value const& value, char const* what) {
    if (value.kind != runtime::ValueKind::Tensor || value.count() != 1 ||
        (value.dtype != DataType::I64 && value.dtype != DataType::I32))
        throw InvalidInput(std::string(what) + " is " + describe(value) + ", expected one i32 or i64");
    auto host = on_host(value);
    return value.dtype == DataType::I64 ? *host.data<int64_t>() : *host.data<int32_t>();
}

/// `position` counted from the front, in [0, size) or, if `end` is allowed, [0, size].
size_t place(int64_t position, size_t size, bool end) {
    auto count = static_cast<int64_t>(size);
    auto last = end ? count : count - 1;
    if (position < -count || position > last)
        throw InvalidInput("position " + std::to_string(position) + " is outside of the sequence of " +
                           std::to_string(size) + ", expected " + std::to_string(-count) + " to " +
                           std::to_string(last));
    return static_cast<size_t>(position < 0 ? position + count : position);
}

void set_scalar(Value& target, DataType dtype, int64_t content) {
    auto* data = target.resize(dtype, {});
    if (dtype == DataType::Bool)
        *static_cast<uint8_t*>(data) = content != 0;
    else
        *static_cast<int64_t*>(data) = content;
}

void identity(Inputs in, Outputs out) { out[0] = !in.empty() && in[0] ? *in[0] : Value::nothing(); }
void empty(Inputs, Outputs out) { out[0] = Value::sequence({}); }

void construct(Inputs in, Outputs out) {
    std::vector<Value> elements;
    for (auto* value : in) elements.push_back(*value);
    out[0] = Value::sequence(std::move(elements));
}

void insert(Inputs in, Outputs out) {
    auto elements = in[0]->contents->elements;
    auto at =
        in.size() > 2 && in[2] ? place(integer_of(*in[2], "the position"), elements.size(), true) : elements.size();
    elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(at), *in[1]);
    out[0] = Value::sequence(std::move(elements));
}

void erase(Inputs in, Outputs out) {
    auto elements = in[0]->contents->elements;
    auto position = in.size() > 1 && in[1] ? integer_of(*in[1], "the position") : -1;
    elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(place(position, elements.size(), false)));
    out[0] = Value::sequence(std::move(elements));
}

void at(Inputs in, Outputs out) {
    auto const& elements = in[0]->contents->elements;
    out[0] = elements[place(integer_of(*in[1], "the position"), elements.size(), false)];
}

void length(Inputs in, Outputs out) {
    set_scalar(out[0], DataType::I64, static_cast<int64_t>(in[0]->contents->elements.size()));
}

void has_element(Inputs in, Outputs out) {
    set_scalar(out[0], DataType::Bool, !in.empty() && in[0] && in[0]->kind != runtime::ValueKind::Optional);
}

void get_element(Inputs in, Outputs out) {
    if (in[0]->kind == runtime::ValueKind::Optional) throw InvalidInput("the optional holds nothing");
    out[0] = *in[0];
}

/// A procedure that is a function of its operands, whose elements it does not touch.
class Simple final : public runtime::Procedure {
    char const* id_;
    void (*function_)(Inputs, Outputs);

public:
    Simple(char const* id, void (*function)(Inputs, Outputs)) : id_(id), function_(function) {}
    std::string id() const override { return id_; }
    bool takes_any_device() const override { return true; }
    bool steers() const override { return true; }
    void call(Inputs inputs, Outputs outputs, CallContext const&) const override { function_(inputs, outputs); }
};

class Squeeze final : public runtime::Procedure {
    std::optional<std::vector<size_t>> axes_;

    bool goes(size_t axis, int64_t size) const {
        if (!axes_) return size == 1;
        if (std::find(axes_->begin(), axes_->end(), axis) == axes_->end()) return false;
        if (size != 1)
            throw InvalidInput("axis " + std::to_string(axis) + " has the size " + std::to_string(size) +
                               ", expected 1");
        return true;
    }

public:
    explicit Squeeze(std::optional<std::vector<size_t>> axes) : axes_(std::move(axes)) {}
    std::string id() const override { return "squeeze:cpu:share:any"; }
    bool takes_any_device() const override { return true; }
    bool steers() const override { return true; }
    void call(Inputs inputs, Outputs outputs, CallContext const&) const override {
        auto result = *inputs[0];
        result.dims.clear();
        for (size_t axis = 0; axis < inputs[0]->dims.size(); ++axis)
            if (auto size = inputs[0]->dims[axis]; !goes(axis, size)) result.dims.push_back(size);
        outputs[0] = std::move(result);
    }
};

}  // namespace

ProcedurePtr make_squeeze(std::optional<std::vector<size_t>> axes) {
    return std::make_shared<Squeeze>(std::move(axes));
}
ProcedurePtr make_identity() { return std::make_shared<Simple>("identity:cpu:share:any", identity); }
ProcedurePtr make_sequence_empty() { return std::make_shared<Simple>("sequence_empty:cpu:share:any", empty); }
ProcedurePtr make_sequence_construct() {
    return std::make_shared<Simple>("sequence_construct:cpu:share:any", construct);
}
ProcedurePtr make_sequence_insert() { return std::make_shared<Simple>("sequence_insert:cpu:share:any", insert); }
ProcedurePtr make_sequence_erase() { return std::make_shared<Simple>("sequence_erase:cpu:share:any", erase); }
ProcedurePtr make_sequence_at() { return std::make_shared<Simple>("sequence_at:cpu:share:any", at); }
ProcedurePtr make_sequence_length() { return std::make_shared<Simple>("sequence_length:cpu:share:any", length); }
ProcedurePtr make_optional_has_element() {
    return std::make_shared<Simple>("optional_has_element:cpu:share:any", has_element);
}
ProcedurePtr make_optional_get_element() {
    return std::make_shared<Simple>("optional_get_element:cpu:share:any", get_element);
}

}  // namespace refactor::kernel
