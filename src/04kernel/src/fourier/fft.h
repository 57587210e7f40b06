#pragma once
#include <cstdint>
#include <memory>
#include <vector>

// Complex transforms of any length in f64. Plans are made by baseline code; the butterflies are compiled for each
// instruction set and work on several transforms at once, one in each lane.

namespace refactor::kernel {

constexpr int kFftLanes = 8;

/// A transform by the Stockham scheme. Factors are 4, 2, 3, 5 and other primes up to `kLargestRadix`.
struct FftStages {
    int64_t n = 1;
    int count = 0;
    int radix[64];
    double const* twiddles = nullptr;  ///< e^(-2 pi i k / n) for k < n: real and imaginary parts by turns
};
/// Larger primes go through a convolution: their butterflies of p² products cost more than three transforms of 2 n.
constexpr int64_t kLargestRadix = 31;

/// Element [k][lane], real and imaginary lanes by turns: 2 * lanes doubles for each k.
struct FftFunctions {
    /// Transforms `x`; `y` is scratch of the same size. Returns whichever of the two holds the result.
    double* (*eight)(FftStages const&, double* x, double* y);
    double* (*one)(FftStages const&, double* x, double* y);
    /// x[k] *= factors[k] (complex), for `count` elements.
    void (*multiply_eight)(double* x, double const* factors, int64_t count);
    void (*multiply_one)(double* x, double const* factors, int64_t count);
};
FftFunctions const& fft_functions_scalar();
FftFunctions const& fft_functions_avx2();
FftFunctions const& fft_functions_avx512();

/// Everything that depends on the length alone. Immutable.
class FftPlan {
    FftStages stages_;
    std::vector<double> twiddles_;
    /// Bluestein's convolution: e^(-pi i k² / n), and the transform of its conjugate, divided by the length.
    std::vector<double> chirp_, spectrum_;
    std::unique_ptr<FftPlan const> inner_;
    int64_t n_;

public:
    explicit FftPlan(int64_t n);
    int64_t length() const { return n_; }
    /// Elements that each of the buffers of `run` needs.
    int64_t buffer() const { return inner_ ? inner_->length() : n_; }
    /// Transforms the first n elements of `x` (forward, not normalised); as `FftFunctions::eight`, or `one` lane.
    double* run(FftFunctions const&, bool eight, double* x, double* y) const;
};

}  // namespace refactor::kernel
