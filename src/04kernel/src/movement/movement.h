#pragma once
#include "common/thread_pool.h"
#include "kernel/kernel.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

/// What the kernels that move elements share: refusals, kernels made of a bind function, tasks made of a lambda,
/// threading by bytes.
namespace refactor::kernel::movement {

using KernelResult = Result<std::unique_ptr<Kernel>, Rejection>;
using TaskResult = Result<std::unique_ptr<runtime::Task>, Rejection>;

/// Bytes of one element; 0 for strings and types of less than a byte.
inline int64_t element_bytes(DataType type) { return bits_of(type) / 8; }

/// Which operands a kernel takes.
struct Accepts {
    size_t min_inputs = 1, max_inputs = 1, outputs = 1;
    bool blocked = false;    ///< layouts other than Plain
    bool same_dtype = true;  ///< the first input has the dtype of the outputs
    bool packed = false;     ///< elements of less than a byte
};
/// Reason to decline `request`, if there is one.
std::optional<Rejection> refuse(Request const& request, Accepts const& accepts = {});

/// "(2, 3, 4)", for messages.
std::string to_string(std::span<int64_t const> dims);

/// `op:cpu:algorithm:dtype[:isa]` with the type of output 0.
std::string make_id(std::string_view op, std::string_view algorithm, Request const& request, std::string_view isa = {});

/// A kernel whose `bind` is a free function of its info.
template <class Info>
class InfoKernel final : public Kernel {
public:
    /// The instruction set is the best that the request allows.
    using Bind = TaskResult (*)(Info const&, BindArgs const&, Isa);
    InfoKernel(Info info, std::string id, Isa isa, Bind function)
        : info_(std::move(info)), id_(std::move(id)), isa_(isa), bind_(function) {}
    std::string id() const override { return id_; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        return bind_(info_, args, isa_);
    }

private:
    Info info_;
    std::string id_;
    Isa isa_;
    Bind bind_;
};

/// The kernel `op:cpu:algorithm:dtype`.
template <class Info>
KernelResult make_kernel(Info const& info, std::string_view op, std::string_view algorithm, Request const& request,
                         typename InfoKernel<Info>::Bind bind) {
    return KernelResult(std::make_unique<InfoKernel<Info>>(info, make_id(op, algorithm, request), request.isa, bind));
}

/// A task that calls `body(arguments, context)`.
template <class F>
class FunctionTask : public runtime::Task {
public:
    FunctionTask(F body, uint64_t in_place, size_t workspace = 0, size_t scratch = 0, uint64_t unread = 0)
        : body_(std::move(body)), in_place_(in_place), workspace_(workspace), scratch_(scratch), unread_(unread) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override { body_(arguments, context); }
    size_t workspace_bytes() const override { return workspace_; }
    size_t scratch_bytes() const override { return scratch_; }
    uint64_t in_place_inputs() const override { return in_place_; }
    uint64_t unread_inputs() const override { return unread_; }

private:
    F body_;
    uint64_t in_place_;
    size_t workspace_, scratch_;
    uint64_t unread_;
};

template <class F>
TaskResult make_task(F body, uint64_t in_place = 0, size_t workspace = 0, size_t scratch = 0, uint64_t unread = 0) {
    return TaskResult(
        std::unique_ptr<runtime::Task>(new FunctionTask<F>(std::move(body), in_place, workspace, scratch, unread)));
}

/// Splits [0, units) among the threads if the work moves enough bytes to pay for it: `body(begin, end)`.
///
/// A fork-join costs about 1 µs and one core copies about 10 bytes per ns, so 256 KiB (25 µs) is the least that is
/// split.
template <class F>
void parallel_bytes(ThreadPool& pool, int64_t units, int64_t bytes, F&& body) {
    constexpr int64_t kLeast = 256 << 10, kChunk = 64 << 10;
    if (units <= 0) return;
    if (bytes < kLeast || pool.threads() == 1 || units == 1) return body(int64_t{0}, units);
    auto chunks = std::min({units, bytes / kChunk, int64_t{8} * pool.threads()});
    pool.parallel_for(chunks, [&](int64_t i, int) { body(units * i / chunks, units * (i + 1) / chunks); });
}

/// Row-major strides of `dims` in elements.
inline Dims strides_of(std::span<int64_t const> dims) {
    Dims strides(dims.size());
    int64_t stride = 1;
    for (auto i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
    return strides;
}

/// Calls `f(at, index)` for every coordinate of a tensor of these sizes, in row-major order. For references.
template <class F>
void for_each_coordinate(std::span<int64_t const> dims, F&& f) {
    Dims at(dims.size());
    auto n = element_count(dims);
    for (int64_t index = 0; index < n; ++index) {
        f(at, index);
        for (auto i = dims.size(); i-- > 0 && ++at[i] == dims[i];) at[i] = 0;
    }
}

/// Product of the sizes of the axes [begin, end).
inline int64_t count_of(std::span<int64_t const> dims, size_t begin, size_t end) {
    int64_t n = 1;
    for (auto i = begin; i < end; ++i) n *= dims[i];
    return n;
}

struct Bytes16 {
    uint64_t half[2];
};
/// Loads and stores without a claim on alignment: a word may be made of several smaller elements.
template <class T>
T load(std::byte const* p) {
    T value;
    std::memcpy(&value, p, sizeof(T));
    return value;
}
template <class T>
void store(std::byte* p, T value) {
    std::memcpy(p, &value, sizeof(T));
}

/// `count` times the same value: whole cache lines, then the rest, for loops of single elements are not made vectors
/// of.
template <class T>
void fill_words(std::byte* to, T value, int64_t count) {
    constexpr int64_t kLine = 64, kBytes = sizeof(T), kElements = kLine / kBytes;
    if (kElements > 1 && count >= kElements) {
        std::byte line[kLine];
        for (int64_t i = 0; i < kElements; ++i) store(line + i * kBytes, value);
        for (; count >= kElements; count -= kElements, to += kLine) std::memcpy(to, line, kLine);
    }
    for (int64_t i = 0; i < count; ++i) store(to + i * kBytes, value);
}

inline bool is_word(int64_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16; }

/// Calls `f` with a value of the unsigned type of `bytes` bytes (1, 2, 4, 8, or 16 as a struct), for copies of any
/// dtype.
template <class F>
auto with_word(int64_t bytes, F&& f) {
    switch (bytes) {
        case 1:
            return f(uint8_t{});
        case 2:
            return f(uint16_t{});
        case 4:
            return f(uint32_t{});
        case 8:
            return f(uint64_t{});
        default:
            return f(Bytes16{});
    }
}

}  // namespace refactor::kernel::movement
