#pragma once
#include "mem_manager/device_events.h"

#include <vector>

namespace refactor::mem_manager {

class Device;
class Stream;

/// Takes times on a device without waiting for it. A device without events (the CPU) gets the time of the host.
class Stopwatch {
    Device& device_;
    RefactorDeviceEvents const* table_;
    std::vector<void*> events_;
    std::vector<double> times_;  ///< of the host, in ns
    size_t used_ = 0;

public:
    explicit Stopwatch(Device& device);
    ~Stopwatch();
    Stopwatch(Stopwatch const&) = delete;
    Stopwatch& operator=(Stopwatch const&) = delete;
    /// Forgets all marks.
    void reset() { used_ = 0; }
    /// Marks the end of what is in the stream.
    void mark(Stream& stream);
    /// Time in ns from mark `i` to the next, when the stream has come so far.
    double between(size_t i) const;
};

}  // namespace refactor::mem_manager
