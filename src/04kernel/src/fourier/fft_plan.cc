#include "fourier/fft.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace refactor::kernel {
namespace {

/// e^(-pi i numerator / denominator), from an angle of at most pi/4 so that symmetric values are symmetric.
void root_of_unity(int64_t numerator, int64_t denominator, double* target) {
    auto eighths = 4 * (numerator % (2 * denominator));  // in units of pi / (4 denominator)
    auto octant = eighths / denominator;
    auto rest = eighths - octant * denominator;
    if (octant & 1) rest = denominator - rest;
    auto angle =
        std::numbers::pi_v<long double> / 4 * static_cast<long double>(rest) / static_cast<long double>(denominator);
    auto c = static_cast<double>(std::cos(angle)), s = static_cast<double>(std::sin(angle));
    if (((octant + 1) & 3) >= 2) std::swap(c, s);
    target[0] = octant >= 2 && octant < 6 ? -c : c;
    target[1] = octant >= 4 ? s : -s;
}

/// The largest prime factor, and the list of radices.
int64_t factorize(int64_t n, FftStages& stages) {
    int64_t largest = 1;
    auto take = [&](int64_t p) {
        while (n % p == 0) {
            if (p <= kLargestRadix) stages.radix[stages.count++] = static_cast<int>(p);
            n /= p, largest = std::max(largest, p);
        }
    };
    take(4);
    for (int64_t p = 2; p * p <= n; ++p) take(p);
    if (n > 1) take(n);
    return largest;
}

}  // namespace

FftPlan::FftPlan(int64_t n) : n_(n) {
    stages_.n = n;
    if (factorize(n, stages_) <= kLargestRadix) {
        twiddles_.resize(2 * static_cast<size_t>(n));
        for (int64_t k = 0; k < n; ++k) root_of_unity(2 * k, n, &twiddles_[2 * static_cast<size_t>(k)]);
        stages_.twiddles = twiddles_.data();
        return;
    }
    auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
    inner_ = std::make_unique<FftPlan const>(padded);
    chirp_.resize(2 * static_cast<size_t>(n));
    std::vector<double> x(2 * static_cast<size_t>(padded)), y(x.size());
    auto scale = 1 / static_cast<double>(padded);
    for (int64_t k = 0, square = 0; k < n; ++k) {
        auto at = 2 * static_cast<size_t>(k);
        root_of_unity(square, n, &chirp_[at]);
        square = (square + 2 * k + 1) % (2 * n);  // k² modulo the period
        x[at] = chirp_[at] * scale, x[at + 1] = -chirp_[at + 1] * scale;
        if (k == 0) continue;
        auto mirrored = 2 * static_cast<size_t>(padded - k);
        x[mirrored] = x[at], x[mirrored + 1] = x[at + 1];
    }
    auto* result = inner_->run(fft_functions_scalar(), false, x.data(), y.data());
    spectrum_.assign(result, result + x.size());
}

double* FftPlan::run(FftFunctions const& f, bool eight, double* x, double* y) const {
    auto transform = eight ? f.eight : f.one;
    if (!inner_) return transform(stages_, x, y);
    auto multiply = eight ? f.multiply_eight : f.multiply_one;
    auto width = 2 * (eight ? kFftLanes : 1);
    multiply(x, chirp_.data(), n_);
    std::fill(x + n_ * width, x + inner_->n_ * width, 0.);
    auto* z = transform(inner_->stages_, x, y);
    multiply(z, spectrum_.data(), inner_->n_);
    // The inverse is the forward transform of the mirrored sequence.
    auto* other = z == x ? y : x;
    for (int64_t k = 0; k < inner_->n_; ++k)
        std::copy_n(z + k * width, width, other + (k ? inner_->n_ - k : 0) * width);
    z = transform(inner_->stages_, other, z);
    multiply(z, chirp_.data(), n_);
    return z;
}

}  // namespace refactor::kernel
