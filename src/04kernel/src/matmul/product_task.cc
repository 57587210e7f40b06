#include "matmul/product_task.h"

#include "common/cpu_features.h"
#include "common/half.h"
#include "common/thread_pool.h"
#include "matmul/rounded_product.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

/// Up to this many rows B is read in place: packing a panel costs about as much as 4 rows of products.
constexpr int64_t kFewRows = 16;

/// From so many rows and so deep on, panels are packed of rows that fall on few sets of L1.
constexpr int64_t kManyRows = 64, kCrowdedDepth = 32;

/// Up to this many rows dot products of long rows are as fast where a vector holds the sums of four by four.
constexpr int64_t kRowsOfDots = 32, kLongDots = 256;

/// Up to this many rows a B that is wider than a panel is read row by row: a panel of it would be one line of each of
/// its rows, pages apart.
constexpr int64_t kStreamedRows = 8;

/// Up to this depth the lines of a panel are few enough for tiles to read them side by side: Y is stored once then,
/// not loaded and stored for every eight rows of B.
constexpr int64_t kFlatDepth = 16;

/// From so many rows on, tiles take less than half of the time of streaming, if rows of B are no longer than a few
/// panels, whose lines are close together, or in L2.
constexpr int64_t kTiledRows = 4, kTiledPanels = 4;

/// Up to this many tiles of rows, small weights are widened in registers for each: two conversions for each vector of B
/// on the ports of six multiply-adds. For more, a widened panel is shared, which costs about as much as 16 rows.
constexpr int64_t kFewTiles = 8;

/// Bytes of A's rows that are worked on at a time.
constexpr int64_t kMostOfA = 512 << 10;

/// Of k in a tile, in floats or in pairs.
constexpr int64_t kTileDepth = 32;
/// Rows of A that become tiles at a time.
constexpr int64_t kRowsAtOnce = 16;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

template <class T>
class ProductTask final : public runtime::Task {
    ProductFunctionsOf<T> const& functions_;
    MatMulShape shape_;
    ProductBlockOf<T> block_{};  // with the pointers still open
    std::shared_ptr<Blob const> packed_;
    bool has_scales_, has_bias_, has_residual_;
    void (*multiply_)(ProductBlockOf<T> const&);
    bool swapped_ = false;                      // Yᵀ = Bᵀ · Aᵀ is computed instead
    int64_t rows_ = 0, columns_ = 0;            // of a part
    int64_t row_parts_ = 1, column_parts_ = 1;  // of each batch
    size_t scratch_bytes_ = 0;
    size_t wide_y_ = 0;      // in the scratch memory: of a part, where it is rounded behind the product
    bool shares_a_ = false;  // tiles of A are made once for all parts
    NarrowOperands narrow_;
    int threads_;

    int64_t bytes_of_weight() const {
        return block_.weight_type == WeightType::F32  ? int64_t{sizeof(T)}
               : block_.weight_type == WeightType::I8 ? 1
                                                      : 2;
    }
    /// Up to this many rows dot products take less time than packing B and tiles.
    int64_t most_dots() const { return functions_.width >= 16 && shape_.k > kLongDots ? kRowsOfDots : kFewRows; }
    /// B takes no more than a part of L2 and its rows do not fall on the same sets of L1 (a page apart).
    bool fits(size_t part) const {
        return static_cast<size_t>(shape_.k * shape_.n) * sizeof(T) <= cpu_features().l2 / part &&
               shape_.n * int64_t{sizeof(T)} % 4096;
    }
    /// Packing gains nothing. Lines of a panel whose rows are a quarter of a page apart fall on few sets of L1, which
    /// counts if many rows read them.
    bool stays_in_cache() const {
        bool crowded = shape_.n * int64_t{sizeof(T)} % 1024 == 0 && shape_.k >= kCrowdedDepth;
        return fits(4) && !(crowded && shape_.m >= kManyRows);
    }
    /// Few rows that rows of B, read where they lie, are added to one after the other.
    bool is_streamed() const {
        auto tiled = shape_.m >= kTiledRows && (shape_.n <= kTiledPanels * functions_.panel || fits(2));
        return shape_.m <= kStreamedRows && shape_.k > kFlatDepth && shape_.n > functions_.panel && !tiled;
    }
    /// Depth and rows worked on at a time. A panel of B (k × panel) is read again for every tile and shares L2 with the
    /// rows of A: at most L2/8, and as much as two L1 hold if a vector of it serves but six rows, as of AVX2; the rows
    /// (m × k) at most L2/2, or 512 KB: with 1 MB of 2 products of 1500 rows took 2 to 4 % longer (Emerald Rapids).
    void choose_blocks() {
        auto elements = static_cast<int64_t>(cpu_features().l2 / sizeof(T));
        auto deepest = std::max<int64_t>(64, elements / 8 / functions_.panel);
        if (functions_.width * sizeof(T) == 32)
            deepest = std::min<int64_t>(deepest, cpu_features().l1d * 2 / sizeof(T) / functions_.panel);
        auto reused = shape_.m > functions_.rows;
        block_.block_k = reused ? ceil_div(block_.k, std::max<int64_t>(1, ceil_div(block_.k, deepest))) : block_.k;
        if (by_tiles()) block_.block_k = std::min(block_.k, round_up(block_.block_k, kTileDepth));
        if (by_tiles() && narrow_.y) block_.block_k = block_.k;
        auto most = std::max<int64_t>(functions_.rows, std::min(elements / 2, kMostOfA / int64_t{sizeof(T)}) /
                                                           std::max<int64_t>(1, block_.block_k));
        block_.block_m = round_up(ceil_div(shape_.m, std::max<int64_t>(1, ceil_div(shape_.m, most))), functions_.rows);
    }
    /// Parts for the threads: about four each, of tiles two, which begin slowly, if a part has some 20 µs of work; cut
    /// along N at panels first, for that shares no reading of B.
    void split() {
        constexpr double kPartOperations = 1e6;
        auto panel = static_cast<int64_t>(functions_.panel), panels = ceil_div(shape_.n, panel);
        rows_ = block_.block_m = std::min(block_.block_m, std::max<int64_t>(1, shape_.m)), columns_ = shape_.n;
        // Few rows are bound by reading B (4 bytes or less for 2 m operations).
        auto work = std::max(shape_.operations(), static_cast<double>(shape_.batches * shape_.k) *
                                                      static_cast<double>(shape_.n * bytes_of_weight()) * 3);
        auto most = (by_tiles() ? 2 : 4) * threads_;
        auto wanted = threads_ <= 1 ? 1 : std::min<int64_t>(most, static_cast<int64_t>(work / kPartOperations));
        if (wanted <= 1) rows_ = shape_.m;
        // Threads that keep to their rows find them in their own caches, from one product to the next; then all of them
        // read B, which is asked for ahead and comes several times as fast as what another core has just written.
        // Where panels are split for tiles, that is done once if columns are cut.
        bool splits = by_tiles() && block_.weight_type != WeightType::Pairs;
        auto cuts = wanted <= 1 || !reads_in_place() || splits
                        ? 1
                        : std::min<int64_t>(threads_ / shape_.batches, shape_.m / (8 * functions_.rows));
        if (cuts > 1) rows_ = std::min(rows_, ceil_div(shape_.m, cuts));
        row_parts_ = std::max<int64_t>(1, ceil_div(shape_.m, std::max<int64_t>(1, rows_)));
        auto parts = shape_.batches * row_parts_;
        if (parts < wanted) {
            auto per_part = ceil_div(panels, std::min(panels, ceil_div(wanted, parts)));
            columns_ = per_part * panel, column_parts_ = ceil_div(panels, per_part);
        }
        if (parts * column_parts_ < wanted) balance();
        shares_a_ = by_tiles() && column_parts_ > 1 && shape_.batches * row_parts_ == 1 && !reads_rows_of_a();
    }
    bool by_tiles() const { return multiply_ == functions_.tiles.multiply; }
    /// Tiles read pairs of A where they lie.
    bool reads_rows_of_a() const { return narrow_.a && block_.k % (kTileDepth / 2) == 0; }
    bool reads_in_place() const {
        using enum ProductSource;
        return block_.source == Packed || block_.source == Rows || block_.source == Columns;
    }
    /// Cuts rows further where columns alone leave threads idle, as three panels do with two threads: so that the
    /// thread with the most parts has the least work. A part takes the time of its rows, and of some more to bring B:
    /// those of a tile, or what packing and widening take.
    void balance() {
        auto more = reads_in_place() ? functions_.rows : kFewRows;
        auto cost_of = [&](int64_t rows) {
            auto parts = shape_.batches * column_parts_ * ceil_div(shape_.m, rows);
            return ceil_div(parts, threads_) * (rows + more);
        };
        auto tiles = ceil_div(rows_, functions_.rows), best = rows_;
        for (int64_t cuts = 2; cuts <= std::min<int64_t>(tiles, 2 * threads_); ++cuts)
            if (auto rows = ceil_div(tiles, cuts) * functions_.rows; cost_of(rows) < cost_of(best)) best = rows;
        rows_ = best, row_parts_ = std::max<int64_t>(1, ceil_div(shape_.m, rows_));
    }

public:
    ProductTask(ProductFunctionsOf<T> const& functions, MatMulInfo const& info, MatMulShape const& shape,
                WeightType weight_type, std::shared_ptr<Blob const> packed, int threads, NarrowOperands narrow)
        : functions_(functions),
          shape_(shape),
          packed_(std::move(packed)),
          has_scales_(info.scaled),
          has_bias_(info.epilogue.bias),
          has_residual_(info.epilogue.residual),
          narrow_(narrow),
          threads_(std::max(1, threads)) {
        bool pairs = weight_type == WeightType::Pairs;
        block_.k = pairs ? pairs_of(shape.k) : shape.k, block_.y_row = shape.n;
        block_.elements = pairs && !narrow.a ? shape.k : 0;
        block_.a_row = info.trans_a ? 1 : in_a(shape.k), block_.a_k = info.trans_a ? shape.m : 1;
        block_.b_row = info.trans_b ? shape.k : shape.n;
        block_.weight_type = weight_type;
        block_.scalar_bias = shape.scalar_bias, block_.residual_last = info.epilogue.residual_last;
        block_.alpha = info.alpha, block_.activation = info.epilogue.activation;
        if (shape_.batches > 1 && shape_.folds_rows(info.trans_a)) {
            shape_.m *= shape_.batches, shape_.batches = 1, shape_.batch.clear();
        }
        if (shape_.n == 1 && !packed_ && !pairs) {
            // A column: B is contiguous either way, and Y is one row.
            swapped_ = true, std::swap(shape_.m, shape_.n), block_.y_row = shape_.n;
            block_.b_row = info.trans_a ? shape_.n : shape_.k, block_.a_k = 1;
        }
        bool columns = takes_columns(functions, info, shape, weight_type, packed_ != nullptr);
        auto few = shape_.m <= kFewRows;
        auto small = weight_type != WeightType::F32 && !pairs;
        bool turned = swapped_ ? !info.trans_a : info.trans_b;  // B is [N, K]
        bool flat = !columns && (packed_ || !turned) && takes_flat(functions, shape, weight_type);
        if (flat && packed_) block_.b_row = shape.n;
        using enum ProductSource;
        block_.source = flat                                   ? Rows
                        : columns && (packed_ || info.trans_b) ? Columns
                        : small                                ? Widen
                        : packed_                              ? Packed
                        : turned                               ? PackColumns
                        : pairs                                ? PackRows
                        : few || stays_in_cache()              ? Rows
                                                               : PackRows;
        bool dots = block_.source == PackColumns && shape_.m <= most_dots() && block_.a_k == 1 && !pairs;
        bool streamed = block_.source == Rows && is_streamed();
        multiply_ = flat                                               ? functions_.multiply_flat
                    : columns                                          ? functions_.multiply_columns
                    : dots                                             ? functions_.multiply_dots
                    : streamed                                         ? functions_.multiply_streamed
                    : takes_tiles(functions, info, shape, weight_type) ? functions_.tiles.multiply
                    : small && shape_.m <= kFewTiles * functions_.rows ? functions_.multiply_few
                                                                       : functions_.multiply;
        // Asking for lines of caches takes as long as reading them.
        auto bytes = static_cast<size_t>(shape_.batches * shape_.k * shape_.n) * sizeof(T);
        if (streamed) block_.near = bytes < cpu_features().l3 / 2;
        if (columns)
            block_.near = static_cast<size_t>(shape_.batches * shape_.m * shape_.k) * sizeof(T) < cpu_features().l2;
        if (columns && packed_) block_.b_row = round_up(shape.k, functions_.width);
        choose_blocks();
        split();
        if (columns && block_.source != Columns)
            scratch_bytes_ = static_cast<size_t>(shape.n * round_up(shape.k, functions_.width)) * sizeof(T);
        else if (by_tiles())
            scratch_bytes_ =
                static_cast<size_t>(functions_.tiles.scratch(block_.block_m, block_.block_k, shares_a_)) * sizeof(T);
        else if (multiply_ == functions_.multiply && block_.source != Packed && block_.source != Rows)
            scratch_bytes_ = static_cast<size_t>(round_up(block_.block_k * functions_.panel * int64_t{sizeof(T)}, 64));
        if (pairs && !by_tiles())
            scratch_bytes_ += static_cast<size_t>(round_up(block_.block_m * block_.block_k * 4, 64));
        if (rounds_behind()) wide_y_ = scratch_bytes_, scratch_bytes_ += static_cast<size_t>(rows_ * columns_ * 4);
    }

    /// Elements of A, as steps of a pointer to T.
    int64_t in_a(int64_t elements) const { return narrow_.a ? elements / 2 : elements; }
    /// Sums of vectors that are stored in between are f32.
    bool rounds_behind() const { return narrow_.y && !by_tiles() && block_.block_k < block_.k; }
    void round_part(ProductBlockOf<T> const& t, uint16_t* y) const {
        for (int64_t i = 0; i < t.m; ++i)
            convert(DataType::F32, t.y + i * t.y_row, DataType::BF16, y + i * shape_.n, t.n);
    }

    void run_part(void* const* arguments, int64_t part, T* a_tiles, std::byte* scratch) const {
        auto t = block_;
        int64_t batch = 0, row = 0, column = 0, a = 0, b = 0;
        if (part) {
            column = part % column_parts_ * columns_, part /= column_parts_;
            row = part % row_parts_ * rows_, batch = part / row_parts_;
        }
        if (batch) shape_.offsets(batch, a, b);
        if (swapped_) std::swap(a, b);
        t.m = std::min(rows_, shape_.m - row), t.n = std::min(columns_, shape_.n - column);
        t.a = static_cast<T const*>(arguments[swapped_ ? 1 : 0]) + in_a(a) + row * t.a_row;
        if (t.source == ProductSource::Widen)
            t.weights = static_cast<std::byte const*>(packed_->data()) + column * t.k * bytes_of_weight();
        else if (packed_)
            t.b = static_cast<T const*>(packed_->data()) + (t.source == ProductSource::Rows ? column : column * t.k);
        else
            t.b = static_cast<T const*>(arguments[swapped_ ? 0 : 1]) + b +
                  (t.source == ProductSource::PackColumns ? column * t.b_row : column);
        auto const* next = arguments + 2;
        if (has_scales_) t.scales = static_cast<float const*>(*next++) + column;
        if (has_bias_) t.bias = static_cast<T const*>(*next++) + (t.scalar_bias ? 0 : column);
        auto y = (batch * shape_.m + row) * shape_.n + column;
        if (has_residual_) t.residual = static_cast<T const*>(*next++) + y;
        t.scratch = reinterpret_cast<T*>(scratch);
        t.a_tiles = a_tiles;
        if (rounds_behind()) {
            t.y = reinterpret_cast<T*>(scratch + wide_y_), t.y_row = columns_;
            multiply_(t);
            return round_part(t, static_cast<uint16_t*>(*next) + y);
        }
        if (narrow_.y)
            t.narrow_y = static_cast<uint16_t*>(*next) + y;
        else
            t.y = static_cast<T*>(*next) + y;
        multiply_(t);
    }
    T* make_a(void* const* arguments, runtime::RunContext const& context) const {
        auto t = block_;
        t.m = shape_.m, t.a = static_cast<T const*>(arguments[0]), t.a_tiles = reinterpret_cast<T*>(context.workspace);
        context.pool.parallel_for(ceil_div(t.m, kRowsAtOnce), [&](int64_t i, int) {
            functions_.tiles.make_tiles(t, i * kRowsAtOnce, std::min(kRowsAtOnce, t.m - i * kRowsAtOnce));
        });
        return t.a_tiles;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* a_tiles = shares_a_ ? make_a(arguments, context) : nullptr;
        auto parts = shape_.batches * row_parts_ * column_parts_;
        context.pool.parallel_for(
            parts, [&](int64_t part, int worker) { run_part(arguments, part, a_tiles, context.scratch_of(worker)); });
    }
    size_t workspace_bytes() const override {
        return shares_a_ ? static_cast<size_t>(functions_.tiles.tiles_of_a(shape_.m, block_.k)) * sizeof(T) : 0;
    }
    size_t scratch_bytes() const override { return scratch_bytes_; }
    uint64_t unread_inputs() const override { return packed_ ? 2 : 0; }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

template <class T>
bool takes_columns(ProductFunctionsOf<T> const& functions, MatMulInfo const& info, MatMulShape const& shape,
                   WeightType weight_type, bool packed) {
    auto width = int64_t{functions.width}, n = shape.n, k = shape.k;
    if (!functions.multiply_columns || weight_type != WeightType::F32 || info.trans_a) return false;
    // Four sums, of f64 with AVX2, would wait for each other.
    if (n < 2 || n > width / 2 || width < 8) return false;
    auto m = shape.folds_rows(false) ? shape.m * shape.batches : shape.m;
    // In cycles of two multiply-adds. Sums across as many vectors as have lanes take three for two of them; turning B,
    // three for each of its rows. Tiles of one vector of columns run at two thirds of the rate.
    auto rows = width / n, tile = ceil_div(k, width) * rows * n / 2 + 3 * width / 2;
    return ceil_div(m, rows) * tile + (packed || info.trans_b ? 0 : 3 * k) < 3 * m * k / 4;
}
template bool takes_columns(ProductFunctionsOf<float> const&, MatMulInfo const&, MatMulShape const&, WeightType, bool);
template bool takes_columns(ProductFunctionsOf<double> const&, MatMulInfo const&, MatMulShape const&, WeightType, bool);

template <class T>
bool takes_flat(ProductFunctionsOf<T> const& functions, MatMulShape const& shape, WeightType weight_type) {
    if (!functions.multiply_flat || functions.tiles.multiply || weight_type != WeightType::F32) return false;
    return shape.n > 1 && shape.k > 0 && shape.k <= functions.flat;
}
template bool takes_flat(ProductFunctionsOf<float> const&, MatMulShape const&, WeightType);
template bool takes_flat(ProductFunctionsOf<double> const&, MatMulShape const&, WeightType);

template <class T>
bool takes_tiles(ProductFunctionsOf<T> const& functions, MatMulInfo const& info, MatMulShape const& shape,
                 WeightType weight_type) {
    if (!functions.tiles.multiply || info.trans_a) return false;
    auto m = shape.folds_rows(false) ? shape.m * shape.batches : shape.m;
    return m >= rows_for_tiles(weight_type == WeightType::Pairs) && shape.n > functions.width / 2;
}
template bool takes_tiles(ProductFunctionsOf<float> const&, MatMulInfo const&, MatMulShape const&, WeightType);
template bool takes_tiles(ProductFunctionsOf<double> const&, MatMulInfo const&, MatMulShape const&, WeightType);

template <class T>
std::unique_ptr<runtime::Task> make_product_task(ProductFunctionsOf<T> const& functions, MatMulInfo const& info,
                                                 MatMulShape const& shape, WeightType weight_type,
                                                 std::shared_ptr<Blob const> packed, int threads,
                                                 NarrowOperands narrow) {
    return std::make_unique<ProductTask<T>>(functions, info, shape, weight_type, std::move(packed), threads, narrow);
}
template std::unique_ptr<runtime::Task> make_product_task(ProductFunctionsOf<float> const&, MatMulInfo const&,
                                                          MatMulShape const&, WeightType, std::shared_ptr<Blob const>,
                                                          int, NarrowOperands);
template std::unique_ptr<runtime::Task> make_product_task(ProductFunctionsOf<double> const&, MatMulInfo const&,
                                                          MatMulShape const&, WeightType, std::shared_ptr<Blob const>,
                                                          int, NarrowOperands);

}  // namespace refactor::kernel
