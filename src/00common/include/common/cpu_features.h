#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace refactor {

/// Instruction-set levels that kernels are written for; each contains the ones before it.
enum class Isa : uint8_t {
    Scalar,      ///< portable C++
    Avx2,        ///< AVX2, FMA, F16C
    Avx512,      ///< AVX-512 F, BW, DQ, VL
    Avx512Vnni,  ///< and VNNI
};
std::string_view name_of(Isa);  ///< "scalar", "avx2", "avx512", "avx512vnni"

/// What the processor offers and the operating system has enabled. Sizes in bytes, of one core (L3: of the whole cache
/// it can reach).
struct CpuFeatures {
    Isa isa = Isa::Scalar;
    size_t l1d = 32 << 10, l2 = 1 << 20, l3 = 32 << 20;
    /// Has AVX-512, and works on its vectors in two halves, so that one of multiply-adds takes a cycle instead of half
    /// of one: Zen 4 ("Software Optimization Guide for the AMD Zen4 Microarchitecture").
    bool halves_512 = false;
    std::string brand;
};
/// Detected once. The environment variable `REFACTOR_GRAPH_ISA` (a name of `Isa`) lowers `isa`; a level that the
/// processor lacks throws `InvalidInput`.
CpuFeatures const& cpu_features();
/// The level called `wanted`; throws `InvalidInput` if there is none or it is above `available`.
Isa lower_isa(Isa available, std::string_view wanted);

}  // namespace refactor
