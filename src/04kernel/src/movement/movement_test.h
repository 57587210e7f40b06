#pragma once
#include "kernel/kernel.h"
#include "mem_manager/blob.h"
#include "movement/movement.h"
#include "runtime/task_memory.h"

#include <random>

#include <gtest/gtest.h>

/// For tests of kernels: tensors with random content, and a run of every candidate of every instruction set.
namespace refactor::kernel::testing {

struct Tensor : TensorDesc {
    std::vector<uint64_t> storage;
    bool constant = false;  ///< candidates see the content
    std::byte* data() { return reinterpret_cast<std::byte*>(storage.data()); }
    size_t bytes() const { return storage_bytes(dtype, stored_count()); }
    template <class T>
    T* as() {
        return reinterpret_cast<T*>(storage.data());
    }

    Tensor(DataType type, Dims sizes, Layout order = Layout::Plain) {
        dtype = type, dims = sizes, layout = order;
        storage.resize(bytes() / 8 + 2, 0xa5a5a5a5a5a5a5a5u);
    }
    /// Random bytes: movement does not look at values.
    Tensor& fill(std::mt19937& random) {
        for (auto& word : storage) word = uint64_t{random()} << 32 | random();
        return *this;
    }
    template <class T>
    Tensor& set(std::vector<T> const& values) {
        std::copy(values.begin(), values.end(), as<T>());
        return *this;
    }
};

inline Tensor indices(DataType type, Dims dims, int64_t low, int64_t high, std::mt19937& random) {
    Tensor t(type, dims);
    std::uniform_int_distribution<int64_t> pick(low, high);
    for (int64_t i = 0; i < t.count(); ++i) {
        if (type == DataType::I32)
            t.as<int32_t>()[i] = static_cast<int32_t>(pick(random));
        else
            t.as<int64_t>()[i] = pick(random);
    }
    return t;
}

/// One candidate's answer.
struct Answer {
    std::string id;
    std::vector<Tensor> outputs;
};

/// Runs all candidates for these operands, on one and two threads, over input 0 where they may, in the order of the
/// list; the reference is last. `outputs` tell types and shapes. A candidate that declines at bind is left out, but for
/// the reference.
template <class Info>
std::vector<Answer> run_all(Info const& info, std::vector<Tensor>& inputs, std::vector<Tensor> const& outputs,
                            std::vector<int64_t> const& params = {}) {
    std::vector<Operand> in, out;
    std::vector<TensorDesc const*> in_desc, out_desc;
    for (auto& t : inputs) in.push_back({t, t.constant ? mem_manager::Blob::copy_of(t.data(), t.bytes()) : nullptr});
    for (auto const& t : outputs) out.push_back({t, nullptr});
    for (auto const& t : inputs) in_desc.push_back(t.dtype == DataType::Undefined ? nullptr : &t);
    for (auto const& t : outputs) out_desc.push_back(&t);
    std::vector<Answer> answers;
    static PackCache packs;
    for (int round = 0; round < 3; ++round) {
        // The best instruction set on two threads and on one, then AVX2.
        int threads = round == 0 ? 2 : 1;
        auto isa = round == 2 ? std::min(Isa::Avx2, cpu_features().isa) : cpu_features().isa;
        static ThreadPool pools[2]{ThreadPool(1), ThreadPool(2)};
        Request request{in, out, "cpu", isa, threads, Precision::Default};
        auto found = candidates(info, request);
        for (auto const& kernel : found.kernels) {
            auto task = kernel->bind({in_desc, out_desc, params, packs, threads});
            if (!task) {
                EXPECT_NE(kernel, found.kernels.back()) << kernel->id() << ": " << task.error().reason;
                continue;
            }
            for (bool in_place : {true, false}) {
                auto fits = (*task)->in_place_inputs() & 1 && inputs[0].bytes() == outputs[0].bytes();
                if (in_place && !fits) continue;
                Answer answer{kernel->id() + " in round " + std::to_string(round) + (in_place ? " in place" : ""),
                              outputs};
                std::vector<void*> arguments;
                for (auto& t : inputs) arguments.push_back(t.dtype == DataType::Undefined ? nullptr : t.data());
                for (auto& t : answer.outputs) arguments.push_back(t.data());
                if (in_place) {
                    auto* y = arguments[inputs.size()];
                    std::memcpy(y, arguments[0], inputs[0].bytes());
                    arguments[0] = y;
                }
                runtime::TaskMemory memory(**task, threads);
                (*task)->run(arguments.data(), memory.context(pools[threads - 1]));
                EXPECT_TRUE(memory.is_intact()) << kernel->id() << " writes behind its workspace or scratch memory";
                answers.push_back(std::move(answer));
            }
        }
        EXPECT_FALSE(found.kernels.empty()) << found.rejections.back().reason;
    }
    return answers;
}

/// Every candidate's outputs equal those of the reference in every bit, and nothing behind them is touched.
template <class Info>
void expect_equal(Info const& info, std::vector<Tensor> inputs, std::vector<Tensor> const& outputs,
                  std::vector<int64_t> const& params = {}) {
    auto answers = run_all(info, inputs, outputs, params);
    ASSERT_FALSE(answers.empty());
    for (auto& answer : answers)
        for (size_t i = 0; i < outputs.size(); ++i) {
            auto& expected = answers.back().outputs[i];
            ASSERT_EQ(std::memcmp(answer.outputs[i].data(), expected.data(), expected.storage.size() * 8), 0)
                << answer.id << ", output " << i << " of " << name_of(expected.dtype) << " "
                << movement::to_string(expected.dims) << ", " << info.attributes();
        }
}

/// Types of 1, 2, 4, 8 and 16 bytes.
inline constexpr DataType kWidths[] = {DataType::U8, DataType::BF16, DataType::F32, DataType::I64,
                                       DataType::Complex128};

inline int64_t pick(std::mt19937& random, int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
}
/// `rank` random sizes in [1, most].
inline Dims random_dims(std::mt19937& random, int64_t rank, int64_t most) {
    Dims dims;
    for (int64_t i = 0; i < rank; ++i) dims.push_back(pick(random, 1, most));
    return dims;
}

/// Runs `body(random, type)` for every element width with several seeds.
template <class F>
void for_seeds(int seeds, F&& body) {
    for (int seed = 0; seed < seeds; ++seed)
        for (auto type : kWidths) {
            SCOPED_TRACE("seed " + std::to_string(seed) + " " + std::string(name_of(type)));
            std::mt19937 random(static_cast<uint32_t>(seed));
            body(random, type);
            if (::testing::Test::HasFatalFailure()) return;
        }
}

}  // namespace refactor::kernel::testing
