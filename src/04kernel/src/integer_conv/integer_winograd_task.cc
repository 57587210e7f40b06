#include "common/thread_pool.h"
#include "integer_conv/integer_winograd.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using I = IntegerMatMulInfo;
using mem_manager::Blob;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How the tiles of an image are divided. What threads share is X and U; each transforms X for itself.
struct WinogradParts {
    int64_t tile_rows, tile_columns, tiles, row;  ///< i16 of a tile in V
    int64_t panel;
    int64_t block = 1, blocks = 1, panels = 1, panel_parts = 1;

    WinogradParts(Geometry const& g, WinogradWeights const& weights, int threads)
        : tile_rows(ceil_div(g.out[1], 4)),
          tile_columns(ceil_div(g.out[2], 4)),
          tiles(tile_rows * tile_columns),
          row(ceil_div(g.in_channels, 32) * 32),
          panel(weights.panel) {
        auto all_panels = weights.panels();
        // V and M of a block stay in L2, beside the piece of U that is multiplied.
        auto most = std::clamp<int64_t>(static_cast<int64_t>(cpu_features().l2) * 5 / 8 / tile_bytes(), 6, 48);
        blocks = ceil_div(tiles, most);
        if (threads > 1 && tiles >= 12 * threads) blocks = ceil_div(blocks, threads) * threads;
        block = ceil_div(tiles, blocks), blocks = ceil_div(tiles, block);
        panels = blocks < threads ? ceil_div(all_panels, ceil_div(threads, blocks)) : all_panels;
        panel_parts = ceil_div(all_panels, panels);
    }
    int64_t tile_bytes() const { return WinogradWeights::kProducts * (row * 2 + panel * 4); }
    size_t scratch_bytes() const { return static_cast<size_t>(block * tile_bytes()) + 64; }
};

class WinogradConvTask final : public runtime::Task {
    IntegerFunctions const& f_;
    IntegerConvShape s_;
    IntegerResult result_;
    WinogradWeights weights_;
    WinogradParts parts_;
    std::shared_ptr<Blob const> packed_;

    /// Bias and scale of each column, with zeros behind the last one.
    void prepare(void* const* arguments, int32_t* add, float* scale) const {
        auto n = s_.out_channels;
        std::fill(add, add + 2 * weights_.columns(), 0);
        if (auto const* bias = static_cast<int32_t const*>(arguments[I::kBias])) std::copy(bias, bias + n, add);
        auto const* scales = static_cast<float const*>(arguments[I::kScale]);
        for (int64_t j = 0; scales && j < n; ++j) scale[j] = scales[s_.many_scales ? j : 0];
    }
    void run_part(void* const* arguments, std::byte* workspace, int64_t part, std::byte* scratch) const {
        auto const& s = s_;
        auto panel = part % parts_.panel_parts * parts_.panels;
        auto block = part / parts_.panel_parts % parts_.blocks, n = part / parts_.panel_parts / parts_.blocks;
        IntegerWinograd w{};
        w.x = static_cast<uint8_t const*>(arguments[I::kA]) + n * s.in_size() * s.in_channels;
        w.x_signed = s.x_signed;
        w.x_zero = arguments[I::kAZero] ? byte_at(arguments[I::kAZero], s.x_signed, 0) : 0;
        w.channels = s.in_channels, w.height = s.in[1], w.width = s.in[2];
        w.pad_top = s.pad[1], w.pad_left = s.pad[2];
        w.out_height = s.out[1], w.out_width = s.out[2], w.tile_columns = parts_.tile_columns;
        w.first = block * parts_.block, w.tiles = std::min(parts_.block, parts_.tiles - w.first);
        w.v = reinterpret_cast<int16_t*>(scratch), w.row = parts_.row;
        w.m = reinterpret_cast<int32_t*>(scratch + WinogradWeights::kProducts * parts_.block * parts_.row * 2);
        w.u = static_cast<int32_t const*>(packed_->data()), w.depth = weights_.depth();
        w.panel_begin = panel, w.panel_end = std::min(panel + parts_.panels, weights_.panels());
        auto& b = w.y;
        b.columns = s.out_channels;
        b.column_add = reinterpret_cast<int32_t*>(workspace);
        b.scale = reinterpret_cast<float const*>(b.column_add + weights_.columns());
        b.shift = static_cast<float const*>(arguments[I::kShift]);
        b.tail = tail_of(result_, s.y, arguments[I::kYZero], s.residual);
        auto at = n * s.out_size() * s.out_channels;
        if (arguments[I::kResidual])
            b.residual = static_cast<uint8_t const*>(arguments[I::kResidual]) + storage_bytes(s.residual, at);
        b.y = static_cast<std::byte*>(arguments[I::kInputs]) + storage_bytes(s.y, at), b.y_row = s.out_channels;
        f_.winograd(w);
    }

public:
    WinogradConvTask(IntegerFunctions const& f, IntegerConvShape const& shape, IntegerResult const& result,
                     std::shared_ptr<Blob const> packed, int threads)
        : f_(f),
          s_(shape),
          result_(result),
          weights_{shape.in_channels, shape.out_channels, f.panel},
          parts_(shape, weights_, threads),
          packed_(std::move(packed)) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* workspace = context.workspace;
        auto* add = reinterpret_cast<int32_t*>(workspace);
        prepare(arguments, add, reinterpret_cast<float*>(add + weights_.columns()));
        context.pool.parallel_for(s_.batch * parts_.blocks * parts_.panel_parts, [&](int64_t part, int worker) {
            run_part(arguments, workspace, part, context.scratch_of(worker));
        });
    }
    size_t workspace_bytes() const override { return static_cast<size_t>(weights_.columns() * 2 * 4); }
    size_t scratch_bytes() const override { return parts_.scratch_bytes(); }
    uint64_t unread_inputs() const override { return uint64_t{1} << I::kB | uint64_t{1} << I::kBZero; }
    double operations() const override { return s_.operations(); }
};

class WinogradConvKernel final : public Kernel {
    IntegerFunctions const& f_;
    Isa isa_;
    IntegerConvInfo info_;
    DataType type_;
    std::shared_ptr<Blob const> w_, w_zero_;

    WinogradWeights weights_of(IntegerConvShape const& s) const { return {s.in_channels, s.out_channels, f_.panel}; }
    std::string refuse(IntegerConvShape const& s) const {
        if (s.empty()) return "nothing to compute";
        if (s.in[0] != 1 || s.out[0] != 1 || s.pad[0]) return "has a third spatial axis";
        return {};
    }

public:
    WinogradConvKernel(IntegerFunctions const& f, Isa isa, IntegerConvInfo info, Request const& request)
        : f_(f),
          isa_(isa),
          info_(std::move(info)),
          type_(request.inputs[I::kA].dtype),
          w_(request.inputs[I::kB].constant),
          w_zero_(request.inputs[I::kBZero].constant) {}
    std::string id() const override { return id_of("integer_conv", "winograd_f4", type_, isa_); }
    /// In the unit of the direct kernel, half the peak of a 2.5 GHz core: 2.5 vectors of products of i16 a ns, and 1.25
    /// vector operations, of which transforms take 370 for two vectors of X (of i16, each twice as many as of i32) and
    /// 220 for one of Y. U that does not stay in L2 is read for every block while others are multiplied, at what memory
    /// gives a core: 12 bytes a ns, 8 in this unit.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        IntegerConvShape s;
        if (auto why = s.init(info_, args); !why.empty()) return reject(why);
        if (auto why = refuse(s); !why.empty()) return reject(why);
        auto weights = weights_of(s);
        WinogradParts parts(s, weights, args.threads);
        auto tiles = static_cast<double>(s.batch * parts.tiles);
        auto columns = static_cast<double>(weights.columns());
        auto products = 36 * tiles * static_cast<double>(2 * weights.depth()) * columns / (5. * f_.width);
        auto transforms = tiles * (static_cast<double>(parts.row) / 2 * 370 + columns * 220) / (1.25 * f_.width);
        auto bytes = static_cast<double>(weights.bytes());
        // Bytes that arrive in the time of a unit of work, which faster products make shorter.
        auto const& cpu = cpu_features();
        auto rate = f_.width < 16 || cpu.halves_512 ? 8. : cpu.fast_bf16 ? 12. : 6.;
        auto reads = bytes > static_cast<double>(cpu_features().l2)
                         ? bytes * static_cast<double>(s.batch * parts.blocks) / rate
                         : 0.;
        // Threads share what weights come from.
        return 2000 + std::max(products / args.threads, reads) + transforms / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        IntegerConvShape s;
        if (auto why = s.init(info_, args); !why.empty()) return reject(why);
        if (auto why = refuse(s); !why.empty()) return reject(why);
        auto weights = weights_of(s);
        auto format = "integer_conv:winograd:" + std::to_string(f_.panel) + (s.w_signed ? ":i8" : ":u8") +
                      zeros_in_format(w_zero_.get());
        auto packed = args.packs.get(*w_, format, weights.bytes(), [&](void const* from, void* target) {
            weights.pack(f_, from, s.w_signed, w_zero_ ? w_zero_->data() : nullptr, s.many_zeros, target);
        });
        return std::unique_ptr<runtime::Task>(
            new WinogradConvTask(f_, s, info_.result, std::move(packed), args.threads));
    }
};

MaybeKernel make(IntegerConvInfo const& info, Request const& request, Isa isa, IntegerFunctions const& (*functions)()) {
    IntegerTypes types;
    if (auto why = types.init(request, info.result); !why.empty()) return reject(why);
    if (auto why = why_not_isa(request, isa); !why.empty()) return reject(why);
    auto const &w = request.inputs[I::kB], &zero = request.inputs[I::kBZero];
    auto one = [](Dims const& dims) { return std::all_of(dims.begin(), dims.end(), [](auto d) { return d == 1; }); };
    bool fits = w.dims.size() == 4 && w.dims[2] == 3 && w.dims[3] == 3 && info.group == 1 && info.channels_last &&
                one(info.window.strides) && one(info.window.dilations);
    if (!fits) return reject("needs 3 × 3 windows of steps 1 in two axes, one group, and channels_last");
    // Of fewer channels transforms take longer than what they save.
    if (w.dims[1] < 32) return reject(std::to_string(w.dims[1]) + " input channels, at least 32");
    if (!w.constant || !(zero.absent() || zero.constant)) return reject("needs constant weights and zero points");
    Blob::Reader reader(*w.constant);
    WinogradWeights weights{w.dims[1], w.dims[0], functions().panel};
    // Zero points of another number are refused with the sizes.
    auto const* zeros = zero.constant && zero.count() > 0 ? zero.constant->data() : nullptr;
    if (!weights.exact(reader.data(), w.dtype == DataType::I8, zeros, zero.count() == w.dims[0]))
        return reject("sums may need more than 26 bits");
    return std::unique_ptr<Kernel>(new WinogradConvKernel(functions(), isa, info, request));
}

}  // namespace

#if RG_X86
MaybeKernel make_integer_conv_winograd_vnni(IntegerConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512Vnni, integer_functions_avx512vnni);
}
MaybeKernel make_integer_conv_winograd_avx2vnni(IntegerConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2Vnni, integer_functions_avx2vnni);
}
MaybeKernel make_integer_conv_winograd_avx2(IntegerConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, integer_functions_avx2);
}
#else
MaybeKernel make_integer_conv_winograd_vnni(IntegerConvInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_conv_winograd_avx2vnni(IntegerConvInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_conv_winograd_avx2(IntegerConvInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
