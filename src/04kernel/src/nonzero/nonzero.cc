#include "common/error.h"
#include "common/thread_pool.h"
#include "cuda/device_selects.h"

#include <bit>

namespace refactor::kernel {

namespace {

using runtime::Value;

/// Writes the flat indices of the elements of [begin, end) that are not zero; only counts if `target` is null.
using Scan = int64_t (*)(void const* data, int64_t begin, int64_t end, int64_t* target);

template <class T>
int64_t scan(void const* data, int64_t begin, int64_t end, int64_t* target) {
    auto const* x = static_cast<T const*>(data);
    int64_t count = 0;
    if (!target) {
        for (int64_t i = begin; i < end; ++i) count += x[i] != T{};
        return count;
    }
    for (int64_t i = begin; i < end; ++i) {
        target[count] = i;
        count += x[i] != T{};
    }
    return count;
}

/// Both zeros of a small float are zero: all bits but the sign.
template <class T, T kMask>
int64_t scan_masked(void const* data, int64_t begin, int64_t end, int64_t* target) {
    auto const* x = static_cast<T const*>(data);
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) {
        if (target && (x[i] & kMask)) target[count] = i;
        count += (x[i] & kMask) != 0;
    }
    return count;
}

Scan scan_of(DataType dtype) {
    switch (dtype) {
        case DataType::F32:
            return scan<float>;
        case DataType::F64:
            return scan<double>;
        case DataType::F16:
        case DataType::BF16:
            return scan_masked<uint16_t, 0x7fff>;
        case DataType::Bool:
        case DataType::U8:
        case DataType::I8:
            return scan<uint8_t>;
        case DataType::U16:
        case DataType::I16:
            return scan<uint16_t>;
        case DataType::U32:
        case DataType::I32:
            return scan<uint32_t>;
        case DataType::U64:
        case DataType::I64:
            return scan<uint64_t>;
        default:
            throw Unsupported("NonZero of " + std::string(name_of(dtype)));
    }
}

class NonZero final : public runtime::Procedure {
public:
    std::string id() const override { return "nonzero:cpu:scan:any"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& context) const override {
        auto const& x = *inputs[0];
        auto elements = x.count();
        auto find = scan_of(x.dtype);
        // Blocks that fit the second cache level: counted, then written where the counts say.
        constexpr int64_t kBlock = 1 << 16;
        auto blocks = (elements + kBlock - 1) / kBlock;
        auto const* data = x.data<std::byte>();
        std::vector<int64_t> starts(static_cast<size_t>(blocks) + 1);
        auto end_of = [&](int64_t block) { return std::min(elements, (block + 1) * kBlock); };
        context.pool->parallel_for(blocks, [&](int64_t block, int) {
            starts[static_cast<size_t>(block) + 1] = find(data, block * kBlock, end_of(block), nullptr);
        });
        for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
        auto total = starts.back();
        auto rank = static_cast<int64_t>(x.dims.size());
        auto* target = static_cast<int64_t*>(outputs[0].resize(DataType::I64, {rank, total}));
        if (!rank || !total) return;
        context.pool->parallel_for(blocks, [&](int64_t block, int) {
            auto first = starts[static_cast<size_t>(block)], last = starts[static_cast<size_t>(block) + 1];
            if (first == last) return;
            // One index more than there are may be written before it is dropped: not into the next block's part.
            std::vector<int64_t> flat(static_cast<size_t>(last - first) + 1);
            find(data, block * kBlock, end_of(block), flat.data());
            for (int64_t i = first; i < last; ++i) {
                auto rest = flat[static_cast<size_t>(i - first)];
                for (auto axis = rank; axis-- > 0;) {
                    auto size = x.dims[static_cast<size_t>(axis)];
                    target[axis * total + i] = rest % size;
                    rest /= size;
                }
            }
        });
    }
};

}  // namespace

ProcedurePtr make_nonzero(DataType x, mem_manager::Device* place) {
    auto there = place ? cuda::nonzero_nvrtc(*place, x) : nullptr;
    return there ? there : std::make_shared<NonZero>();
}

}  // namespace refactor::kernel
