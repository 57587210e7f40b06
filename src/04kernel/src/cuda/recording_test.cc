// Work that is recorded on the emulated GPU while other threads wait for the whole device.
#include "common/error.h"
#include "cuda/plugin_compiler.h"
#include "mem_manager/extension.h"
#include "mem_manager/stream.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;
using namespace std::chrono_literals;

TEST(CudaRecording, WaitingForTheDeviceWaitsForRecordings) {
    auto& device = emulated();
    mem_manager::Stream stream(device);
    std::atomic<bool> asks = false, waited = false;
    stream.begin_recording();
    std::thread waiting([&] {
        asks = true;
        EXPECT_NO_THROW(mem_manager::wait_for_device(device));
        waited = true;
    });
    while (!asks) std::this_thread::yield();
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(waited);
    EXPECT_NO_THROW(stream.end_recording());
    waiting.join();
    EXPECT_TRUE(waited);
}

TEST(CudaRecording, AWaitThatIsNotInTurnSpoilsWhatIsRecorded) {
    auto& device = emulated();
    auto const* table = mem_manager::extension_of<RefactorDeviceInterop>(device, RG_INTEROP_EXTENSION);
    ASSERT_TRUE(table);
    char text[512] = "";
    mem_manager::Stream stream(device);
    stream.begin_recording();
    EXPECT_EQ(table->synchronize(device.handle(), text, sizeof text), 900) << text;
    EXPECT_THROW(stream.end_recording(), DeviceError);
    EXPECT_NO_THROW(mem_manager::wait_for_device(device)) << "a recording that failed has ended";
    stream.begin_recording();
    EXPECT_NO_THROW(stream.end_recording());
}

TEST(CudaRecording, SeveralThreadsRecordAtTheSameTime) {
    auto& device = emulated();
    mem_manager::Stream stream(device), other(device);
    stream.begin_recording();
    std::thread([&] {
        EXPECT_NO_THROW(other.begin_recording());
        EXPECT_NO_THROW(other.end_recording());
    }).join();
    EXPECT_NO_THROW(stream.end_recording());
}

}  // namespace

}  // namespace refactor::kernel::cuda
