#pragma once
#include "common/thread_pool.h"
#include "mem_manager/blob.h"
#include "recurrent/recurrent_packed.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace refactor::kernel {

/// Weights of a Program, packed for every direction; null where they are not constant.
struct PackedWeights {
    std::shared_ptr<mem_manager::Blob const> w, r, part;
};

/// One recurrent layer with packed weights: what every way to walk over its steps shares.
class RecurrentTask : public runtime::Task {
public:
    RecurrentTask(RecurrentFunctions functions, RecurrentInfo const& info, RecurrentShape const& shape,
                  PackedWeights packed, int threads)
        : functions_(functions),
          info_(info),
          s_(shape),
          packed_(std::move(packed)),
          p_(functions, info, shape, std::max(1, threads), packed_.w != nullptr, packed_.r != nullptr),
          threads_(std::max(1, threads)) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override;
    size_t workspace_bytes() const override { return p_.total * sizeof(float); }
    size_t scratch_bytes() const override;
    uint64_t unread_inputs() const override { return (packed_.w ? 2u : 0u) | (packed_.r ? 4u : 0u); }
    double operations() const override { return s_.operations(); }

protected:
    /// One direction of one run.
    struct Direction {
        int64_t index;
        float* base;
        void* const* arguments;
        runtime::RunContext const* context;
        float const *w, *r, *part;
    };

    RecurrentFunctions functions_;
    RecurrentInfo info_;
    RecurrentShape s_;
    PackedWeights packed_;
    RecurrentPlan p_;
    int threads_;

    /// All steps of all directions, from the states at `h` and `c`.
    virtual void walk(Direction const* all, ThreadPool&) const = 0;

    float const* input(void* const* arguments, int i, int64_t offset) const {
        return i < 0 ? nullptr : static_cast<float const*>(arguments[i]) + offset;
    }
    int32_t const* lengths_of(void* const* arguments) const {
        return s_.lengths < 0 ? nullptr : static_cast<int32_t const*>(arguments[s_.lengths]);
    }
    bool is_reverse(Direction const& d) const { return s_.is_reverse(info_, d.index); }
    enum class Weights : uint8_t { W, R, Part };
    /// A product with `rows` rows of A; which, and what becomes of them, is left to the caller.
    ProductBlock product_of(GateMatrix const&, int64_t rows, float const* b, int64_t column, int64_t columns) const;
    /// Most rows of A that W and R are multiplied with at a time.
    int64_t most_rows(Weights weights) const { return weights == Weights::W ? p_.chunk * s_.batch : s_.batch; }
    /// `y`, from `column` on, is `count` rows of `a` times some columns of weights, plus a bias if there is one.
    struct Rows {
        float const* a;
        int64_t a_row, count, column, columns;
        float const* bias;
        float* y;
    };
    virtual void multiply(Direction const&, Weights, Rows const&, int worker) const;
    void multiply_states(Direction const&, Weights, float const* h, int64_t first, int64_t rows, int64_t first_block,
                         int64_t last_block, int worker) const;
    GateMatrix const& matrix_of(Weights weights) const {
        return weights == Weights::W ? p_.w : weights == Weights::R ? p_.r : p_.r_part;
    }
    /// Brings weights that are no constants, or what belongs to them, into form. `rows`: scratch.
    virtual void pack(Direction const&, float* rows) const;
    /// What the cell reads and writes at a step, for `rows` sequences from `first` on; `x` is left to the caller.
    CellBlock cell_of(Direction const&, int64_t step, int64_t first, int64_t rows) const;
    /// Blocks of units of one of the parts that meet after every step.
    std::pair<int64_t, int64_t> blocks_of(int64_t part) const;

private:
    Direction direction_of(void* const* arguments, runtime::RunContext const& context, int64_t d) const;
    void gather_bias(Direction const&) const;
    void prepare(Direction const&, float* rows) const;
    void store_states(Direction const&) const;
};

/// The task that walks this layer best.
std::unique_ptr<runtime::Task> recurrent_task(RecurrentFunctions, RecurrentInfo const&, RecurrentShape const&,
                                              PackedWeights, int threads);
/// For one sequence (`RecurrentPlan::streamed`): the input products are made beside the steps before them.
std::unique_ptr<runtime::Task> streamed_recurrent_task(RecurrentFunctions, RecurrentInfo const&, RecurrentShape const&,
                                                       PackedWeights, int threads);

}  // namespace refactor::kernel
