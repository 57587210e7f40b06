#include "resize/axis_taps.h"
#include "resize/resize.h"
#include "resize/resize_narrow.h"

/// Resize by neighbours along any axes, and by interpolation along the last two (spatial) ones: planes of pixels, a
/// pixel being an element or the channels of a block.
namespace refactor::kernel {

using namespace movement;

namespace {

struct Planes {
    AxisTaps rows, columns;
    int64_t planes = 1, pixel = 0;  ///< bytes of a pixel
    size_t output = 1;
    int64_t in_bytes() const { return rows.in * columns.in * pixel; }
    int64_t out_row() const { return columns.out * pixel; }
};

Result<Planes, Rejection> planes_of(ResizeInfo const& info, BindArgs const& args) {
    if (auto no = refuse_resize_shapes(info, args)) return Err{*no};
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    auto rank = x.size(), lead = rank < 2 ? rank : rank - 2;
    auto block = block_of(args.inputs[0]->layout);
    if (rank < 2 || (block > 1 && rank != 4)) return Err{Rejection{"rank " + std::to_string(rank)}};
    for (size_t i = 0; i < lead; ++i)
        if (x[i] != y[i] || (!info.scales.empty() && info.scales[i] != 1.f))
            return Err{Rejection{"input " + to_string(x) + " and output " + to_string(y) +
                                 ", expected equal sizes but for the last two"}};
    Planes p;
    for (size_t i = 0; i < lead; ++i) p.planes *= block > 1 && i == 1 ? (x[1] + block - 1) / block : x[i];
    p.rows = AxisTaps::make(info, rank - 2, rank, x[rank - 2], y[rank - 2]);
    p.columns = AxisTaps::make(info, rank - 1, rank, x[rank - 1], y[rank - 1]);
    p.pixel = block * element_bytes(args.inputs[0]->dtype);
    p.output = args.inputs.size();
    return p;
}

/// Copies whole pixels of `kBytes` along a row.
template <int64_t kBytes>
void pick_row(AxisTaps const& columns, std::byte const* x, std::byte* y) {
    for (int64_t o = 0; o < columns.out; ++o) std::memcpy(y + o * kBytes, x + columns.index[o] * kBytes, kBytes);
}
void pick_row(AxisTaps const& columns, int64_t pixel, ResizeFunctions const& functions, std::byte const* x,
              std::byte* y) {
    switch (pixel) {
        case 1:
            return pick_row<1>(columns, x, y);
        case 2:
            return pick_row<2>(columns, x, y);
        case 4:
            return functions.pick(columns.index.data(), columns.out, reinterpret_cast<uint32_t const*>(x), columns.in,
                                  reinterpret_cast<uint32_t*>(y));
        case 8:
            return pick_row<8>(columns, x, y);
        case 32:
            return pick_row<32>(columns, x, y);
        case 64:
            return pick_row<64>(columns, x, y);
        default:
            for (int64_t o = 0; o < columns.out; ++o) std::memcpy(y + o * pixel, x + columns.index[o] * pixel, pixel);
    }
}

/// Each element twice, as one of twice the width.
template <class Wide>
void double_row(int64_t count, std::byte const* x, std::byte* y) {
    constexpr auto kBytes = sizeof(Wide) / 2;
    for (int64_t i = 0; i < count; ++i) {
        Wide value = 0;
        std::memcpy(&value, x + i * kBytes, kBytes);
        value = static_cast<Wide>(value | value << 8 * kBytes);
        std::memcpy(y + i * sizeof value, &value, sizeof value);
    }
}

/// Neighbours along any axes: rows of pixels, a pixel being what lies behind the last axis that changes.
struct Neighbours {
    std::vector<AxisTaps> outer;  ///< axes around the rows; those in front that do not change are one
    Dims steps;                   ///< of the input along them, in bytes
    AxisTaps columns;
    int64_t rows = 1, pixel;
    size_t output;
    ResizeFunctions const& functions;
    bool doubles;  ///< a row shows each pixel of 1, 2 or 4 bytes twice

    static bool is_identity(AxisTaps const& axis) {
        if (axis.in != axis.out) return false;
        for (int64_t o = 0; o < axis.out; ++o)
            if (axis.index[o] != o) return false;
        return true;
    }
    static AxisTaps unchanged(int64_t size) {
        AxisTaps axis;
        axis.in = axis.out = size;
        for (int64_t i = 0; i < size; ++i) axis.index.push_back(static_cast<int32_t>(i));
        return axis;
    }

    /// Pixels of a row that costs more than they do, and of the longest that is made of short ones: their indices stay
    /// in L2.
    static constexpr int64_t kShortRow = 32, kLongestRow = 32 << 10;
    static AxisTaps joined(AxisTaps const& rows, AxisTaps const& columns) {
        AxisTaps all;
        all.in = rows.in * columns.in, all.out = rows.out * columns.out;
        for (auto row : rows.index)
            for (auto column : columns.index) all.index.push_back(static_cast<int32_t>(row * columns.in + column));
        return all;
    }

    Neighbours(std::vector<AxisTaps> axes, int64_t element, size_t output_, Isa isa)
        : pixel(element), output(output_), functions(resize_functions_of(isa)) {
        while (!axes.empty() && is_identity(axes.back())) pixel *= axes.back().out, axes.pop_back();
        columns = axes.empty() ? unchanged(1) : std::move(axes.back());
        if (!axes.empty()) axes.pop_back();
        while (!axes.empty() && !is_identity(axes.back()) && columns.out < kShortRow &&
               axes.back().out * columns.out <= kLongestRow)
            columns = joined(axes.back(), columns), axes.pop_back();
        size_t front = 0;
        int64_t planes = 1;
        while (front < axes.size() && is_identity(axes[front])) planes *= axes[front++].out;
        if (front > 0) outer.push_back(unchanged(planes));
        for (; front < axes.size(); ++front) outer.push_back(std::move(axes[front]));
        steps.resize(outer.size());
        auto step = columns.in * pixel;
        for (auto i = outer.size(); i-- > 0; step *= outer[i].in) steps[i] = step, rows *= outer[i].out;
        doubles = columns.out == 2 * columns.in && (pixel == 1 || pixel == 2 || pixel == 4);
        for (int64_t o = 0; doubles && o < columns.out; ++o) doubles = columns.index[o] == o / 2;
    }

    int64_t out_row() const { return columns.out * pixel; }

    void fill_row(std::byte const* x, std::byte* y) const {
        if (!doubles) return pick_row(columns, pixel, functions, x, y);
        if (pixel == 1) return double_row<uint16_t>(columns.in, x, y);
        if (pixel == 2) return double_row<uint32_t>(columns.in, x, y);
        double_row<uint64_t>(columns.in, x, y);
    }

    /// Output rows that show the input row of the one before are copied from that.
    void run(std::byte const* x, std::byte* y, int64_t begin, int64_t end) const {
        Dims at(outer.size());
        auto rest = begin;
        for (auto i = at.size(); i-- > 0; rest /= outer[i].out) at[i] = rest % outer[i].out;
        std::byte const* before = nullptr;
        for (auto row = begin; row < end; ++row) {
            auto* from = x;
            auto* to = y + row * out_row();
            for (size_t i = 0; i < at.size(); ++i) from += outer[i].index[at[i]] * steps[i];
            if (from == before)
                std::memcpy(to, to - out_row(), out_row());
            else
                fill_row(from, to);
            before = from;
            for (auto i = at.size(); i-- > 0 && ++at[i] == outer[i].out;) at[i] = 0;
        }
    }
};

TaskResult bind_nearest(ResizeInfo const& info, BindArgs const& args, Isa isa) {
    auto axes = axes_of(info, args);
    if (!axes) return Err{axes.error()};
    Neighbours all(std::move(*axes), element_bytes(args.inputs[0]->dtype), args.inputs.size(), isa);
    return make_task([all = std::move(all)](void* const* a, runtime::RunContext const& c) {
        parallel_bytes(c.pool, all.rows, all.rows * all.out_row(), [&](int64_t begin, int64_t end) {
            all.run(static_cast<std::byte const*>(a[0]), static_cast<std::byte*>(a[all.output]), begin, end);
        });
    });
}

/// Output rows made of input rows, which are resampled along the row when the first output row needs them and kept
/// until others take their place.
struct Interpolation {
    Planes planes;
    ResizeFunctions const& functions;
    int64_t pixel;  ///< elements
    bool is_bf16;   ///< on both sides, not f32

    int64_t in_row() const { return planes.columns.in * pixel; }
    int64_t out_row() const { return planes.columns.out * pixel; }
    size_t scratch_bytes() const {
        auto taps = static_cast<size_t>(planes.rows.taps);
        auto bytes = taps * (static_cast<size_t>(out_row()) * 4 + sizeof(float*) + sizeof(int64_t) + 4);
        if (is_bf16) bytes += static_cast<size_t>(in_row() + out_row()) * 4;
        return (bytes + 63) / 64 * 64;
    }

    /// A row of the input along its columns; `wide` is memory for the row as f32.
    void resample(void const* x, int64_t row, float* wide, float* y) const {
        auto pass = planes.columns.pass(pixel);
        if (!is_bf16) return functions.resize(pass, static_cast<float const*>(x) + row * in_row(), y, 0, pass.out);
        functions.widen(static_cast<uint16_t const*>(x) + row * in_row(), wide, in_row());
        functions.resize(pass, wide, y, 0, pass.out);
    }

    /// Row at `offset` of the output; `sum` is memory for it as f32.
    void blend(int count, float const* const* rows, float const* weights, float* sum, void* y, int64_t offset) const {
        auto size = out_row(), bytes = int64_t{is_bf16 ? 2 : 4};
        auto* to = static_cast<std::byte*>(y) + offset * bytes;
        if (count == 0)
            std::memset(to, 0, static_cast<size_t>(size * bytes));
        else if (is_bf16)
            functions.blend_narrow(count, rows, weights, sum, reinterpret_cast<uint16_t*>(to), size);
        else
            functions.blend(count, rows, weights, reinterpret_cast<float*>(to), size);
    }

    void run(void const* x, void* y, std::byte* scratch, int64_t begin, int64_t end) const {
        auto taps = planes.rows.taps, in = planes.rows.in;
        auto** used = reinterpret_cast<float const**>(scratch);
        auto* held = reinterpret_cast<int64_t*>(used + taps);
        auto* weights = reinterpret_cast<float*>(held + taps);
        auto *rows = weights + taps, *mixed = rows + taps * out_row(), *wide = mixed + out_row();
        std::fill_n(held, taps, -1);
        for (auto row = begin; row < end; ++row) {
            auto plane = row / planes.rows.out, o = row % planes.rows.out;
            int count = 0;
            for (auto k = o * taps; k < (o + 1) * taps; ++k) {
                if (planes.rows.weight[k] == 0) continue;
                // Taps that are not clamped are next to each other: no two of them share a place.
                auto from = plane * in + planes.rows.index[k], place = planes.rows.index[k] % taps;
                auto* kept = rows + place * out_row();
                if (held[place] != from) resample(x, from, wide, kept);
                held[place] = from, used[count] = kept, weights[count++] = planes.rows.weight[k];
            }
            blend(count, used, weights, mixed, y, row * out_row());
        }
    }
};

TaskResult bind_planes(ResizeInfo const& info, BindArgs const& args, Isa isa) {
    auto planes = planes_of(info, args);
    if (!planes) return Err{planes.error()};
    auto type = args.inputs[0]->dtype;
    if (type == DataType::F32 && planes->pixel == 4 && is_narrow_resize(planes->rows, planes->columns))
        return resize_narrow(planes->rows, std::move(planes->columns), planes->planes, planes->output, isa);
    auto pixel = planes->pixel / element_bytes(type);
    Interpolation all{std::move(*planes), resize_functions_of(isa), pixel, type == DataType::BF16};
    auto scratch = all.scratch_bytes();
    auto body = [all = std::move(all)](void* const* a, runtime::RunContext const& c) {
        auto count = all.planes.planes * all.planes.rows.out, bytes = count * all.planes.out_row();
        auto run = [&](int64_t begin, int64_t end, int worker) {
            all.run(a[0], a[all.planes.output], c.scratch_of(worker), begin, end);
        };
        if (bytes < 128 << 10 || c.pool.threads() == 1 || count == 1) return run(0, count, 0);
        auto chunks = std::min<int64_t>(count, int64_t{4} * c.pool.threads());
        c.pool.parallel_for(chunks,
                            [&](int64_t i, int worker) { run(count * i / chunks, count * (i + 1) / chunks, worker); });
    };
    return make_task(std::move(body), 0, 0, scratch);
}

std::optional<Rejection> refuse_planes(ResizeInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.blocked = true})) return no;
    if (info.coordinates == ResizeCoordinates::TfCropAndResize) return Rejection{"tf_crop_and_resize"};
    if (request.inputs[0].layout != request.outputs[0].layout) return Rejection{"operands of different layouts"};
    return std::nullopt;
}

}  // namespace

KernelResult resize_nearest(ResizeInfo const& info, Request const& request) {
    if (auto no = refuse_planes(info, request)) return Err{*no};
    if (info.mode != ResizeMode::Nearest) return Err{Rejection{"interpolates"}};
    return make_kernel(info, "resize", "nearest", request, bind_nearest);
}

KernelResult resize_planes(ResizeInfo const& info, Request const& request) {
    if (auto no = refuse_planes(info, request)) return Err{*no};
    if (info.mode == ResizeMode::Nearest) return Err{Rejection{"picks neighbours"}};
    if (auto type = request.inputs[0].dtype; type != DataType::F32 && type != DataType::BF16)
        return Err{Rejection{"dtype " + std::string(name_of(type)) + ", expected f32 or bf16"}};
    return make_kernel(info, "resize", "planes", request, bind_planes);
}

}  // namespace refactor::kernel
