#include "scatter/put.h"

#include "common/half.h"
#include "scatter/put_floats.h"

#include <utility>

namespace refactor::kernel {

using namespace movement;

namespace {

template <class T>
T reduce(ScatterReduction reduction, T a, T b) {
    switch (reduction) {
        case ScatterReduction::Min:
            return a != a || a < b ? a : b;
        case ScatterReduction::Max:
            return a != a || a > b ? a : b;
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>) {
        auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
        return static_cast<T>(reduction == ScatterReduction::Add ? x + y : x * y);
    } else {
        return reduction == ScatterReduction::Add ? a + b : a * b;
    }
}

template <class T, ScatterReduction kReduction>
struct Element {
    static constexpr int64_t kBytes = sizeof(T);
    static void put(std::byte* y, std::byte const* update) {
        store(y, reduce(kReduction, load<T>(y), load<T>(update)));
    }
};

/// f16 or bf16 held in 16 bits.
template <bool kF16>
struct Half {
    uint16_t bits;
};
template <bool kF16, ScatterReduction kReduction>
struct Element<Half<kF16>, kReduction> {
    static constexpr int64_t kBytes = 2;
    static void put(std::byte* y, std::byte const* update) {
        auto widen = kF16 ? f32_from_f16 : f32_from_bf16;
        auto narrow = kF16 ? f16_from_f32 : bf16_from_f32;
        store(y, narrow(reduce(kReduction, widen(load<uint16_t>(y)), widen(load<uint16_t>(update)))));
    }
};

template <class T>
struct Element<T, ScatterReduction::None> {
    static constexpr int64_t kBytes = sizeof(T);
    static void put(std::byte* y, std::byte const* update) { store(y, load<T>(update)); }
};

template <class E>
void put_elements(std::byte* y, int64_t const* to, int64_t count, std::byte const* updates) {
    for (int64_t i = 0; i < count; ++i) E::put(y + to[i] * E::kBytes, updates + i * E::kBytes);
}

template <class E>
void combine_rows(std::byte* y, int64_t const* to, int64_t count, int64_t row, std::byte const* updates, int64_t step) {
    for (int64_t i = 0; i < count; ++i, updates += step * E::kBytes)
        for (int64_t j = 0; j < row; ++j) E::put(y + (to[i] + j) * E::kBytes, updates + j * E::kBytes);
}

/// `size` bytes, of which there are at least `kHalf` and at most two times as many, without a call.
template <int64_t kHalf>
void copy_halves(std::byte* to, std::byte const* from, int64_t size) {
    std::byte head[kHalf], tail[kHalf];
    std::memcpy(head, from, kHalf), std::memcpy(tail, from + size - kHalf, kHalf);
    std::memcpy(to, head, kHalf), std::memcpy(to + size - kHalf, tail, kHalf);
}

template <int64_t kBytes>
void copy_rows(std::byte* y, int64_t const* to, int64_t count, int64_t row, std::byte const* updates, int64_t step) {
    auto size = row * kBytes;
    auto each = [&](auto copy) {
        for (int64_t i = 0; i < count; ++i) copy(y + to[i] * kBytes, updates + i * step * kBytes, size);
    };
    if (size < 4 || size > 64)
        return each(
            [](std::byte* at, std::byte const* from, int64_t n) { std::memcpy(at, from, static_cast<size_t>(n)); });
    if (size <= 8) return each(copy_halves<4>);
    if (size <= 16) return each(copy_halves<8>);
    if (size <= 32) return each(copy_halves<16>);
    each(copy_halves<32>);
}

template <class T, ScatterReduction kReduction>
constexpr Put kCombine{Element<T, kReduction>::kBytes, put_elements<Element<T, kReduction>>,
                       combine_rows<Element<T, kReduction>>};

template <ScatterReduction kReduction>
Put combine_of(DataType type) {
    switch (type) {
        case DataType::F32:
            return kCombine<float, kReduction>;
        case DataType::F64:
            return kCombine<double, kReduction>;
        case DataType::F16:
            return kCombine<Half<true>, kReduction>;
        case DataType::BF16:
            return kCombine<Half<false>, kReduction>;
        case DataType::I8:
            return kCombine<int8_t, kReduction>;
        case DataType::I16:
            return kCombine<int16_t, kReduction>;
        case DataType::I32:
            return kCombine<int32_t, kReduction>;
        case DataType::I64:
            return kCombine<int64_t, kReduction>;
        case DataType::U8:
            return kCombine<uint8_t, kReduction>;
        case DataType::U16:
            return kCombine<uint16_t, kReduction>;
        case DataType::U32:
            return kCombine<uint32_t, kReduction>;
        case DataType::U64:
            return kCombine<uint64_t, kReduction>;
        default:
            return {};
    }
}

Put combine_of(ScatterReduction reduction, DataType type) {
    switch (reduction) {
        case ScatterReduction::Add:
            return combine_of<ScatterReduction::Add>(type);
        case ScatterReduction::Mul:
            return combine_of<ScatterReduction::Mul>(type);
        case ScatterReduction::Min:
            return combine_of<ScatterReduction::Min>(type);
        case ScatterReduction::Max:
            return combine_of<ScatterReduction::Max>(type);
        default:
            return Put::words(element_bytes(type));
    }
}

Put::Rows rows_of_floats([[maybe_unused]] ScatterReduction reduction) {
#if RG_X86
    auto const& rows = put_floats_avx2();
    switch (reduction) {
        case ScatterReduction::Add:
            return rows.add;
        case ScatterReduction::Mul:
            return rows.multiply;
        case ScatterReduction::Min:
            return rows.least;
        case ScatterReduction::Max:
            return rows.largest;
        default:
            break;
    }
#endif
    return nullptr;
}

}  // namespace

Put Put::words(int64_t bytes) {
    return with_word(bytes, [](auto word) {
        using Word = decltype(word);
        return Put{sizeof(Word), put_elements<Element<Word, ScatterReduction::None>>, copy_rows<sizeof(Word)>};
    });
}

Put Put::of(ScatterReduction reduction, DataType type, Isa isa) {
    auto put = combine_of(reduction, type);
    if (type == DataType::F32 && isa >= Isa::Avx2)
        if (auto rows = rows_of_floats(reduction)) put.rows = rows;
    return put;
}

void Put::runs(std::byte* y, int64_t const* to, int64_t count, std::byte const* updates) const {
    // What the first two show; elements of either order are put right by both.
    if (count < 2 || to[1] != to[0] + 1) return elements(y, to, count, updates);
    for (int64_t i = 0, run; i < count; i += run) {
        for (run = 1; i + run < count && to[i + run] == to[i] + run;) ++run;
        rows(y, to + i, 1, run, updates + i * bytes, run);
    }
}

}  // namespace refactor::kernel
