#include "mem_manager/stream.h"

#include "mem_manager/extension.h"
#include "mem_manager/stopwatch.h"

#include <chrono>
#include <mutex>
#include <utility>

namespace refactor::mem_manager {

void throw_device_error(Device const& device, char const* call, int32_t code, char const* text) {
    auto where = std::string(device.kind()) + ':' + std::to_string(device.ordinal()) + ": " + call;
    if (code == RG_OUT_OF_MEMORY) throw OutOfMemory(where + ": " + text);
    throw DeviceError(where, code, text);
}

Stream::Stream(Device& device)
    : device_(device),
      table_(extension_of<RefactorDeviceStreams>(device, RG_STREAMS_EXTENSION)),
      host_memory_(extension_of<RefactorHostMemory>(device, RG_HOST_MEMORY_EXTENSION)),
      graphs_(extension_of<RefactorDeviceGraphs>(device, RG_GRAPHS_EXTENSION)),
      interop_(extension_of<RefactorDeviceInterop>(device, RG_INTEROP_EXTENSION)) {
    if (!table_) return;
    checked(device_, "stream.create",
            [&](char* text, size_t bytes) { return table_->create(device_.handle(), &native_, text, bytes); });
}

Stream::~Stream() {
    if (native_) table_->destroy(device_.handle(), native_);
}

void Stream::synchronize() {
    if (!table_) return;
    checked(device_, "stream.synchronize",
            [&](char* text, size_t bytes) { return table_->synchronize(device_.handle(), native_, text, bytes); });
}

void Stream::copy_from_host(void* target, void const* host, size_t bytes) {
    if (!bytes) return;
    if (!table_) return device_.copy_from_host(target, host, bytes);
    checked(device_, "stream.copy_from_host", [&](char* text, size_t text_bytes) {
        return table_->copy_from_host(device_.handle(), native_, target, host, bytes, text, text_bytes);
    });
}

void Stream::copy_to_host(void* host, void const* source, size_t bytes) {
    if (!bytes) return;
    if (!table_) return device_.copy_to_host(host, source, bytes);
    checked(device_, "stream.copy_to_host", [&](char* text, size_t text_bytes) {
        return table_->copy_to_host(device_.handle(), native_, host, source, bytes, text, text_bytes);
    });
}

void Stream::copy_from_pinned(void* target, void const* host, size_t bytes) {
    if (!host_memory_) return copy_from_host(target, host, bytes);
    if (!bytes) return;
    checked(device_, "host_memory.copy_from", [&](char* text, size_t text_bytes) {
        return host_memory_->copy_from(device_.handle(), native_, target, host, bytes, text, text_bytes);
    });
}

void Stream::copy_to_pinned(void* host, void const* source, size_t bytes) {
    if (!host_memory_) return copy_to_host(host, source, bytes);
    if (!bytes) return;
    checked(device_, "host_memory.copy_to", [&](char* text, size_t text_bytes) {
        return host_memory_->copy_to(device_.handle(), native_, host, source, bytes, text, text_bytes);
    });
}

void Stream::copy_from_peer(void* target, Device const& source_device, void const* source, size_t bytes) {
    if (!bytes) return;
    if (&source_device == &device_) {
        if (!table_) return device_.copy_within(target, source, bytes);
        return checked(device_, "stream.copy_within", [&](char* text, size_t text_bytes) {
            return table_->copy_within(device_.handle(), native_, target, source, bytes, text, text_bytes);
        });
    }
    checked(device_, "interop.copy_from_peer", [&](char* text, size_t text_bytes) {
        return interop().copy_from_peer(device_.handle(), native_, target, source_device.handle(), source, bytes, text,
                                        text_bytes);
    });
}

void Stream::begin_recording() {
    if (!graphs_) throw DeviceError(device_.name() + ": its plugin cannot record work");
    std::shared_lock lock(device_.recordings());
    checked(device_, "graphs.begin",
            [&](char* text, size_t bytes) { return graphs_->begin(device_.handle(), native_, text, bytes); });
    recording_ = std::move(lock);
}

std::unique_ptr<Recording> Stream::end_recording() {
    void* graph = nullptr;
    auto lock = std::move(recording_);
    checked(device_, "graphs.end",
            [&](char* text, size_t bytes) { return graphs_->end(device_.handle(), native_, &graph, text, bytes); });
    return std::make_unique<Recording>(device_, *graphs_, graph);
}

RefactorDeviceInterop const& Stream::interop() const {
    if (!interop_) throw DeviceError(device_.name() + ": its plugin shares nothing with other libraries or devices");
    return *interop_;
}

uint64_t Stream::shared_number() const { return interop().native(native_); }

void Stream::wait_for(uint64_t foreign) {
    checked(device_, "interop.wait_for", [&](char* text, size_t bytes) {
        return interop().wait_for(device_.handle(), native_, foreign, text, bytes);
    });
}

void Stream::release_to(uint64_t foreign) {
    checked(device_, "interop.release_to", [&](char* text, size_t bytes) {
        return interop().release_to(device_.handle(), native_, foreign, text, bytes);
    });
}

void Stream::synchronize_device() {
    synchronize();
    wait_for_device(device_);
}

void wait_for_device(Device& device) {
    auto const* table = extension_of<RefactorDeviceInterop>(device, RG_INTEROP_EXTENSION);
    if (!table) return;
    std::unique_lock lock(device.recordings());
    checked(device, "interop.synchronize",
            [&](char* text, size_t bytes) { return table->synchronize(device.handle(), text, bytes); });
}

int owner_of(void const* address) {
    auto& device = find_device("nvidia", 0);
    auto const* table = extension_of<RefactorDeviceInterop>(device, RG_INTEROP_EXTENSION);
    int32_t ordinal = -1;
    if (table)
        checked(device, "interop.owner_of",
                [&](char* text, size_t bytes) { return table->owner_of(address, &ordinal, text, bytes); });
    if (ordinal < 0) throw InvalidInput("the memory is not of a device of kind \"nvidia\"");
    return ordinal;
}

Recording::~Recording() { table_.destroy(device_.handle(), graph_); }

void Recording::launch(Stream& stream) const {
    checked(device_, "graphs.launch", [&](char* text, size_t bytes) {
        return table_.launch(device_.handle(), stream.native(), graph_, text, bytes);
    });
}

Stopwatch::Stopwatch(Device& device)
    : device_(device), table_(extension_of<RefactorDeviceEvents>(device, RG_EVENTS_EXTENSION)) {}

Stopwatch::~Stopwatch() {
    for (auto* event : events_) table_->destroy(device_.handle(), event);
}

void Stopwatch::mark(Stream& stream) {
    auto i = used_++;
    if (!table_) {
        auto now = std::chrono::steady_clock::now().time_since_epoch();
        if (times_.size() <= i) times_.resize(i + 1);
        times_[i] = std::chrono::duration<double, std::nano>(now).count();
        return;
    }
    if (events_.size() <= i) {
        void* event = nullptr;
        checked(device_, "events.create",
                [&](char* text, size_t bytes) { return table_->create(device_.handle(), &event, text, bytes); });
        events_.push_back(event);
    }
    checked(device_, "events.record", [&](char* text, size_t bytes) {
        return table_->record(device_.handle(), stream.native(), events_[i], text, bytes);
    });
}

double Stopwatch::between(size_t i) const {
    if (!table_) return times_[i + 1] - times_[i];
    double nanoseconds = 0;
    checked(device_, "events.elapsed", [&](char* text, size_t bytes) {
        return table_->elapsed(device_.handle(), events_[i], events_[i + 1], &nanoseconds, text, bytes);
    });
    return nanoseconds;
}

}  // namespace refactor::mem_manager
