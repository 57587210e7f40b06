#pragma once
#include "common/thread_pool.h"
#include "kernel/device_kernels.h"
#include "mem_manager/device.h"
#include "mem_manager/device_streams.h"
#include "mem_manager/stream.h"
#include "movement/movement_test.h"
#include "reduce/scalar_type.h"
#include "runtime/task_memory.h"

#include <cmath>

/// For tests of generated kernels: what a device computes against what the host's reference computes.
namespace refactor::kernel::testing {

/// Why an operator has no kernel for the device, or its kernel.
template <class Info>
std::unique_ptr<Kernel> device_kernel(Info const& info, std::vector<Tensor> const& inputs,
                                      std::vector<Tensor> const& outputs, mem_manager::Device& device) {
    std::vector<Operand> in, out;
    for (auto const& t : inputs) in.push_back({t, nullptr});
    for (auto const& t : outputs) out.push_back({t, nullptr});
    Request request{in, out, "nvidia", Isa::Scalar, 1, Precision::Default, &device};
    auto found = candidates(info, request);
    EXPECT_FALSE(found.kernels.empty()) << found.rejections.back().reason;
    return found.kernels.empty() ? nullptr : std::move(found.kernels[0]);
}

template <class Info>
std::unique_ptr<runtime::Task> device_task(Info const& info, std::vector<Tensor> const& inputs,
                                           std::vector<Tensor> const& outputs, std::vector<int64_t> const& params,
                                           mem_manager::Device& device) {
    static PackCache packs;
    auto kernel = device_kernel(info, inputs, outputs, device);
    if (!kernel) return nullptr;
    std::vector<TensorDesc const*> in, out;
    for (auto const& t : inputs) in.push_back(t.dtype == DataType::Undefined ? nullptr : &t);
    for (auto const& t : outputs) out.push_back(&t);
    auto task = kernel->bind({in, out, params, packs, 1});
    EXPECT_TRUE(task.ok()) << kernel->id() << ": " << (task.ok() ? "" : task.error().reason);
    return task.ok() ? std::move(*task) : nullptr;
}

/// All elements as numbers.
inline std::vector<double> reals(Tensor& t) {
    std::vector<double> values;
    visit_numeric(t.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < t.count(); ++i) values.push_back(static_cast<double>(widen(t.as<T>()[i])));
    });
    return values;
}

/// Memory of a device with a copy of some of the host's.
class DeviceCopy {
    mem_manager::Device& device_;
    size_t bytes_;
    void* data_;

public:
    DeviceCopy(mem_manager::Device& device, void const* host, size_t bytes)
        : device_(device), bytes_(std::max<size_t>(bytes, 1)), data_(device.allocate(bytes_)) {
        if (host && bytes) device_.copy_from_host(data_, host, bytes);
    }
    ~DeviceCopy() { device_.deallocate(data_, bytes_); }
    DeviceCopy(DeviceCopy const&) = delete;
    DeviceCopy& operator=(DeviceCopy const&) = delete;
    void* data() const { return data_; }
    void read(void* host, size_t bytes) const {
        if (bytes) device_.copy_to_host(host, data_, bytes);
    }
};

/// The outputs after a run on the device; with `in_place` output 0 is the memory of input 0 where the task allows it.
template <class Info>
std::vector<Tensor> run_on_device(Info const& info, std::vector<Tensor>& inputs, std::vector<Tensor> outputs,
                                  std::vector<int64_t> const& params, mem_manager::Device& device, bool in_place) {
    auto task = device_task(info, inputs, outputs, params, device);
    if (!task) return {};
    std::vector<std::unique_ptr<DeviceCopy>> memory;
    std::vector<void*> arguments;
    for (auto& t : inputs) {
        memory.push_back(
            std::make_unique<DeviceCopy>(device, t.data(), t.dtype == DataType::Undefined ? 0 : t.bytes()));
        arguments.push_back(t.dtype == DataType::Undefined ? nullptr : memory.back()->data());
    }
    in_place = in_place && (task->in_place_inputs() & 1) && inputs[0].bytes() == outputs[0].bytes();
    for (auto& t : outputs) {
        memory.push_back(std::make_unique<DeviceCopy>(device, t.data(), t.bytes()));
        arguments.push_back(in_place && &t == &outputs[0] ? memory[0]->data() : memory.back()->data());
    }
    DeviceCopy workspace(device, nullptr, task->workspace_bytes());
    static ThreadPool pool(1);
    mem_manager::Stream stream(device);
    task->run(arguments.data(), {pool, static_cast<std::byte*>(workspace.data()), stream.native()});
    stream.synchronize();
    for (size_t i = 0; i < outputs.size(); ++i)
        (in_place && i == 0 ? memory[0] : memory[inputs.size() + i])->read(outputs[i].data(), outputs[i].bytes());
    return outputs;
}

/// Outputs of the host's reference.
template <class Info>
std::vector<Tensor> run_reference(Info const& info, std::vector<Tensor>& inputs, std::vector<Tensor> outputs,
                                  std::vector<int64_t> const& params) {
    std::vector<Operand> in, out;
    std::vector<TensorDesc const*> in_desc, out_desc;
    for (auto const& t : inputs) in.push_back({t, nullptr});
    for (auto const& t : outputs) out.push_back({t, nullptr});
    for (auto const& t : inputs) in_desc.push_back(t.dtype == DataType::Undefined ? nullptr : &t);
    for (auto const& t : outputs) out_desc.push_back(&t);
    auto found = candidates(info, Request{in, out, "cpu", Isa::Scalar, 1, Precision::Default});
    EXPECT_FALSE(found.kernels.empty()) << found.rejections.back().reason;
    static PackCache packs;
    auto task = found.kernels.back()->bind({in_desc, out_desc, params, packs, 1});
    EXPECT_TRUE(task.ok()) << found.kernels.back()->id() << ": " << (task.ok() ? "" : task.error().reason);
    if (!task) return outputs;
    std::vector<void*> arguments;
    for (auto& t : inputs) arguments.push_back(t.dtype == DataType::Undefined ? nullptr : t.data());
    for (auto& t : outputs) arguments.push_back(t.data());
    static ThreadPool pool(1);
    (*task)->run(arguments.data(), runtime::TaskMemory(**task, 1).context(pool));
    return outputs;
}

/// Equal bits, or, with a tolerance, numbers that differ by at most so much of max(1, |expected|).
inline void expect_close(Tensor& actual, Tensor& expected, double tolerance, std::string const& where) {
    if (tolerance == 0) {
        ASSERT_EQ(std::memcmp(actual.data(), expected.data(), expected.bytes()), 0) << where;
        return;
    }
    visit_numeric(expected.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < expected.count(); ++i) {
            auto a = static_cast<double>(widen(actual.as<T>()[i])), e = static_cast<double>(widen(expected.as<T>()[i]));
            if (a == e || (a != a && e != e)) continue;
            ASSERT_LE(std::abs(a - e), tolerance * std::max(1., std::abs(e)))
                << where << ", element " << i << ": " << a << ", expected " << e;
        }
    });
}

/// Compares a device with the reference, in memory of its own and in place.
struct OnDevice {
    mem_manager::Device& device;

    template <class Info>
    void operator()(Info const& info, std::vector<Tensor> inputs, std::vector<Tensor> const& outputs,
                    std::vector<int64_t> const& params = {}, double tolerance = 0) const {
        auto expected = run_reference(info, inputs, outputs, params);
        for (bool in_place : {false, true}) {
            auto actual = run_on_device(info, inputs, outputs, params, device, in_place);
            ASSERT_EQ(actual.size(), expected.size());
            for (size_t i = 0; i < actual.size(); ++i)
                expect_close(actual[i], expected[i], tolerance,
                             std::string(Info::kType) + " " + info.attributes() + ", output " + std::to_string(i) +
                                 " of " + std::string(name_of(outputs[i].dtype)) + " " +
                                 movement::to_string(outputs[i].dims) + ", input " +
                                 (inputs.empty() ? "none" : movement::to_string(inputs[0].dims)));
        }
    }
};

}  // namespace refactor::kernel::testing
