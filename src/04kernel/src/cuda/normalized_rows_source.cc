#include "cuda/product_source.h"
#include "cuda/rows_source.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel::cuda {

namespace {

char const* const kBody = R"cuda(
typedef rg_vec<A, kNormVector> NormVector;
struct alignas(64) NormalRows { A rows[kRows * kInner]; };

// Rows of A by all threads of a block, in the type of A as a step of its own would leave them.
struct Normalizer {
    static constexpr int vectors = kInner / kNormVector;
    rg_raw<NormVector> scale[kNormItems], bias[kNormItems];

    RG_MEMBER void fetch(rg_product_args const& p) {
        const int lane = threadIdx.x % kNormLanes;
#pragma unroll
        for (int i = 0; i < kNormItems; ++i) {
            scale[i] = {}, bias[i] = {};
            if (lane + i * kNormLanes >= vectors) continue;
            scale[i] = ((rg_raw<NormVector> const*)p.norm_scale)[lane + i * kNormLanes];
            if (kNormBias) bias[i] = ((rg_raw<NormVector> const*)p.norm_bias)[lane + i * kNormLanes];
        }
    }
    RG_MEMBER void run(A const* a, NormalRows& to) const {
        const int lane = threadIdx.x % kNormLanes;
        for (int row = threadIdx.x / kNormLanes; row < kRows; row += 256 / kNormLanes) {
            rg_raw<NormVector> in[kNormItems];
            Sum v[kNormItems][kNormVector];
#pragma unroll
            for (int i = 0; i < kNormItems; ++i) {
                in[i] = {};
                if (lane + i * kNormLanes < vectors)
                    in[i] = ((rg_raw<NormVector> const*)(a + row * kInner))[lane + i * kNormLanes];
            }
#pragma unroll
            for (int i = 0; i < kNormItems; ++i) {
                NormVector x = rg_taken<NormVector>(in[i]);
#pragma unroll
                for (int e = 0; e < kNormVector; ++e) v[i][e] = rg_widen(x.v[e]);
            }
            rg_moments<kRms, Sum> m = rg_moments_of<kRms, kNormLanes>(v, lane, vectors);
            const Sum factor = m.factor((Sum)kNormEpsilon);
#pragma unroll
            for (int i = 0; i < kNormItems; ++i) {
                if (lane + i * kNormLanes >= vectors) continue;
                NormVector by = rg_taken<NormVector>(scale[i]), plus = rg_taken<NormVector>(bias[i]), y;
#pragma unroll
                for (int e = 0; e < kNormVector; ++e)
                    y.v[e] = rg_narrow<A>((v[i][e] - m.mean) * factor * rg_widen(by.v[e]) + rg_widen(plus.v[e]));
                ((NormVector*)(to.rows + row * kInner))[lane + i * kNormLanes] = y;
            }
        }
        __syncthreads();
    }
};
RG_FN A const* rows_of_a(rg_product_args const& p, A const* a) {
    __shared__ NormalRows normal;
    Normalizer normalizer;
    normalizer.fetch(p);
    RG_WAIT();
    normalizer.run(a, normal);
    return normal.rows;
}
)cuda";

/// Elements of a thread that stay in registers.
constexpr int64_t kMostElements = 32;
/// Shared memory of a block that leaves room for others beside it.
constexpr int64_t kMostSharedBytes = 40 << 10;

}  // namespace

int lanes_of_row(ProductKind const& kind) { return kind.rows > 1 && kind.inner <= 32 * kMostElements ? 32 : 256; }

std::string why_rows_stay(ProductKind const& kind) {
    auto bytes = kind.rows * kind.inner * bits_of(kind.a) / 8;
    if (kind.inner <= lanes_of_row(kind) * kMostElements && bytes <= kMostSharedBytes) return {};
    return std::to_string(kind.rows) + " x " + std::to_string(kind.inner) + " elements do not fit in a block";
}

std::string normalized_rows_source(ProductKind const& kind) {
    auto const& norm = *kind.norm;
    int64_t const steps[]{kind.inner};
    auto vector = vector_width(kind.a, steps);
    auto lanes = lanes_of_row(kind);
    auto number = [](char const* name, int64_t value) {
        return std::string("constexpr int ") + name + " = " + std::to_string(value) + ";\n";
    };
    auto truth = [](char const* name, bool value) {
        return std::string("constexpr bool ") + name + (value ? " = true;\n" : " = false;\n");
    };
    return std::string(kRowsPrelude) + kNormalizeSource + number("kInner", kind.inner) + number("kNormVector", vector) +
           number("kNormLanes", lanes) + number("kNormItems", ceil_div(kind.inner, lanes * vector)) +
           truth("kRms", norm.rms) + truth("kNormBias", norm.has_bias) +
           "constexpr double kNormEpsilon = " + exact_text(norm.epsilon) + ";\n" + kBody;
}

}  // namespace refactor::kernel::cuda
