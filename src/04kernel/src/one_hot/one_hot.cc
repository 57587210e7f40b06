#include "one_hot/one_hot.h"

#include "cuda/movement_kernels.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel {

using namespace movement;

std::string OneHotInfo::attributes() const { return "axis=" + std::to_string(axis); }

Candidates candidates(OneHotInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("one_hot:nvidia:nvrtc", cuda::one_hot_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "one_hot/one_hot_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// The class that `index` says, -1 if it is outside [-depth, depth) or no integer.
template <class T>
int64_t class_of(T index, int64_t depth) {
    if constexpr (std::is_unsigned_v<T>) return index < static_cast<uint64_t>(depth) ? static_cast<int64_t>(index) : -1;
    if constexpr (std::is_integral_v<T>) {
        auto i = static_cast<int64_t>(index);
        return i < -depth || i >= depth ? -1 : i < 0 ? i + depth : i;
    }
    auto limit = static_cast<double>(depth), value = static_cast<double>(index);
    if (!(value >= -limit && value < limit)) return -1;
    auto i = static_cast<int64_t>(index);
    if (static_cast<T>(i) != index) return -1;
    return i < 0 ? i + depth : i;
}

/// Some words by themselves, the others by copies of them.
template <class W>
void fill(std::byte* out, W value, int64_t count) {
    constexpr int64_t kBytes = sizeof(W), kWords = 4096 / kBytes;
    auto first = std::min(count, kWords);
    for (int64_t i = 0; i < first; ++i) store(out + i * kBytes, value);
    for (int64_t i = first; i < count; i += kWords)
        std::memcpy(out + i * kBytes, out, static_cast<size_t>(std::min(kWords, count - i) * kBytes));
}

template <class T>
TaskResult bind_typed(OneHotInfo const& info, BindArgs const& args, Isa) {
    auto const &indices = *args.inputs[0], &y = *args.outputs[0];
    auto rank = static_cast<int64_t>(y.dims.size()), axis = info.axis < 0 ? info.axis + rank : info.axis;
    if (axis < 0 || axis >= rank || rank != static_cast<int64_t>(indices.dims.size()) + 1)
        return Err{Rejection{"axis " + std::to_string(info.axis) + " of output " + to_string(y.dims) + " for indices " +
                             to_string(indices.dims)}};
    auto outer = count_of(y.dims, 0, axis), depth = y.dims[axis], inner = count_of(y.dims, axis + 1, rank);
    if (outer * inner != indices.count())
        return Err{Rejection{"indices " + to_string(indices.dims) + " for output " + to_string(y.dims)}};
    auto bytes = element_bytes(y.dtype), values = static_cast<int64_t>(args.inputs.size()) - 1;
    return make_task([=](void* const* a, runtime::RunContext const&) {
        auto *off = static_cast<std::byte const*>(a[values]), *on = off + bytes;
        auto* out = static_cast<std::byte*>(a[values + 1]);
        auto* index = static_cast<T const*>(a[0]);
        with_word(bytes, [&](auto word) {
            using W = decltype(word);
            auto low = load<W>(off), high = load<W>(on);
            fill(out, low, outer * depth * inner);
            for (int64_t o = 0; o < outer; ++o)
                for (int64_t i = 0; i < inner; ++i) {
                    auto at = class_of(index[o * inner + i], depth);
                    if (at >= 0) store(out + ((o * depth + at) * inner + i) * bytes, high);
                }
        });
    });
}

}  // namespace

KernelResult one_hot_reference(OneHotInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 2, .max_inputs = 3, .same_dtype = false})) return Err{*no};
    if (auto type = request.inputs.back().dtype; type != request.outputs[0].dtype)
        return Err{Rejection{"values of " + std::string(name_of(type)) + ", expected " +
                             std::string(name_of(request.outputs[0].dtype))}};
    auto made = [&](auto value) {
        return make_kernel(info, "one_hot", "reference", request, bind_typed<decltype(value)>);
    };
    switch (request.inputs[0].dtype) {
        case DataType::F32:
            return made(float{});
        case DataType::F64:
            return made(double{});
        case DataType::I8:
            return made(int8_t{});
        case DataType::I16:
            return made(int16_t{});
        case DataType::I32:
            return made(int32_t{});
        case DataType::I64:
            return made(int64_t{});
        case DataType::U8:
            return made(uint8_t{});
        case DataType::U16:
            return made(uint16_t{});
        case DataType::U32:
            return made(uint32_t{});
        case DataType::U64:
            return made(uint64_t{});
        default:
            return Err{Rejection{"indices of " + std::string(name_of(request.inputs[0].dtype)) +
                                 ", expected numbers of 8 to 64 bits, not f16"}};
    }
}

}  // namespace refactor::kernel
