#pragma once
#include "common/thread_pool.h"
#include "kernel/kernel.h"
#include "mem_manager/blob.h"
#include "random_test.h"
#include "runtime/task_memory.h"

#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

// What tests of kernels share: tensors of random numbers, running one kernel, comparing all candidates with the
// reference.

namespace refactor::kernel::test {
namespace {  // other tests have tensors of their own

struct Tensor {
    TensorDesc desc;
    std::vector<std::byte> bytes;
    bool constant = false;

    Tensor() = default;
    Tensor(DataType dtype, Dims dims) : desc{dtype, Layout::Plain, dims} {
        bytes.resize(storage_bytes(dtype, desc.count()) + 64);
    }
    template <class T>
    T* as() {
        return reinterpret_cast<T*>(bytes.data());
    }
    template <class T>
    T const* as() const {
        return reinterpret_cast<T const*>(bytes.data());
    }
    double real(int64_t i) const { return desc.dtype == DataType::F64 ? as<double>()[i] : as<float>()[i]; }
    template <class T>
    static Tensor of(DataType dtype, Dims dims, std::vector<T> const& values) {
        Tensor t(dtype, dims);
        std::memcpy(t.bytes.data(), values.data(), values.size() * sizeof(T));
        return t;
    }
    Tensor& as_constant() {
        constant = true;
        return *this;
    }
};

inline Tensor random_f32(Dims dims, std::mt19937& random, float scale = 1) {
    Tensor t(DataType::F32, dims);
    std::normal_distribution<float> normal(0, scale);
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<float>()[i] = normal(random);
    return t;
}

inline Request request_of(std::vector<Operand> const& inputs, std::vector<Operand> const& outputs, Isa isa,
                          int threads) {
    Request request;
    request.inputs = inputs, request.outputs = outputs, request.isa = isa, request.threads = threads;
    return request;
}

/// Operands of a request; constants hold their data.
inline std::vector<Operand> operands_of(std::vector<Tensor> const& tensors) {
    std::vector<Operand> operands;
    for (auto const& t : tensors) {
        Operand operand;
        static_cast<TensorDesc&>(operand) = t.desc;
        if (t.constant) operand.constant = mem_manager::Blob::copy_of(t.bytes.data(), t.bytes.size());
        operands.push_back(std::move(operand));
    }
    return operands;
}

/// Descriptions of inputs and outputs for `bind`; an input without a type is absent.
struct Descriptions {
    std::vector<TensorDesc const*> in, out;
    Descriptions(std::vector<Tensor> const& inputs, std::vector<Tensor> const& outputs) {
        for (auto& t : inputs) in.push_back(t.desc.dtype == DataType::Undefined ? nullptr : &t.desc);
        for (auto& t : outputs) out.push_back(&t.desc);
    }
};

/// Runs `kernel`; the workspace has exactly the size asked for, followed by bytes that must stay.
inline void run(Kernel const& kernel, std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, PackCache& packs,
                ThreadPool& pool, std::span<int64_t const> params = {}) {
    Descriptions of(inputs, outputs);
    std::vector<void*> arguments;
    for (auto& t : inputs) arguments.push_back(t.desc.dtype == DataType::Undefined ? nullptr : t.bytes.data());
    for (auto& t : outputs) {
        arguments.push_back(t.bytes.data());
        std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0xcd});
    }
    BindArgs args{of.in, of.out, params, packs, pool.threads()};
    auto task = kernel.bind(args);
    ASSERT_TRUE(task.ok()) << kernel.id() << ": " << task.error().reason;
    runtime::TaskMemory memory(**task, pool.threads());
    (*task)->run(arguments.data(), memory.context(pool));
    ASSERT_TRUE(memory.is_intact()) << kernel.id() << " writes behind its workspace or scratch memory";
    for (auto& t : outputs)
        for (auto i = t.bytes.size() - 64; i < t.bytes.size(); ++i)
            ASSERT_EQ(t.bytes[i], std::byte{0xcd}) << kernel.id() << " writes behind its output";
}

/// Largest difference allowed between `actual` and the reference: absolute + relative * |expected|.
struct Tolerance {
    double absolute = 0, relative = 0;
};
inline void expect_close(Tensor const& actual, Tensor const& expected, Tolerance tolerance, std::string const& what) {
    auto count = expected.desc.count();
    if (auto dtype = expected.desc.dtype; dtype != DataType::F32 && dtype != DataType::F64) {
        EXPECT_EQ(std::memcmp(actual.bytes.data(), expected.bytes.data(), storage_bytes(dtype, count)), 0) << what;
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        double a = actual.real(i), e = expected.real(i);
        if (a == e || (std::isnan(a) && std::isnan(e))) continue;
        ASSERT_LE(std::fabs(a - e), tolerance.absolute + tolerance.relative * std::fabs(e))
            << what << " at " << i << " of " << count << ": " << a << ", expected " << e;
    }
}

/// Levels above Scalar up to `isa` that kernels without products of bytes are written for.
inline int wide_levels(Isa isa) { return isa >= Isa::Avx512 ? 2 : isa >= Isa::Avx2 ? 1 : 0; }

/// Runs every candidate that takes these sizes, for every instruction set of this machine and 1 to 3 threads, against
/// the reference. Returns the number of candidates besides the reference at the best instruction set.
template <class Info>
int check_candidates(Info const& info, std::vector<Tensor> inputs, std::vector<Tensor> outputs, Tolerance tolerance,
                     std::string const& what = "", std::span<int64_t const> params = {}) {
    auto operands = operands_of(inputs), results = operands_of(outputs);
    auto reference = candidates(info, request_of(operands, results, Isa::Scalar, 1));
    EXPECT_FALSE(reference.kernels.empty()) << (reference.rejections.empty() ? "" : reference.rejections[0].reason);
    if (reference.kernels.empty()) return 0;
    PackCache packs;
    ThreadPool one(1);
    auto expected = outputs;
    run(*reference.kernels.back(), inputs, expected, packs, one, params);
    size_t others = 0;
    for (auto isa :
         {Isa::Scalar, Isa::Avx2, Isa::Avx2Vnni, Isa::Avx512, Isa::Avx512Vnni, Isa::Avx512Bf16, Isa::Avx512Amx}) {
        if (isa > cpu_features().isa) break;
        if (isa == Isa::Avx2Vnni && !cpu_features().avx2_vnni) continue;
        for (int threads = 1; threads <= 3; ++threads) {
            ThreadPool pool(threads);
            auto found = candidates(info, request_of(operands, results, isa, threads));
            others = 0;
            for (auto const& kernel : found.kernels) {
                Descriptions of(inputs, outputs);
                if (!kernel->estimate({of.in, of.out, params, packs, threads}).ok()) continue;
                others += kernel != found.kernels.back();
                run(*kernel, inputs, outputs, packs, pool, params);
                for (size_t i = 0; i < outputs.size() && !testing::Test::HasFatalFailure(); ++i)
                    expect_close(outputs[i], expected[i], tolerance,
                                 kernel->id() + " " + info.attributes() + " output " + std::to_string(i) + ", " +
                                     std::to_string(threads) + " threads " + what);
                if (testing::Test::HasFatalFailure()) return 0;
            }
        }
    }
    return static_cast<int>(others);
}

/// The same numbers as f64, which differ from those of f32 in their last bits; other types stay.
inline Tensor doubles_of(Tensor const& t) {
    if (t.desc.dtype != DataType::F32) return t;
    Tensor wide(DataType::F64, t.desc.dims);
    wide.constant = t.constant;
    for (int64_t i = 0; i < t.desc.count(); ++i)
        wide.as<double>()[i] = t.as<float>()[i] * (1 + static_cast<double>(i % 61) * 0x1p-40);
    return wide;
}

/// `check_candidates`, and again with all f32 replaced by f64, whose tolerance is as many times smaller as its eps is.
template <class Info>
int check_floats(Info const& info, std::vector<Tensor> inputs, std::vector<Tensor> outputs, Tolerance tolerance,
                 std::string const& what = "") {
    auto others = check_candidates(info, inputs, outputs, tolerance, what);
    if (testing::Test::HasFatalFailure()) return 0;
    for (auto* tensors : {&inputs, &outputs})
        for (auto& t : *tensors) t = doubles_of(t);
    tolerance.absolute *= 0x1p-29, tolerance.relative *= 0x1p-29;
    auto others_f64 = check_candidates(info, inputs, outputs, tolerance, what);
    EXPECT_GE(others_f64, wide_levels(cpu_features().isa) ? 1 : 0) << info.attributes();
    return others;
}

/// The seed of a test, printed when it fails.
inline unsigned seed_of(unsigned fixed) {
    auto seed = static_cast<unsigned>(test_seed(fixed));
    testing::Test::RecordProperty("seed", static_cast<int>(seed));
    return seed;
}

}  // namespace
}  // namespace refactor::kernel::test
