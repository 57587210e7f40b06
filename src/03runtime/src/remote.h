#pragma once
#include "mem_manager/blob.h"
#include "mem_manager/stream.h"
#include "runtime/executor.h"

namespace refactor::runtime {

/// What an executor keeps on a device that is not the host: a stream, and copies of inputs and outputs.
struct Executor::Remote {
    mem_manager::Stream stream;

    Remote(mem_manager::Device& device, size_t inputs, size_t outputs)
        : stream(device), inputs_(inputs), outputs_(outputs), fetched_(outputs, true) {}

    void* input(size_t index) const { return inputs_[index] ? inputs_[index]->data() : nullptr; }
    void* output(size_t index) const { return outputs_[index] ? outputs_[index]->data() : nullptr; }

    /// Copies an input of the host; one that is on the device already is used where it is.
    void upload(size_t index, Value const& value);
    /// Makes room for an output that the next run writes.
    void reserve(size_t index, size_t bytes);
    /// Copies an output of the last run to the host, once; memory that is referenced outside is not written again.
    void fetch(size_t index, Value& value);
    /// At the end of a run that failed, waits for the work under way: its memory may be freed next.
    class Settle {
        Remote* remote_;

    public:
        explicit Settle(Remote* remote) : remote_(remote) {}
        ~Settle();
        Settle(Settle const&) = delete;
        Settle& operator=(Settle const&) = delete;
    };

private:
    std::vector<std::shared_ptr<mem_manager::Blob>> inputs_, outputs_;
    std::vector<bool> fetched_;
};

}  // namespace refactor::runtime
