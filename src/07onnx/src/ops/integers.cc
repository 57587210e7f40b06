#include "ops/integers.h"

#include "common/half.h"
#include "mem_manager/blob.h"

namespace refactor::onnx {

namespace {

template <class T>
std::vector<T> numbers(frontend::Tensor const& tensor, DataType type) {
    std::vector<T> result;
    if (tensor.values) {
        for (auto const& value : *tensor.values) {
            auto number = value.constant();
            if (!number) return {};
            result.push_back(static_cast<T>(*number));
        }
        return result;
    }
    auto count = tensor.shape ? element_count(*tensor.shape).constant() : std::nullopt;
    if (!tensor.constant || !count) return {};
    result.resize(static_cast<size_t>(*count));
    if (!convert(tensor.dtype, tensor.constant->data(), type, result.data(), *count)) return {};
    return result;
}

}  // namespace

std::vector<int64_t> known_integers(frontend::Tensor const& tensor) { return numbers<int64_t>(tensor, DataType::I64); }
std::vector<double> known_floats(frontend::Tensor const& tensor) { return numbers<double>(tensor, DataType::F64); }

}  // namespace refactor::onnx
