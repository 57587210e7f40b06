#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kRandomSource = R"cuda(
// Ten rounds of Philox4x32, see random/philox.h.
struct rg_philox {
    unsigned words[4];
    RG_MEMBER rg_philox(rg_u64 key, rg_u64 low, rg_u64 high) {
        unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
        unsigned c[4] = {(unsigned)low, (unsigned)(low >> 32), (unsigned)high, (unsigned)(high >> 32)};
        for (int round = 0; round < 10; ++round) {
            rg_u64 p = (rg_u64)0xd2511f53u * c[0], q = (rg_u64)0xcd9e8d57u * c[2];
            unsigned next[4] = {(unsigned)(q >> 32) ^ c[1] ^ k0, (unsigned)q, (unsigned)(p >> 32) ^ c[3] ^ k1, (unsigned)p};
            for (int i = 0; i < 4; ++i) c[i] = next[i];
            k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
        }
        for (int i = 0; i < 4; ++i) words[i] = c[i];
    }
    // Number `i` of two in [0, 1) with 53 bits.
    RG_MEMBER double uniform(int i) const {
        rg_u64 bits = (rg_u64)words[2 * i] << 32 | words[2 * i + 1];
        return (double)(bits >> 11) * (1. / 9007199254740992.);
    }
};

// Words: y; number of the run; elements, seed, bits (f64) of a and b.
template <class T, bool normal> RG_FN void rg_random(rg_u64 const* w) {
    rg_u64 pair = (rg_u64)blockIdx.x * 256 + threadIdx.x, count = w[2];
    if (2 * pair >= count) return;
    double a = rg_f64(w[4]), b = rg_f64(w[5]);
    rg_philox random(w[3], pair, w[1]);
    double u[2] = {random.uniform(0), random.uniform(1)};
    if constexpr (normal) {
        double radius = sqrt(-2. * log(1. - u[0])), angle = 6.283185307179586 * u[1];
        u[0] = a + b * radius * cos(angle), u[1] = a + b * radius * sin(angle);
    } else {
        u[0] = a + (b - a) * u[0], u[1] = a + (b - a) * u[1];
    }
    for (int i = 0; i < 2 && 2 * pair + i < count; ++i) {
        T y = rg_narrow<T>(u[i]);
        // Rounding may reach the upper bound, which is excluded.
        if (!normal && a < b && (double)rg_widen(y) >= b) y = rg_narrow<T>(a);
        ((T*)w[0])[2 * pair + i] = y;
    }
}

// A block for each row. Words: x, cumulative weights [B, C], y, fault; number of the run; classes, samples, seed.
template <class T, class Y> RG_FN void rg_multinomial(rg_u64 const* w) {
    __shared__ double totals[256];
    unsigned row = blockIdx.x, classes = (unsigned)w[5], samples = (unsigned)w[6];
    unsigned part = (classes + 255) / 256, first = threadIdx.x * part;
    unsigned last = first >= classes ? first : first + part < classes ? first + part : classes;
    T const* x = (T const*)w[0] + (rg_u64)row * classes;
    double* sums = (double*)w[1] + (rg_u64)row * classes;
    rg_largest<double> most = {-rg_infinity<double>()};
    for (unsigned i = first; i < last; ++i) most.add((double)rg_widen(x[i]));
    most = rg_combined<256>(most);
    // No maximum is no number of runtime::Fault: the data makes no sense.
    if (most.v - most.v != 0. && threadIdx.x == 0) rg_report((rg_u64*)w[3], 4, row);
    double total = 0;
    for (unsigned i = first; i < last; ++i) sums[i] = total += exp((double)rg_widen(x[i]) - most.v);
    totals[threadIdx.x] = total;
    __syncthreads();
    double before = 0, all = 0;
    for (unsigned i = 0; i < 256; ++i) {
        if (i == threadIdx.x) before = all;
        all += totals[i];
    }
    for (unsigned i = first; i < last; ++i) sums[i] += before;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < samples; i += 256) {
        rg_u64 at = (rg_u64)row * samples + i;
        double target = rg_philox(w[7], at / 2, w[4]).uniform((int)(at & 1)) * sums[classes - 1];
        // The first class whose cumulative weight exceeds the target.
        unsigned low = 0, high = classes - 1;
        while (low < high) {
            unsigned middle = (low + high) / 2;
            if (sums[middle] > target) high = middle;
            else low = middle + 1;
        }
        ((Y*)w[2])[at] = (Y)low;
    }
}
)cuda";

}  // namespace refactor::kernel::cuda
