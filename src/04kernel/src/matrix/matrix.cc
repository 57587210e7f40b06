#include "matrix/matrix.h"

#include "cuda/kernels.h"
#include "movement/ranges.h"
#include "reduce/scalar_type.h"

#include <cmath>
#include <limits>

namespace refactor::kernel {

using movement::make_task;
using movement::TaskResult;

std::string MatrixInfo::attributes() const { return kind == MatrixKind::Inverse ? "inverse" : "determinant"; }

Candidates candidates(MatrixInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("matrix:nvidia:nvrtc", cuda::matrix_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "matrix/matrix_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// Brings the row of largest magnitude in column `k` to row `k`; rows have `stride` elements. Returns whether it moved.
bool pivot(double* m, int64_t n, int64_t stride, int64_t k) {
    auto best = k;
    for (auto i = k + 1; i < n; ++i)
        if (!(std::abs(m[i * stride + k]) <= std::abs(m[best * stride + k]))) best = i;
    if (best == k) return false;
    std::swap_ranges(m + k * stride, m + (k + 1) * stride, m + best * stride);
    return true;
}

/// Product of the pivots of an elimination; destroys `m` [n, n].
double determinant(double* m, int64_t n) {
    double result = 1;
    for (int64_t k = 0; k < n; ++k) {
        if (pivot(m, n, n, k)) result = -result;
        auto diagonal = m[k * n + k];
        result *= diagonal;
        if (diagonal == 0) return 0;
        for (auto i = k + 1; i < n; ++i) {
            auto factor = m[i * n + k] / diagonal;
            for (auto j = k + 1; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
        }
    }
    return result;
}

/// Gauss-Jordan on [matrix | identity], rows of 2 n; the inverse is the right half.
void invert(double* m, int64_t n) {
    auto w = 2 * n;
    for (int64_t k = 0; k < n; ++k) {
        pivot(m, n, w, k);
        auto inverse = 1 / m[k * w + k];
        for (auto j = k; j < w; ++j) m[k * w + j] *= inverse;
        for (int64_t i = 0; i < n; ++i) {
            auto factor = i == k ? 0. : m[i * w + k];
            if (factor == 0) continue;
            for (auto j = k; j < w; ++j) m[i * w + j] -= factor * m[k * w + j];
        }
    }
}

template <class T>
void run(MatrixKind kind, int64_t n, T const* x, T* y, double* scratch) {
    auto w = kind == MatrixKind::Inverse ? 2 * n : n;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < w; ++j)
            scratch[i * w + j] = j < n ? static_cast<double>(widen(x[i * n + j])) : static_cast<double>(j - n == i);
    if (kind == MatrixKind::Determinant) {
        *y = narrow<T>(determinant(scratch, n));
        return;
    }
    invert(scratch, n);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) y[i * n + j] = narrow<T>(scratch[i * w + n + j]);
}

TaskResult bind_reference(MatrixInfo const& info, BindArgs const& args, Isa) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    bool inverse = info.kind == MatrixKind::Inverse;
    bool fits = x.size() >= 2 && x[x.size() - 1] == x[x.size() - 2] && y.size() == (inverse ? x.size() : x.size() - 2);
    for (size_t i = 0; fits && i < y.size(); ++i) fits = x[i] == y[i];
    if (!fits)
        return Err{Rejection{"input " + movement::to_string(x) + ", output " + movement::to_string(y) +
                             ": expected square matrices"}};
    auto n = x.back(), count = movement::count_of(x, 0, x.size() - 2);
    auto scratch = static_cast<size_t>((inverse ? 2 : 1) * n * n);
    auto ns = 2. * static_cast<double>(scratch) * static_cast<double>(n);
    auto body = [=, kind = info.kind, type = args.inputs[0]->dtype](void* const* a,
                                                                    runtime::RunContext const& context) {
        auto chunks = chunks_of(count, ns, context.pool.threads());
        context.pool.parallel_for(chunks, [&](int64_t chunk, int worker) {
            auto* memory = reinterpret_cast<double*>(context.scratch_of(worker));
            visit_float(type, [&](auto tag) {
                using T = typename decltype(tag)::type;
                for (auto i = count * chunk / chunks; i < count * (chunk + 1) / chunks; ++i)
                    run(kind, n, static_cast<T const*>(a[0]) + i * n * n,
                        static_cast<T*>(a[1]) + i * (kind == MatrixKind::Inverse ? n * n : 1), memory);
            });
        });
    };
    return make_task(body, 0, 0, scratch * sizeof(double));
}

}  // namespace

movement::KernelResult matrix_reference(MatrixInfo const& info, Request const& request) {
    if (auto no = movement::refuse(request)) return Err{*no};
    if (!is_any_float(request.inputs[0].dtype))
        return Err{Rejection{"input of " + std::string(name_of(request.inputs[0].dtype)) + ", expected floats"}};
    return movement::make_kernel(info, "matrix", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
