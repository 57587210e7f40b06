#pragma once
#include "cuda/device_procedure.h"

namespace refactor::kernel::cuda {

/// Which of many words in the memory of a device are not zero under a mask, in order.
class Selection {
    DeviceCall& call_;
    Code const& code_;
    void const* words_;
    int64_t count_, word_bytes_;
    uint64_t mask_;
    int64_t* starts_ = nullptr;  ///< of every block, how many are selected before it
    int64_t total_ = 0;

    GeneratedLaunch launch_of(char const* name, std::string const& kind, char const* body) const;

public:
    /// Counts them, and waits for the number.
    Selection(DeviceCall& call, Code const& code, void const* words, int64_t count, int64_t word_bytes,
              uint64_t mask = ~uint64_t{0});
    int64_t total() const { return total_; }
    /// Positions of the selected words, i64[total].
    void write_positions(int64_t* target) const;
    /// Their coordinates in a tensor of these sizes, i64[rank, total].
    void write_coordinates(int64_t* target, Dims const& sizes) const;
};

/// Replaces counts by the sums of those before; behind them comes the sum of all, which is waited for.
int64_t sum_up(DeviceCall& call, Code const& code, int64_t* counts, int64_t count);

/// y[o, k, i] = x[o, positions[k], i].
class Taker {
    std::unique_ptr<Kernel> gather_;

public:
    Taker(mem_manager::Device& place, DataType dtype);
    explicit operator bool() const { return gather_ != nullptr; }
    void take(DeviceCall& call, Argument const& x, Argument const& positions, Argument const& y) const;
};

}  // namespace refactor::kernel::cuda
