#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace refactor {

/// Instruction-set levels that kernels are written for, the better ones last; each contains the ones before it, but
/// Avx2Vnni is of processors without AVX-512, whose levels do not need it.
enum class Isa : uint8_t {
    Scalar,      ///< portable C++
    Avx2,        ///< AVX2, FMA, F16C
    Avx2Vnni,    ///< and AVX-VNNI: Intel from Alder Lake on, where there is no AVX-512
    Avx512,      ///< AVX-512 F, BW, DQ, VL
    Avx512Vnni,  ///< and VNNI
    Avx512Bf16,  ///< and BF16: products of pairs of bf16, summed in f32
    Avx512Amx,   ///< and AMX: tiles of 16 rows, multiplied at once, of bytes or bf16 (Intel from Sapphire Rapids on)
};
std::string_view name_of(Isa);  ///< "scalar", "avx2", "avx2vnni", "avx512", "avx512vnni", "avx512bf16", "avx512amx"
/// The level that all but products of bytes and of bf16 are written for.
constexpr Isa without_dots(Isa isa) { return isa > Isa::Avx512 ? Isa::Avx512 : isa == Isa::Avx2Vnni ? Isa::Avx2 : isa; }

/// What the processor offers and the operating system has enabled. Sizes in bytes, of one core (L3: of the whole cache
/// it can reach).
struct CpuFeatures {
    Isa isa = Isa::Scalar;
    bool avx2_vnni = false;  ///< has Isa::Avx2Vnni, whatever `isa` is
    size_t l1d = 32 << 10, l2 = 1 << 20, l3 = 32 << 20;
    /// Has AVX-512, and works on its vectors in two halves, so that one of multiply-adds takes a cycle instead of half
    /// of one: Zen 4 ("Software Optimization Guide for the AMD Zen4 Microarchitecture").
    bool halves_512 = false;
    /// Has AVX-512, works on its vectors whole, adds on units beside those of multiply-adds, and reads 64 bytes a cycle
    /// from L2: Zen 5 but for those with units of 256 bits ("Software Optimization Guide for the AMD Zen5
    /// Microarchitecture").
    bool whole_512 = false;
    /// Has BF16, and multiplies a vector of pairs in the time of a multiply-add, which does half as much: Zen 4 and
    /// Zen 5. Intel's processors, which have AMX for that, take four times as long (family 6, model 167).
    bool fast_bf16 = false;
    std::string brand;
};
/// Detected once. The environment variable `REFACTOR_GRAPH_ISA` (a name of `Isa`) lowers `isa`; a level that the
/// processor lacks throws `InvalidInput`.
CpuFeatures const& cpu_features();
/// The level called `wanted`; throws `InvalidInput` if there is none or `available` does not have it.
Isa lower_isa(CpuFeatures const& available, std::string_view wanted);

}  // namespace refactor
