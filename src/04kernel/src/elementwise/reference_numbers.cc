#include "common/half.h"
#include "elementwise/reference.h"

namespace refactor::kernel::elementwise {

namespace {

template <class T>
T element(void const* data, int64_t index) {
    return static_cast<T const*>(data)[index];
}

}  // namespace

Number load_number(DataType type, void const* data, int64_t index) {
    switch (type) {
        case DataType::F32:
            return {element<float>(data, index), 0};
        case DataType::F64:
            return {element<double>(data, index), 0};
        case DataType::F16:
            return {f32_from_f16(element<uint16_t>(data, index)), 0};
        case DataType::BF16:
            return {f32_from_bf16(element<uint16_t>(data, index)), 0};
        case DataType::I8:
            return {0, element<int8_t>(data, index)};
        case DataType::I16:
            return {0, element<int16_t>(data, index)};
        case DataType::I32:
            return {0, element<int32_t>(data, index)};
        case DataType::I64:
            return {0, element<int64_t>(data, index)};
        case DataType::U8:
            return {0, element<uint8_t>(data, index)};
        case DataType::U16:
            return {0, element<uint16_t>(data, index)};
        case DataType::U32:
            return {0, element<uint32_t>(data, index)};
        case DataType::U64:
            return {0, static_cast<int64_t>(element<uint64_t>(data, index))};
        case DataType::Bool:
            return {0, element<uint8_t>(data, index) != 0};
        default:
            return {f32_from_f8(type, element<uint8_t>(data, index)), 0};
    }
}

void store_number(DataType type, void* data, int64_t index, Number value) {
    auto single = static_cast<float>(value.real);
    auto put = [&](auto v) { static_cast<decltype(v)*>(data)[index] = v; };
    switch (type) {
        case DataType::F32:
            return put(single);
        case DataType::F64:
            return put(value.real);
        case DataType::F16:
            return put(f16_from_f32(single));
        case DataType::BF16:
            return put(bf16_from_f32(single));
        case DataType::I8:
        case DataType::U8:
        case DataType::Bool:
            return put(static_cast<uint8_t>(value.integer));
        case DataType::I16:
        case DataType::U16:
            return put(static_cast<uint16_t>(value.integer));
        case DataType::I32:
        case DataType::U32:
            return put(static_cast<uint32_t>(value.integer));
        case DataType::I64:
        case DataType::U64:
            return put(static_cast<uint64_t>(value.integer));
        default:
            return put(f8_from_f32(type, single));
    }
}

}  // namespace refactor::kernel::elementwise
