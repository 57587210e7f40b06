#pragma once
#include "common/cpu_features.h"
#include "common/half.h"
#include "common/thread_pool.h"
#include "conv/geometry.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "random_test.h"
#include "runtime/task_memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include <gtest/gtest.h>

namespace refactor::kernel::test {

/// Random cases of kernels for AVX-512 with BF16.
class Bf16Test : public RandomTest {
protected:
    void SetUp() override {
        if (cpu_features().isa < Isa::Avx512Bf16) GTEST_SKIP() << "needs avx512bf16";
    }
};

/// A tensor with its values in Plain order; f32.
struct Tensor {
    Dims dims;
    std::vector<float> values;

    explicit Tensor(Dims d = {}) : dims(std::move(d)), values(static_cast<size_t>(element_count(dims))) {}
    static Tensor random(Dims d, std::mt19937& rng) {
        Tensor t(std::move(d));
        std::normal_distribution<float> normal;
        for (auto& v : t.values) v = normal(rng);
        return t;
    }
    /// The nearest numbers of bf16, which kernels that round leave as they are.
    void round_to_bf16() {
        for (auto& v : values) v = f32_from_bf16(bf16_from_f32(v));
    }
    Tensor absolute() const {
        auto t = *this;
        for (auto& v : t.values) v = std::abs(v);
        return t;
    }
};

/// f32, or bf16 in the layout that is for it.
inline TensorDesc desc_of(Tensor const& t, Layout layout) {
    return {layout == Layout::Blocked32 ? DataType::BF16 : DataType::F32, layout, t.dims};
}

/// The tensor in memory, channels zero-padded.
inline std::shared_ptr<mem_manager::Blob> stored(Tensor const& t, Layout layout) {
    auto desc = desc_of(t, layout);
    auto bytes = storage_bytes(desc.dtype, desc.stored_count());
    auto blob =
        mem_manager::Blob::make(mem_manager::cpu_device(), bytes + (layout == Layout::Blocked32 ? kReadBehind : 0));
    auto* data = static_cast<float*>(blob->data());
    if (layout == Layout::Plain) {
        std::copy(t.values.begin(), t.values.end(), data);
        return blob;
    }
    std::memset(data, 0, bytes);
    Addressing at(desc);
    for (size_t i = 0; i < t.values.size(); ++i) {
        auto index = static_cast<int64_t>(i), s = index % at.spatial, c = index / at.spatial % at.channels;
        auto to = at.at(index / at.spatial / at.channels, c, s);
        if (layout == Layout::Blocked32)
            static_cast<uint16_t*>(blob->data())[to] = bf16_from_f32(t.values[i]);
        else
            data[to] = t.values[i];
    }
    return blob;
}

/// Values in Plain order; fails if the padding of a blocked layout is not zero.
inline Tensor loaded(float const* data, Dims const& dims, Layout layout) {
    Tensor t(dims);
    if (layout == Layout::Plain) {
        std::copy_n(data, t.values.size(), t.values.begin());
        return t;
    }
    auto value = [&](int64_t at) {
        return layout == Layout::Blocked32 ? f32_from_bf16(reinterpret_cast<uint16_t const*>(data)[at]) : data[at];
    };
    Addressing at(desc_of(t, layout));
    for (int64_t n = 0; n < dims[0]; ++n)
        for (int64_t c = 0; c < at.blocks() * at.block; ++c)
            for (int64_t s = 0; s < at.spatial; ++s) {
                auto v = value(at.at(n, c, s));
                if (c < at.channels)
                    t.values[static_cast<size_t>((n * at.channels + c) * at.spatial + s)] = v;
                else
                    EXPECT_EQ(v, 0.f) << "padding channel " << c;
            }
    return t;
}

/// An operand of a run; absent if it has no dtype.
struct Argument {
    TensorDesc desc;
    std::shared_ptr<mem_manager::Blob> blob;
    bool constant = false;
};
inline Argument argument(Tensor const& t, Layout layout, bool constant = false) {
    return {desc_of(t, layout), stored(t, layout), constant};
}

inline Operand operand_of(Argument const& a) {
    Operand operand;
    static_cast<TensorDesc&>(operand) = a.desc;
    if (a.constant) operand.constant = a.blob;
    return operand;
}

/// Bound task with everything it refers to.
class Bench {
    PackCache packs_;
    std::vector<void*> pointers_;
    std::vector<std::shared_ptr<mem_manager::Blob>> held_;
    std::shared_ptr<mem_manager::Blob> output_;
    std::optional<runtime::TaskMemory> memory_;
    ThreadPool& pool_;

public:
    std::unique_ptr<runtime::Task> task;
    std::string rejection;

    Bench(Kernel const& kernel, std::vector<Argument> const& inputs, TensorDesc const& output, ThreadPool& pool,
          std::vector<int64_t> const& params = {})
        : pool_(pool) {
        std::vector<TensorDesc const*> in, out{&output};
        for (auto const& a : inputs) {
            in.push_back(&a.desc);
            held_.push_back(a.blob);
            pointers_.push_back(a.blob->data());
        }
        auto bound = kernel.bind({in, out, params, packs_, pool.threads()});
        if (!bound) {
            rejection = bound.error().reason;
            return;
        }
        task = std::move(bound).value();
        auto& device = mem_manager::cpu_device();
        auto fill = [](mem_manager::Blob& blob) {
            std::fill_n(static_cast<unsigned char*>(blob.data()), blob.bytes(), static_cast<unsigned char>(0xff));
        };
        output_ = mem_manager::Blob::make(device, storage_bytes(output.dtype, output.stored_count()));
        fill(*output_);
        pointers_.push_back(output_->data());
        memory_.emplace(*task, pool.threads());
    }
    void run() {
        task->run(pointers_.data(), memory_->context(pool_));
        ASSERT_TRUE(memory_->is_intact()) << "writes behind its workspace or scratch memory";
    }
    float const* output() const { return static_cast<float const*>(output_->data()); }
};

}  // namespace refactor::kernel::test
