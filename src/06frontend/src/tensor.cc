#include "frontend/tensor.h"

#include "frontend/graph.h"

namespace refactor::frontend {

std::string to_string(Tensor const& tensor, SymbolTable const& symbols) {
    std::string text(tensor.dtype == DataType::Undefined ? "?" : name_of(tensor.dtype));
    return text + (tensor.shape ? refactor::to_string(*tensor.shape, symbols) : "[?]");
}

}  // namespace refactor::frontend
