#pragma once
#include "common/cpu_features.h"
#include "common/half.h"
#include "reduce/kernel_test.h"

#include <algorithm>

namespace refactor::kernel::test {
namespace {

inline bool has_rounded() { return cpu_features().isa >= Isa::Avx512Bf16; }
/// Levels whose candidates round operands: vectors, and tiles.
inline int rounded_levels() { return has_rounded() + (cpu_features().isa >= Isa::Avx512Amx); }

/// Random numbers of f32 that are numbers of bf16, which kernels that round leave as they are.
inline Tensor random_bf16(Dims dims, std::mt19937& random) {
    auto t = random_f32(std::move(dims), random);
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<float>()[i] = f32_from_bf16(bf16_from_f32(t.as<float>()[i]));
    return t;
}

/// The numbers of an f32 tensor, rounded to bf16.
inline Tensor narrowed(Tensor const& wide) {
    Tensor t(DataType::BF16, wide.desc.dims);
    t.constant = wide.constant;
    for (int64_t i = 0; i < wide.desc.count(); ++i) t.as<uint16_t>()[i] = bf16_from_f32(wide.as<float>()[i]);
    return t;
}

inline Tensor widened(Tensor const& narrow) {
    Tensor t(DataType::F32, narrow.desc.dims);
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<float>()[i] = f32_from_bf16(narrow.as<uint16_t>()[i]);
    return t;
}

/// Runs the candidate with this id, which must be there.
template <class Info>
void run_by(std::string_view id, Info const& info, std::vector<Tensor> inputs, std::vector<Tensor>& outputs,
            int threads) {
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(info, request_of(in, results, cpu_features().isa, threads));
    auto kernel = std::find_if(found.kernels.begin(), found.kernels.end(), [&](auto& k) { return k->id() == id; });
    std::string why;
    for (auto const& rejection : found.rejections) why += rejection.reason + "\n";
    ASSERT_NE(kernel, found.kernels.end()) << "no " << id << " among the candidates\n" << why;
    PackCache packs;
    ThreadPool pool(threads);
    run(**kernel, inputs, outputs, packs, pool);
}

/// Which operands are bf16 in memory: the first inputs, the output.
struct NarrowOnes {
    size_t inputs;
    bool output;
};
/// That a candidate makes of narrow operands what it makes of the same numbers in f32, rounded where the output is
/// narrow. `of_f32`: the candidate that takes f32 alone.
template <class Info>
void expect_same_narrow(std::string_view id, Info const& info, std::vector<Tensor> inputs, Tensor const& y,
                        NarrowOnes narrow, int threads, Tolerance tolerance = {}, std::string_view of_f32 = {}) {
    std::vector<Tensor> wide{y}, outputs{narrow.output ? narrowed(y) : y};
    run_by(of_f32.empty() ? id : of_f32, info, inputs, wide, threads);
    for (size_t i = 0; i < narrow.inputs; ++i) inputs[i] = narrowed(inputs[i]);
    run_by(id, info, inputs, outputs, threads);
    if (testing::Test::HasFatalFailure()) return;
    auto what = std::string(id) + " with " + std::to_string(narrow.inputs) + " inputs " +
                (narrow.output ? "and the output " : "") + "in bf16";
    if (!narrow.output) return expect_close(outputs[0], wide[0], tolerance, what);
    if (tolerance.absolute == 0) return expect_close(outputs[0], narrowed(wide[0]), {}, what);
    tolerance.relative += 0x1p-8;
    expect_close(widened(outputs[0]), wide[0], tolerance, what);
}

}  // namespace
}  // namespace refactor::kernel::test
