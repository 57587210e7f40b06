#include "matmul/strassen_task.h"

#include "common/thread_pool.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

class StrassenTask final : public runtime::Task {
    ProductFunctions const& functions_;
    MatMulShape shape_;
    StrassenPlan plan_;
    ProductBlock block_{};  // with the pointers still open
    std::shared_ptr<mem_manager::Blob const> panels_;
    bool has_bias_, has_residual_;

public:
    StrassenTask(ProductFunctions const& functions, Epilogue const& epilogue, float alpha, MatMulShape const& shape,
                 bool blocked, std::shared_ptr<mem_manager::Blob const> panels, int threads)
        : functions_(functions),
          shape_(shape),
          plan_(strassen_plan(functions, shape, threads, blocked)),
          panels_(std::move(panels)),
          has_bias_(epilogue.bias),
          has_residual_(epilogue.residual) {
        int64_t width = functions.width;
        block_.k = shape.k, block_.a_k = 1;
        block_.a_row = block_.run = blocked ? width : shape.k, block_.run_step = blocked ? shape.m * width : shape.k;
        block_.y_row = blocked ? width : shape.n, block_.y_vector = blocked ? shape.m * width : width;
        block_.source = ProductSource::Packed, block_.weight_type = WeightType::F32;
        block_.scalar_bias = shape.scalar_bias, block_.residual_last = epilogue.residual_last;
        block_.alpha = alpha, block_.activation = epilogue.activation;
        block_.block_m = plan_.block_m, block_.block_k = plan_.block_k, block_.group = plan_.group;
    }

    void run_part(void* const* arguments, int64_t part, std::byte* scratch) const {
        auto t = block_;
        auto column = part % plan_.column_parts * plan_.columns;
        part /= plan_.column_parts;
        auto row = part % plan_.row_parts * plan_.rows, batch = part / plan_.row_parts;
        int64_t a = 0, b = 0;
        if (batch) shape_.offsets(batch, a, b);
        t.m = std::min(plan_.rows, plan_.m - row), t.n = std::min(plan_.columns, shape_.n - column);
        t.a = static_cast<float const*>(arguments[0]) + a + row * t.a_row;
        t.b = static_cast<float const*>(panels_->data()) + column * t.k;
        auto const* next = arguments + 2;
        if (has_bias_) t.bias = static_cast<float const*>(*next++) + (t.scalar_bias ? 0 : column);
        auto y = batch * plan_.m * shape_.n + row * t.y_row + column / functions_.width * t.y_vector;
        if (has_residual_) t.residual = static_cast<float const*>(*next++) + y;
        t.y = static_cast<float*>(*next) + y;
        t.scratch = reinterpret_cast<float*>(scratch);
        functions_.multiply_strassen(t);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(plan_.batches * plan_.row_parts * plan_.column_parts, [&](int64_t part, int worker) {
            run_part(arguments, part, context.scratch_of(worker));
        });
    }
    size_t scratch_bytes() const override { return plan_.scratch_bytes; }
    uint64_t unread_inputs() const override { return 2; }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

std::unique_ptr<runtime::Task> make_strassen_task(ProductFunctions const& functions, Epilogue const& epilogue,
                                                  float alpha, MatMulShape const& shape, bool blocked,
                                                  std::shared_ptr<mem_manager::Blob const> panels, int threads) {
    return std::make_unique<StrassenTask>(functions, epilogue, alpha, shape, blocked, std::move(panels), threads);
}

}  // namespace refactor::kernel
