#include "recurrent/recurrent_task.h"

namespace refactor::kernel {
namespace {

/// One sequence. Its steps are cut into groups of as many as a tile of input products has rows (the first takes what
/// does not fill one); while the steps of a group read R, the input products of the next group are made, the share of
/// the depth of W at each step that makes them ready in time.
class StreamedRecurrent final : public RecurrentTask {
    /// Steps [begin, end).
    struct Group {
        int64_t begin, end, slot;
    };

    Group group_of(int64_t step) const {
        int64_t rows = functions_.stream->rows, first = (s_.steps - 1) % rows + 1;
        if (step < first) return {0, first, 0};
        auto index = (step - first) / rows;
        return {first + index * rows, first + (index + 1) * rows, (index + 1) % 2};
    }
    float* gx_of(Direction const& d, int64_t slot) const {
        return d.base + p_.gx + slot * functions_.stream->rows * p_.w.columns;
    }
    float const* x_of(Direction const& d, int64_t step) const {
        return input(d.arguments, 0, (is_reverse(d) ? s_.steps - 1 - step : step) * s_.x_step);
    }
    int64_t x_row(Direction const& d) const { return is_reverse(d) ? -s_.x_step : s_.x_step; }
    /// Input products of whole groups for columns [from, to), as one product.
    void multiply_inputs(Direction const& d, Group const& group, int64_t from, int64_t to) const {
        auto t = product_of(p_.w, group.end - group.begin, d.w, from, to - from);
        t.bias = d.base + p_.bias + from;
        t.a = x_of(d, group.begin), t.a_row = x_row(d), t.y = gx_of(d, group.slot) + from;
        if (to > from) functions_.product.multiply(t);
    }

    /// One step for blocks [first, last) of units. R is read in turns forwards and backwards: what was read last is
    /// still in L2.
    void run_step(Direction const& d, int64_t step, int64_t first, int64_t last) const {
        auto group = group_of(step);
        auto cell = cell_of(d, step, 0, 1);
        cell.x = gx_of(d, group.slot) + (step - group.begin) * p_.w.columns;
        cell.first_position = cell.position;
        StreamBlock t{};
        t.depth = p_.r.depth, t.h = cell.h;
        t.beside = group.end < s_.steps, t.x_row = x_row(d), t.x_depth = p_.w.depth;
        Group next = t.beside ? group_of(group.end) : group;
        auto part = step - group.begin, parts = group.end - group.begin;
        t.from = p_.w.depth * part / parts, t.to = p_.w.depth * (part + 1) / parts;
        t.x = x_of(d, next.begin), t.gx_row = p_.w.columns;
        auto wide = p_.blocks_at_once(), groups = (last - first + wide - 1) / wide;
        for (int64_t i = 0; i < groups; ++i) {
            cell.first_block = first + (step & 1 ? groups - 1 - i : i) * wide;
            cell.last_block = std::min(last, cell.first_block + wide);
            auto from = cell.first_block * s_.gates * p_.width, to = cell.last_block * s_.gates * p_.width;
            t.panels = (to - from) / functions_.product.panel;
            t.r = d.r + from * t.depth, t.w = d.w + from * t.x_depth, t.bias = d.base + p_.bias + from;
            t.y = d.base + p_.gr + from, t.gx = gx_of(d, next.slot) + from;
            functions_.stream->multiply(t);
            if (auto rest = from + t.panels * functions_.product.panel; rest < to) finish(d, cell, next, t, rest, to);
            functions_.cell.update(cell);
        }
    }
    /// The columns of a last panel that is narrower.
    void finish(Direction const& d, CellBlock const& cell, Group const& next, StreamBlock const& block, int64_t from,
                int64_t to) const {
        auto t = product_of(p_.r, 1, d.r, from, to - from);
        t.a = cell.h, t.y = d.base + p_.gr + from;
        functions_.product.multiply(t);
        if (block.beside && block.from == 0) multiply_inputs(d, next, from, to);
    }

    void walk(Direction const* all, ThreadPool& pool) const override {
        if (s_.steps == 0) return;
        auto parts = p_.column_parts;
        auto each = [&](auto&& body) {
            pool.parallel_for(s_.directions * parts, [&](int64_t i, int) {
                auto [from, to] = blocks_of(i % parts);
                body(all[i / parts], from, to);
            });
        };
        auto begin = [&](Direction const& d, int64_t from, int64_t to) {
            multiply_inputs(d, group_of(0), from * s_.gates * p_.width, to * s_.gates * p_.width);
        };
        if (parts == 1)
            return each([&](Direction const& d, int64_t from, int64_t to) {
                begin(d, from, to);
                for (int64_t step = 0; step < s_.steps; ++step) run_step(d, step, from, to);
            });
        each(begin);
        for (int64_t step = 0; step < s_.steps; ++step)
            each([&](Direction const& d, int64_t from, int64_t to) { run_step(d, step, from, to); });
    }

public:
    using RecurrentTask::RecurrentTask;
};

}  // namespace

std::unique_ptr<runtime::Task> streamed_recurrent_task(RecurrentFunctions functions, RecurrentInfo const& info,
                                                       RecurrentShape const& shape, PackedWeights packed, int threads) {
    return std::make_unique<StreamedRecurrent>(functions, info, shape, std::move(packed), threads);
}

}  // namespace refactor::kernel
