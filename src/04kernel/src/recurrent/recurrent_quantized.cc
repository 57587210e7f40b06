#include "recurrent/byte_product.h"
#include "recurrent/recurrent_chunks.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

/// Sums of so many products of numbers in [-255, 255] stay in 31 bits.
constexpr int64_t kMostTerms = 32768;
/// Rows that are rounded at a time: a few tiles, whose codes stay in L1 (32 KiB) up to 340 inputs.
constexpr int64_t kStrip = 48;

/// Packed weights of one direction: panels, then the sum of each column.
struct BytePanels {
    int64_t columns, depth;

    explicit BytePanels(GateMatrix const& m) : columns(m.columns), depth(quads(m.depth)) {}
    static int64_t quads(int64_t k) { return (k + 3) / 4; }
    size_t weights() const { return static_cast<size_t>(columns * depth * 4); }
    size_t bytes() const { return weights() + static_cast<size_t>(columns) * sizeof(int32_t); }
};

/// `source`: [depth][gates · hidden] of one direction. Unsigned bytes are shifted by 128.
void pack_bytes(ByteProductFunctions const& f, GateMatrix const& m, int64_t hidden, uint8_t const* source,
                bool is_signed, std::byte* target) {
    BytePanels size(m);
    auto* sums = reinterpret_cast<int32_t*>(target + size.weights());
    std::memset(target, 0, size.bytes());
    uint8_t flip = is_signed ? 0 : 0x80;
    for (int64_t vector = 0; vector < m.columns / f.width; ++vector) {
        auto unit = vector / m.gates * f.width, real = std::min<int64_t>(f.width, hidden - unit);
        auto const* from = source + vector % m.gates * hidden + unit;
        auto column = vector * f.width;
        auto* to =
            reinterpret_cast<int8_t*>(target) + column / f.panel * f.panel * size.depth * 4 + column % f.panel * 4;
        for (int64_t k = 0; k < m.depth; ++k, from += m.gates * hidden) {
            auto* row = to + k / 4 * f.panel * 4 + k % 4;
            uint8_t flip_again = f.flips_even && k % 2 == 0 ? 0x80 : 0;
            for (int64_t i = 0; i < real; ++i) {
                auto weight = static_cast<int8_t>(from[i] ^ flip);
                row[i * 4] = static_cast<int8_t>(weight ^ flip_again), sums[column + i] += weight;
            }
        }
    }
}

/// Rounds the rows of every product just before it.
class QuantizedRecurrent final : public ChunkedRecurrent {
    ByteProductFunctions const& f_;

    /// Of the rows that one worker rounds at a time, in bytes.
    int64_t code_row() const { return BytePanels::quads(std::max(s_.inputs, s_.hidden)) * f_.quad_bytes; }
    size_t scratch() const { return static_cast<size_t>((kStrip * (code_row() + 16) + 63) / 64 * 64); }

    /// What the columns of W or R need beside their weights.
    struct Terms {
        float* scale;
        int32_t *zero, *sum;
    };
    Terms terms_of(Direction const& d, Weights weights) const {
        auto columns = p_.w.columns;
        auto* scale = d.base + p_.terms + (weights == Weights::W ? 0 : 3 * columns);
        auto* zero = reinterpret_cast<int32_t*>(scale + columns);
        return {scale, zero, zero + columns};
    }
    std::byte const* panels_of(Direction const& d, Weights weights) const {
        auto const& blob = weights == Weights::W ? packed_.w : packed_.r;
        return static_cast<std::byte const*>(blob->data()) +
               static_cast<size_t>(d.index) * BytePanels(matrix_of(weights)).bytes();
    }

    void fill_terms(Direction const& d, Weights weights, QuantizedColumns const& of) const {
        auto const& m = matrix_of(weights);
        auto t = terms_of(d, weights);
        auto const* sums = reinterpret_cast<int32_t const*>(panels_of(d, weights) + BytePanels(m).weights());
        for (int64_t column = 0; column < m.columns; ++column) {
            auto unit = column / (m.gates * p_.width) * p_.width + column % p_.width;
            auto source = column / p_.width % m.gates * s_.hidden + unit;
            bool real = unit < s_.hidden;
            t.scale[column] = real ? of.scale(d.index, source) : 0;
            t.zero[column] = real ? of.zero(d.index, source) - (of.is_signed ? 0 : 128) : 0;
            t.sum[column] = sums[column] - static_cast<int32_t>(m.depth) * t.zero[column];
        }
    }
    void pack(Direction const& d, float*) const override {
        fill_terms(d, Weights::W, s_.w_layout.of(d.arguments, s_.w_scale, s_.w_zero));
        fill_terms(d, Weights::R, s_.r_layout.of(d.arguments, s_.r_scale, s_.r_zero));
    }

    void multiply(Direction const& d, Weights weights, Rows const& rows, int worker) const override {
        auto const& m = matrix_of(weights);
        auto terms = terms_of(d, weights);
        auto* codes = reinterpret_cast<uint8_t*>(d.base - static_cast<size_t>(d.index) * p_.direction + p_.total) +
                      static_cast<size_t>(worker) * scratch();
        auto* scales = reinterpret_cast<float*>(codes + kStrip * code_row());
        auto *zeros = reinterpret_cast<int32_t*>(scales + kStrip), *sums = zeros + kStrip, *starts = sums + kStrip;
        ByteProduct t{};
        t.columns = rows.columns, t.a = codes, t.depth = BytePanels::quads(m.depth), t.a_row = t.depth * f_.quad_bytes;
        t.row_scale = scales, t.row_zero = zeros, t.row_sum = sums, t.row_start = starts;
        t.b = reinterpret_cast<int8_t const*>(panels_of(d, weights)) + rows.column * t.depth * 4;
        t.column_scale = terms.scale + rows.column, t.column_zero = terms.zero + rows.column;
        t.column_sum = terms.sum + rows.column, t.bias = rows.bias, t.y_row = m.columns;
        for (int64_t first = 0; first < rows.count; first += kStrip) {
            t.rows = std::min(kStrip, rows.count - first), t.y = rows.y + first * t.y_row;
            for (int64_t i = 0; i < t.rows; ++i) {
                auto const* row = rows.a + (first + i) * rows.a_row;
                float low, high;
                f_.bounds(row, m.depth, &low, &high);
                auto range = code_range(low, high);
                scales[i] = range.scale, zeros[i] = range.zero;
                f_.encode(row, m.depth, range.scale, range.zero, codes + i * t.a_row, sums + i, starts + i);
            }
            f_.multiply(t);
        }
    }

public:
    QuantizedRecurrent(ByteProductFunctions const& f, RecurrentFunctions functions, RecurrentInfo const& info,
                       RecurrentShape const& shape, PackedWeights packed, int threads)
        : ChunkedRecurrent(functions, info, shape, std::move(packed), threads), f_(f) {}
    size_t workspace_bytes() const override {
        return p_.total * sizeof(float) + static_cast<size_t>(threads_) * scratch();
    }
};

class QuantizedRecurrentKernel final : public Kernel {
    ByteProductFunctions const& f_;
    RecurrentFunctions functions_;
    Isa isa_;
    RecurrentInfo info_;
    std::shared_ptr<Blob const> w_, r_;

    std::shared_ptr<Blob const> pack(Blob const& source, bool is_signed, GateMatrix const& m, RecurrentShape const& s,
                                     PackCache& packs) const {
        BytePanels size(m);
        auto format = "recurrent_bytes:" + std::to_string(f_.panel) + (f_.flips_even ? "f" : "") +
                      (is_signed ? "i:" : "u:") + std::to_string(s.hidden) + "x" + std::to_string(m.depth) + "x" +
                      std::to_string(s.directions);
        return packs.get(
            source, format, size.bytes() * static_cast<size_t>(s.directions), [&](void const* from, void* target) {
                for (int64_t d = 0; d < s.directions; ++d)
                    pack_bytes(f_, m, s.hidden, static_cast<uint8_t const*>(from) + d * m.depth * s.gates * s.hidden,
                               is_signed, static_cast<std::byte*>(target) + static_cast<size_t>(d) * size.bytes());
            });
    }
    std::string init(RecurrentShape& shape, BindArgs const& args) const {
        if (auto why = shape.init(info_, args); !why.empty()) return why;
        if (auto terms = std::max(shape.inputs, shape.hidden); terms > kMostTerms)
            return "a product has " + std::to_string(terms) + " terms, expected at most " + std::to_string(kMostTerms);
        return {};
    }

public:
    QuantizedRecurrentKernel(ByteProductFunctions const& f, RecurrentFunctions functions, Isa isa,
                             RecurrentInfo const& info, Request const& request)
        : f_(f),
          functions_(functions),
          isa_(isa),
          info_(info),
          w_(request.inputs[1].constant),
          r_(request.inputs[2].constant) {}
    std::string id() const override { return id_of("recurrent", "quantized", DataType::U8, isa_); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        RecurrentShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        return 100 + shape.operations() / (f_.width * 8.);
    }
    MaybeTask bind(BindArgs const& args) const override {
        RecurrentShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        RecurrentPlan plan(functions_, info_, shape, args.threads, true, true);
        PackedWeights packed{pack(*w_, shape.w_layout.is_signed, plan.w, shape, args.packs),
                             pack(*r_, shape.r_layout.is_signed, plan.r, shape, args.packs), nullptr};
        return std::unique_ptr<runtime::Task>(
            new QuantizedRecurrent(f_, functions_, info_, shape, std::move(packed), args.threads));
    }
};

#if RG_X86
MaybeKernel make(RecurrentInfo const& info, Request const& request, Isa isa, ByteProductFunctions const& f,
                 RecurrentFunctions functions) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (auto why = why_not_quantized(info, request); !why.empty()) return reject(why);
    if (auto why = why_not_isa(request, isa); !why.empty()) return reject(why);
    for (size_t i : {1, 2})
        if (!request.inputs[i].constant) return reject(i == 1 ? "W is not constant" : "R is not constant");
    return std::unique_ptr<Kernel>(new QuantizedRecurrentKernel(f, functions, isa, info, request));
}
#endif

}  // namespace

MaybeKernel make_recurrent_quantized_avx512vnni(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx512Vnni, byte_product_functions_avx512vnni(),
                {product_functions_avx512(), cell_functions_avx512(), nullptr, row_product_avx512()});
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_recurrent_quantized_avx2vnni(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx2Vnni, byte_product_functions_avx2vnni(),
                {product_functions_avx2(), cell_functions_avx2(), &stream_functions_avx2(), nullptr});
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_recurrent_quantized_avx2(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx2, byte_product_functions_avx2(),
                {product_functions_avx2(), cell_functions_avx2(), &stream_functions_avx2(), nullptr});
#else
    return reject("not built for this architecture");
#endif
}

}  // namespace refactor::kernel
