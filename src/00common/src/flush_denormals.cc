#include "common/thread_pool.h"

#if RG_X86
#include <xmmintrin.h>
#endif

namespace refactor {

#if RG_X86
// Bits 15 (flush to zero) and 6 (denormals are zero) of MXCSR.
FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
FlushDenormals::~FlushDenormals() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
// Bit 24 (FZ) of FPCR covers operands and results.
FlushDenormals::FlushDenormals() {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    saved_ = static_cast<uint32_t>(mode);
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | 1ull << 24));
}
FlushDenormals::~FlushDenormals() { __asm__ volatile("msr fpcr, %0" : : "r"(static_cast<uint64_t>(saved_))); }
#else
FlushDenormals::FlushDenormals() : saved_(0) {}
FlushDenormals::~FlushDenormals() = default;
#endif

}  // namespace refactor
