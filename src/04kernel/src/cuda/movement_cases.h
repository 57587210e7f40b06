#pragma once
#include "cuda/scatter_cases.h"
#include "movement/movement_test.h"

/// Cases of the kernels that move and index elements, for every device: `run(info, inputs, outputs, params,
/// tolerance)`.
namespace refactor::kernel::testing {

template <class Run>
void strided_cases(std::mt19937& random, Run&& run) {
    struct Permuted {
        Dims dims, perm;
    };
    Permuted const permuted[]{{{37, 45}, {1, 0}},
                              {{3, 70, 65}, {0, 2, 1}},
                              {{2, 33, 4, 8}, {0, 2, 1, 3}},
                              {{2, 17, 19, 3}, {0, 3, 1, 2}},
                              {{5, 3, 1, 7, 2}, {4, 2, 0, 3, 1}},
                              {{40, 2, 35}, {2, 1, 0}},
                              {{6}, {0}},
                              {{2, 64, 128}, {2, 0, 1}}};
    for (auto const& c : permuted)
        for (auto type : kWidths) {
            Dims y;
            for (auto axis : c.perm) y.push_back(c.dims[axis]);
            run(TransposeInfo{c.perm}, {bytes(type, c.dims, random)}, {Tensor(type, y)});
        }
    for (auto type : kWidths) {
        run(SliceInfo{{1, 2, -1}}, {bytes(type, {4, 9, 17}, random)}, {Tensor(type, {2, 4, 9})}, {1, 1, 12});
        run(SliceInfo{{1, 1, 1}}, {bytes(type, {4, 9, 32}, random)}, {Tensor(type, {3, 5, 16})}, {0, 3, 8});
        run(SliceInfo{{3}}, {bytes(type, {50}, random)}, {Tensor(type, {11})}, {7});
        run(ExpandInfo{}, {bytes(type, {3, 1, 5}, random)}, {Tensor(type, {2, 3, 7, 5})});
        run(ExpandInfo{}, {bytes(type, {4, 1}, random)}, {Tensor(type, {4, 33})});
        run(ExpandInfo{}, {bytes(type, {}, random)}, {Tensor(type, {5, 3})});
        run(ExpandInfo{true}, {bytes(type, {2, 3}, random)}, {Tensor(type, {4, 9})});
    }
}

template <class Run>
void piece_cases(std::mt19937& random, Run&& run) {
    for (auto type : kWidths)
        for (auto const& widths : {Dims{4, 8, 4}, Dims{1, 1}, Dims{3, 0, 5, 7, 2, 9}, Dims{13}}) {
            std::vector<Tensor> pieces, whole;
            int64_t sum = 0;
            for (auto width : widths) pieces.push_back(bytes(type, {3, width, 2}, random)), sum += width;
            whole.push_back(bytes(type, {3, sum, 2}, random));
            run(ConcatInfo{1}, pieces, {Tensor(type, {3, sum, 2})});
            run(SplitInfo{1}, whole, pieces);
        }
    std::vector<Tensor> many;
    for (int i = 0; i < 200; ++i) many.push_back(bytes(DataType::F32, {2, i % 3 + 1}, random));
    run(ConcatInfo{1}, many, {Tensor(DataType::F32, {2, 399})});
}

template <class Run>
void pad_cases(std::mt19937& random, Run&& run) {
    struct Padded {
        Dims x, y;
        std::vector<int64_t> begins;
    };
    Padded const all[]{{{3, 5}, {7, 20}, {1, 4}}, {{2, 4, 8}, {2, 9, 8}, {0, 2, 0}},
                       {{6, 4}, {3, 4}, {-2, 0}}, {{2, 3, 4, 4}, {2, 3, 8, 12}, {0, 0, 1, 4}},
                       {{1, 3}, {4, 3}, {2, 0}},  {{}, {}, {}}};
    for (int mode = 0; mode < 4; ++mode)
        for (auto type : kWidths)
            for (auto const& c : all) {
                // Half of the pairs of mode and width, so that there is less to compile.
                if ((mode + bits_of(type) / 8) % 3 == 0) continue;
                PadInfo info{static_cast<PadMode>(mode)};
                run(info, {bytes(type, c.x, random), bytes(type, {}, random)}, {Tensor(type, c.y)}, c.begins);
                run(info, {bytes(type, c.x, random)}, {Tensor(type, c.y)}, c.begins);
            }
}

template <class Run>
void gather_cases(std::mt19937& random, Run&& run) {
    for (auto type : kWidths)
        for (auto index : {DataType::I32, DataType::I64}) {
            run(GatherInfo{1}, {bytes(type, {3, 7, 8}, random), indices(index, {2, 5}, -7, 6, random)},
                {Tensor(type, {3, 2, 5, 8})});
            run(GatherInfo{0}, {bytes(type, {11, 3}, random), indices(index, {}, -11, 10, random)},
                {Tensor(type, {3})});
            run(GatherInfo{2}, {bytes(type, {2, 3, 9}, random), indices(index, {40}, -9, 8, random)},
                {Tensor(type, {2, 3, 40})});
            run(GatherElementsInfo{1}, {bytes(type, {3, 7, 5}, random), indices(index, {2, 9, 4}, -7, 6, random)},
                {Tensor(type, {2, 9, 4})});
            run(GatherElementsInfo{0}, {bytes(type, {13}, random), indices(index, {30}, -13, 12, random)},
                {Tensor(type, {30})});
            run(GatherNDInfo{0}, {bytes(type, {4, 5, 6}, random), indices(index, {7, 2}, -4, 3, random)},
                {Tensor(type, {7, 6})});
            run(GatherNDInfo{1}, {bytes(type, {3, 5, 4}, random), indices(index, {3, 2, 2}, -4, 3, random)},
                {Tensor(type, {3, 2})});
        }
}

template <class Run>
void slot_cases(std::mt19937& random, Run&& run) {
    for (auto type : kWidths) {
        Tensor lengths = indices(DataType::I64, {4}, 0, 6, random);
        run(ReverseSequenceInfo{0, 1}, {bytes(type, {6, 4, 3}, random), lengths}, {Tensor(type, {6, 4, 3})});
        run(ReverseSequenceInfo{1, 0}, {bytes(type, {4, 6, 8}, random), lengths}, {Tensor(type, {4, 6, 8})});
        for (int64_t most : {7, 9})
            for (bool circular : {false, true}) {
                TensorScatterInfo info{2, circular, true};
                auto where = indices(DataType::I64, {2}, circular ? -9 : 0, circular ? 12 : most - 3, random);
                run(info, {bytes(type, {2, 3, 7, 4}, random), bytes(type, {2, 3, 3, 4}, random), where},
                    {Tensor(type, {2, 3, most, 4})});
                run(TensorScatterInfo{1, circular, false},
                    {bytes(type, {2, 7, 5}, random), bytes(type, {2, 2, 5}, random)}, {Tensor(type, {2, most, 5})});
            }
    }
}

template <class Run>
void pattern_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    for (auto type : kWidths)
        for (int64_t k : {-40, -2, 0, 3, 40})
            for (bool upper : {false, true})
                for (auto const& dims : {Dims{3, 5, 8}, Dims{7, 9}})
                    run(TriluInfo{upper}, {bytes(type, dims, random)}, {Tensor(type, dims)}, {k});
    for (auto type : {F32, F64, I16, I32, I64}) {
        run(RangeInfo{}, {}, {Tensor(type, {37})}, {5, -3});
        run(RangeInfo{}, {numbers(type, {}, random), numbers(type, {}, random)}, {Tensor(type, {300})});
    }
    run(ShapeValuesInfo{}, {}, {Tensor(I64, {3})}, {2, 3, 1000000007});
    std::vector<int64_t> values(70, 9);
    run(ShapeValuesInfo{}, {}, {Tensor(I64, {70})}, values);
    for (auto type : {F32, F64, I8, I16, I32, I64, U8, U16, U32, U64})
        for (int64_t axis : {-1, 0, 1}) {
            Dims y = axis == -1 ? Dims{4, 5, 300} : axis == 0 ? Dims{300, 4, 5} : Dims{4, 300, 5};
            run(OneHotInfo{axis}, {numbers(type, {4, 5}, random), bytes(F16, {2}, random)}, {Tensor(F16, y)});
            run(OneHotInfo{axis}, {numbers(type, {4, 5}, random), bytes(I64, {1}, random), bytes(U8, {2}, random)},
                {Tensor(U8, y)});
        }
}

template <class Run>
void all_movement_cases(std::mt19937& random, Run&& run) {
    strided_cases(random, run), piece_cases(random, run), pad_cases(random, run), gather_cases(random, run);
    scatter_cases(random, run), collision_cases(random, run), slot_cases(random, run), pattern_cases(random, run);
}

}  // namespace refactor::kernel::testing
