#pragma once
#include "cuda/device_test.h"

#include <set>

namespace refactor::kernel::testing {

/// A device that only collects what it is to compile.
class SourceCollector final : public mem_manager::Device {
public:
    std::set<std::string> sources;

    template <class Info>
    void operator()(Info const& info, std::vector<Tensor> const& inputs, std::vector<Tensor> const& outputs,
                    std::vector<int64_t> const& params = {}, double = 0) {
        device_task(info, inputs, outputs, params, *this);
    }

    std::string_view kind() const override { return "nvidia"; }
    int ordinal() const override { return 0; }
    std::string name() const override { return "collector"; }
    mem_manager::MemoryInfo memory() const override { return {}; }
    void* allocate(size_t) override { return nullptr; }
    void deallocate(void*, size_t) noexcept override {}
    void copy_from_host(void*, void const*, size_t) override {}
    void copy_to_host(void*, void const*, size_t) override {}
    void copy_within(void*, void const*, size_t) override {}
    void* handle() const override { return const_cast<SourceCollector*>(this); }
    void const* extension(std::string_view name) const override {
        static RefactorDeviceKernels const kernels = [] {
            RefactorDeviceKernels table{};
            table.bytes = sizeof table;
            table.load = [](void* self, char const* source, char const*, void** function, char*, size_t) {
                static_cast<SourceCollector*>(self)->sources.insert(source);
                *function = self;
                return int32_t{0};
            };
            table.matmul_create = [](void*, RefactorMatMul const*, void** plan, size_t* bytes, char*, size_t) {
                *plan = nullptr, *bytes = 0;
                return int32_t{0};
            };
            table.matmul_destroy = [](void*) {};
            table.capability = [](void*) { return int32_t{90}; };
            return table;
        }();
        static RefactorDeviceStreams const streams = [] {
            RefactorDeviceStreams table{};
            table.bytes = sizeof table;
            return table;
        }();
        if (name == RG_KERNELS_EXTENSION) return &kernels;
        return name == RG_STREAMS_EXTENSION ? static_cast<void const*>(&streams) : nullptr;
    }
};

}  // namespace refactor::kernel::testing
