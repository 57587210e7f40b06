#include "reduce/cpu_kernel.h"

#include <cstdio>

namespace refactor::kernel {

Err<Rejection> reject(std::string reason) { return Err{Rejection{std::move(reason)}}; }

std::string why_not_plain_cpu(Request const& request) {
    if (request.device != "cpu") return "runs on cpu, asked for " + std::string(request.device);
    for (auto const& operands : {request.inputs, request.outputs})
        for (auto const& operand : operands)
            if (!operand.absent() && operand.layout != Layout::Plain) return "operands must be in the plain layout";
    return {};
}

std::string why_not_isa(Request const& request, Isa isa) {
    if (request.isa < isa)
        return "needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa));
    return isa == Isa::Avx2Vnni && request.isa > isa ? "a wider instruction set is allowed" : "";
}

std::string why_not_outputs_of(Request const& request, DataType type, size_t first) {
    for (auto i = first; i < request.outputs.size(); ++i)
        if (auto found = request.outputs[i].dtype; !request.outputs[i].absent() && found != type)
            return "output " + std::to_string(i) + " is " + std::string(name_of(found)) + ", expected " +
                   std::string(name_of(type));
    return {};
}

std::string id_of(std::string_view op, std::string_view algorithm, DataType dtype, Isa isa) {
    auto id = std::string(op) + ":cpu:" + std::string(algorithm) + ":" + std::string(name_of(dtype));
    if (isa != Isa::Scalar) id.append(":").append(name_of(isa));
    return id;
}

std::string exact_text(float x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(x));
    return text;
}

}  // namespace refactor::kernel
