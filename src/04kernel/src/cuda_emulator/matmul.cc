#include "cuda_emulator/device.h"
#include "cuda_emulator/elements.h"

#include <vector>

namespace refactor::cuda_emulator {

namespace {

bool is_known(int32_t dtype) { return dtype == 1 || dtype == 10 || dtype == 11 || dtype == 16; }

std::vector<double> matrix(int32_t dtype, void const* data, int64_t first, int64_t rows, int64_t columns,
                           bool transposed) {
    std::vector<double> result(static_cast<size_t>(rows * columns));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
            result[static_cast<size_t>(r * columns + c)] =
                load(dtype, data, first + (transposed ? c * rows + r : r * columns + c));
    return result;
}

void multiply(RefactorMatMul const& p, void const* left, void const* right, void const* row, void const* added,
              void* result) {
    for (int64_t batch = 0; batch < p.batches; ++batch) {
        auto x = matrix(p.dtype, left, batch * p.stride_a, p.m, p.k, p.trans_a != 0);
        auto w = matrix(p.dtype, right, batch * p.stride_b, p.k, p.n, p.trans_b != 0);
        std::vector<double> sums(static_cast<size_t>(p.n));
        for (int64_t i = 0; i < p.m; ++i) {
            sums.assign(sums.size(), 0);
            for (int64_t k = 0; k < p.k; ++k)
                for (int64_t j = 0; j < p.n; ++j)
                    sums[static_cast<size_t>(j)] +=
                        x[static_cast<size_t>(i * p.k + k)] * w[static_cast<size_t>(k * p.n + j)];
            for (int64_t j = 0; j < p.n; ++j) {
                auto at = (batch * p.m + i) * p.n + j;
                auto sum = p.alpha * sums[static_cast<size_t>(j)];
                if (added) sum += load(p.dtype, added, at);
                if (row) sum += load(p.dtype, row, j);
                store(p.dtype, result, at, activated(p.activation, sum));
            }
        }
    }
}

}  // namespace

int32_t matmul_create(void*, RefactorMatMul const* product, void** plan, size_t* workspace_bytes, char* text,
                      size_t text_bytes) {
    if (!is_known(product->dtype) || product->activation < 0 || product->activation > 2 || product->rank > 1)
        return Complaint{text, text_bytes}(kFailure, "no product of dtype " + std::to_string(product->dtype));
    *plan = new RefactorMatMul(*product);
    *workspace_bytes = 0;
    return 0;
}

void matmul_destroy(void* plan) { delete static_cast<RefactorMatMul*>(plan); }

int32_t matmul_run(void* plan, void* stream, void const* a, void const* b, void const* bias, void const* residual,
                   void* y, void*, char* text, size_t text_bytes) {
    auto const p = *static_cast<RefactorMatMul const*>(plan);
    auto& memory = static_cast<Stream*>(stream)->device->memory;
    void const *left = memory.host(a), *right = memory.host(b), *row = bias ? memory.host(bias) : nullptr,
               *added = residual ? memory.host(residual) : nullptr;
    auto* result = memory.host(y);
    if (!left || !right || !result || (bias && !row) || (residual && !added))
        return Complaint{text, text_bytes}(kIllegalAddress, "an operand of a product is not in the device's memory");
    return static_cast<Stream*>(stream)->perform(text, text_bytes, [=](char*, size_t) {
        multiply(p, left, right, row, added, result);
        return 0;
    });
}

}  // namespace refactor::cuda_emulator
