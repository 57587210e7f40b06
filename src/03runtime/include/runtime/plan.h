#pragma once
#include "common/data_type.h"
#include "common/small_vector.h"
#include "runtime/task.h"
#include "runtime/value.h"

#include <memory>
#include <string>
#include <vector>

namespace refactor::mem_manager {
class Blob;
class Device;
}  // namespace refactor::mem_manager

namespace refactor::runtime {

inline constexpr uint32_t kNoTensor = UINT32_MAX;

enum class Storage : uint8_t {
    Arena,     ///< at `offset` in block `index` of the executor's arena
    Input,     ///< the user's input number `index`
    Output,    ///< the output value number `index`
    Constant,  ///< at `address`, owned by the Program or by the plan (`Plan::made`)
};

/// One tensor of a plan: what it is and where it lives.
struct Tensor {
    Storage storage = Storage::Arena;
    uint32_t index = 0;
    uint32_t edge = 0;  ///< its number in `Planner::edge_name`
    size_t offset = 0;
    void const* address = nullptr;  ///< of a constant that steps on the host read
    DataType dtype{};
    bool plain = true;  ///< row-major; blocked layouts are reordered before a user sees them
    Dims dims;
    size_t bytes = 0;                             ///< storage, padding of blocked layouts included
    mem_manager::Blob const* constant = nullptr;  ///< what is at `address`, or would be
    bool is_read = false;                         ///< of a constant: by some step, on whatever device
};

/// One task with its arguments: `arguments[first_argument …]` of the plan, inputs before outputs.
struct Step {
    Task const* task = nullptr;
    uint32_t node = 0;    ///< its number in `Planner::node_name`
    uint32_t kernel = 0;  ///< index into `Plan::kernel_ids`
    uint32_t first_argument = 0, inputs = 0, outputs = 0;
    bool alone = false;  ///< too short to be shared: the calling thread runs it by itself
};

/// How long a block of the arena is in use, for executors that place blocks with a run-time allocator instead of the
/// planned offsets.
struct Block {
    size_t bytes = 0, offset = 0;
    uint32_t first_step = 0, last_step = 0;
};

/// A Program with every size bound: a flat list of steps over placed tensors. Immutable and shared by executors.
struct Plan {
    std::vector<Tensor> tensors;
    std::vector<uint32_t> arguments;  ///< index into `tensors`, or `kNoTensor`
    std::vector<Step> steps;
    std::vector<std::unique_ptr<Task>> tasks;
    std::vector<std::string> kernel_ids;
    std::vector<uint32_t> inputs, outputs;  ///< tensors
    /// By output: the input over which it may be written, so that the run could be repeated all the same; `kNoTensor`:
    /// over none.
    std::vector<uint32_t> overwrites;
    std::vector<Block> blocks;               ///< `Tensor::index` (Arena) and `workspace_blocks` point into it
    std::vector<uint32_t> workspace_blocks;  ///< block of each step, or `kNoTensor`
    size_t arena_bytes = 0;
    size_t scratch_bytes = 0;  ///< the most that a task asks of each thread
    size_t lower_bound = 0;    ///< bytes: the largest sum of live tensors at any step
    /// Constants of this plan: what followed from the sizes alone has been computed with it.
    std::vector<std::shared_ptr<mem_manager::Blob const>> made;
    size_t made_bytes = 0;
};

/// Type of an input or output as the model declares it; `shape` is for people, "[N, 3, 224, 224]", and "[?]" where the
/// rank is unknown.
struct PortInfo {
    std::string name;
    DataType dtype{};
    std::string shape;
    std::vector<int64_t> dims;         ///< -1 where symbolic
    std::vector<std::string> symbols;  ///< text of each size
    bool ranked = true;
    ValueKind kind = ValueKind::Tensor;
    /// Of the elements of a sequence, the content of an optional, the values of a map (whose keys are of `dtype`).
    std::shared_ptr<PortInfo const> element = nullptr;
};

/// What the runtime knows of the layers above: bindings in, plan out. Thread-safe; plans are cached.
class Planner {
public:
    virtual ~Planner() = default;
    virtual std::vector<PortInfo> const& inputs() const = 0;
    virtual std::vector<PortInfo> const& outputs() const = 0;
    /// The plan for inputs of these sizes. Throws `InvalidInput` naming input, expected and actual size.
    virtual std::shared_ptr<Plan const> plan(std::span<Dims const> input_dims) = 0;
    virtual std::string const& node_name(uint32_t node) const = 0;
    virtual std::string const& node_type(uint32_t node) const = 0;
    virtual std::string const& edge_name(uint32_t edge) const = 0;
    /// Row-major copy of a blocked tensor: `target` has room for `element_count(dims)` elements.
    virtual void to_plain(Tensor const&, void const* source, void* target) const = 0;
    /// Kind of device that the plans run on.
    virtual std::string_view device_kind() const { return "cpu"; }
    /// Where a constant is in the memory of `device`, which is not the host: copied there by the first call, shared by
    /// all executors.
    virtual void const* constant_on(mem_manager::Device& device, Tensor const& constant);
};

}  // namespace refactor::runtime
