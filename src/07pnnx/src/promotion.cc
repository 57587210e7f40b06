#include "promotion.h"

#include <algorithm>

namespace refactor::pnnx {

namespace {

int kind_of(DataType dtype) { return dtype == DataType::Bool ? 0 : is_integer(dtype) ? 1 : is_float(dtype) ? 2 : 3; }

DataType join(DataType a, DataType b) {
    if (a == b) return a;
    if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
    auto bits_a = bits_of(a), bits_b = bits_of(b);
    // f16 and bf16 meet in f32, u8 and i8 in i16.
    if (bits_a == bits_b) return is_float(a) ? DataType::F32 : bits_a == 8 ? DataType::I16 : DataType::I64;
    auto wide = bits_a > bits_b ? a : b;
    bool mixed = is_integer(a) && is_signed(a) != is_signed(b) && !is_signed(wide);
    return mixed ? DataType::I64 : wide;
}

}  // namespace

DataType promote(DataType a, Weight weight_a, DataType b, Weight weight_b) {
    if (weight_a == weight_b) return join(a, b);
    if (weight_a < weight_b) std::swap(a, b), std::swap(weight_a, weight_b);
    if (kind_of(b) <= kind_of(a)) return a;
    if (weight_b == Weight::Number) return kind_of(b) == 2 ? DataType::F32 : b;
    return b;
}

DataType float_of(DataType dtype) { return kind_of(dtype) < 2 ? DataType::F32 : dtype; }

}  // namespace refactor::pnnx
