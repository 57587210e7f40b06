#include "common/cpu_features.h"
#include "conv/direct_task.h"
#include "conv/winograd_filters.h"
#include "conv/winograd_pack.h"
#include "conv/winograd_task.h"
#include "reduce/kernel_test.h"

#include <cmath>
#include <numeric>

namespace refactor::kernel::test {
namespace {

std::vector<float> random_weights(int64_t count) {
    std::mt19937 random(seed_of(331));
    std::normal_distribution<float> normal;
    std::vector<float> w(static_cast<size_t>(count));
    for (auto& element : w) element = normal(random);
    return w;
}

/// What `ChunkList` says: element by element, in its order.
std::vector<float> packed_by_definition(ChunkList const& list, ChunkList::Source const& s) {
    std::vector<float> packed;
    auto unit = list.planar ? 1 : list.block;
    auto in_group = list.in_channels / list.group, out_group = list.out_channels / list.group;
    for (auto const& chunk : list.chunks) {
        auto put = [&](int64_t u, int64_t tap) {
            auto end = list.planar ? 1 : u + 1 == chunk.in_first + chunk.in_blocks ? chunk.tail : unit;
            for (int64_t i = u == chunk.in_first ? chunk.head : 0; i < end; ++i)
                for (int64_t lane = 0; lane < chunk.blocks * list.block; ++lane) {
                    auto m = chunk.first * list.block + lane, g = m / out_group, c = u * unit + i - g * in_group;
                    bool inside = m < list.out_channels && c >= 0 && c < in_group;
                    packed.push_back(
                        inside ? s.w[g * s.group_stride + m % out_group * s.m_stride + c * s.c_stride + tap] : 0.f);
                }
        };
        auto end = int64_t{chunk.in_first} + chunk.in_blocks;
        if (list.tap_major) {
            for (auto tap : s.taps)
                for (int64_t u = chunk.in_first; u < end; ++u) put(u, tap);
        } else {
            for (int64_t u = chunk.in_first; u < end; ++u)
                for (auto tap : s.taps) put(u, tap);
        }
    }
    return packed;
}

struct Sizes {
    int64_t in, out, group, all_taps;
    std::vector<int64_t> taps;
};

TEST(ConvPack, ChunksHoldWeightsInTheirOrder) {
    std::vector<int64_t> nine(9), many(343), most(600);
    for (auto* taps : {&nine, &many, &most}) std::iota(taps->begin(), taps->end(), 0);
    for (auto const& z : {Sizes{37, 45, 1, 1, {0}}, Sizes{64, 48, 2, 1, {0}}, Sizes{19, 21, 1, 9, nine},
                          Sizes{33, 17, 1, 9, {3, 4, 5, 7}}, Sizes{12, 30, 3, 9, nine}, Sizes{64, 64, 2, 9, nine},
                          Sizes{3, 20, 1, 343, many}, Sizes{9, 11, 1, 600, most}})
        for (int block : {8, 16})
            for (bool planar : {false, true})
                for (bool tap_major : {false, true}) {
                    ChunkList list(block, planar, z.in, z.out, z.group, static_cast<int64_t>(z.taps.size()));
                    if (tap_major && (planar || z.group > 1 || z.in % block)) continue;
                    list.tap_major = tap_major;
                    auto in_group = z.in / z.group, out_group = z.out / z.group;
                    auto w = random_weights(z.out * in_group * z.all_taps);
                    // The order of convolutions, and that of transposed ones.
                    for (auto const& s : {ChunkList::Source{w.data(), out_group * in_group * z.all_taps,
                                                            in_group * z.all_taps, z.all_taps, z.taps},
                                          ChunkList::Source{w.data(), out_group * in_group * z.all_taps, z.all_taps,
                                                            out_group * z.all_taps, z.taps}}) {
                        std::vector<float> packed(static_cast<size_t>(list.floats), NAN);
                        for (auto const& chunk : list.chunks) list.pack(chunk, s, packed.data());
                        EXPECT_EQ(packed, packed_by_definition(list, s))
                            << z.in << " to " << z.out << " in " << z.group << ", " << z.taps.size() << " taps, block "
                            << block << (planar ? ", planar" : "");
                    }
                }
}

/// Row i of G: the last one is that of the highest tap.
long double g_of(FilterTransform const& t, int64_t products, int64_t taps, int64_t i, int64_t k) {
    return i + 1 == products ? k + 1 == taps : static_cast<long double>(t.g[i][k]);
}
/// The same of three taps with a stride: rows of the outer taps, then that of the middle one.
long double strided_g_of(FilterTransform const& t, int64_t products, int64_t i, int64_t k) {
    if (k == 1 || i + 1 == products) return k == 1 && i + 1 == products;
    return g_of(t, products - 1, 2, i, k / 2);
}

TEST(ConvPack, WinogradTransformsFilters) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs AVX2";
    int const block = cpu_features().isa >= Isa::Avx512 ? 16 : 8;
    struct Case {
        int64_t rows, cols, outputs, depth, in, out, stride = 1, group = 1;
    };
    for (auto const& z :
         {Case{3, 3, 2, 1, 19, 21}, Case{3, 3, 4, 1, 8, 32}, Case{3, 3, 6, 1, 5, 40}, Case{3, 3, 4, 3, 5, 9},
          Case{1, 3, 0, 1, 17, 24}, Case{5, 1, 0, 1, 9, 7}, Case{1, 7, 0, 1, 3, 50}, Case{3, 3, 2, 1, 19, 21, 2},
          Case{3, 3, 4, 1, 8, 40, 2}, Case{5, 5, 2, 1, 9, 17}, Case{5, 5, 4, 2, 3, 20}, Case{7, 7, 2, 1, 9, 33},
          Case{7, 7, 5, 1, 5, 20}, Case{4, 4, 5, 2, 3, 9}, Case{4, 4, 3, 1, 3, 20, 2}, Case{5, 5, 4, 1, 9, 9, 2},
          Case{1, 10, 0, 1, 5, 20, 5}, Case{2, 2, 3, 1, 9, 20}, Case{2, 1, 0, 1, 3, 9}, Case{1, 11, 0, 1, 9, 20},
          Case{10, 1, 0, 1, 3, 33},
          // Groups that begin inside of a block, of more than a block, and of whole ones.
          Case{3, 3, 4, 1, 72, 72, 1, 3}, Case{3, 3, 2, 1, 20, 92, 1, 4}, Case{1, 3, 0, 1, 33, 21, 1, 3},
          Case{3, 3, 4, 1, 24, 60, 2, 2}, Case{5, 5, 4, 2, 32, 64, 1, 2}}) {
        auto form = *winograd_form(z.rows, z.cols, z.outputs, z.stride);
        Geometry g;
        g.in_channels = z.in, g.out_channels = z.out, g.group = z.group;
        g.kernel[0] = g.all_taps[0] = z.depth;
        auto list = winograd_chunks(g, form, block);
        auto taps = form.taps(), sources = z.depth * form.pieces(), of_group = list.in_channels / z.group;
        auto planes = of_group / sources, channels = z.in / z.group, outputs = z.out / z.group;
        auto w = random_weights(z.out * channels * z.depth * taps);
        std::vector<float> packed(static_cast<size_t>(form.products() * list.floats), NAN);
        pack_winograd(form, list, g, w.data(), packed.data());
        FilterTransform transform(form);
        auto g_along = [&](int axis, int64_t i, int64_t k) -> long double {
            auto products = form.products(axis);
            if (products == 1) return 1;
            return form.strided() ? strided_g_of(transform, products, i, k)
                                  : g_of(transform, products, form.piece[axis], i, k);
        };
        auto parts = winograd_parts(list, sources);
        auto part = parts.begin();
        for (int64_t number = 0; auto const& chunk : list.chunks) {
            if (number++ == part->chunk_end) ++part;
            for (int64_t i = 0; i < (chunk.in_blocks - 1) * block + chunk.tail - chunk.head; ++i)
                for (int64_t lane = 0; lane < chunk.blocks * block; ++lane)
                    for (int64_t p = 0; p < form.products(); ++p) {
                        auto m = chunk.first * block + lane, row = chunk.in_first * block + chunk.head + i;
                        auto c = row % of_group % planes, source = row % of_group / planes;
                        auto plane = source / form.pieces(), piece = source % form.pieces();
                        auto first_row = form.first_tap(0, piece / form.pieces(1));
                        auto first_col = form.first_tap(1, piece % form.pieces(1));
                        bool inside = m < z.out && c < channels && m / outputs == row / of_group;
                        auto const* filter = w.data() + ((m * channels + c) * z.depth + plane) * taps;
                        long double sum = 0, size = 0;
                        for (int64_t t = 0; inside && t < form.piece[0] * form.piece[1]; ++t) {
                            auto i0 = t / form.piece[1], i1 = t % form.piece[1];
                            auto tap_row = first_row + i0 * form.step, tap_col = first_col + i1 * form.step;
                            if (tap_row >= z.rows || tap_col >= z.cols) continue;
                            auto u = g_along(0, p / form.products(1), i0) * g_along(1, p % form.products(1), i1) *
                                     filter[tap_row * z.cols + tap_col];
                            sum += u, size += std::fabs(u);
                        }
                        auto at = part->weights_of(form, p, chunk) + i * chunk.blocks * block + lane;
                        // Sums are of f64: what is left is the rounding to f32.
                        ASSERT_NEAR(packed[static_cast<size_t>(at)], static_cast<double>(sum),
                                    static_cast<double>(0x1.001p-24L * std::fabs(sum) + 0x1p-50L * size))
                            << "product " << p << " of " << form.products() << ", input " << i << ", lane " << lane;
                    }
        }
    }
}

}  // namespace
}  // namespace refactor::kernel::test
