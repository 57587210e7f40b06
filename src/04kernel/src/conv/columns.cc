#include "conv/columns.h"

#include "common/thread_pool.h"
#include "conv/conv.h"
#include "conv/cost.h"
#include "conv/geometry.h"
#include "mem_manager/blob.h"

#include <span>

namespace refactor::kernel {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Channels of one group.
struct Channels {
    int64_t in, out;
    explicit Channels(Geometry const& g) : in(g.in_channels / g.group), out(g.out_channels / g.group) {}
};

/// Of each group, [M, C, rows, columns of the kernel] to [row][C][column][M].
void pack(float const* w, Geometry const& g, float* packed) {
    Channels const channels(g);
    auto const rows = g.kernel[0] * g.kernel[1], columns = g.kernel[2];
    for (int64_t group = 0; group < g.group; ++group, w += channels.out * channels.in * g.taps())
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < channels.in; ++c)
                for (int64_t t = 0; t < columns; ++t)
                    for (int64_t m = 0; m < channels.out; ++m)
                        *packed++ = w[((m * channels.in + c) * rows + r) * columns + t];
}

/// Outputs of a part of a row: what a window of channels reads for them stays in L2.
constexpr int64_t kColumns = 1024;

/// Time to begin and end a tile, ns.
constexpr double kTile = 40;

/// Bytes of the rows that a window spans: those of wide dilations are many, and few of them are read for one row.
constexpr int64_t kMostCopied = 4 << 20;

class ColumnsTask final : public runtime::Task {
    Geometry g_;
    Channels channels_;
    Activation activation_;
    ConvOperands operands_;
    ColumnsIsa const* isa_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    int64_t rows_, parts_;                        ///< of all groups; parts of a row
    int64_t span_;                                ///< rows from the first of a window to its last
    int64_t length_;                              ///< of a phase of a copied row
    uint64_t phase_mask_ = 0;                     ///< of the phases that taps read
    SmallVector<int64_t, 64> taps_, phase_taps_;  ///< floats to a tap's column, in X and in a copy
    int threads_;

    int64_t weight_floats() const { return channels_.in * g_.taps() * g_.out_channels; }
    static int64_t span_of(Geometry const& g) { return (g.kernel[1] - 1) * g.dilation[1] + 1; }
    static int64_t length_of(Geometry const& g, ColumnsIsa const& isa) {
        auto columns = ceil_div(std::min(g.out[2], kColumns), isa.width) * isa.width;
        return columns + (g.kernel[2] - 1) * g.dilation[2] / g.stride[2];
    }
    int64_t row_floats() const { return channels_.in * g_.stride[2] * length_; }
    int64_t copy_floats() const { return copy_floats(g_, *isa_); }
    int64_t window_rows() const { return g_.kernel[0] * g_.kernel[1]; }
    /// Of one thread: two for the rows of a window, and one for what copies hold.
    int64_t list_words() const { return 2 * window_rows() + g_.kernel[0] * span_; }

    /// About 20 µs of work a task, and at most four tasks a thread.
    int64_t tasks() const {
        auto work = rows_ * g_.out[2] * weight_floats() / g_.group / 1048576;
        return threads_ == 1 ? 1 : std::clamp<int64_t>(work, 1, std::min<int64_t>(4 * threads_, rows_ * parts_));
    }

    /// The rows that windows of neighbouring rows of outputs read, copied once: of each plane of the window the last
    /// `span_`.
    class Copies {
        ColumnsTask const& task_;
        float* copies_;
        int64_t begin_ = 0;  ///< the first column
        float const* x_ = nullptr;
        std::span<int64_t> held_;  ///< by plane of the window and place: the row of X

    public:
        Copies(ColumnsTask const& task, float* copies, std::span<int64_t> held)
            : task_(task), copies_(copies), held_(held) {
            std::fill(held_.begin(), held_.end(), -1);
        }

        void begin(float const* x, int64_t column) {
            if (x == x_ && column == begin_) return;
            x_ = x, begin_ = column;
            std::fill(held_.begin(), held_.end(), -1);
        }
        float const* base() const { return copies_; }
        /// Floats from `base` to row `y` of plane `z`, which is the plane `d` of the window.
        int64_t find(int64_t d, int64_t z, int64_t y) {
            auto const& g = task_.g_;
            auto place = d * task_.span_ + y % task_.span_, row = z * g.in[1] + y, at = place * task_.row_floats();
            auto& held = held_[static_cast<size_t>(place)];
            if (held == row) return at;
            held = row;
            auto channel = g.stride[2] * task_.length_;
            for (int64_t c = 0; c < task_.channels_.in; ++c)
                task_.isa_->phases({x_ + c * g.in_size() + row * g.in[2], g.in[2], begin_, g.stride[2], task_.length_,
                                    task_.phase_mask_, copies_ + at + c * channel});
            return at;
        }
    };

    /// Finds the rows of the window that are inside, for row `row` of plane `plane` of the outputs: in X, or among
    /// copies.
    void find_rows(int64_t plane, int64_t row, Copies* copies, ColumnsJob& job, int64_t* row_x, int64_t* row_w) const {
        job.rows = 0;
        g_.each_row(plane, row, [&](int64_t d, int64_t h, int64_t z, int64_t y) {
            row_x[job.rows] = copies ? copies->find(d, z, y) : (z * g_.in[1] + y) * g_.in[2];
            row_w[job.rows++] = (d * g_.kernel[1] + h) * channels_.in * g_.kernel[2] * channels_.out;
        });
    }

    /// Tiles of about equally many vectors, over `columns` neighbours.
    void run_tiles(ColumnsJob job, int64_t columns) const {
        auto vectors = ceil_div(columns, isa_->width);
        auto tiles = ceil_div(vectors, isa_->vectors[channels_.out - 1]);
        for (int64_t tile = 0, first = 0; tile < tiles; ++tile) {
            auto end = vectors * (tile + 1) / tiles * isa_->width;
            job.count = std::min(columns, end) - first;
            isa_->tile[channels_.out - 1][(end - first) / isa_->width - 1](job);
            job.x += end - first, job.y += end - first, first = end;
        }
    }

public:
    /// Of the rows that a window spans, for one thread.
    static int64_t copy_floats(Geometry const& g, ColumnsIsa const& isa) {
        return g.kernel[0] * span_of(g) * Channels(g).in * g.stride[2] * length_of(g, isa);
    }
    ColumnsTask(Geometry const& g, Epilogue const& epilogue, ColumnsIsa const& isa,
                std::shared_ptr<mem_manager::Blob const> packed, int threads)
        : g_(g),
          channels_(g),
          activation_(epilogue.activation),
          operands_(epilogue),
          isa_(&isa),
          packed_(std::move(packed)),
          rows_(g.batch * g.group * g.out[0] * g.out[1]),
          parts_(ceil_div(g.out[2], kColumns)),
          span_(span_of(g)),
          length_(length_of(g, isa)),
          threads_(std::max(1, threads)) {
        for (int64_t t = 0; t < g.kernel[2]; ++t) {
            auto column = t * g.dilation[2];
            taps_.push_back(column);
            phase_mask_ |= uint64_t{1} << column % g.stride[2] % 64;
            phase_taps_.push_back(column % g.stride[2] * length_ + column / g.stride[2]);
        }
    }

    size_t workspace_bytes() const override {
        return static_cast<size_t>(threads_ * list_words()) * sizeof(int64_t) +
               static_cast<size_t>((packed_ ? 0 : weight_floats()) + threads_ * copy_floats()) * sizeof(float);
    }
    uint64_t unread_inputs() const override { return packed_ ? 2 : 0; }
    double operations() const override { return 2. * static_cast<double>(g_.batch * g_.out_size() * weight_floats()); }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* lists = reinterpret_cast<int64_t*>(context.workspace);
        auto* workspace = reinterpret_cast<float*>(lists + threads_ * list_words());
        ColumnsJob whole{};
        if (packed_) {
            whole.w = static_cast<float const*>(packed_->data());
        } else {
            pack(static_cast<float const*>(arguments[1]), g_, workspace);
            whole.w = workspace, workspace += weight_floats();
        }
        whole.channels = channels_.in, whole.taps = g_.kernel[2];
        whole.y_channel = g_.out_size(), whole.activation = activation_;
        if (operands_.bias >= 0) whole.bias = static_cast<float const*>(arguments[operands_.bias]);
        auto const* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[operands_.output]);
        auto tasks = this->tasks(), rows = g_.out[0] * g_.out[1], all = rows_ * parts_;
        context.pool.parallel_for(tasks, [&](int64_t task, int thread) {
            auto job = whole;
            auto *row_x = lists + thread * list_words(), *row_w = row_x + window_rows();
            job.row_x = row_x, job.row_w = row_w;
            Copies copies(*this, workspace + thread * copy_floats(),
                          {row_w + window_rows(), static_cast<size_t>(g_.kernel[0] * span_)});
            // Rows of one part follow each other, so that their windows share copies.
            for (auto i = all * task / tasks; i < all * (task + 1) / tasks; ++i) {
                auto row = i % rows, part = i / rows % parts_, first = part * kColumns;
                auto planes = i / rows / parts_, group = planes % g_.group;
                auto columns = std::min(g_.out[2] - first, kColumns), begin = first * g_.stride[2] - g_.pad[2];
                auto end = begin + ceil_div(columns, isa_->width) * isa_->width + taps_.back();
                bool inside = g_.stride[2] == 1 && begin >= 0 && end <= g_.in[2];
                auto const* from = x + planes * channels_.in * g_.in_size();
                if (!inside) copies.begin(from, begin);
                find_rows(row / g_.out[1], row % g_.out[1], inside ? nullptr : &copies, job, row_x, row_w);
                job.x = inside ? from + begin : copies.base();
                job.x_channel = inside ? g_.in_size() : g_.stride[2] * length_;
                job.tap_x = inside ? taps_.data() : phase_taps_.data();
                job.y = y + planes * channels_.out * g_.out_size() + row * g_.out[2] + first;
                job.w = whole.w + group * channels_.in * g_.taps() * channels_.out;
                if (whole.bias) job.bias = whole.bias + group * channels_.out;
                run_tiles(job, columns);
            }
        });
    }
};

/// ns to copy rows, those that windows of neighbouring rows share once: phase by phase, from strides of four on
/// element by element.
double copying(Geometry const& g) {
    auto stride = g.stride[2];
    if (stride == 1 && g.pad[2] == 0) return 0;
    constexpr double kRow = 8, kPhase = 6;
    auto lines = g.batch * g.in_channels * g.kernel[0] * g.out[0] * g.out[1] * std::min(g.kernel[1], g.stride[1]);
    auto element = stride == 1 ? 0.03 : stride <= 3 ? 0.1 : 0.35, phases = static_cast<double>(stride);
    return static_cast<double>(lines) * (kRow + phases * kPhase + element * static_cast<double>(g.in[2]));
}

class ColumnsKernel final : public NamedKernel {
    ConvInfo info_;
    Isa isa_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    ColumnsIsa const& functions() const { return isa_ == Isa::Avx512 ? columns_avx512() : columns_avx2(); }

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = merged_conv_geometry(info_, args);
        if (!g) return g;
        auto bytes = ColumnsTask::copy_floats(*g, functions()) * int64_t{sizeof(float)};
        if (bytes > kMostCopied)
            return Err{Rejection{"is for windows whose rows take up to " + std::to_string(kMostCopied) +
                                 " bytes, got " + std::to_string(bytes)}};
        return g;
    }

public:
    ColumnsKernel(std::string id, ConvInfo info, Isa isa, std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa), weights_(std::move(weights)) {}

    /// A vector of X is loaded for each multiply-add of one output, of which every other load takes two lines; sums
    /// that are fewer than the latency hides wait for each other, and 16 registers leave room for few.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        auto const& isa = functions();
        Channels const channels(*g);
        auto outputs = channels.out, vectors = ceil_div(g->out[2], isa.width);
        auto sums = static_cast<double>(outputs * std::min<int64_t>(vectors, isa.vectors[outputs - 1]));
        auto speed = std::min({isa.width == 16 ? 0.8 : 0.65, 0.35 + 0.15 * static_cast<double>(outputs), sums / 8});
        auto rows = static_cast<double>(g->batch * g->group * g->out[0] * g->out[1]);
        auto products = static_cast<double>(vectors * outputs * channels.in * g->taps());
        auto bytes = 4 * static_cast<double>(args.inputs[0]->stored_count() + args.outputs[0]->stored_count());
        auto tiles = rows * static_cast<double>(ceil_div(vectors, isa.vectors[outputs - 1]));
        return (rows * products / speed * 2 * isa.width / cost.flops + kTile * tiles + copying(*g) +
                bytes / (cost.bandwidth(bytes) * 2)) /
               cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        std::shared_ptr<mem_manager::Blob const> packed;
        if (weights_) {
            auto floats = Channels(*g).in * g->taps() * g->out_channels;
            auto format = "columns:g" + std::to_string(g->group);
            packed = args.packs.get(*weights_, format, static_cast<size_t>(floats) * sizeof(float),
                                    [&](void const* from, void* to) {
                                        pack(static_cast<float const*>(from), *g, static_cast<float*>(to));
                                    });
        }
        return std::unique_ptr<runtime::Task>(
            std::make_unique<ColumnsTask>(*g, info_.epilogue, functions(), std::move(packed), args.threads));
    }
};

KernelResult make(ConvInfo const& info, Request const& request, Isa isa, std::string id) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    if (x.layout != Layout::Plain || y.layout != Layout::Plain)
        return Err{Rejection{"expects X and Y in the Plain layout"}};
    if (info.epilogue.residual) return Err{Rejection{"is for no residual"}};
    auto outputs = w.dims[0] / info.group;
    auto most = (isa == Isa::Avx512 ? columns_avx512() : columns_avx2()).outputs;
    if (outputs < 1 || outputs > most)
        return Err{Rejection{"is for 1 to " + std::to_string(most) + " output channels in a group, got " +
                             std::to_string(outputs)}};
    return std::unique_ptr<Kernel>(std::make_unique<ColumnsKernel>(std::move(id), info, isa, w.constant));
}

}  // namespace

KernelResult conv_columns_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:columns:f32:avx512");
}
KernelResult conv_columns_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:columns:f32:avx2");
}

}  // namespace refactor::kernel
