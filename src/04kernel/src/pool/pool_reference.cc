#include "common/thread_pool.h"
#include "conv/elements.h"
#include "conv/geometry.h"
#include "pool/pool.h"

#include <cmath>
#include <limits>
#include <optional>

namespace refactor::kernel {

namespace {

/// Calls `f(T{})` with the element type; false if pooling does not handle it.
template <class F>
bool for_pooled(DataType dtype, PoolKind kind, F&& f) {
    if (for_float(dtype, f)) return true;
    if (kind != PoolKind::Max) return false;
    switch (dtype) {
        case DataType::I8:
            f(int8_t{});
            return true;
        case DataType::U8:
            f(uint8_t{});
            return true;
        case DataType::I32:
            f(int32_t{});
            return true;
        default:
            return false;
    }
}

template <class T>
class ReferenceTask final : public runtime::Task {
    Geometry g_;
    PoolInfo info_;
    Addressing x_, y_;
    std::optional<Addressing> indices_;

    struct Found {
        double value;
        int64_t position;  ///< of the maximum, -1 if the window holds no element
    };

    /// Spatial position `(z, i, j)` as the indices count it.
    int64_t flat(int64_t z, int64_t i, int64_t j) const {
        return info_.column_major ? z + g_.in[0] * (i + g_.in[1] * j) : (z * g_.in[1] + i) * g_.in[2] + j;
    }

    Found window(T const* x, int64_t n, int64_t c, int64_t const (&at)[3]) const {
        double total = 0, best = -std::numeric_limits<double>::infinity();
        int64_t inside = 0, padded = 0, position = -1;
        auto within = [&](int axis, int64_t i) { return i >= 0 && i < g_.in[axis]; };
        auto in_padding = [&](int axis, int64_t i) { return i >= -g_.pad[axis] && i < g_.in[axis] + g_.pad_end[axis]; };
        for (int64_t d = 0; d < g_.kernel[0]; ++d)
            for (int64_t h = 0; h < g_.kernel[1]; ++h)
                for (int64_t v = 0; v < g_.kernel[2]; ++v) {
                    auto z = at[0] * g_.stride[0] - g_.pad[0] + d * g_.dilation[0];
                    auto i = at[1] * g_.stride[1] - g_.pad[1] + h * g_.dilation[1];
                    auto j = at[2] * g_.stride[2] - g_.pad[2] + v * g_.dilation[2];
                    padded += in_padding(0, z) && in_padding(1, i) && in_padding(2, j);
                    if (!within(0, z) || !within(1, i) || !within(2, j)) continue;
                    auto value = widen(x[x_.at(n, c, (z * g_.in[1] + i) * g_.in[2] + j)]);
                    ++inside, total += value;
                    if (position < 0 || value > best || std::isnan(value)) {
                        if (position >= 0 && std::isnan(best)) continue;
                        best = value, position = flat(z, i, j);
                    }
                }
        if (info_.kind == PoolKind::Max) return {best, position};
        if (info_.kind == PoolKind::Sum) return {total, -1};
        auto count = info_.count_include_pad ? padded : inside;
        return {count ? total / static_cast<double>(count) : 0., -1};
    }

public:
    ReferenceTask(Geometry const& g, PoolInfo const& info, BindArgs const& args)
        : g_(g), info_(info), x_(*args.inputs[0]), y_(*args.outputs[0]) {
        if (args.outputs.size() > 1 && args.outputs[1]) indices_.emplace(*args.outputs[1]);
    }

    double operations() const override {
        return static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps());
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<T const*>(arguments[0]);
        auto* y = static_cast<T*>(arguments[1]);
        auto* indices = indices_ ? static_cast<int64_t*>(arguments[2]) : nullptr;
        auto stored = y_.blocks() * y_.block;
        context.pool.parallel_for(g_.batch * stored, [&](int64_t task, int) {
            auto n = task / stored, c = task % stored;
            int64_t position = 0, at[3];
            for (at[0] = 0; at[0] < g_.out[0]; ++at[0])
                for (at[1] = 0; at[1] < g_.out[1]; ++at[1])
                    for (at[2] = 0; at[2] < g_.out[2]; ++at[2], ++position) {
                        auto found = c < g_.in_channels ? window(x, n, c, at) : Found{0, 0};
                        if constexpr (std::is_integral_v<T>)
                            if (std::isinf(found.value)) found.value = std::numeric_limits<T>::lowest();
                        y[y_.at(n, c, position)] = narrow<T>(found.value);
                        if (indices && c < indices_->blocks() * indices_->block)
                            indices[indices_->at(n, c, position)] =
                                c < g_.in_channels ? (n * g_.in_channels + c) * g_.in_size() + found.position : 0;
                    }
        });
    }
};

class ReferenceKernel final : public NamedKernel {
    PoolInfo info_;
    DataType dtype_;

public:
    ReferenceKernel(std::string id, PoolInfo info, DataType dtype)
        : NamedKernel(std::move(id)), info_(std::move(info)), dtype_(dtype) {}

    // About 2 ns an element of a window.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        // Scalar code: an element of a window costs about 10 ns.
        return 10. * static_cast<double>(args.outputs[0]->count() * element_count(info_.kernel)) / args.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = pool_geometry(info_.window, info_.kernel, args);
        if (!g) return Err{g.error()};
        std::unique_ptr<runtime::Task> task;
        for_pooled(dtype_, info_.kind,
                   [&](auto t) { task = std::make_unique<ReferenceTask<decltype(t)>>(*g, info_, args); });
        return task;
    }
};

}  // namespace

KernelResult pool_reference(PoolInfo const& info, Request const& request) {
    if (auto reason = pool_mismatch(info, request); !reason.empty()) return Err{Rejection{reason}};
    auto dtype = request.inputs[0].dtype;
    if (!for_pooled(dtype, info.kind, [](auto) {}))
        return Err{Rejection{"does not handle " + std::string(name_of(dtype))}};
    return std::unique_ptr<Kernel>(
        std::make_unique<ReferenceKernel>("pool:cpu:reference:" + std::string(name_of(dtype)), info, dtype));
}

}  // namespace refactor::kernel
