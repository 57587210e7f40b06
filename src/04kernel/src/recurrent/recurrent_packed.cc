#include "recurrent/recurrent_packed.h"

#include "common/thread_pool.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Weights of a Program, packed for every direction; null where they are not constant.
struct PackedWeights {
    std::shared_ptr<Blob const> w, r, part;
};

class PackedRecurrent final : public runtime::Task {
    RecurrentFunctions functions_;
    RecurrentInfo info_;
    RecurrentShape s_;
    PackedWeights packed_;
    RecurrentPlan p_;
    int threads_;

    /// One direction of one run.
    struct Direction {
        int64_t index;
        float* base;
        void* const* arguments;
        float const *w, *r, *part;
    };

    float const* input(void* const* arguments, int i, int64_t offset) const {
        return i < 0 ? nullptr : static_cast<float const*>(arguments[i]) + offset;
    }
    Direction direction_of(void* const* arguments, float* workspace, int64_t d) const {
        auto* base = workspace + static_cast<size_t>(d) * p_.direction;
        auto pick = [&](std::shared_ptr<Blob const> const& blob, size_t at, GateMatrix const& m) {
            return blob ? static_cast<float const*>(blob->data()) + static_cast<size_t>(d) * m.floats() : base + at;
        };
        return {d,
                base,
                arguments,
                pick(packed_.w, p_.packed_w, p_.w),
                pick(packed_.r, p_.packed_r, p_.r),
                pick(packed_.part, p_.packed_part, p_.r_part)};
    }

    void pack(Direction const& d, float* rows) const {
        auto weights = s_.gates * s_.hidden;
        auto const* w = input(d.arguments, 1, d.index * weights * s_.inputs);
        auto const* r = input(d.arguments, 2, d.index * weights * s_.hidden);
        if (p_.packs_w) pack_gates(functions_.product, p_.w, s_.hidden, w, d.base + p_.packed_w, rows);
        if (!p_.packs_r) return;
        pack_gates(functions_.product, p_.r, s_.hidden, r, d.base + p_.packed_r, rows);
        if (p_.split) pack_gates(functions_.product, p_.r_part, s_.hidden, r, d.base + p_.packed_part, rows);
    }
    /// Both biases as one, in the order of the packed columns; that of R for the gate h apart where r multiplies it.
    void gather_bias(Direction const& d) const {
        auto rows = s_.gates * s_.hidden, columns = p_.w.columns;
        auto *bias = d.base + p_.bias, *r_bias = d.base + p_.r_bias;
        std::fill_n(bias, columns, 0.f), std::fill_n(r_bias, p_.padded, 0.f);
        auto const* b = input(d.arguments, s_.bias, d.index * 2 * rows);
        if (!b) return;
        bool apart = info_.cell == RecurrentCell::Gru && info_.linear_before_reset;
        for (int64_t g = 0; g < s_.gates; ++g)
            for (int64_t u = 0; u < s_.hidden; ++u) {
                auto from_r = b[rows + g * s_.hidden + u];
                auto at = (u / p_.width * s_.gates + g) * p_.width + u % p_.width;
                bool last = apart && g == 2;
                bias[at] = b[g * s_.hidden + u] + (last ? 0 : from_r);
                if (last) r_bias[u] = from_r;
            }
    }
    void prepare(Direction const& d, float* rows) const {
        pack(d, rows);
        gather_bias(d);
        std::fill_n(d.base + p_.peepholes, 3 * p_.padded, 0.f);
        for (int64_t g = 0; g < 3 && s_.peepholes >= 0; ++g)
            std::memcpy(d.base + p_.peepholes + g * p_.padded,
                        input(d.arguments, s_.peepholes, (d.index * 3 + g) * s_.hidden),
                        static_cast<size_t>(s_.hidden) * sizeof(float));
        auto const* lengths = lengths_of(d.arguments);
        for (int64_t n = 0; n < s_.batch; ++n) {
            auto fill = [&](size_t at, int i) {
                auto* state = d.base + at + n * p_.padded;
                std::fill_n(state, p_.padded, 0.f);
                if (i >= 0 && !(lengths && lengths[n] == 0))
                    std::memcpy(state, input(d.arguments, i, d.index * s_.state_direction + n * s_.state_batch),
                                static_cast<size_t>(s_.hidden) * sizeof(float));
            };
            fill(p_.h, s_.initial_h), fill(p_.c, s_.initial_c);
        }
    }
    int32_t const* lengths_of(void* const* arguments) const {
        return s_.lengths < 0 ? nullptr : static_cast<int32_t const*>(arguments[s_.lengths]);
    }
    bool is_reverse(Direction const& d) const { return s_.is_reverse(info_, d.index); }
    /// Position of the first row of the chunk that begins at `step`.
    int64_t chunk_position(Direction const& d, int64_t step, int64_t count) const {
        return is_reverse(d) && s_.lengths < 0 ? s_.steps - step - count : step;
    }

    ProductBlock product_of(GateMatrix const& m, float const* b, int64_t column, int64_t columns) const {
        ProductBlock t{};
        t.k = m.depth, t.n = columns, t.a_k = 1, t.b = b + column * m.depth, t.source = ProductSource::Packed;
        t.y_row = m.columns, t.alpha = 1;
        auto floats = static_cast<int64_t>(cpu_features().l2 / sizeof(float));
        t.block_k = std::max<int64_t>(64, std::min(m.depth, floats / 8 / functions_.product.panel));
        t.block_m = std::max<int64_t>(functions_.product.rows, floats / 2 / t.block_k);
        return t;
    }
    /// Input products of a chunk for some columns.
    void multiply_inputs(Direction const& d, int64_t step, int64_t count, int64_t column, int64_t columns) const {
        auto t = product_of(p_.w, d.w, column, columns);
        t.bias = d.base + p_.bias + column;
        auto const* x = input(d.arguments, 0, chunk_position(d, step, count) * s_.x_step);
        auto* y = d.base + p_.gx + column;
        t.a_row = s_.inputs;
        auto sets = info_.batch_first ? s_.batch : 1, rows = info_.batch_first ? count : count * s_.batch;
        for (int64_t i = 0; i < sets; ++i) {
            t.m = rows, t.a = x + i * s_.x_batch, t.y = y + i * rows * p_.w.columns;
            functions_.product.multiply(t);
        }
    }
    void multiply_states(Direction const& d, bool part, float const* h, int64_t first, int64_t rows,
                         int64_t first_block, int64_t last_block) const {
        auto const& m = part ? p_.r_part : p_.r;
        auto column = first_block * m.gates * p_.width;
        auto t = product_of(m, part ? d.part : d.r, column, (last_block - first_block) * m.gates * p_.width);
        t.m = rows, t.a = h, t.a_row = p_.padded;
        t.y = d.base + (part ? p_.part : p_.gr) + first * m.columns + column;
        functions_.product.multiply(t);
    }

    CellBlock cell_of(Direction const& d, int64_t chunk_step, int64_t count, int64_t step, int64_t first,
                      int64_t rows) const {
        CellBlock b{};
        b.cell = info_.cell, b.linear_before_reset = info_.linear_before_reset, b.input_forget = info_.input_forget;
        b.activations =
            info_.activations.data() + d.index * static_cast<int64_t>(info_.activations.size()) / s_.directions;
        b.clip = info_.clip, b.rows = rows, b.hidden = s_.hidden;
        b.x_row = (info_.batch_first ? count : 1) * p_.w.columns;
        b.x_step = (info_.batch_first ? 1 : s_.batch) * p_.w.columns;
        b.x = d.base + p_.gx + first * b.x_row;
        b.r = d.base + p_.gr + first * p_.r.columns, b.r_row = p_.r.columns;
        if (p_.split) b.part = d.base + p_.part + first * p_.r_part.columns, b.part_row = p_.r_part.columns;
        b.r_bias = d.base + p_.r_bias;
        b.peepholes = s_.peepholes < 0 ? nullptr : d.base + p_.peepholes;
        auto* states = d.base + p_.h + first * p_.padded;
        auto other = s_.batch * p_.padded;
        b.h = states + (step & 1 ? other : 0), b.h_next = states + (step & 1 ? 0 : other);
        b.c = d.base + p_.c + first * p_.padded, b.reset = d.base + p_.reset + first * p_.padded;
        b.state_row = p_.padded;
        if (s_.y >= 0) b.y = static_cast<float*>(d.arguments[s_.y]) + d.index * s_.y_direction + first * s_.y_batch;
        b.y_row = s_.y_batch, b.y_step = s_.y_step;
        b.step = step, b.reverse = is_reverse(d), b.position = b.reverse ? s_.steps - 1 - step : step;
        b.first_position = chunk_position(d, chunk_step, count);
        b.lengths = lengths_of(d.arguments) ? lengths_of(d.arguments) + first : nullptr;
        return b;
    }
    /// First half of a step that needs two products.
    void reset_step(Direction const& d, CellBlock b, int64_t first, int64_t first_block, int64_t last_block) const {
        multiply_states(d, false, b.h, first, b.rows, first_block, last_block);
        b.first_block = first_block, b.last_block = last_block;
        functions_.cell.reset(b);
    }
    void update_step(Direction const& d, CellBlock b, int64_t first, int64_t first_block, int64_t last_block) const {
        multiply_states(d, p_.split, p_.split ? b.reset : b.h, first, b.rows, first_block, last_block);
        b.first_block = first_block, b.last_block = last_block;
        functions_.cell.update(b);
    }

    /// Blocks of units of one of the parts that meet after every step.
    std::pair<int64_t, int64_t> blocks_of(int64_t part) const {
        auto groups = ceil_div(p_.blocks, p_.group);
        auto at = [&](int64_t i) { return std::min(p_.blocks, groups * i / p_.column_parts * p_.group); };
        return {at(part), at(part + 1)};
    }
    void walk_together(Direction const* all, int64_t step, int64_t count, ThreadPool& pool) const {
        for (auto t = step; t < step + count; ++t) {
            auto parts = s_.directions * p_.column_parts;
            auto each = [&](auto&& body) {
                pool.parallel_for(parts, [&](int64_t i, int) {
                    auto const& d = all[i / p_.column_parts];
                    auto [from, to] = blocks_of(i % p_.column_parts);
                    body(d, cell_of(d, step, count, t, 0, s_.batch), from, to);
                });
            };
            if (p_.split)
                each([&](Direction const& d, CellBlock const& b, int64_t from, int64_t to) {
                    reset_step(d, b, 0, from, to);
                });
            each([&](Direction const& d, CellBlock const& b, int64_t from, int64_t to) {
                update_step(d, b, 0, from, to);
            });
        }
    }
    void walk_alone(Direction const& d, int64_t step, int64_t count, int64_t part) const {
        auto first = s_.batch * part / p_.batch_parts, last = s_.batch * (part + 1) / p_.batch_parts;
        for (auto t = step; t < step + count; ++t) {
            auto b = cell_of(d, step, count, t, first, last - first);
            if (p_.split) reset_step(d, b, first, 0, p_.blocks);
            update_step(d, b, first, 0, p_.blocks);
        }
    }

    void run_chunk(Direction const* all, int64_t step, int64_t count, ThreadPool& pool) const {
        auto panel = static_cast<int64_t>(functions_.product.panel);
        auto panels = ceil_div(p_.w.columns, panel);
        auto work =
            2. * static_cast<double>(count * s_.batch * s_.directions * p_.w.columns) * static_cast<double>(s_.inputs);
        constexpr double kPartOperations = 1e6;  // some 20 µs
        auto wanted = std::min<int64_t>(4 * threads_, static_cast<int64_t>(work / kPartOperations));
        auto parts = threads_ <= 1 ? 1 : std::clamp<int64_t>(ceil_div(wanted, s_.directions), 1, panels);
        pool.parallel_for(s_.directions * parts, [&](int64_t i, int) {
            auto part = i % parts;
            auto from = panels * part / parts * panel;
            auto to = std::min(p_.w.columns, panels * (part + 1) / parts * panel);
            multiply_inputs(all[i / parts], step, count, from, to - from);
        });
        if (p_.column_parts > 1) return walk_together(all, step, count, pool);
        pool.parallel_for(s_.directions * p_.batch_parts, [&](int64_t i, int) {
            walk_alone(all[i / p_.batch_parts], step, count, i % p_.batch_parts);
        });
    }
    void store_states(Direction const& d) const {
        auto store = [&](int output, float const* states) {
            if (output < 0) return;
            auto* y = static_cast<float*>(d.arguments[output]) + d.index * s_.state_direction;
            for (int64_t n = 0; n < s_.batch; ++n)
                std::memcpy(y + n * s_.state_batch, states + n * p_.padded,
                            static_cast<size_t>(s_.hidden) * sizeof(float));
        };
        store(s_.y_h, d.base + p_.h + (s_.steps & 1 ? s_.batch * p_.padded : 0));
        store(s_.y_c, d.base + p_.c);
    }

public:
    PackedRecurrent(RecurrentFunctions functions, RecurrentInfo const& info, RecurrentShape const& shape,
                    PackedWeights packed, int threads)
        : functions_(functions),
          info_(info),
          s_(shape),
          packed_(std::move(packed)),
          p_(functions, info, shape, std::max(1, threads), packed_.w != nullptr, packed_.r != nullptr),
          threads_(std::max(1, threads)) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        if (auto const* lengths = lengths_of(arguments)) s_.check_lengths(lengths);
        auto* workspace = reinterpret_cast<float*>(context.workspace);
        Direction all[2];
        for (int64_t d = 0; d < s_.directions; ++d) {
            all[d] = direction_of(arguments, workspace, d);
            prepare(all[d], workspace + p_.rows);
        }
        for (int64_t step = 0; step < s_.steps; step += p_.chunk)
            run_chunk(all, step, std::min(p_.chunk, s_.steps - step), context.pool);
        for (int64_t d = 0; d < s_.directions; ++d) store_states(all[d]);
    }
    size_t workspace_bytes() const override { return p_.total * sizeof(float); }
    uint64_t unread_inputs() const override { return (packed_.w ? 2u : 0u) | (packed_.r ? 4u : 0u); }
    double operations() const override { return s_.operations(); }
};

class PackedRecurrentKernel final : public Kernel {
    RecurrentFunctions functions_;
    Isa isa_;
    RecurrentInfo info_;
    std::shared_ptr<Blob const> w_, r_;

    std::shared_ptr<Blob const> pack(Blob const& source, GateMatrix const& m, RecurrentShape const& s,
                                     PackCache& packs) const {
        auto const& product = functions_.product;
        auto format = "recurrent:" + std::to_string(product.panel) + ":" + std::to_string(s.gates) + "x" +
                      std::to_string(s.hidden) + "x" + std::to_string(m.depth) + ":" + std::to_string(m.first_gate) +
                      "+" + std::to_string(m.gates) + "x" + std::to_string(s.directions);
        return packs.get(
            source, format, m.floats() * static_cast<size_t>(s.directions) * sizeof(float),
            [&](void const* from, void* target) {
                std::vector<float> rows(static_cast<size_t>(product.panel * m.depth));
                for (int64_t d = 0; d < s.directions; ++d)
                    pack_gates(product, m, s.hidden, static_cast<float const*>(from) + d * s.gates * s.hidden * m.depth,
                               static_cast<float*>(target) + static_cast<size_t>(d) * m.floats(), rows.data());
            });
    }

public:
    PackedRecurrentKernel(RecurrentFunctions functions, Isa isa, RecurrentInfo const& info, Request const& request)
        : functions_(functions),
          isa_(isa),
          info_(info),
          w_(request.inputs[1].constant),
          r_(request.inputs[2].constant) {}
    std::string id() const override { return id_of("recurrent", "packed", DataType::F32, isa_); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        RecurrentShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        return 100 + shape.operations() / (functions_.product.width * 4.);
    }
    MaybeTask bind(BindArgs const& args) const override {
        RecurrentShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        RecurrentPlan plan(functions_, info_, shape, args.threads, true, true);
        PackedWeights packed;
        if (w_ && plan.w.floats()) packed.w = pack(*w_, plan.w, shape, args.packs);
        if (r_ && plan.r.floats()) {
            packed.r = pack(*r_, plan.r, shape, args.packs);
            if (plan.split) packed.part = pack(*r_, plan.r_part, shape, args.packs);
        }
        return std::unique_ptr<runtime::Task>(
            new PackedRecurrent(functions_, info_, shape, std::move(packed), args.threads));
    }
};

MaybeKernel make(RecurrentInfo const& info, Request const& request, Isa isa, RecurrentFunctions functions) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (request.isa < isa)
        return reject("needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa)));
    if (auto dtype = request.inputs[0].dtype; dtype != DataType::F32)
        return reject("X is " + std::string(name_of(dtype)) + ", expected f32");
    return std::unique_ptr<Kernel>(new PackedRecurrentKernel(functions, isa, info, request));
}

}  // namespace

MaybeKernel make_recurrent_avx512(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx512, {product_functions_avx512(), cell_functions_avx512()});
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_recurrent_avx2(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx2, {product_functions_avx2(), cell_functions_avx2()});
#else
    return reject("not built for this architecture");
#endif
}

}  // namespace refactor::kernel
