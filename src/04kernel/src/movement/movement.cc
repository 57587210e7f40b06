#include "movement/movement.h"

namespace refactor::kernel {

namespace {

Rejection count_mismatch(char const* what, size_t actual, size_t least, size_t most) {
    auto expected = std::to_string(least);
    if (most != least) expected += " to " + (most == SIZE_MAX ? "any number" : std::to_string(most));
    return {std::to_string(actual) + " " + what + ", expected " + expected};
}

}  // namespace

std::optional<Rejection> movement::refuse(Request const& request, Accepts const& accepts) {
    auto inputs = request.inputs.size(), outputs = request.outputs.size();
    if (request.device != "cpu") return Rejection{"device " + std::string(request.device) + ", expected cpu"};
    if (inputs < accepts.min_inputs || inputs > accepts.max_inputs)
        return count_mismatch("inputs", inputs, accepts.min_inputs, accepts.max_inputs);
    auto most = accepts.outputs ? accepts.outputs : SIZE_MAX;
    if (outputs < 1 || outputs > most) return count_mismatch("outputs", outputs, 1, most);
    for (auto list : {request.inputs, request.outputs}) {
        for (auto const& operand : list) {
            if (operand.absent()) continue;
            if (!element_bytes(operand.dtype) && !(accepts.packed && bits_of(operand.dtype)))
                return Rejection{"dtype " + std::string(name_of(operand.dtype)) + ", expected elements of whole bytes"};
            if (operand.layout != Layout::Plain && !accepts.blocked) return Rejection{"blocked layout, expected plain"};
        }
    }
    for (size_t i = 0; i < accepts.min_inputs; ++i)
        if (request.inputs[i].absent()) return Rejection{"input " + std::to_string(i) + " is missing"};
    if (accepts.same_dtype && inputs && request.inputs[0].dtype != request.outputs[0].dtype)
        return Rejection{"output of " + std::string(name_of(request.outputs[0].dtype)) + ", expected " +
                         std::string(name_of(request.inputs[0].dtype)) + " like the input"};
    return std::nullopt;
}

std::string movement::to_string(std::span<int64_t const> dims) {
    std::string text = "(";
    for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + ")";
}

std::string movement::make_id(std::string_view op, std::string_view algorithm, Request const& request,
                              std::string_view isa) {
    std::string id(op);
    id.append(":cpu:").append(algorithm).append(":").append(name_of(request.outputs[0].dtype));
    if (!isa.empty()) id.append(":").append(isa);
    return id;
}

}  // namespace refactor::kernel
