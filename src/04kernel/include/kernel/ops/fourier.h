#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel {

/// Discrete Fourier transform along `axis`: X [..., L, ..., 1 or 2] (real, or real and imaginary parts) to
/// [..., M, ..., 1 or 2]. Param 0: the length n ≥ 1; X is cut or filled up with zeros.
///
/// - Forward: M = n, or n / 2 + 1 if `onesided` (of real X; of complex X the first half).
/// - Inverse: divided by n; M = n. If `onesided`, X is the first half of a Hermitian spectrum and the result is real.
///
/// Any float type, computed in f64, in O(n log n) for every n. Source: ONNX DFT-20.
struct FourierInfo {
    static constexpr char const* kType = "Fourier";
    int64_t axis = 0;
    bool inverse = false, onesided = false;
    std::string attributes() const;
};
Candidates candidates(FourierInfo const&, Request const&);

/// Short-time Fourier transform: X [B, L, 1 or 2], window? [n] to [B, frames, n or n / 2 + 1, 2]. Frame f begins at
/// f * step. Params: step, n; the output operand tells the frames, each of which lies inside of X. Any float type,
/// computed in f64. Source: ONNX STFT-17.
struct StftInfo {
    static constexpr char const* kType = "Stft";
    bool onesided = true, window = false;
    std::string attributes() const;
};
Candidates candidates(StftInfo const&, Request const&);

}  // namespace refactor::kernel
