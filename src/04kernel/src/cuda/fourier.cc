#include "fourier/fourier.h"

#include "cuda/instances.h"
#include "cuda/kernels.h"

namespace refactor::kernel::cuda {

namespace {

// Cooley and Tukey 1965: with n = n1 n2 and j = n2 j1 + j2, k = k1 + n1 k2 the transform is
// A[j2][k1] = sum over j1 of x[j] w^(n2 j1 k1) and y[k] = sum over j2 of A[j2][k mod n1] w^(j2 k), w = exp(-2 pi i /
// n).
char const* const kFourierSource = R"cuda(
struct rg_complex { double re, im; };
RG_FN rg_complex rg_plus_product(rg_complex sum, rg_complex a, rg_complex b) {
    return {m_fma(a.re, b.re, m_fma(-a.im, b.im, sum.re)), m_fma(a.re, b.im, m_fma(a.im, b.re, sum.im))};
}
// Words: table of the powers of w; n, whether its numbers are conjugated.
RG_FN void rg_fourier_powers(rg_u64 const* w) {
    rg_u64 i = (rg_u64)blockIdx.x * 256 + threadIdx.x;
    if (i >= w[1]) return;
    double angle = 6.283185307179586 * ((double)i / (double)w[1]);
    ((rg_complex*)w[0])[i] = {cos(angle), w[2] ? sin(angle) : -sin(angle)};
}

// Words: x, window, powers, A, y; n, n1, n2, rows; rows of an outer step, steps of X and of Y along outer and inner rows
// and elements; elements of a row that are read and written.
struct rg_fourier {
    rg_u64 const* w;
    RG_MEMBER rg_complex power(rg_u64 i) const { return ((rg_complex const*)w[2])[i]; }
    RG_MEMBER rg_u64 first(rg_u64 row, int outer) const { return row / w[9] * w[outer] + row % w[9] * w[outer + 1]; }
};
template <class T, int kParts, bool half> RG_FN rg_complex rg_fourier_at(rg_fourier f, rg_u64 first, rg_u64 j) {
    bool mirrored = half && j > f.w[5] / 2;
    if (mirrored) j = f.w[5] - j;
    if (j >= f.w[16]) return {0, 0};
    T const* x = (T const*)f.w[0] + first + j * f.w[12];
    rg_complex value = {(double)rg_widen(x[0]), 0};
    if constexpr (kParts == 2) value.im = (double)rg_widen(x[1]);
    if (mirrored) value.im = -value.im;
    if (f.w[1]) {
        double factor = (double)rg_widen(((T const*)f.w[1])[j]);
        value.re *= factor, value.im *= factor;
    }
    return value;
}
template <class T, int kParts, bool half> RG_FN void rg_fourier_first(rg_u64 const* w) {
    rg_u64 i = (rg_u64)blockIdx.x * 256 + threadIdx.x, n = w[5], n1 = w[6], n2 = w[7];
    if (i >= w[8] * n) return;
    rg_fourier f = {w};
    rg_u64 row = i / n, k1 = i % n1, j2 = i % n / n1, at = 0, first = f.first(row, 10);
    rg_complex sum = {0, 0};
    for (rg_u64 j1 = 0; j1 < n1; ++j1) {
        sum = rg_plus_product(sum, rg_fourier_at<T, kParts, half>(f, first, n2 * j1 + j2), f.power(at));
        at += n2 * k1;
        if (at >= n) at -= n;
    }
    ((rg_complex*)w[3])[i] = sum;
}
template <class T, int kParts, bool inverse> RG_FN void rg_fourier_second(rg_u64 const* w) {
    rg_u64 i = (rg_u64)blockIdx.x * 256 + threadIdx.x, n = w[5], n1 = w[6], n2 = w[7], kept = w[17];
    if (i >= w[8] * kept) return;
    rg_fourier f = {w};
    rg_u64 row = i / kept, k = i % kept, at = 0;
    rg_complex const* a = (rg_complex const*)w[3] + row * n + k % n1;
    rg_complex sum = {0, 0};
    for (rg_u64 j2 = 0; j2 < n2; ++j2) {
        sum = rg_plus_product(sum, a[j2 * n1], f.power(at));
        at += k;
        if (at >= n) at -= n;
    }
    if (inverse) sum.re /= (double)n, sum.im /= (double)n;
    T* y = (T*)w[4] + f.first(row, 13) + k * w[15];
    y[0] = rg_narrow<T>(sum.re);
    if constexpr (kParts == 2) y[1] = rg_narrow<T>(sum.im);
}
)cuda";

/// The largest divisor up to the root.
int64_t divisor_of(int64_t n) {
    int64_t best = 1;
    for (int64_t i = 2; i * i <= n; ++i)
        if (n % i == 0) best = i;
    return best;
}

Launches launches_of(FourierRows const& r, DataType type, bool window, Instances const& instances) {
    auto n = r.length, n1 = divisor_of(n);
    std::vector<uint64_t> numbers;
    for (auto number : {n, n1, n / n1, r.rows, r.inner, r.outer_in, r.inner_in, r.step_in, r.outer_out, r.inner_out,
                        r.step_out, r.available, r.kept})
        numbers.push_back(static_cast<uint64_t>(number));
    constexpr size_t kComplex = 2 * sizeof(double);
    auto table = static_cast<size_t>(n) * kComplex;
    std::vector<Address> const addresses{operand(0), window ? operand(1) : kNowhere, scratch(), scratch(table),
                                         operand(window ? 2 : 1)};
    bool half = r.kind == FourierRows::Kind::FromHalf;
    auto const* text = element_text(type);
    Launches launches;
    launches.workspace = table + static_cast<size_t>(r.rows * n) * kComplex;
    launches.operations = 8. * static_cast<double>(r.rows * n) * static_cast<double>(n1 + n / n1);
    launches.list.push_back(instances.launch("rg_fourier_powers", "rg_fourier_powers", ceil_div(n, kBlockThreads),
                                             {scratch()}, {static_cast<uint64_t>(n), uint64_t{r.inverse}}));
    launches.list.push_back(instances.launch("rg_fourier_first",
                                             template_text("rg_fourier_first", text, r.parts_in, half),
                                             ceil_div(r.rows * n, kBlockThreads), addresses, numbers));
    launches.list.push_back(instances.launch("rg_fourier_second",
                                             template_text("rg_fourier_second", text, r.parts_out, r.inverse),
                                             ceil_div(r.rows * r.kept, kBlockThreads), addresses, numbers));
    return launches;
}

template <class Info>
Result<Launches, Rejection> bind_fourier(Info const& info, BindArgs const& args, Instances const& instances) {
    auto rows = fourier_rows(info, args);
    if (!rows) return Err{rows.error()};
    return launches_of(*rows, args.inputs[0]->dtype, rows->window, instances);
}

}  // namespace

MaybeKernel fourier_nvrtc(FourierInfo const& info, Request const& request) {
    return make_instances(info, request, "fourier", request.inputs[0].dtype, kFourierSource, make_fourier_scalar,
                          bind_fourier<FourierInfo>);
}

MaybeKernel stft_nvrtc(StftInfo const& info, Request const& request) {
    return make_instances(info, request, "stft", request.inputs[0].dtype, kFourierSource, make_stft_scalar,
                          bind_fourier<StftInfo>);
}

}  // namespace refactor::kernel::cuda
