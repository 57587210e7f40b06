#pragma once
#include <cstdint>

namespace refactor::kernel {

/// One row of a picture, from rows of columns. Element j = phase + stride · k collects, of every tap of the innermost
/// axis whose `start` is phase + stride · shift, place k - shift: neighbours of a phase are neighbours in memory.
struct Col2ImRow {
    float* y;
    int64_t size;              ///< elements of the row
    float const* const* from;  ///< `rows` rows of `places` elements for tap 0 of the innermost axis
    int64_t rows, places;
    int64_t taps, tap_step;           ///< of the innermost axis, and elements from one to the next
    int64_t start, dilation, stride;  ///< tap t begins at element start + t · dilation
    float* scratch;                   ///< `kCol2ImScratch` floats
};
/// 32 KiB, the first level of a cache. The phases of a row fit if size + 16 · stride is no more.
constexpr int64_t kCol2ImScratch = 8192;

void col2im_row_avx2(Col2ImRow const&);

}  // namespace refactor::kernel
