#pragma once
#include "movement/strided_copy.h"

namespace refactor::kernel {

/// Sets of a few elements behind each other, [sets][length], turned to [length][sets]: elements of one place in their
/// sets are side by side, so that vectors take a set in each lane, and results, [results][sets], are turned back.
class TurnedSets {
public:
    TurnedSets() = default;
    TurnedSets(int64_t length, int64_t results, int64_t element_bytes, int64_t result_bytes, Isa isa)
        : length_(length),
          results_(results),
          element_bytes_(element_bytes),
          result_bytes_(result_bytes),
          most_(std::clamp(kBytes / (length * element_bytes) / kLanes * kLanes, kLanes, kMostSets)),
          turn_(movement::plane_function(element_bytes, most_, isa)),
          turn_back_(movement::plane_function(result_bytes, results, isa)) {}

    /// Sets that are turned together at most.
    int64_t most() const { return most_; }
    /// Of turned elements and of results of so many sets, multiples of 64.
    size_t turned_bytes() const { return lines(length_ * element_bytes_); }
    size_t result_bytes() const { return lines(results_ * result_bytes_); }

    void turn(void const* x, int64_t sets, void* turned) const {
        apply(turn_, turned, x, length_, sets, element_bytes_);
    }
    void turn_back(void const* results, int64_t sets, void* y) const {
        apply(turn_back_, y, results, sets, results_, result_bytes_);
    }

private:
    /// Half of L1, and sets whose calls and partial vectors do not count.
    static constexpr int64_t kBytes = 16384, kLanes = 16, kMostSets = 512;

    size_t lines(int64_t bytes_of_set) const { return static_cast<size_t>(most_ * bytes_of_set + 63) / 64 * 64; }
    static void apply(movement::StridedCopy::PlaneFunction plane, void* to, void const* from, int64_t rows,
                      int64_t columns, int64_t bytes) {
        if (rows == 1 || columns == 1)
            std::memcpy(to, from, static_cast<size_t>(rows * columns * bytes));
        else
            plane(static_cast<std::byte*>(to), columns * bytes, static_cast<std::byte const*>(from), rows * bytes, rows,
                  columns);
    }

    int64_t length_ = 1, results_ = 1, element_bytes_ = 1, result_bytes_ = 1, most_ = 1;
    movement::StridedCopy::PlaneFunction turn_ = nullptr, turn_back_ = nullptr;
};

}  // namespace refactor::kernel
