#include "values.h"

#include "common/half.h"
#include "common/small_vector.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"

#include <cmath>

namespace refactor::frontend {

std::optional<int64_t> constant_count(Shape const& shape) {
    int64_t count = 1;
    for (auto const& size : shape) {
        auto n = size.constant();
        if (!n || __builtin_mul_overflow(count, *n, &count)) return std::nullopt;
    }
    return count;
}

Dims constant_dims(Shape const& shape) {
    Dims dims;
    for (auto const& size : shape) dims.push_back(size.constant().value());
    return dims;
}

std::optional<std::vector<DimExpr>> values_of(Tensor const& tensor, size_t limit) {
    if (tensor.values) return tensor.values;
    if (!tensor.constant || !tensor.shape) return std::nullopt;
    auto count = constant_count(*tensor.shape);
    if (!count || *count > static_cast<int64_t>(limit)) return std::nullopt;
    std::vector<DimExpr> values(static_cast<size_t>(*count));
    auto n = values.size();
    if (tensor.dtype == DataType::I64) {
        auto* data = static_cast<int64_t const*>(tensor.constant->data());
        for (size_t i = 0; i < n; ++i) values[i] = data[i];
    } else if (is_float(tensor.dtype)) {
        std::vector<double> wide(n);
        if (!convert(tensor.dtype, tensor.constant->data(), DataType::F64, wide.data(), *count)) return std::nullopt;
        for (size_t i = 0; i < n; ++i) {
            if (!(std::abs(wide[i]) < 1e15) || wide[i] != std::floor(wide[i])) return std::nullopt;
            values[i] = static_cast<int64_t>(wide[i]);
        }
    } else {
        std::vector<int64_t> wide(n);
        if (!is_integer(tensor.dtype) && tensor.dtype != DataType::Bool) return std::nullopt;
        if (!convert(tensor.dtype, tensor.constant->data(), DataType::I64, wide.data(), *count)) return std::nullopt;
        for (size_t i = 0; i < n; ++i) values[i] = wide[i];
    }
    return values;
}

std::shared_ptr<mem_manager::Blob const> blob_of(DataType dtype, std::vector<DimExpr> const& values) {
    std::vector<int64_t> wide;
    for (auto const& value : values) {
        auto number = value.constant();
        if (!number) return nullptr;
        wide.push_back(*number);
    }
    auto count = static_cast<int64_t>(wide.size());
    auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), storage_bytes(dtype, count));
    if (dtype == DataType::I64) {
        if (count) std::copy(wide.begin(), wide.end(), static_cast<int64_t*>(blob->data()));
    } else if (!convert(DataType::I64, wide.data(), dtype, blob->data(), count)) {
        return nullptr;
    }
    return blob;
}

void materialise(Tensor& tensor) {
    if (!tensor.constant && tensor.values) tensor.constant = blob_of(tensor.dtype, *tensor.values);
}

}  // namespace refactor::frontend
