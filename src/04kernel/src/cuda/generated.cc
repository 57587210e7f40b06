#include "cuda/generated.h"

namespace refactor::kernel::cuda {

namespace {

/// Constants for `n / size` of n below 2^31: with s = ceil(log2(size)) and m = floor(2^(31+s) / size) + 1 the quotient
/// is n * m >> (31 + s), since m exceeds 2^(31+s) / size by at most 2^s / 2^s and n by less than 2^31. Source: Granlund
/// and Montgomery, Division by Invariant Integers using Multiplication, 1994.
uint64_t magic_of(int64_t size) {
    if (size < 1 || size >= kNarrow) return 0;
    auto divisor = static_cast<uint64_t>(size);
    auto shift = static_cast<uint64_t>(std::bit_width(divisor - 1));
    return ((uint64_t{1} << (31 + shift)) / divisor + 1) | shift << 32;
}

}  // namespace

void GeneratedLaunch::add_axis(int64_t size) { add(size), add(magic_of(size)); }
void GeneratedLaunch::add_axes(Dims const& sizes) {
    for (auto size : sizes) add_axis(size);
    if (sizes.empty()) add_axis(1);
}
void GeneratedLaunch::add_steps(Dims const& steps) {
    for (auto step : steps) add(step);
    if (steps.empty()) add(0);
}

void* Code::function(char const* name, std::string const& kind, char const* body) const {
    return functions_.get(name, kind,
                          [&] { return std::string(kPrelude) + kArgumentSource + kMovementPrelude + kind + body; });
}

std::string index_kind(bool narrow) {
    return narrow ? "typedef unsigned Index; typedef int Signed;\n" : "typedef rg_u64 Index; typedef rg_i64 Signed;\n";
}

std::string constant_kind(char const* name, int64_t value) {
    return std::string("constexpr int ") + name + " = " + std::to_string(value) + ";\n";
}

std::string word_kind(char const* name, int64_t bytes) {
    auto const* type = bytes == 1   ? "unsigned char"
                       : bytes == 2 ? "unsigned short"
                       : bytes == 4 ? "unsigned"
                       : bytes == 8 ? "rg_u64"
                                    : "rg_pair";
    return std::string("typedef ") + type + " " + name + ";\n";
}

std::string number_kind(DataType type) {
    auto plain = [](char const* name) { return std::string("typedef ") + name + " Stored; typedef Stored Real;\n"; };
    auto both = [](char const* name, char const* load, char const* store) {
        return std::string("typedef ") + name + " Stored; typedef float Real;\nRG_FN Real rg_load(Stored x) { return " +
               load + "(x); }\nRG_FN Stored rg_store(Real x) { return " + store + "(x); }\n";
    };
    std::string same = "RG_FN Real rg_load(Stored x) { return x; }\nRG_FN Stored rg_store(Real x) { return x; }\n";
    switch (type) {
        case DataType::F16:
            return both("unsigned short", "rg_from_f16", "rg_to_f16");
        case DataType::BF16:
            return both("unsigned short", "rg_from_bf16", "rg_to_bf16");
        case DataType::F32:
            return plain("float") + same;
        case DataType::F64:
            return plain("double") + same;
        case DataType::I8:
            return plain("signed char") + same;
        case DataType::I16:
            return plain("short") + same;
        case DataType::I32:
            return plain("int") + same;
        case DataType::I64:
            return plain("rg_i64") + same;
        case DataType::U16:
            return plain("unsigned short") + same;
        case DataType::U32:
            return plain("unsigned") + same;
        case DataType::U64:
            return plain("rg_u64") + same;
        default:
            return plain("unsigned char") + same;
    }
}

std::string saturation_kind(DataType type) {
    bool single = type == DataType::F32 || type == DataType::F16 || type == DataType::BF16;
    std::string sum = single ? "typedef float Sum;\n" : "typedef double Sum;\n";
    if (!is_integer(type)) return sum + "RG_FN Stored rg_saturated(Sum x) { return rg_store((Real)x); }\n";
    auto bits = static_cast<int>(bits_of(type)) - is_signed(type);
    // 2^bits is the first number above the range; every other bound is exact.
    auto power = "rg_f64(" + std::to_string(static_cast<uint64_t>(1023 + bits) << 52) + "ull)";
    return sum + "RG_FN Stored rg_saturated(Sum x) {\n    const double above = " + power +
           ", least = " + (is_signed(type) ? "-above" : "0.") + ";\n    if (x >= above) return (Stored)(~0ull >> " +
           std::to_string(64 - bits) + ");\n    return x > least ? (Stored)x : (Stored)least;\n}\n";
}

void AxisList::merge() {
    Dims merged;
    std::vector<Dims> walks(steps.size());
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
        if (sizes[axis] == 1) continue;
        bool merges = !merged.empty();
        for (size_t i = 0; merges && i < steps.size(); ++i) merges = walks[i].back() == steps[i][axis] * sizes[axis];
        if (merges)
            merged.back() *= sizes[axis];
        else
            merged.push_back(sizes[axis]);
        for (size_t i = 0; i < steps.size(); ++i) {
            if (merges) walks[i].pop_back();
            walks[i].push_back(steps[i][axis]);
        }
    }
    sizes = merged, steps = walks;
}

// `rg_for_items`: all loads of a thread are under way before its first store.
char const* const kMovementPrelude = R"cuda(typedef rg_vec<rg_u64, 2> rg_pair;
struct rg_axis { rg_u64 size, magic; };
RG_FN unsigned rg_quotient(unsigned n, rg_axis axis) {
    return (unsigned)((rg_u64)n * (unsigned)axis.magic >> (31 + (unsigned)(axis.magic >> 32)));
}
RG_FN rg_u64 rg_quotient(rg_u64 n, rg_axis axis) { return n / axis.size; }
template <class Index> RG_FN Index rg_split(Index& rest, rg_axis axis) {
    Index quotient = rg_quotient(rest, axis), coordinate = rest - quotient * (Index)axis.size;
    rest = quotient;
    return coordinate;
}
template <class T> RG_FN T rg_least(T a, T b) { return a < b ? a : b; }
template <class T> RG_FN T rg_most(T a, T b) { return a > b ? a : b; }
template <class T> RG_FN T rg_within(T x, T low, T high) { return rg_least(rg_most(x, low), high); }
template <int kItems, class Word, class Index, class Load, class Store>
RG_FN void rg_for_items(Index count, Load load, Store store) {
    const Index step = (Index)gridDim.x * 256 * kItems;
    for (Index first = (Index)blockIdx.x * 256 * kItems + threadIdx.x; first < count; first += step) {
        Word words[kItems];
#pragma unroll
        for (int k = 0; k < kItems; ++k)
            if (first + k * 256 < count) words[k] = load((Index)(first + k * 256));
#pragma unroll
        for (int k = 0; k < kItems; ++k)
            if (first + k * 256 < count) store((Index)(first + k * 256), words[k]);
    }
}
RG_FN void rg_index_fault(rg_u64 word, rg_i64 index) { rg_report((rg_u64*)word, 1, index); }
// Counts negative ones from the end; false, and 0 as `index`, if there is no such element.
template <class T, class Index> RG_FN bool rg_checked(T value, rg_u64 size, rg_u64 fault, Index& index) {
    rg_i64 counted = value < 0 ? (rg_i64)value + (rg_i64)size : (rg_i64)value;
    bool inside = (rg_u64)counted < size;
    if (!inside) rg_index_fault(fault, value);
    index = inside ? (Index)counted : 0;
    return inside;
}
)cuda";

}  // namespace refactor::kernel::cuda
