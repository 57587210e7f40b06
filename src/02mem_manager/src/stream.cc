#include "mem_manager/stream.h"

#include "common/error.h"
#include "mem_manager/device.h"
#include "mem_manager/device_plugin.h"

namespace refactor::mem_manager {

namespace {

constexpr size_t kTextBytes = 512;

/// Calls `function` with a buffer for its complaint and throws what it reports.
template <class F>
void check(Device const& device, char const* call, F&& function) {
    char text[kTextBytes] = "";
    auto code = function(text, sizeof text);
    if (code == 0) return;
    auto where = std::string(device.kind()) + ':' + std::to_string(device.ordinal());
    if (code == RG_OUT_OF_MEMORY) throw OutOfMemory(where + ": " + call + ": " + text);
    throw DeviceError(where + ": " + call, code, text);
}

}  // namespace

Stream::Stream(Device& device)
    : device_(device), table_(static_cast<RefactorDeviceStreams const*>(device.extension(RG_STREAMS_EXTENSION))) {
    if (!table_) return;
    if (table_->bytes < sizeof(RefactorDeviceStreams))
        throw DeviceError(device.name() + ": its table of streams has " + std::to_string(table_->bytes) +
                          " bytes, expected " + std::to_string(sizeof(RefactorDeviceStreams)));
    check(device_, "stream.create",
          [&](char* text, size_t bytes) { return table_->create(device_.handle(), &native_, text, bytes); });
}

Stream::~Stream() {
    if (native_) table_->destroy(device_.handle(), native_);
}

void Stream::synchronize() {
    if (!table_) return;
    check(device_, "stream.synchronize",
          [&](char* text, size_t bytes) { return table_->synchronize(device_.handle(), native_, text, bytes); });
}

void Stream::copy_from_host(void* target, void const* host, size_t bytes) {
    if (!bytes) return;
    if (!table_) return device_.copy_from_host(target, host, bytes);
    check(device_, "stream.copy_from_host", [&](char* text, size_t text_bytes) {
        return table_->copy_from_host(device_.handle(), native_, target, host, bytes, text, text_bytes);
    });
}

void Stream::copy_to_host(void* host, void const* source, size_t bytes) {
    if (!bytes) return;
    if (!table_) return device_.copy_to_host(host, source, bytes);
    check(device_, "stream.copy_to_host", [&](char* text, size_t text_bytes) {
        return table_->copy_to_host(device_.handle(), native_, host, source, bytes, text, text_bytes);
    });
}

}  // namespace refactor::mem_manager
