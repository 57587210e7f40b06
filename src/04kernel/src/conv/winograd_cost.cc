#include "conv/winograd_cost.h"

#include "conv/cost.h"
#include "conv/winograd_task.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

/// Filters of tiles of 6 × 6 take 1.8 times the memory of those of 4 × 4, so that they have to be ahead by this.
constexpr double kMarginOfSix = 1.05;
/// Those of four pieces of 7 × 7 taps take 5.2 times the memory of weights, of tiles of 2 × 2 outputs 1.3 times.
constexpr double kMarginOfPieces = 1.5;
/// With a stride, filters take the memory that they take without one, for fewer products that are left out.
constexpr double kMarginOfStride = 1.08;
/// With a stride most filters multiply several inputs of a tile. What a register tile takes to begin and end is 8 steps
/// of k. (Zen 3, one thread, 16 to 512 channels: 0.85 to 1.3 of the time, direct 0.92 to 1.09; of 11 layers what is
/// chosen is the fastest, but for three, where that is 4 to 9 % faster. Not measured on AVX-512.)
constexpr double kStepsOfStride = 8, kPeakOfStride = 0.93;
/// The same where blocks hold parts of groups, which are computed one by one from few channels. Filters then take five
/// times the memory of weights, for which they have to be ahead by this.
constexpr double kStepsOfGroups = 16, kMarginOfGroups = 1.1;

}  // namespace

WinogradIsa const& winograd_isa(WinogradForm const& form, Isa isa) {
    bool wide = isa == Isa::Avx512;
    if (form.plane()) return wide ? winograd_avx512(form) : winograd_avx2(form);
    return wide ? winograd_line_avx512(form) : winograd_line_avx2(form);
}

double winograd_time(Geometry const& g, WinogradForm const& form, Isa isa, int threads, double bytes) {
    CostModel cost(isa, threads);
    int64_t const block = isa == Isa::Avx512 ? 16 : 8;
    bool const whole = isa == Isa::Avx512 && cpu_features().whole_512;
    auto count = static_cast<double>(form.products()), inputs = static_cast<double>(form.inputs()),
         outputs = static_cast<double>(form.tile[0] * form.tile[1]);
    auto const sources = g.kernel[0] * form.pieces();
    auto const list = winograd_chunks(g, form, static_cast<int>(block));
    auto const parts = winograd_parts(list, sources);
    WinogradPlan plan(g, form, list, parts, threads);
    auto round = [&](int64_t a) { return static_cast<double>((a + block - 1) / block * block); };
    auto tiles = static_cast<double>(plan.tiles), filters = static_cast<double>(list.floats);
    auto in = round(g.in_channels) * static_cast<double>(sources), out = round(g.out_channels);
    // Each block of tiles reads all transformed weights; few tiles a block leave few accumulators a weight (four
    // lose an eighth, measured on Zen 4; nine a quarter on Zen 5, whose products are done in half the time).
    auto filled = std::min(1., static_cast<double>(plan.block_tiles + 3) / (whole ? 16 : 8));
    auto products = 2. * inputs * tiles * filters / (0.85 * filled * cost.flops);
    products *= CostModel::share_of_blocks(static_cast<int>(block), g.out_channels);
    auto depth = filters / out;  // of a sum
    if (list.parts_of_blocks()) products *= (depth + kStepsOfGroups) / depth;
    if (form.strided()) products *= 0.85 / kPeakOfStride * (depth + kStepsOfStride) / depth;
    auto weights = 4. * count * filters;
    auto reading = weights * static_cast<double>(plan.blocks) / cost.reading(weights);
    // Bytes of inputs or outputs and of their transforms, all from L2 or L3.
    auto fresh = outputs * static_cast<double>(form.stride * form.stride);  // inputs that a tile does not share
    auto transforms = 4. * tiles * ((inputs + fresh) * in + (inputs + outputs) * out) / (0.5 * cost.l2);
    // Elsewhere the rate of the transforms allows for what X and Y take from further away.
    if (whole) transforms += bytes / (2 * cost.bandwidth(bytes));
    auto time =
        std::max((products + transforms) / cost.threads, reading) + 0.25 * std::min(products / cost.threads, reading);
    if (list.parts_of_blocks()) time *= kMarginOfGroups;
    if (form.tile[0] == 4 && form.strided()) return kMarginOfStride * time;
    if (!form.plane()) return time;
    if (form.step == 1 && form.pieces() > 1) return kMarginOfPieces * time;
    return form.tile[0] == 6 ? kMarginOfSix * time : time;
}

}  // namespace refactor::kernel
