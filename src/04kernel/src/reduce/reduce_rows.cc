#include "reduce/rows_choice.h"
#include "reduce/rows_pass.h"

#include <memory>
#include <vector>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.15;
/// A run of reduced axes inside of others that is shorter, or kept columns that are fewer, is not worth a call for
/// each.
constexpr int64_t kShortRun = 256, kFewColumns = 16;

RowOp op_of(ReduceKind kind) {
    switch (kind) {
        case ReduceKind::Max:
            return RowOp::Max;
        case ReduceKind::Min:
            return RowOp::Min;
        case ReduceKind::Prod:
            return RowOp::Prod;
        case ReduceKind::L1:
            return RowOp::Abs;
        case ReduceKind::L2:
        case ReduceKind::SumSquare:
            return RowOp::Square;
        case ReduceKind::LogSumExp:
            return RowOp::Exp;
        default:
            return RowOp::Sum;
    }
}

/// All runs of axes in one pass, or one pass for each where pieces of memory would be short.
template <class T>
class ReduceRows final : public runtime::Task {
    std::vector<RowsPass<T>> passes_;
    size_t between_bytes_[2]{}, pass_bytes_ = 0, scratch_bytes_ = 0;  // of results in between, in turns
    double operations_;

    /// Of pass `index` of some; those behind the first combine what has been mapped.
    static RowsStep step_of(ReduceKind kind, int64_t reduced, size_t index, size_t passes) {
        auto op = op_of(kind);
        bool is_sum = op == RowOp::Sum || op == RowOp::Abs || op == RowOp::Square;
        if (index > 0 && is_sum) op = RowOp::Sum;
        if (index + 1 < passes && op != RowOp::Exp) kind = ReduceKind::Sum;
        return {op, kind, reduced};
    }
    static bool is_cut(ReduceShape const& shape) {
        if (shape.reduced.size() < 2 || shape.reduced_count * shape.kept_count == 0) return false;
        return shape.reduces_last ? shape.reduced.back().size < kShortRun : shape.kept.back().size < kFewColumns;
    }

public:
    static std::string why_not(ReduceInfo const&, BindArgs const&) { return {}; }
    ReduceRows(RowFunctionsOf<T> const& functions, ReduceInfo const& info, BindArgs const& args) {
        ReduceShape shape(args.inputs[0]->dims, info.axes);
        operations_ = static_cast<double>(shape.kept_count) * static_cast<double>(shape.reduced_count);
        if (!is_cut(shape)) {
            passes_.emplace_back(functions, step_of(info.kind, shape.reduced_count, 0, 1), shape, args.threads);
        } else {
            auto passes = passes_of(shape);
            for (size_t i = 0; i < passes.size(); ++i) {
                auto [outer, size, inner] = passes[i];
                passes_.emplace_back(functions, step_of(info.kind, shape.reduced_count, i, passes.size()),
                                     ReduceShape(Dims{outer, size, inner}, Dims{1}), args.threads);
                if (i + 1 == passes.size()) break;
                auto bytes = (static_cast<size_t>(outer * inner) * sizeof(T) + 63) / 64 * 64;
                between_bytes_[i % 2] = std::max(between_bytes_[i % 2], bytes);
            }
        }
        for (auto const& pass : passes_) {
            pass_bytes_ = std::max(pass_bytes_, pass.workspace_bytes());
            scratch_bytes_ = std::max(scratch_bytes_, pass.scratch_bytes());
        }
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<T const*>(arguments[0]);
        std::byte* between[]{context.workspace, context.workspace + between_bytes_[0]};
        for (size_t i = 0; i < passes_.size(); ++i) {
            auto* y = static_cast<T*>(i + 1 == passes_.size() ? arguments[1] : between[i % 2]);
            passes_[i].run(x, y, context, between[1] + between_bytes_[1]);
            x = y;
        }
    }
    size_t workspace_bytes() const override { return between_bytes_[0] + between_bytes_[1] + pass_bytes_; }
    size_t scratch_bytes() const override { return scratch_bytes_; }
    double operations() const override { return operations_; }
};

}  // namespace

MaybeKernel make_reduce_rows(ReduceInfo const& info, Request const& request) {
    return make_row_kernel<ReduceInfo, ReduceRows>("reduce", info, request, kNsPerElement);
}

}  // namespace refactor::kernel
