#include "elementwise/spread.h"

namespace refactor::kernel::elementwise {

namespace {

SpreadFunction find_spread(SpreadKey key, [[maybe_unused]] Isa isa) {
#if RG_X86
    if (isa >= Isa::Avx512) return spread_avx512(key);
    if (isa >= Isa::Avx2) return spread_avx2(key);
#endif
    return spread_generic(key);
}

}  // namespace

Spread::Spread(LoopNest const& nest, LoopNest::Input const& input, Isa isa)
    : row_bytes_((input.access == Access::Position ? nest.block : nest.row) * input.bytes),
      function_(find_spread({input.bytes, input.access != Access::Row, row_bytes_}, isa)) {
    auto const& rows = input.access == Access::Position ? nest.positions : nest.outer;
    for (size_t i = 0; i < rows.size(); ++i) {
        auto size = rows[i], stride = input.strides[i] * input.bytes;
        if (!sizes_.empty() && strides_.back() == stride * size) {
            sizes_.back() *= size, strides_.back() = stride;
        } else {
            sizes_.push_back(size), strides_.push_back(stride);
        }
    }
    // Short rows, several at once.
    constexpr int64_t kShort = 32;
    auto stride = sizes_.empty() ? -1 : strides_.back();
    if (input.access == Access::Position || stride < 0 || row_bytes_ < 1 || row_bytes_ > kShort) return;
    auto width = input.access == Access::Row ? row_bytes_ : input.bytes;
    auto together = std::min(sizes_.back(), movement::ShuffleTable::kMostOut / row_bytes_);
    if (stride > 0) together = std::min(together, (movement::ShuffleTable::kMostIn - width) / stride + 1);
    if (together * row_bytes_ < kShort) return;
    shuffle_ = {Dims{together, nest.row}, Dims{stride, input.access == Access::Row ? input.bytes : 0}, input.bytes,
                isa};
    if (shuffle_) together_ = together;
}

/// Rows whose sources are `stride` bytes apart.
void Spread::run_along(std::byte const* from, std::byte* to, int64_t stride, int64_t rows) const {
    if (auto blocks = rows / together_; shuffle_ && blocks > 0) {
        shuffle_.run(from, together_ * stride, to, together_ * row_bytes_, blocks);
        auto done = blocks * together_;
        from += done * stride, to += done * row_bytes_, rows -= done;
    }
    function_(to, from, stride, rows, row_bytes_);
}

int64_t Spread::period() const {
    size_t first = 0;
    while (first < sizes_.size() && strides_[first] == 0) ++first;
    int64_t rows = 1;
    for (auto i = first; i < sizes_.size(); ++i) rows *= sizes_[i];
    return rows;
}

void Spread::run(std::byte const* from, std::byte* to, int64_t row, int64_t rows) const {
    Dims at(sizes_.size());
    for (auto i = sizes_.size(); i-- > 0; row /= sizes_[i]) {
        at[i] = row % sizes_[i];
        from += at[i] * strides_[i];
    }
    auto const last = sizes_.size() - 1;
    for (;;) {
        auto run = std::min(rows, sizes_[last] - at[last]);
        run_along(from, to, strides_[last], run);
        if ((rows -= run) == 0) return;
        to += run * row_bytes_;
        from -= at[last] * strides_[last];
        at[last] = 0;
        for (auto i = last; i-- > 0;) {
            from += strides_[i];
            if (++at[i] < sizes_[i]) break;
            from -= sizes_[i] * strides_[i];
            at[i] = 0;
        }
    }
}

}  // namespace refactor::kernel::elementwise
