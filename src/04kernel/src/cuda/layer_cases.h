#pragma once
#include "cuda/rows_cases.h"
#include "kernel/ops/cache.h"
#include "kernel/ops/fourier.h"
#include "kernel/ops/random.h"
#include "kernel/ops/recurrent.h"
#include "kernel/ops/vision.h"

namespace refactor::kernel::testing::rows {

template <class Run>
void recurrent_cases(std::mt19937& random, Run&& run) {
    struct Size {
        int64_t steps, batch, inputs, hidden;
    };
    // One, two, four and eight blocks keep R in registers; one computes whole sequences of f64; launches for each step.
    int64_t const sizes[]{20, 100, 129, 144, 256, 360};
    for (int round = 0; round < 36; ++round) {
        RecurrentInfo info;
        info.cell = static_cast<RecurrentCell>(round % 3);
        bool big = round % 2;
        Size n{pick(random, 1, 4), pick(random, 1, 6), pick(random, 1, 9),
               big ? sizes[round / 6] : pick(random, 1, 40)};
        if (big) n.steps = 3, n.batch = pick(random, 1, 3);
        // More than fills a card: several sequences share a tile.
        if (big && n.hidden == 256) n.batch = 20;
        info.hidden = n.hidden;
        auto flag = [&] { return (random() & 1) != 0; };
        info.bidirectional = flag(), info.reverse = !info.bidirectional && flag(), info.batch_first = flag();
        info.linear_before_reset = flag(), info.input_forget = round % 7 == 2, info.bias = flag(),
        info.lengths = flag();
        info.initial_h = flag(), info.initial_c = info.cell == RecurrentCell::Lstm && flag();
        info.peepholes = info.cell == RecurrentCell::Lstm && flag();
        info.y = flag(), info.y_h = !info.y || flag(), info.y_c = info.cell == RecurrentCell::Lstm && flag();
        info.clip = round % 4 == 0 ? 0.75f : 0;
        int64_t directions = info.bidirectional ? 2 : 1, gates = gates_of(info.cell);
        int functions = info.cell == RecurrentCell::Lstm ? 3 : info.cell == RecurrentCell::Gru ? 2 : 1;
        for (int64_t i = 0; i < directions * functions; ++i)
            info.activations.push_back(round % 2 ? CellActivation{static_cast<CellFunction>(random() % 11), 0.5f, 0.75f}
                                                 : CellActivation{static_cast<CellFunction>(i % functions != 0)});
        DataType const types[]{DataType::F32, DataType::F64, DataType::F16, DataType::F32};
        auto type = types[random() % 4];
        auto weight = 0.5 / std::sqrt(static_cast<double>(n.hidden));
        auto G = gates * n.hidden;
        Dims state = info.batch_first ? Dims{n.batch, directions, n.hidden} : Dims{directions, n.batch, n.hidden};
        std::vector<Tensor> inputs{
            numbers(type, info.batch_first ? Dims{n.batch, n.steps, n.inputs} : Dims{n.steps, n.batch, n.inputs},
                    random),
            numbers(type, {directions, G, n.inputs}, random, 0.3),
            numbers(type, {directions, G, n.hidden}, random, weight)};
        if (info.bias) inputs.push_back(numbers(type, {directions, 2 * G}, random));
        if (info.lengths) inputs.push_back(indices(DataType::I32, {n.batch}, 0, n.steps, random));
        if (info.initial_h) inputs.push_back(numbers(type, state, random));
        if (info.initial_c) inputs.push_back(numbers(type, state, random));
        if (info.peepholes) inputs.push_back(numbers(type, {directions, 3 * n.hidden}, random));
        std::vector<Tensor> outputs;
        if (info.y)
            outputs.emplace_back(type, info.batch_first ? Dims{n.batch, n.steps, directions, n.hidden}
                                                        : Dims{n.steps, directions, n.batch, n.hidden});
        if (info.y_h) outputs.emplace_back(type, state);
        if (info.y_c) outputs.emplace_back(type, state);
        // Gates are sums of up to 4 in size, the products of inputs rounded to the type; four steps feed errors back,
        // which an activation without a bound (slope 1 at most) does not enlarge by more than 4.
        run(info, inputs, outputs, {}, 64 * unit_of(type));
    }
}

template <class Run>
void linear_attention_cases(std::mt19937& random, Run&& run) {
    for (int round = 0; round < 8; ++round) {
        LinearAttentionInfo info;
        info.kv_heads = pick(random, 1, 2), info.heads = info.kv_heads * pick(random, 1, 2), info.scale = 0.5f;
        info.past = random() & 1, info.decay = random() & 1, info.delta = random() & 1;
        auto type = kFloats[round % 4];
        int64_t batch = 2, steps = 3, depth = pick(random, 1, 40), width = pick(random, 1, 40), kv = info.kv_heads;
        std::vector<Tensor> inputs{numbers(type, {batch, steps, info.heads * depth}, random),
                                   numbers(type, {batch, steps, kv * depth}, random, 0.2),
                                   numbers(type, {batch, steps, kv * width}, random)};
        Dims state{batch, kv, depth, width};
        if (info.past) inputs.push_back(numbers(type, state, random));
        if (info.decay) inputs.push_back(numbers(type, {batch, steps, round % 2 ? kv : kv * depth}, random, 0.1));
        if (info.delta) inputs.push_back(numbers(type, {batch, steps, round % 3 ? kv : 1}, random, 0.5));
        run(info, inputs, {Tensor(type, {batch, steps, info.heads * width}), Tensor(type, state)}, {},
            4 * sum_tolerance(type, depth));
    }
}

template <class Run>
void random_cases(std::mt19937& random, Run&& run) {
    for (auto type : kFloats) {
        // Functions of f64 differ by units in the last place, which may turn the rounding to a narrower type.
        run(RandomInfo{Distribution::Normal, 1, 2, 99}, {}, {Tensor(type, {7, 91})}, {}, unit_of(type) + 0x1p-40);
        run(RandomInfo{Distribution::Uniform, -1, 3, 98}, {}, {Tensor(type, {700})}, {}, unit_of(type));
        run(MultinomialInfo{97}, {numbers(type, {3, 300}, random)}, {Tensor(DataType::I64, {3, 270})});
    }
    run(MultinomialInfo{97}, {numbers(DataType::F32, {2, 5}, random)}, {Tensor(DataType::I32, {2, 9})});
}

template <class Run>
void matrix_cases(std::mt19937& random, Run&& run) {
    for (auto type : {DataType::F32, DataType::F64})
        for (int64_t n : {1, 5, 40}) {
            // Away from singular matrices, elimination enlarges errors by few times n.
            Tensor x = numbers(type, {3, n, n}, random, 0.3 / std::sqrt(static_cast<double>(n)));
            visit_float(type, [&](auto tag) {
                using T = typename decltype(tag)::type;
                for (int64_t i = 0; i < 3 * n; ++i)
                    x.as<T>()[i * n + i % n] = narrow<T>(1.5 + 0.1 * static_cast<double>(i));
            });
            run(MatrixInfo{MatrixKind::Determinant}, {x}, {Tensor(type, {3})}, {}, unit_of(type) + 400 * 0x1p-52);
            run(MatrixInfo{MatrixKind::Inverse}, {x}, {Tensor(type, {3, n, n})}, {}, unit_of(type) + 400 * 0x1p-52);
        }
}

template <class Run>
void fourier_cases(std::mt19937& random, Run&& run) {
    for (int64_t n : {1, 2, 13, 30, 64})
        for (int form = 0; form < 4; ++form) {
            auto type = kFloats[(n + form) % 4];
            // Forward of real and of complex numbers, backward of complex ones and of half a spectrum.
            FourierInfo info{1, form > 1, form == 0 || form == 3};
            auto half = n / 2 + 1;
            run(info, {numbers(type, {2, form == 3 ? half : n + 1 - form, 3, form ? 2 : 1}, random)},
                {Tensor(type, {2, form ? n : half, 3, form == 3 ? 1 : 2})}, {n},
                unit_of(type) + 0x1p-52 * 8 * static_cast<double>(n));
        }
    for (bool window : {false, true}) {
        std::vector<Tensor> inputs{numbers(DataType::F32, {2, 50, 1}, random)};
        if (window) inputs.push_back(numbers(DataType::F32, {12}, random));
        run(StftInfo{true, window}, inputs, {Tensor(DataType::F32, {2, 8, 7, 2})}, {5, 12}, 0x1p-22);
    }
}

}  // namespace refactor::kernel::testing::rows
