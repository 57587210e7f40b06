#include "integer_matmul/integer_product_task.h"

#include "common/cpu_features.h"
#include "common/thread_pool.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using I = IntegerMatMulInfo;
using mem_manager::Blob;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Two phases: operands are brought into form (A, B if it is no constant, terms of zero points), then tiles multiply;
/// for each matrix of B by itself where they are many.
class IntegerProductTask final : public runtime::Task {
    IntegerFunctions const& f_;
    IntegerResult result_;
    IntegerShape s_;
    std::shared_ptr<Blob const> packed_;
    DataType y_, residual_;
    bool a_signed_, b_signed_;
    int threads_;
    int64_t largest_ahead_ = static_cast<int64_t>(cpu_features().l2 / 4);
    int64_t a_matrices_, b_matrices_, depth_, tile_dwords_;
    PackedSize size_;
    bool in_place_, many_row_zeros_;
    int64_t rows_ = 0, columns_ = 0, row_parts_ = 1, column_parts_ = 1;  // of a part of each batch
    // Workspace, in bytes from its beginning.
    size_t staged_ = 0, row_sums_ = 0, row_zeros_ = 0, panels_ = 0, terms_ = 0, end_ = 0;

    /// What every column of a matrix needs beside its sum.
    struct Terms {
        int32_t *add, *zero, *sum;
        float* scale;
    };
    /// `slot`: of the workspace, a matrix of B or, where phases are joined, a thread.
    Terms terms(std::byte* workspace, int64_t slot) const {
        auto* first = reinterpret_cast<int32_t*>(workspace + terms_) + slot * 4 * size_.columns;
        return {first, first + size_.columns, first + 2 * size_.columns,
                reinterpret_cast<float*>(first + 3 * size_.columns)};
    }
    int32_t const* panels(std::byte* workspace, int64_t slot) const {
        if (packed_) return static_cast<int32_t const*>(packed_->data());
        return reinterpret_cast<int32_t const*>(workspace + panels_ + static_cast<size_t>(slot) * size_.bytes());
    }

    /// About four parts for each thread, if a part has some work: at 300 operations or 20 bytes of B in a ns, several
    /// times what a fork-join costs. Rows of a part stay in half of L2 together.
    void split() {
        constexpr double kPartNs = 4000;
        auto bytes = static_cast<double>(s_.batches * s_.k) * static_cast<double>(s_.n);
        auto ns = std::max(s_.operations() / 300, bytes / 20);
        auto wanted = threads_ <= 1 ? 1 : std::clamp<int64_t>(static_cast<int64_t>(ns / kPartNs), 1, 4 * threads_);
        auto round_rows = [&](int64_t parts) {
            return std::max<int64_t>(1, ceil_div(ceil_div(s_.m, parts), f_.rows)) * f_.rows;
        };
        auto most = static_cast<int64_t>(cpu_features().l2 / 2) / std::max<int64_t>(1, depth_ * 4);
        rows_ = round_rows(std::max<int64_t>(1, ceil_div(s_.m, std::max<int64_t>(f_.rows, most))));
        row_parts_ = std::max<int64_t>(1, ceil_div(s_.m, rows_));
        auto panels = std::max<int64_t>(1, size_.columns / f_.panel), parts = s_.batches * row_parts_;
        columns_ = ceil_div(panels, std::min(panels, std::max<int64_t>(1, ceil_div(wanted, parts))));
        column_parts_ = ceil_div(panels, columns_);
        parts *= column_parts_;
        if (parts < wanted && s_.m > f_.rows) {
            rows_ = round_rows(row_parts_ * ceil_div(wanted, parts));
            row_parts_ = ceil_div(s_.m, rows_);
        }
        columns_ *= f_.panel;
    }

    void lay_out() {
        auto take = [&](int64_t bytes) {
            auto at = end_;
            end_ += static_cast<size_t>(ceil_div(bytes, 64) * 64);
            return at;
        };
        auto a_rows = a_matrices_ * s_.m;
        staged_ = take(in_place_ ? 0 : a_rows * depth_ * 4);
        row_sums_ = take(a_rows * 4), row_zeros_ = take(many_row_zeros_ ? a_rows * 4 : 0);
        auto slots = joins_phases() ? threads_ : b_matrices_;
        panels_ = take(packed_ ? 0 : slots * static_cast<int64_t>(size_.bytes()));
        terms_ = take(slots * 4 * size_.columns * 4);
    }

    /// Whether a matrix of B is multiplied while caches hold what was packed of it: each is of one product, and there
    /// are enough for all threads.
    bool joins_phases() const {
        return !packed_ && b_matrices_ == s_.batches && (b_matrices_ % threads_ == 0 || b_matrices_ >= 4 * threads_);
    }

    int32_t a_zero(void* const* arguments, int64_t row) const {
        auto at = row / s_.m * s_.a_zero.matrix + row % s_.m * s_.a_zero.element;
        return (arguments[I::kAZero] ? byte_at(arguments[I::kAZero], a_signed_, at) : 0) + a_shift(f_, a_signed_);
    }
    int32_t b_zero(void* const* arguments, int64_t i) const {
        return (arguments[I::kBZero] ? byte_at(arguments[I::kBZero], b_signed_, i) : 0) + b_shift(f_, b_signed_);
    }
    bool has_b_zeros(void* const* arguments) const {
        auto count = s_.b_zero.element ? (s_.b_zero.matrix ? b_matrices_ : 1) * s_.n : 1;
        for (int64_t i = 0; i < count; ++i)
            if (b_zero(arguments, i)) return true;
        return false;
    }
    bool one_b_zero() const { return s_.b_zero.element == 0; }

    void prepare_rows(void* const* arguments, std::byte* workspace, bool sums, int64_t begin, int64_t end) const {
        auto const* a = static_cast<uint8_t const*>(arguments[I::kA]) + begin * s_.k;
        auto* row_sums = reinterpret_cast<int32_t*>(workspace + row_sums_) + begin;
        auto* row_zeros = reinterpret_cast<int32_t*>(workspace + row_zeros_);
        if (!in_place_)
            stage_rows(f_, a, a_signed_, end - begin, s_.k,
                       reinterpret_cast<uint8_t*>(workspace + staged_) + begin * depth_ * 4, sums ? row_sums : nullptr);
        else if (sums)
            for (auto r = begin; r < end; ++r) row_sums[r - begin] = f_.sum(a + (r - begin) * s_.k, s_.k);
        // One zero point of B for all columns makes of them what is added to rows.
        auto zero = static_cast<uint32_t>(b_zero(arguments, 0));
        if (sums && one_b_zero())
            for (int64_t r = 0; r < end - begin; ++r)
                row_sums[r] = static_cast<int32_t>(0u - static_cast<uint32_t>(row_sums[r]) * zero);
        if (many_row_zeros_)
            for (auto r = begin; r < end; ++r) row_zeros[r] = a_zero(arguments, r);
    }
    void prepare_columns(void* const* arguments, std::byte* workspace, int64_t matrix, int64_t slot) const {
        auto* target = const_cast<int32_t*>(panels(workspace, slot));
        auto const* b = static_cast<uint8_t const*>(arguments[I::kB]) + matrix * s_.k * s_.n;
        if (!packed_) f_.pack_rows({b, b_signed_, s_.k, s_.n, s_.n, target, target + size_.dwords});
        auto t = terms(workspace, slot);
        auto const* zeros = static_cast<uint8_t const*>(arguments[I::kBZero]);
        f_.terms({.n = s_.n,
                  .columns = size_.columns,
                  .k = static_cast<int32_t>(s_.k),
                  .sums = target + size_.dwords,
                  .zeros = zeros ? zeros + matrix * s_.b_zero.matrix : nullptr,
                  .zeros_signed = b_signed_,
                  .many_zeros = s_.b_zero.element != 0,
                  .zero_shift = b_shift(f_, b_signed_),
                  .row_zero = many_row_zeros_ ? 0 : a_zero(arguments, 0),
                  .bias = static_cast<int32_t const*>(arguments[I::kBias]),
                  .scales = static_cast<float const*>(arguments[I::kScale]),
                  .many_scales = s_.many_scales,
                  .zero = t.zero,
                  .sum = t.sum,
                  .add = t.add,
                  .scale = t.scale});
    }

    /// `slot` -1: that of the matrix.
    void run_part(void* const* arguments, std::byte* workspace, bool sums, int64_t part, int64_t slot = -1) const {
        auto column = part % column_parts_ * columns_;
        auto row = part / column_parts_ % row_parts_ * rows_, batch = part / column_parts_ / row_parts_;
        int64_t a_offset = 0, b_offset = 0;
        if (batch) s_.offsets(batch, a_offset, b_offset);
        auto first = s_.a_matrix(a_offset) * s_.m + row;
        if (slot < 0) slot = s_.b_matrix(b_offset);
        auto t = terms(workspace, slot);
        constexpr int64_t kNoOffset = 0;
        IntegerBlock b{};
        b.rows = std::min(rows_, s_.m - row), b.columns = std::min(columns_, s_.n - column);
        b.a_row = in_place_ ? s_.k : depth_ * 4;
        b.a = (in_place_ ? static_cast<uint8_t const*>(arguments[I::kA])
                         : reinterpret_cast<uint8_t const*>(workspace + staged_)) +
              first * b.a_row;
        b.a_signed = f_.a_signed;
        b.taps = 1, b.tap_offsets = &kNoOffset, b.depth = depth_, b.tile_dwords = tile_dwords_;
        b.b = panels(workspace, slot) + column * depth_ * f_.cell_bytes() / 4;
        b.largest_ahead = largest_ahead_, b.spills = size_.spills_of(panels(workspace, slot), column);
        b.column_add = t.add + column, b.scale = t.scale + column;
        auto const* row_sums = reinterpret_cast<int32_t const*>(workspace + row_sums_) + first;
        if (sums && one_b_zero())
            b.row_add = row_sums;
        else if (sums)
            b.row_sum = row_sums, b.b_zero = t.zero + column;
        if (many_row_zeros_)
            b.row_zero = reinterpret_cast<int32_t*>(workspace + row_zeros_) + first, b.column_sum = t.sum + column;
        b.tail = tail_of(result_, y_, arguments[I::kYZero], residual_);
        auto at = (batch * s_.m + row) * s_.n + column;
        if (arguments[I::kShift]) b.shift = static_cast<float const*>(arguments[I::kShift]) + column;
        if (arguments[I::kResidual])
            b.residual = static_cast<uint8_t const*>(arguments[I::kResidual]) + storage_bytes(residual_, at);
        b.y = static_cast<std::byte*>(arguments[I::kInputs]) + storage_bytes(y_, at);
        b.y_row = s_.n;
        f_.multiply(b);
    }

public:
    IntegerProductTask(IntegerFunctions const& f, IntegerResult const& result, IntegerShape const& shape,
                       std::shared_ptr<Blob const> packed, int64_t spills, BindArgs const& args)
        : f_(f),
          result_(result),
          s_(shape),
          packed_(std::move(packed)),
          y_(args.outputs[0]->dtype),
          residual_(args.inputs[I::kResidual] ? args.inputs[I::kResidual]->dtype : DataType::Undefined),
          a_signed_(args.inputs[I::kA]->dtype == DataType::I8),
          b_signed_(args.inputs[I::kB]->dtype == DataType::I8),
          threads_(std::max(1, args.threads)),
          depth_(ceil_div(shape.k, f.group)),
          tile_dwords_(tile_dwords_of(f, 1, depth_)),
          size_(f, shape.n, depth_, spills) {
        auto matrices = [&](size_t i) {
            auto const& dims = args.inputs[i]->dims;
            return element_count(std::span<int64_t const>(dims).first(dims.size() - 2));
        };
        a_matrices_ = matrices(I::kA), b_matrices_ = matrices(I::kB);
        in_place_ = f_.is_bytes() && (!a_signed_ || f_.a_signed) && s_.k % f_.group == 0;
        many_row_zeros_ = s_.a_zero.element && a_matrices_ * s_.m > 1;
        if (s_.batches > 1 && b_matrices_ == 1 && s_.folds_rows(false) && s_.a_zero.element == 0)
            s_.m *= s_.batches, a_matrices_ = s_.batches = 1, s_.batch.clear();
        split();
        lay_out();
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        if (s_.m * s_.n * s_.batches == 0) return;
        auto* workspace = context.workspace;
        bool sums = has_b_zeros(arguments);
        auto a_rows = a_matrices_ * s_.m;
        auto row_chunks =
            in_place_ && !sums && !many_row_zeros_ ? 0 : chunks_of(a_rows, static_cast<double>(s_.k) * 0.2, threads_);
        auto prepared = joins_phases() ? 0 : b_matrices_;
        context.pool.parallel_for(row_chunks + prepared, [&](int64_t i, int) {
            if (i < prepared) return prepare_columns(arguments, workspace, i, i);
            i -= prepared;
            prepare_rows(arguments, workspace, sums, a_rows * i / row_chunks, a_rows * (i + 1) / row_chunks);
        });
        auto parts = row_parts_ * column_parts_;
        if (prepared) {
            context.pool.parallel_for(s_.batches * parts,
                                      [&](int64_t part, int) { run_part(arguments, workspace, sums, part); });
            return;
        }
        context.pool.parallel_for(b_matrices_, [&](int64_t i, int thread) {
            prepare_columns(arguments, workspace, i, thread);
            for (auto p = i * parts; p < (i + 1) * parts; ++p) run_part(arguments, workspace, sums, p, thread);
        });
    }
    size_t workspace_bytes() const override { return end_; }
    uint64_t unread_inputs() const override { return packed_ ? 2 : 0; }
    double operations() const override { return s_.operations(); }
};

}  // namespace

std::unique_ptr<runtime::Task> make_integer_product(IntegerFunctions const& f, IntegerResult const& result,
                                                    IntegerShape const& shape, std::shared_ptr<Blob const> packed,
                                                    int64_t spills, BindArgs const& args) {
    bool tiles = args.inputs[I::kA]->dtype == DataType::I8 && f.of_signed && shape.m >= kLeastTileRows &&
                 tile_dwords_of(f, 1, ceil_div(shape.k, f.group));
    return std::make_unique<IntegerProductTask>(tiles ? *f.of_signed : f, result, shape, std::move(packed), spills,
                                                args);
}

}  // namespace refactor::kernel
