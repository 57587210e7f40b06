// Measured candidates on the emulated GPU, some of which a library takes and then cannot run.
#include "common/error.h"
#include "cuda/plugin_compiler.h"
#include "mem_manager/device_graphs.h"
#include "mem_manager/extension.h"
#include "program/kernel_timer.h"
#include "runtime/task.h"

#include <cmath>

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;

struct Works final : runtime::Task {
    void run(void* const*, runtime::RunContext const&) const override {}
};

struct Fails final : runtime::Task {
    void run(void* const*, runtime::RunContext const&) const override {
        throw DeviceError("cublasLtMatmul", 13, "the execution failed");
    }
};

/// A stream that records cannot be waited for, as one of a device that is lost.
struct LosesTheDevice final : runtime::Task {
    void run(void* const*, runtime::RunContext const& context) const override {
        auto& device = emulated();
        auto const* table = mem_manager::extension_of<RefactorDeviceGraphs>(device, RG_GRAPHS_EXTENSION);
        char text[512] = "";
        EXPECT_EQ(table->begin(device.handle(), context.stream, text, sizeof text), 0);
        throw DeviceError("cublasLtMatmul", 700, "an illegal memory access was encountered");
    }
};

std::vector<double> times_of(std::vector<runtime::Task const*> const& tasks) {
    PackCache packs;
    return KernelTimer(1, emulated()).fastest(tasks, {{}, {}, {}, packs, 1}, {});
}

TEST(CudaTuning, ACandidateThatFailsInALibraryIsNotChosen) {
    Works works;
    Fails fails;
    auto times = times_of({&fails, &works});
    EXPECT_TRUE(std::isinf(times[0]));
    EXPECT_TRUE(std::isfinite(times[1]));
}

TEST(CudaTuning, ALostDeviceIsTold) {
    Works works;
    LosesTheDevice loses;
    EXPECT_THROW(times_of({&loses, &works}), DeviceError);
}

}  // namespace

}  // namespace refactor::kernel::cuda
