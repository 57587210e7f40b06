#pragma once
#include "cuda/library.h"
#include "runtime/task.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace refactor::kernel::cuda {

/// An address that a generated function is given: of an operand of the task, of its workspace, of the word in which it
/// reports faults (`runtime::RunContext::fault`, `rg_report` of the prelude; null if nobody reads it), or null.
struct Address {
    static constexpr int kWorkspace = -1, kNone = -2, kFault = -3;
    int operand = 0;    ///< number among all inputs, then all outputs, of the task; absent ones count and are null
    size_t offset = 0;  ///< in bytes
};

/// One launch of a generated function, whose parameter is a struct of 64-bit words: addresses, then numbers.
struct Launch {
    void* function = nullptr;
    uint32_t blocks = 1, threads = 256;
    std::vector<Address> addresses;
    std::vector<uint64_t> numbers;
};

/// Most words of a parameter, 4 KiB.
inline constexpr size_t kMostWords = 512;
/// Most blocks of a launch whose threads stride over the grid: enough to fill any card several times over.
inline constexpr int64_t kMostBlocks = int64_t{1} << 20;

/// Most blocks of a grid.
inline constexpr int64_t kMostGrid = (int64_t(1) << 31) - 1;

/// Blocks for so many items of work; at least one.
constexpr uint32_t blocks_for(int64_t items, int64_t items_of_a_block) {
    auto blocks = (items + items_of_a_block - 1) / items_of_a_block;
    return static_cast<uint32_t>(blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks);
}

/// A struct of 64-bit numbers as the words of a launch.
template <class T>
std::vector<uint64_t> words_of(T const& numbers) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
    std::vector<uint64_t> words(sizeof(T) / sizeof(uint64_t));
    std::memcpy(words.data(), &numbers, sizeof(T));
    return words;
}

/// The addresses of the first `count` operands.
std::vector<Address> all_operands(size_t count);

/// Puts a launch into the stream of the run, with `first` for its first number if there is one.
void start(Library const& library, Launch const& launch, void* const* arguments, runtime::RunContext const& context,
           uint64_t const* first = nullptr);

/// Launches one after another on the stream of the run.
class LaunchTask final : public runtime::Task {
    Library library_;
    std::vector<Launch> launches_;
    size_t workspace_bytes_;
    uint64_t in_place_;
    double operations_;

public:
    /// The other arguments are what the functions of `Task` answer.
    LaunchTask(Library const& library, std::vector<Launch> launches, size_t workspace_bytes = 0, uint64_t in_place = 0,
               double operations = 0);
    void run(void* const* arguments, runtime::RunContext const& context) const override;
    size_t workspace_bytes() const override { return workspace_bytes_; }
    uint64_t in_place_inputs() const override { return in_place_; }
    double operations() const override { return operations_; }
};

}  // namespace refactor::kernel::cuda
