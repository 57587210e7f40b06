#include "integer_pool/integer_pool.h"

#include "common/thread_pool.h"
#include "cuda/kernels.h"
#include "pool/pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace refactor::kernel {

namespace {

int32_t byte_of(IntegerPoolBlock const& b, int64_t tap, int64_t c) {
    auto byte = b.x[tap][c];
    return b.is_signed ? static_cast<int8_t>(byte) : byte;
}

void max_reference(IntegerPoolBlock const& b) {
    for (int64_t c = 0; c < b.channels; ++c) {
        auto most = byte_of(b, 0, c);
        for (int64_t tap = 1; tap < b.taps; ++tap) most = std::max(most, byte_of(b, tap, c));
        static_cast<uint8_t*>(b.y)[c] = static_cast<uint8_t>(most);
    }
}

void average_reference(IntegerPoolBlock const& b) {
    for (int64_t c = 0; c < b.channels; ++c) {
        int32_t sum = 0;
        for (int64_t tap = 0; tap < b.taps; ++tap) sum += byte_of(b, tap, c);
        auto value = static_cast<float>(sum - b.zeros) * b.scale;
        if (b.to_float) {
            static_cast<float*>(b.y)[c] = value;
            continue;
        }
        auto low = static_cast<float>((b.is_signed ? -128 : 0) - b.y_zero);
        value = std::min(std::max(std::nearbyint(value), low), low + 255);
        static_cast<uint8_t*>(b.y)[c] = static_cast<uint8_t>(static_cast<int32_t>(value) + b.y_zero);
    }
}

/// With the channels in front of the spatial axes.
TensorDesc channels_first(TensorDesc desc) {
    auto channels = desc.dims.back();
    for (auto i = desc.dims.size() - 1; i > 1; --i) desc.dims[i] = desc.dims[i - 1];
    desc.dims[1] = channels;
    return desc;
}

class IntegerPoolTask final : public runtime::Task {
    IntegerPoolInfo info_;
    Geometry g_;
    IntegerPoolLoops loops_;
    bool is_signed_, to_float_;
    int threads_;

    int64_t taps() const { return info_.kernel.empty() ? g_.in_size() : g_.taps(); }

    /// Positions under a window, those of pads among them.
    int64_t padded_taps(int64_t const (&position)[3]) const {
        int64_t count = 1;
        for (int i = 0; i < 3; ++i) {
            auto room = g_.in[i] + g_.pad_end[i] - (position[i] * g_.stride[i] - g_.pad[i]);
            count *= std::clamp<int64_t>((room + g_.dilation[i] - 1) / g_.dilation[i], 0, g_.kernel[i]);
        }
        return count;
    }
    /// Positions of X under the window of a position of Y.
    int64_t gather(uint8_t const* image, int64_t const (&position)[3], uint8_t const** pointers) const {
        int64_t begin[3], end[3], step[3];
        for (int i = 0; i < 3; ++i) {
            step[i] = info_.kernel.empty() ? 1 : g_.dilation[i];
            begin[i] = info_.kernel.empty() ? 0 : position[i] * g_.stride[i] - g_.pad[i];
            end[i] = info_.kernel.empty() ? g_.in[i] : std::min(begin[i] + g_.kernel[i] * step[i], g_.in[i]);
            while (begin[i] < 0) begin[i] += step[i];
        }
        int64_t count = 0;
        for (auto z = begin[0]; z < end[0]; z += step[0])
            for (auto y = begin[1]; y < end[1]; y += step[1])
                for (auto x = begin[2]; x < end[2]; x += step[2])
                    pointers[count++] = image + ((z * g_.in[1] + y) * g_.in[2] + x) * g_.in_channels;
        return count;
    }

public:
    IntegerPoolTask(IntegerPoolInfo const& info, Geometry const& geometry, IntegerPoolLoops loops, BindArgs const& args)
        : info_(info),
          g_(geometry),
          loops_(loops),
          is_signed_(args.inputs[0]->dtype == DataType::I8),
          to_float_(args.outputs[0]->dtype == DataType::F32),
          threads_(args.threads) {}
    static MaybeTask make(IntegerPoolInfo const& info, IntegerPoolLoops loops, BindArgs const& args) {
        auto geometry = integer_pool_geometry(info, args);
        if (!geometry) return reject(geometry.error().reason);
        return std::unique_ptr<runtime::Task>(new IntegerPoolTask(info, *geometry, loops, args));
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto positions = g_.batch * g_.out_size();
        if (g_.empty()) return;
        auto bytes = to_float_ ? 4 : 1;
        auto loop = info_.kind == PoolKind::Max ? loops_.max : loops_.average;
        auto chunks =
            std::min(chunks_of(positions, static_cast<double>(taps() * g_.in_channels) * 0.05, threads_), positions);
        context.pool.parallel_for(chunks, [&](int64_t chunk, int worker) {
            auto* mine = reinterpret_cast<uint8_t const**>(context.scratch_of(worker));
            // What a window of nothing but pads has for its maximum.
            auto* lowest = reinterpret_cast<uint8_t*>(mine + taps());
            std::memset(lowest, is_signed_ ? 0x80 : 0, static_cast<size_t>(g_.in_channels));
            auto first = positions * chunk / chunks, last = positions * (chunk + 1) / chunks;
            auto line = first / g_.out[2], plane = line / g_.out[1];
            int64_t at[]{plane % g_.out[0], line % g_.out[1], first % g_.out[2]}, n = plane / g_.out[0];
            for (auto i = first; i < last; ++i) {
                auto const* image = static_cast<uint8_t const*>(arguments[0]) + n * g_.in_size() * g_.in_channels;
                auto count = gather(image, at, mine);
                auto* y = static_cast<uint8_t*>(arguments[1]) + i * g_.in_channels * bytes;
                if (count == 0 && info_.kind == PoolKind::Max) mine[count++] = lowest;
                auto counted = info_.count_include_pad ? padded_taps(at) : count;
                auto scale = info_.scale / static_cast<float>(std::max<int64_t>(1, counted));
                loop({g_.in_channels, count, mine, is_signed_, y, to_float_, static_cast<int32_t>(info_.x_zero * count),
                      scale, info_.y_zero});
                if (++at[2] < g_.out[2]) continue;
                at[2] = 0;
                if (++at[1] < g_.out[1]) continue;
                at[1] = 0;
                if (++at[0] == g_.out[0]) at[0] = 0, ++n;
            }
        });
    }
    size_t scratch_bytes() const override {
        return static_cast<size_t>(taps()) * sizeof(void*) + static_cast<size_t>(g_.in_channels);
    }
    double operations() const override {
        return static_cast<double>(g_.batch * g_.out_size() * taps()) * static_cast<double>(g_.in_channels);
    }
};

class IntegerPoolKernel final : public Kernel {
    IntegerPoolInfo info_;
    std::string id_;
    IntegerPoolLoops loops_;
    double ns_;

public:
    IntegerPoolKernel(IntegerPoolInfo info, std::string id, IntegerPoolLoops loops, double ns)
        : info_(std::move(info)), id_(std::move(id)), loops_(loops), ns_(ns) {}
    std::string id() const override { return id_; }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        return static_cast<double>(args.inputs[0]->count()) * ns_ / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override { return IntegerPoolTask::make(info_, loops_, args); }
};

std::string why_not(IntegerPoolInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    auto x = request.inputs[0].dtype, y = request.outputs[0].dtype;
    bool average = info.kind == PoolKind::Average;
    if (info.kind != PoolKind::Max && !average) return "pools by maximum or average only";
    if ((x != DataType::U8 && x != DataType::I8) || (y != x && !(average && y == DataType::F32)))
        return "pools " + std::string(name_of(x)) + " to " + std::string(name_of(y)) + ", expected u8 or i8";
    if (request.inputs[0].dims.size() < 3 || request.inputs[0].dims.size() > 5)
        return "handles 1 to 3 spatial axes, X has " + std::to_string(request.inputs[0].dims.size()) + " axes";
    return {};
}

}  // namespace

std::string IntegerPoolInfo::attributes() const {
    auto text = std::string(kind == PoolKind::Max ? "max" : "average");
    text += kernel.empty() ? std::string(" global") : " kernel=" + dims_text(kernel) + " " + to_string(window);
    if (kind == PoolKind::Max) return text;
    if (count_include_pad) text += " count_include_pad";
    return text + " scale=" + exact_text(scale) + " zeros=" + std::to_string(x_zero) + "," + std::to_string(y_zero);
}

Result<Geometry, Rejection> integer_pool_geometry(IntegerPoolInfo const& info, BindArgs const& args) {
    auto x = channels_first(*args.inputs[0]), y = channels_first(*args.outputs[0]);
    TensorDesc const *inputs[]{&x}, *outputs[]{&y};
    auto kernel = info.kernel.empty() ? Dims(x.dims.begin() + 2, x.dims.end()) : info.kernel;
    auto geometry = pool_geometry(info.window, kernel, {inputs, outputs, args.params, args.packs, args.threads});
    if (!geometry) return geometry;
    if (geometry->in_channels != geometry->out_channels || (info.kernel.empty() && geometry->out_size() != 1))
        return reject("X " + dims_text(args.inputs[0]->dims) + " pooled to " + dims_text(args.outputs[0]->dims));
    return geometry;
}

IntegerPoolLoops integer_pool_loops_reference() { return {max_reference, average_reference}; }

MaybeKernel make_integer_pool_reference(IntegerPoolInfo const& info, Request const& request) {
    if (auto why = why_not(info, request); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(new IntegerPoolKernel(
        info, id_of("integer_pool", "reference", request.inputs[0].dtype), integer_pool_loops_reference(), 5));
}

MaybeKernel make_integer_pool_avx2(IntegerPoolInfo const& info, Request const& request) {
#if RG_X86
    if (auto why = why_not(info, request); !why.empty()) return reject(why);
    if (request.isa < Isa::Avx2) return reject("needs avx2, allowed is " + std::string(name_of(request.isa)));
    return std::unique_ptr<Kernel>(new IntegerPoolKernel(
        info, id_of("integer_pool", "channels", request.inputs[0].dtype, Isa::Avx2), integer_pool_loops_avx2(), 0.05));
#else
    return info.kernel.empty() && request.threads < 0 ? reject("") : reject("not built for this architecture");
#endif
}

Candidates candidates(IntegerPoolInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("integer_pool:nvidia:nvrtc", cuda::integer_pool_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "integer_pool/integer_pool_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
