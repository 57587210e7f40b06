#include "common/cpu_features.h"

#include "common/error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if RG_X86
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace refactor {
namespace {

constexpr Isa kLevels[] = {Isa::Scalar,     Isa::Avx2,       Isa::Avx2Vnni, Isa::Avx512,
                           Isa::Avx512Vnni, Isa::Avx512Bf16, Isa::Avx512Amx};

#if RG_X86
struct Registers {
    uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
    Registers r;
    __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
    return r;
}

/// Register state that the operating system saves (XCR0).
uint64_t saved_state() {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return static_cast<uint64_t>(high) << 32 | low;
}

bool has(uint32_t bits, std::initializer_list<int> positions) {
    for (int position : positions)
        if (!(bits >> position & 1)) return false;
    return true;
}

/// Whether Linux lets this process use the data of tiles, whose 8 KB it saves for those threads alone that have touched
/// them ("Using XSTATE features in user space applications", the kernel's documentation).
bool may_use_tiles() {
#ifdef __linux__
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return false;
#endif
}

/// AVX-VNNI, on a processor with AVX2.
bool detect_avx2_vnni() {
#ifdef RG_EMULATE_AVX512
    return true;
#endif
    return cpuid(7).eax >= 1 && has(cpuid(7, 1).eax, {4});
}

Isa detect_isa(bool avx2_vnni) {
    auto basic = cpuid(1);
    // fma, osxsave, avx, f16c
    if (!has(basic.ecx, {12, 27, 28, 29})) return Isa::Scalar;
    auto extended = cpuid(7);
    auto state = saved_state();
    // XMM and YMM; then opmask and both halves of ZMM
    if ((state & 0x6) != 0x6 || !has(extended.ebx, {5})) return Isa::Scalar;
#ifdef RG_EMULATE_AVX512
    return Isa::Avx512Amx;
#endif
    // avx512 f, dq, bw, vl
    if ((state & 0xe6) != 0xe6 || !has(extended.ebx, {16, 17, 30, 31})) return avx2_vnni ? Isa::Avx2Vnni : Isa::Avx2;
    if (!has(extended.ecx, {11})) return Isa::Avx512;
    if (extended.eax < 1 || !has(cpuid(7, 1).eax, {5})) return Isa::Avx512Vnni;
    // amx bf16, tile, int8; their configuration and data
    bool amx = has(extended.edx, {22, 24, 25}) && (state & 0x60000) == 0x60000 && may_use_tiles();
    return amx ? Isa::Avx512Amx : Isa::Avx512Bf16;
}

/// The family of a processor of AMD; 0: of others.
uint32_t amd_family() {
    auto base = cpuid(1).eax >> 8 & 15, extended = cpuid(1).eax >> 20 & 255;
    return cpuid(0).ecx == 0x444d4163 ? base + extended : 0;  // "cAMD"
}

/// Whether it is of AMD's family 19h, whose only members with AVX-512 are Zen 4.
bool detect_halves_512() { return amd_family() == 0x19; }

/// Whether it is of AMD's family 1Ah, Zen 5, and not one whose units have 256 bits ("FP256").
bool detect_whole_512() {
    return amd_family() == 0x1a && cpuid(0x80000000).eax >= 0x8000001a && !has(cpuid(0x8000001a).eax, {2});
}

std::string detect_brand() {
    if (cpuid(0x80000000).eax < 0x80000004) return {};
    char text[49] = {};
    for (uint32_t i = 0; i < 3; ++i) {
        auto r = cpuid(0x80000002 + i);
        std::memcpy(text + 16 * i, &r, 16);
    }
    std::string brand = text;
    auto first = brand.find_first_not_of(' '), last = brand.find_last_not_of(' ');
    return first == std::string::npos ? std::string() : brand.substr(first, last - first + 1);
}

/// Deterministic cache parameters: leaf 4 of Intel, 0x8000001D of AMD have one format.
void detect_caches(CpuFeatures& features) {
    auto amd = cpuid(0).ecx == 0x444d4163;  // "cAMD"
    uint32_t leaf = amd ? 0x8000001d : 4;
    if (cpuid(amd ? 0x80000000 : 0).eax < leaf) return;
    for (uint32_t i = 0; i < 8; ++i) {
        auto r = cpuid(leaf, i);
        uint32_t type = r.eax & 31, level = r.eax >> 5 & 7;
        if (type == 0) return;
        if (type == 2) continue;  // instructions
        size_t size =
            ((r.ebx >> 22) + 1) * size_t((r.ebx >> 12 & 0x3ff) + 1) * ((r.ebx & 0xfff) + 1) * (size_t(r.ecx) + 1);
        if (level == 1) features.l1d = size;
        if (level == 2) features.l2 = size;
        if (level == 3) features.l3 = size;
    }
}
#endif

/// What Linux says of the caches of processor 0; virtual machines sometimes mask the cpuid leaves but not these, or the
/// other way round.
void read_caches(CpuFeatures& features) {
    for (int index = 0; index < 8; ++index) {
        auto folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
        auto read = [&](char const* file, char* text, int size) {
            auto* stream = std::fopen((folder + file).c_str(), "r");
            if (!stream) return false;
            bool ok = std::fgets(text, size, stream) != nullptr;
            std::fclose(stream);
            return ok;
        };
        char level[8], type[24], size[24];
        if (!read("/level", level, sizeof level) || !read("/type", type, sizeof type) ||
            !read("/size", size, sizeof size))
            return;
        if (type[0] == 'I') continue;
        char* unit = nullptr;
        size_t bytes = std::strtoul(size, &unit, 10);
        if (*unit == 'K') bytes <<= 10;
        if (*unit == 'M') bytes <<= 20;
        if (!bytes) continue;
        if (level[0] == '1') features.l1d = bytes;
        if (level[0] == '2') features.l2 = bytes;
        if (level[0] == '3') features.l3 = bytes;
    }
}

CpuFeatures detect() {
    CpuFeatures features;
#if RG_X86
    features.avx2_vnni = detect_avx2_vnni();
    features.isa = detect_isa(features.avx2_vnni);
    features.avx2_vnni = features.avx2_vnni && features.isa >= Isa::Avx2;
    features.halves_512 = features.isa >= Isa::Avx512 && detect_halves_512();
    features.whole_512 = features.isa >= Isa::Avx512 && detect_whole_512();
    features.fast_bf16 = features.isa >= Isa::Avx512Bf16 && amd_family() != 0;
    features.brand = detect_brand();
    detect_caches(features);
#endif
    read_caches(features);
    if (auto const* wanted = std::getenv("REFACTOR_GRAPH_ISA")) features.isa = lower_isa(features, wanted);
    return features;
}

}  // namespace

std::string_view name_of(Isa isa) {
    constexpr std::string_view kNames[] = {"scalar",     "avx2",       "avx2vnni", "avx512",
                                           "avx512vnni", "avx512bf16", "avx512amx"};
    return kNames[static_cast<int>(isa)];
}

Isa lower_isa(CpuFeatures const& available, std::string_view wanted) {
    for (auto level : kLevels) {
        if (name_of(level) != wanted) continue;
        if (level <= available.isa && (level != Isa::Avx2Vnni || available.avx2_vnni)) return level;
        throw InvalidInput("REFACTOR_GRAPH_ISA asks for '" + std::string(wanted) + "', but this processor offers '" +
                           std::string(name_of(available.isa)) +
                           (level < available.isa ? "' without AVX-VNNI" : "' at most"));
    }
    throw InvalidInput("REFACTOR_GRAPH_ISA is '" + std::string(wanted) +
                       "', expected one of scalar, avx2, avx2vnni, avx512, avx512vnni, avx512bf16, avx512amx");
}

CpuFeatures const& cpu_features() {
    static CpuFeatures const features = detect();
    return features;
}

}  // namespace refactor
