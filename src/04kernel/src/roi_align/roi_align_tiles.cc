#include "roi_align/roi_regions.h"
#include "roi_align/roi_tile.h"

namespace refactor::kernel {

#if RG_X86
namespace roi_align {
namespace {

/// The tables of a region; `fits` tells whether they hold it.
struct RoiTables {
    int64_t first[kRoiRows + 1], offset[kRoiRows], begin = 0, width = 0;
    float weight[kRoiRows];
    PairBlock columns;
    bool fits = true;

    RoiTables(Shapes const& s, RoiAxis<float> const* axes) {
        auto n = axes[0].samples, m = axes[1].samples;
        fits = n > 0 && m > 0 && n <= kRoiRows && m <= kBlockPairs && n * s.bins[0] * 2 <= kRoiRows &&
               m * pair_step(static_cast<int>(s.bins[1])) <= kBlockPairs;
        if (!fits) return;
        add_rows(s, axes[0], 1 / static_cast<float>(n * m));
        add_columns(s, axes[1]);
    }

private:
    void add_rows(Shapes const& s, RoiAxis<float> const& axis, float share) {
        int64_t n = 0;
        auto add = [&](int64_t bin, int64_t row, float w) {
            // Samples of a bin go downwards and so meet their rows again.
            for (auto k = n; k-- > std::max(first[bin], n - 2);)
                if (offset[k] == row * s.size[1]) {
                    weight[k] += w * share;
                    return;
                }
            offset[n] = row * s.size[1], weight[n++] = w * share;
        };
        for (int64_t bin = 0; bin < s.bins[0]; ++bin) {
            first[bin] = n;
            for (auto i = bin * axis.samples; i < (bin + 1) * axis.samples; ++i) {
                auto tap = axis.tap(i);
                if (tap.inside) add(bin, tap.low, tap.to_high), add(bin, tap.high, tap.to_low);
            }
        }
        first[s.bins[0]] = n;
    }
    void add_columns(Shapes const& s, RoiAxis<float> const& axis) {
        int const count = static_cast<int>(s.bins[1]), step = pair_step(count);
        int64_t low = s.size[1], high = 0;
        columns.masked = false;
        for (int k = 0; k < static_cast<int>(axis.samples); ++k)
            for (int p = 0; p < step; ++p) {
                auto tap = axis.tap(std::min(p, count - 1) * axis.samples + k);
                // The last column has none behind it: a pair begins before it.
                auto start = std::min(tap.low, s.size[1] - 2);
                bool moved = start != tap.low;
                int i = k * step + p, slot = pair_slot(i);
                columns.start[i] = static_cast<int32_t>(start);
                columns.weight[slot] = moved ? 0 : tap.to_high, columns.weight[slot + 1] = moved ? 1 : tap.to_low;
                columns.mask[slot] = tap.inside && !moved ? ~0u : 0;
                columns.mask[slot + 1] = tap.inside ? ~0u : 0;
                columns.masked = columns.masked || moved || !tap.inside;
                low = std::min(low, start), high = std::max(high, start + 2);
            }
        for (int64_t i = 0; i < axis.samples * step; ++i) columns.start[i] -= static_cast<int32_t>(low);
        begin = low, width = high - low;
        fits = width <= kRoiWidth;
    }
};

movement::TaskResult bind_tiles(RoiAlignInfo const& info, BindArgs const& args, Isa isa) {
    auto shapes = shapes_of(args);
    if (!shapes) return Err{shapes.error()};
    if (shapes->size[1] < 2 || shapes->size[1] > INT32_MAX || shapes->bins[0] > kRoiRows ||
        shapes->bins[1] > kBlockPairs)
        return bind_reference(info, args, isa);
    return movement::make_task([info, s = *shapes](void* const* a, runtime::RunContext const& context) {
        auto region = [&](RoiAxis<float> const* axes, float const* x, float* y, int64_t channels) {
            RoiTables tables(s, axes);
            if (!tables.fits) return run_region(info, s, axes, x, y, channels);
            roi_tile_avx2({x + tables.begin,
                           y,
                           s.size[0] * s.size[1],
                           channels,
                           {s.bins[0], s.bins[1]},
                           tables.width,
                           tables.first,
                           tables.offset,
                           tables.weight,
                           &tables.columns,
                           static_cast<int>(axes[1].samples)});
        };
        each_region<float>(info, s, a, context.pool, 32, region);
    });
}

}  // namespace
}  // namespace roi_align
#endif

movement::KernelResult roi_align_tiles(RoiAlignInfo const& info, Request const& request) {
    if (auto no = roi_align::refuse_types(request)) return Err{*no};
    if (request.inputs[0].dtype != DataType::F32 || info.maximum)
        return Err{Rejection{info.attributes() + " of " + std::string(name_of(request.inputs[0].dtype)) +
                             ", expected averages of f32"}};
#if RG_X86
    if (request.isa >= Isa::Avx2)
        return movement::KernelResult(std::make_unique<movement::InfoKernel<RoiAlignInfo>>(
            info, movement::make_id("roi_align", "tiles", request, name_of(Isa::Avx2)), Isa::Avx2,
            roi_align::bind_tiles));
#endif
    return Err{Rejection{"needs avx2, allowed is " + std::string(name_of(request.isa))}};
}

}  // namespace refactor::kernel
