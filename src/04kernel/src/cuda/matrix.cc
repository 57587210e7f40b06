#include "matrix/matrix.h"

#include "cuda/instances.h"
#include "cuda/kernels.h"

namespace refactor::kernel::cuda {

namespace {

char const* const kMatrixSource = R"cuda(
// The row of the largest magnitude, NaN before all; of equal ones the first.
struct rg_pivot {
    double size;
    unsigned row;
    RG_MEMBER void merge(rg_pivot o) {
        bool nan = size != size, other = o.size != o.size;
        if (other ? !nan || o.row < row : !nan && (o.size > size || (o.size == size && o.row < row))) *this = o;
    }
    RG_MEMBER rg_pivot exchanged(int step) const { return {rg_exchanged(size, step), rg_exchanged(row, step)}; }
};
// A block for each matrix, in the workspace; `inverse` beside the identity. Words: x, workspace, y; rows.
template <class T, bool inverse> RG_FN void rg_matrix(rg_u64 const* w) {
    unsigned n = (unsigned)w[3], width = inverse ? 2 * n : n;
    T const* x = (T const*)w[0] + (rg_u64)blockIdx.x * n * n;
    double* m = (double*)w[1] + (rg_u64)blockIdx.x * n * width;
    for (unsigned i = threadIdx.x; i < n * width; i += 256) {
        unsigned row = i / width, column = i % width;
        m[i] = column < n ? (double)rg_widen(x[row * n + column]) : column - n == row ? 1. : 0.;
    }
    double product = 1;
    __syncthreads();
    for (unsigned k = 0; k < n; ++k) {
        rg_pivot best = {-1., n};
        for (unsigned i = k + threadIdx.x; i < n; i += 256) best.merge({fabs(m[i * width + k]), i});
        best = rg_combined<256>(best);
        if (best.row != k) {
            product = -product;
            for (unsigned j = threadIdx.x; j < width; j += 256) {
                double moved = m[k * width + j];
                m[k * width + j] = m[best.row * width + j], m[best.row * width + j] = moved;
            }
        }
        __syncthreads();
        double diagonal = m[k * width + k];
        product *= diagonal;
        __syncthreads();
        if (inverse)
            for (unsigned j = k + threadIdx.x; j < width; j += 256) m[k * width + j] /= diagonal;
        __syncthreads();
        // A warp for each row; its factor is read before it is eliminated.
        for (unsigned i = threadIdx.x / 32; i < n; i += 8) {
            if (i == k || (!inverse && i < k)) continue;
            double factor = inverse ? m[i * width + k] : m[i * width + k] / diagonal;
            __syncwarp();
            if (factor != 0)
                for (unsigned j = k + threadIdx.x % 32; j < width; j += 32) m[i * width + j] -= factor * m[k * width + j];
        }
        __syncthreads();
        if (!inverse && diagonal == 0) break;
    }
    if constexpr (inverse) {
        T* y = (T*)w[2] + (rg_u64)blockIdx.x * n * n;
        for (unsigned i = threadIdx.x; i < n * n; i += 256) y[i] = rg_narrow<T>(m[i / n * width + n + i % n]);
    } else if (threadIdx.x == 0) {
        ((T*)w[2])[blockIdx.x] = rg_narrow<T>(product);
    }
}
)cuda";

Result<Launches, Rejection> bind_matrix(MatrixInfo const& info, BindArgs const& args, Instances const& instances) {
    auto const& x = *args.inputs[0];
    auto rows = x.dims.back();
    bool inverse = info.kind == MatrixKind::Inverse;
    // An empty matrix has the determinant 1.
    auto count = element_count(std::span<int64_t const>(x.dims).first(x.dims.size() - 2));
    Launches launches;
    launches.workspace = static_cast<size_t>(count * rows * rows) * (inverse ? 2 : 1) * sizeof(double);
    launches.operations = 2. / 3 * static_cast<double>(count * rows * rows) * static_cast<double>(rows);
    launches.list.push_back(instances.launch("rg_matrix", template_text("rg_matrix", element_text(x.dtype), inverse),
                                             count, {operand(0), scratch(), operand(1)},
                                             {static_cast<uint64_t>(rows)}));
    return launches;
}

}  // namespace

MaybeKernel matrix_nvrtc(MatrixInfo const& info, Request const& request) {
    return make_instances(info, request, "matrix", request.inputs[0].dtype, kMatrixSource, matrix_reference,
                          bind_matrix);
}

}  // namespace refactor::kernel::cuda
