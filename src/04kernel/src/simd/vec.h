#pragma once
// `Vec` of the instruction set that the including file is compiled for: only ISA files may include this, and what
// builds on it.
#if defined(__AVX512F__)
#include "simd/vec_avx512.h"
#elif defined(__AVX2__)
#include "simd/vec_avx2.h"
#else
#error "only for files named *_avx2.cc, *_avx512.cc, *_avx512vnni.cc or *_avx512bf16.cc"
#endif
