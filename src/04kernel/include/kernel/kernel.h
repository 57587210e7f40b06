#pragma once
#include "common/cpu_features.h"
#include "common/data_type.h"
#include "common/result.h"
#include "common/small_vector.h"
#include "runtime/task.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refactor::mem_manager {
class Blob;
class Device;
}  // namespace refactor::mem_manager

namespace refactor::kernel {

/// Order of a tensor's elements in memory.
enum class Layout : uint8_t {
    Plain,      ///< row-major
    Blocked16,  ///< nChw16c: [N, ceil(C/16), spatial…, 16], channels past C are zero
    Blocked8,   ///< nChw8c
    Blocked32,  ///< nChw32c, of bf16; up to `kReadBehind` bytes behind it are read
};
/// Channels in a block; 1 for Plain.
constexpr int64_t block_of(Layout layout) {
    switch (layout) {
        case Layout::Blocked8:
            return 8;
        case Layout::Blocked16:
            return 16;
        case Layout::Blocked32:
            return 32;
        default:
            return 1;
    }
}
/// Tiles read 16 positions of 32 channels at a time, the last of which need not exist.
constexpr size_t kReadBehind = 15 * 64;

/// Type, layout and logical sizes (always in the order of the Plain layout) of one operand.
struct TensorDesc {
    DataType dtype = DataType::Undefined;
    Layout layout = Layout::Plain;
    Dims dims;  ///< -1 where not known yet; everything is known when a kernel is bound

    int64_t count() const { return element_count(dims); }
    /// Elements in memory, padding of blocked layouts included.
    int64_t stored_count() const;
};

/// An operand as a candidate sees it while the Program is built.
struct Operand : TensorDesc {
    /// Row-major data in host memory if the operand is a constant of the model.
    std::shared_ptr<mem_manager::Blob const> constant;
    bool absent() const { return dtype == DataType::Undefined; }
};

/// What may lower the precision of a kernel.
enum class Precision : uint8_t {
    Exact,  ///< no algorithm that changes the error bound (no Winograd)
    Default,
    Tf32,  ///< products and convolutions of f32 may round their operands to 11 bits (sums stay f32)
    F8,    ///< products by weights of f8e4m3fn may round the other operand to that type
};

/// The question "who can compute this?".
struct Request {
    std::span<Operand const> inputs, outputs;
    std::string_view device = "cpu";  ///< "cpu" or "nvidia"
    Isa isa = Isa::Scalar;            ///< best allowed instruction set
    int threads = 1;
    Precision precision = Precision::Default;
    mem_manager::Device* place = nullptr;  ///< to compile for, if it is not the host
};

/// Why a candidate declined; shown to the user when nothing fits, and on demand.
struct Rejection {
    std::string reason;
};

/// Packed weights of one Program, shared by its plans and executors: `get` packs once for each (constant, format).
class PackCache {
public:
    PackCache();
    ~PackCache();
    PackCache(PackCache const&) = delete;
    PackCache& operator=(PackCache const&) = delete;
    /// `pack(from, to)` fills `bytes` bytes of 64-byte aligned memory with what it makes of the source's bytes `from`,
    /// on the first call for this key. Thread-safe: one key is packed once, different ones at the same time.
    template <class F>
    std::shared_ptr<mem_manager::Blob const> get(mem_manager::Blob const& source, std::string_view format, size_t bytes,
                                                 F&& pack) {
        return find_or_make(
            source, format, bytes,
            [](void* f, void const* from, void* to) { (*static_cast<std::remove_reference_t<F>*>(f))(from, to); },
            &pack);
    }
    size_t bytes() const;
    /// Gives back memory that only packing needs.
    void trim();

    struct Entry {
        mem_manager::Blob const* source;
        std::string format;
        std::shared_ptr<mem_manager::Blob const> packed;
    };
    /// Everything that is packed, in no certain order. Thread-safe.
    std::vector<Entry> entries() const;
    /// What an earlier process packed: `get` takes it if it is of the size that it asks for. Before any `get`.
    void add(Entry entry);

private:
    std::shared_ptr<mem_manager::Blob const> find_or_make(mem_manager::Blob const&, std::string_view, size_t,
                                                          void (*)(void*, void const*, void*), void*);
    struct State;
    std::unique_ptr<State> state_;
};

/// Everything that is known when sizes are fixed. Operands are null where an optional one is absent.
struct BindArgs {
    std::span<TensorDesc const* const> inputs, outputs;
    std::span<int64_t const> params;  ///< values of the operator's symbolic parameters
    PackCache& packs;
    int threads = 1;
};

/// One implementation of an operator for given dtypes, layouts, attributes and constants; sizes may still be open.
///
/// Created once for a Program; `bind` is called for every new shape and must cost about a microsecond (weights are
/// packed on first use, by the cache). Immutable apart from that.
class Kernel {
public:
    virtual ~Kernel() = default;
    /// `op:device:algorithm:dtype[:isa]`, e.g. `conv:cpu:winograd_f4:f32:avx512`.
    virtual std::string id() const = 0;
    /// Estimated time in ns for these sizes, what is read from memory included, or why they are declined; 0: not known.
    /// Asked if there is more than one candidate, and with several threads to tell whether one is enough.
    virtual Result<double, Rejection> estimate(BindArgs const&) const { return 0.; }
    virtual Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const&) const = 0;
};

/// The kernels that accepted, in priority order, and the reasons of the others.
struct Candidates {
    std::vector<std::unique_ptr<Kernel>> kernels;
    std::vector<Rejection> rejections;  ///< each "id: reason"

    /// For the expansion of a kernel list: takes in what one factory answered.
    void add(std::string_view id, Result<std::unique_ptr<Kernel>, Rejection> answer);
};

}  // namespace refactor::kernel
