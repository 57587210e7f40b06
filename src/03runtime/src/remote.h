#pragma once
#include "mem_manager/blob.h"
#include "mem_manager/device_ranges.h"
#include "mem_manager/stream.h"
#include "replays.h"
#include "runtime/executor.h"

namespace refactor::runtime {

/// What an executor keeps on a device that is not the host: a stream, copies of inputs and outputs, and the words in
/// which kernels report faults.
struct Executor::Remote {
    mem_manager::Stream stream;
    Replays replays;
    RefactorDeviceRanges const* ranges;  ///< null unless a profiler listens
    std::vector<bool> reads;             ///< by input: some step of the plan does
    bool pending = false;                ///< a run that nobody has waited for
    std::vector<void const*> addresses;  ///< scratch: all that a run passes to kernels
    std::string not_recorded;            ///< why the work of the plan is never recorded

    Remote(mem_manager::Device& device, size_t inputs, size_t outputs);
    ~Remote();

    void* input(size_t index) const { return inputs_[index] ? inputs_[index]->data() : nullptr; }
    void* output(size_t index) const { return outputs_[index] ? outputs_[index]->data() : nullptr; }
    std::shared_ptr<mem_manager::Blob> const& output_blob(size_t index, bool exported);

    /// Puts an input into the memory of the device; one that is there already is used where it is.
    void upload(size_t index, Value const& value);
    /// Makes room for an output that the next run writes. `ordered`: the run waits for whoever works with the last one.
    void reserve(size_t index, size_t bytes, bool ordered);
    /// The same in the memory of an input, which nobody but the caller and this holds; false if somebody does.
    bool write_over(size_t output, size_t input, bool ordered);
    /// Copies an output of the last run to the host, once, which is done when `finish_fetching` returns; memory that is
    /// referenced outside is not written again.
    void fetch(size_t index, Value& value);
    void finish_fetching();

    /// Words for so many steps, all 0; null if the device cannot report.
    uint64_t* faults(size_t steps);
    /// Number of the first step that has reported a fault, and the fault; all words are 0 afterwards.
    std::optional<std::pair<uint32_t, uint64_t>> take_fault();

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
    void wait_quietly(bool for_all = false);
    void replace(std::shared_ptr<mem_manager::Blob>& held, std::shared_ptr<mem_manager::Blob> const& value);

    std::vector<std::shared_ptr<mem_manager::Blob>> inputs_, outputs_;
    std::vector<std::shared_ptr<mem_manager::Blob>> sources_;  ///< pinned memory that `inputs_` are copied from
    std::vector<bool> fetched_, exported_;
    bool fetching_ = false;
    std::shared_ptr<mem_manager::Blob> faults_;
};

/// A range in the timeline of a profiler, while this lives.
class NamedRange {
    RefactorDeviceRanges const* ranges_;

public:
    /// Nothing happens if `ranges` is null.
    NamedRange(RefactorDeviceRanges const* ranges, Planner const& planner, uint32_t node);
    ~NamedRange() {
        if (ranges_) ranges_->pop();
    }
    NamedRange(NamedRange const&) = delete;
    NamedRange& operator=(NamedRange const&) = delete;
};

}  // namespace refactor::runtime
