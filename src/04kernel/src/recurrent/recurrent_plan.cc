#include "recurrent/recurrent_packed.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace refactor::kernel {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// A step shorter than this is not worth meeting for: about 10 fork-joins of 0.3 µs.
constexpr double kStepNs = 3000;

}  // namespace

void pack_gates(ProductFunctions const& product, GateMatrix const& m, int64_t hidden, float const* source,
                float* target, float* rows) {
    int64_t width = product.width, panel = product.panel;
    for (int64_t first = 0; first < m.columns; first += panel) {
        auto count = std::min(panel, m.columns - first);
        for (int64_t i = 0; i < count; ++i) {
            auto column = first + i, block = column / (m.gates * width), gate = column / width % m.gates;
            auto unit = block * width + column % width;
            auto* row = rows + i * m.depth;
            if (unit < hidden)
                std::memcpy(row, source + ((m.first_gate + gate) * hidden + unit) * m.depth,
                            static_cast<size_t>(m.depth) * sizeof(float));
            else
                std::fill(row, row + m.depth, 0.f);
        }
        product.pack(target + first * m.steps, rows, m.depth, true, count, m.depth);
    }
}

bool RecurrentPlan::is_streamed(RecurrentFunctions const& functions, RecurrentInfo const& info,
                                RecurrentShape const& s) {
    if (!functions.stream) return false;
    bool split = info.cell == RecurrentCell::Gru && !info.linear_before_reset;
    return s.batch == 1 && !split && s.lengths < 0 && !info.quantized;
}

RecurrentPlan::RecurrentPlan(RecurrentFunctions const& functions, RecurrentInfo const& info, RecurrentShape const& s,
                             int threads, bool constant_w, bool constant_r) {
    width = functions.product.width, blocks = std::max<int64_t>(1, ceil_div(s.hidden, width)), padded = blocks * width;
    split = info.cell == RecurrentCell::Gru && !info.linear_before_reset, streamed = is_streamed(functions, info, s);
    auto first = split ? 2 : s.gates;
    auto matrix = [&](int64_t from, int64_t gates, int64_t depth) {
        return GateMatrix{from, gates, depth, functions.steps_of(depth), padded * gates};
    };
    w = matrix(0, s.gates, s.inputs), r = matrix(0, first, s.hidden), r_part = matrix(2, split ? 1 : 0, s.hidden);
    state_row = functions.steps_of(padded);
    int64_t panels = functions.product.panel / width;
    for (auto gates : {s.gates, first, int64_t{split ? 1 : s.gates}})
        group = std::lcm(group, panels / std::gcd(panels, gates));
    packs_w = !constant_w, packs_r = !constant_r;
    panel = info.quantized ? s.gates * width : functions.product.panel;

    // The products of a chunk stay in half of L2; reversed sequences of different lengths begin at different positions.
    auto fit = static_cast<int64_t>(cpu_features().l2 / 2 / sizeof(float)) / std::max<int64_t>(1, w.columns);
    chunk = std::max<int64_t>(
        {1, fit / std::max<int64_t>(1, s.batch), ceil_div(4 * functions.product.rows, std::max<int64_t>(1, s.batch))});
    if (info.lengths && (info.reverse || info.bidirectional)) chunk = s.steps;
    chunk = std::max<int64_t>(1, std::min(chunk, s.steps));

    // Sequences are independent; a part has at least the rows of a tile, for it reads all of R.
    auto wanted = ceil_div(threads, s.directions);
    batch_parts = std::max<int64_t>(1, std::min(wanted, s.batch / functions.product.rows));
    auto products = static_cast<double>(s.gates * s.hidden) * static_cast<double>(s.hidden);
    auto step =
        std::max(2 * products * static_cast<double>(s.batch) / (static_cast<double>(width) * 5), 4 * products / 20);
    if (functions.rounded) step /= 2;  // half the instructions, half the bytes
    if (s.directions * batch_parts < threads && step * static_cast<double>(s.directions) > kStepNs * 2)
        batch_parts = 1, column_parts = std::max<int64_t>(1, std::min(wanted, ceil_div(blocks, group)));

    size_t at = 0;
    auto take = [&at](int64_t floats) {
        auto place = at;
        at += (static_cast<size_t>(floats) + 15) / 16 * 16;
        return place;
    };
    gx = take((streamed ? 2 * functions.stream->rows : chunk * s.batch) * w.columns), gr = take(s.batch * r.columns),
    part = take(s.batch * r_part.columns);
    h = take(2 * s.batch * padded), c = take(s.batch * padded), reset = take(split ? s.batch * padded : 0);
    bias = take(w.columns), r_bias = take(padded), peepholes = take(3 * padded);
    packed_w = take(packs_w ? static_cast<int64_t>(w.floats()) : 0);
    packed_r = take(packs_r ? static_cast<int64_t>(r.floats()) : 0);
    packed_part = take(packs_r ? static_cast<int64_t>(r_part.floats()) : 0);
    terms = take(info.quantized ? 6 * w.columns : 0);
    if (functions.rounded) {
        x_pairs = take(chunk * s.batch * w.steps);
        h_pairs = take(2 * s.batch * state_row), reset_pairs = take(split ? s.batch * state_row : 0);
    }
    direction = at;
    rows = direction * static_cast<size_t>(s.directions);
    auto deepest = std::max(packs_w ? s.inputs : 0, packs_r ? s.hidden : 0);
    total = rows + static_cast<size_t>(deepest * functions.product.panel);
}

}  // namespace refactor::kernel
