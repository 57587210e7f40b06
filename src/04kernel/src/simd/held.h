#pragma once
// Include `simd/math.h` first.

namespace refactor::kernel {
namespace {

/// `v` in a register: what is used several times would be loaded as often, by each instruction that takes it from
/// memory.
RG_SIMD Vec held(Vec v) {
#ifndef RG_EMULATE_AVX512  // whose vectors fit no register
    asm("" : "+v"(v.v));
#endif
    return v;
}

}  // namespace
}  // namespace refactor::kernel
