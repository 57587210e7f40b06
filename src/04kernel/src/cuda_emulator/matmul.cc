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

void multiply(RefactorMatMul const& p, RefactorMatMulOperands const& o) {
    auto type = p.f8 ? kF8 : p.dtype;
    auto alpha = p.f8 ? p.alpha * static_cast<double>(*o.scale_a) * static_cast<double>(*o.scale_b) : p.alpha;
    for (int64_t batch = 0; batch < p.batches; ++batch) {
        auto x = matrix(type, o.a, batch * p.stride_a, p.m, p.k, p.trans_a != 0);
        auto w = matrix(type, o.b, batch * p.stride_b, p.k, p.n, p.trans_b != 0);
        std::vector<double> sums(static_cast<size_t>(p.n));
        for (int64_t i = 0; i < p.m; ++i) {
            sums.assign(sums.size(), 0);
            for (int64_t k = 0; k < p.k; ++k)
                for (int64_t j = 0; j < p.n; ++j)
                    sums[static_cast<size_t>(j)] +=
                        x[static_cast<size_t>(i * p.k + k)] * w[static_cast<size_t>(k * p.n + j)];
            for (int64_t j = 0; j < p.n; ++j) {
                auto at = (batch * p.m + i) * p.n + j;
                auto sum = alpha * sums[static_cast<size_t>(j)];
                if (o.residual) sum += load(p.dtype, o.residual, at);
                if (o.bias) sum += load(p.dtype, o.bias, j);
                store(p.dtype, o.y, at, activated(p.activation, sum));
            }
        }
    }
}

/// Why NVIDIA's library would have no such product of f8.
std::string why_not_f8(Device const& device, RefactorMatMul const& p) {
    if (!p.f8) return {};
    if (device.capability < 89) return device.name + " has no products of f8";
    if (p.trans_a || !p.trans_b || p.batches != 1 || p.n % 16 || p.k % 16 || (p.dtype != 10 && p.dtype != 16))
        return "a product of f8 that is not aligned, or not transposed";
    return {};
}

/// As cuBLASLt, some products need a workspace.
size_t workspace_of(RefactorMatMul const& product) { return product.k > 4 ? 1000 : 0; }

}  // namespace

int32_t matmul_create(void* device, RefactorMatMul const* product, void** plan, size_t* workspace_bytes, char* text,
                      size_t text_bytes) {
    Complaint complain{text, text_bytes};
    if (!is_known(product->dtype) || product->activation < 0 || product->activation > 2 || product->rank > 1)
        return complain(kFailure, "no product of dtype " + std::to_string(product->dtype));
    if (auto why = why_not_f8(device_of(device), *product); !why.empty()) return complain(kFailure, why);
    *plan = new RefactorMatMul(*product);
    *workspace_bytes = workspace_of(*product);
    return 0;
}

void matmul_destroy(void* plan) { delete static_cast<RefactorMatMul*>(plan); }

int32_t matmul_run(void* plan, void* stream, RefactorMatMulOperands const* operands, char* text, size_t text_bytes) {
    auto const product = *static_cast<RefactorMatMul const*>(plan);
    auto& memory = static_cast<Stream*>(stream)->device->memory;
    bool known = true;
    auto host = [&]<class T>(T* address, bool needed) {
        auto* found = address ? static_cast<T*>(memory.host(address)) : nullptr;
        known &= found || !(needed || address);
        return found;
    };
    bool f8 = product.f8 != 0;
    RefactorMatMulOperands const mapped{host(operands->a, true),     host(operands->b, true),
                                        host(operands->scale_a, f8), host(operands->scale_b, f8),
                                        host(operands->bias, false), host(operands->residual, false),
                                        host(operands->y, true),     nullptr};
    auto needed = workspace_of(product);
    known &= !needed || memory.host(operands->workspace, needed);
    if (!known)
        return Complaint{text, text_bytes}(kIllegalAddress, "an operand of a product is not in the device's memory");
    if (needed && reinterpret_cast<uintptr_t>(operands->workspace) % 256)
        return Complaint{text, text_bytes}(kFailure, "the workspace of a product is at no multiple of 256 bytes");
    return static_cast<Stream*>(stream)->perform(text, text_bytes, [=](char*, size_t) {
        multiply(product, mapped);
        return 0;
    });
}

int32_t capability(void* device) { return device_of(device).capability; }

}  // namespace refactor::cuda_emulator
