#include "movement/row_pieces.h"

#include <array>
#include <utility>

namespace refactor::kernel::movement {

namespace {

/// `kBytes` 0: any number.
template <size_t kBytes>
void copy_runs(std::byte const* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t count, int64_t bytes) {
    auto size = kBytes ? kBytes : static_cast<size_t>(bytes);
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, size);
}

template <size_t... bytes>
constexpr auto copies(std::index_sequence<bytes...>) {
    return std::array{copy_runs<bytes>...};
}
/// Up to a cache line.
constexpr auto kCopies = copies(std::make_index_sequence<65>());
/// Where a call of memcpy is less than a tenth of what it does.
constexpr int64_t kLong = 1024;

}  // namespace

CopyRuns copy_runs_of(int64_t bytes, [[maybe_unused]] Isa isa) {
    auto size = static_cast<size_t>(bytes);
    if (size < kCopies.size()) return kCopies[size];
#if RG_X86
    if (isa >= Isa::Avx2 && bytes <= kLong) return copy_runs_avx2;
#endif
    return kCopies[0];
}

Result<RowPieces, Rejection> RowPieces::make(TensorDesc const& whole, std::span<TensorDesc const* const> pieces,
                                             int64_t axis) {
    auto rank = static_cast<int64_t>(whole.dims.size());
    if (axis < 0 || axis >= rank)
        return Err{Rejection{"axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(rank)}};
    auto block = block_of(whole.layout);
    RowPieces result;
    result.rows = count_of(whole.dims, 0, axis);
    auto inner = element_bytes(whole.dtype) * count_of(whole.dims, axis + 1, whole.dims.size());
    int64_t sum = 0;
    result.begin.push_back(0);
    for (auto const* piece : pieces) {
        bool same = piece->layout == whole.layout && piece->dims.size() == whole.dims.size();
        for (int64_t i = 0; same && i < rank; ++i) same = i == axis || piece->dims[i] == whole.dims[i];
        if (!same)
            return Err{Rejection{"a piece of shape " + to_string(piece->dims) + " in " + to_string(whole.dims) +
                                 " along axis " + std::to_string(axis) + ": other sizes and layouts must agree"}};
        if (block > 1 && (axis != 1 || piece->dims[axis] % block))
            return Err{Rejection{"blocked layout with " + std::to_string(piece->dims[axis]) + " at axis " +
                                 std::to_string(axis) + ", expected whole blocks of channels"}};
        sum += piece->dims[axis];
        result.begin.push_back(sum * inner);
    }
    if (sum != whole.dims[axis])
        return Err{Rejection{"sizes along axis " + std::to_string(axis) + " add up to " + std::to_string(sum) +
                             ", expected " + std::to_string(whole.dims[axis])}};
    result.row_bytes = sum * inner;
    return result;
}

}  // namespace refactor::kernel::movement
