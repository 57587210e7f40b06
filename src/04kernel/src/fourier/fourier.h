#pragma once
#include "fourier/fft.h"
#include "kernel/ops/fourier.h"
#include "reduce/cpu_kernel.h"

#include <map>
#include <mutex>

namespace refactor::kernel {

/// Plans by length, so that binding a known length costs nothing. Thread-safe.
class FftPlans {
    std::mutex mutex_;
    std::map<int64_t, std::shared_ptr<FftPlan const>> plans_;

public:
    std::shared_ptr<FftPlan const> get(int64_t n);
};

/// Many transforms of one length that read and write strided rows. Steps in elements.
struct FourierRows {
    enum class Kind : uint8_t { Complex, Real, FromHalf };  ///< FromHalf: a Hermitian spectrum to real numbers
    Kind kind = Kind::Complex;
    bool inverse = false, window = false;
    int64_t length = 1;                 ///< of the transform
    int64_t available = 0, kept = 0;    ///< elements of a row that are read and written
    int64_t step_in = 1, step_out = 1;  ///< between elements of a row, in parts (real, imaginary)
    int64_t parts_in = 1, parts_out = 2;
    /// Row r = a * inner + b begins at a * outer + b * inner_step.
    int64_t rows = 0, inner = 1, outer_in = 0, inner_in = 0, outer_out = 0, inner_out = 0;
};

/// The rows of these operands, or why they do not fit together.
Result<FourierRows, Rejection> fourier_rows(FourierInfo const&, BindArgs const&);
Result<FourierRows, Rejection> fourier_rows(StftInfo const&, BindArgs const&);

/// Binds `rows` for operands of a float type.
std::unique_ptr<runtime::Task> make_fourier_task(FftFunctions const&, FourierRows const&,
                                                 std::shared_ptr<FftPlan const>, DataType);
double fourier_ns(FourierRows const&, int lanes_of_isa);

/// Any float type through f64; the butterflies in the vectors of the instruction set.
MaybeKernel make_fourier_avx512(FourierInfo const&, Request const&);
MaybeKernel make_fourier_avx2(FourierInfo const&, Request const&);
MaybeKernel make_fourier_scalar(FourierInfo const&, Request const&);
MaybeKernel make_stft_avx512(StftInfo const&, Request const&);
MaybeKernel make_stft_avx2(StftInfo const&, Request const&);
MaybeKernel make_stft_scalar(StftInfo const&, Request const&);

}  // namespace refactor::kernel
