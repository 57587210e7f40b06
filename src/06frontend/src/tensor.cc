#include "frontend/tensor.h"

#include "frontend/graph.h"

namespace refactor::frontend {

void Tensor::reset() {
    dtype = DataType::Undefined, kind = ValueKind::Tensor;
    shape.reset(), values.reset(), constant.reset(), element.reset(), literal.reset();
}

std::string to_string(Tensor const& tensor, SymbolTable const& symbols) {
    if (!tensor.is_tensor())
        return concat(runtime::name_of(tensor.kind), " of ",
                      tensor.element ? to_string(*tensor.element, symbols) : std::string("?"));
    std::string text(tensor.dtype == DataType::Undefined ? "?" : name_of(tensor.dtype));
    return text + (tensor.shape ? refactor::to_string(*tensor.shape, symbols) : "[?]");
}

void detail::append_number(std::string& text, int64_t number) { text += std::to_string(number); }
void detail::append_number(std::string& text, uint64_t number) { text += std::to_string(number); }
void detail::append_number(std::string& text, double number) { text += std::to_string(number); }

}  // namespace refactor::frontend
