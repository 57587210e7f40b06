#include "resize/axis_taps.h"
#include "resize/resize.h"

/// Resize of the last two (spatial) axes: planes of pixels, a pixel being an element or the channels of a block.
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
void pick_row(AxisTaps const& columns, int64_t pixel, std::byte const* x, std::byte* y) {
    switch (pixel) {
        case 1:
            return pick_row<1>(columns, x, y);
        case 2:
            return pick_row<2>(columns, x, y);
        case 4:
            return pick_row<4>(columns, x, y);
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

/// Output rows that show the same input row are copied from the first one.
void nearest_rows(Planes const& p, std::byte const* x, std::byte* y, int64_t begin, int64_t end) {
    auto row_bytes = p.out_row();
    for (auto row = begin; row < end; ++row) {
        auto plane = row / p.rows.out, o = row % p.rows.out;
        auto* to = y + row * row_bytes;
        if (row > begin && o > 0 && p.rows.index[o] == p.rows.index[o - 1])
            std::memcpy(to, to - row_bytes, row_bytes);
        else
            pick_row(p.columns, p.pixel, x + plane * p.in_bytes() + p.rows.index[o] * p.columns.in * p.pixel, to);
    }
}

TaskResult bind_nearest(ResizeInfo const& info, BindArgs const& args, Isa) {
    auto planes = planes_of(info, args);
    if (!planes) return Err{planes.error()};
    return make_task([p = std::move(*planes)](void* const* a, runtime::RunContext const& c) {
        auto count = p.planes * p.rows.out;
        parallel_bytes(c.pool, count, count * p.out_row(), [&](int64_t begin, int64_t end) {
            nearest_rows(p, static_cast<std::byte const*>(a[0]), static_cast<std::byte*>(a[p.output]), begin, end);
        });
    });
}

/// Output rows made of input rows, which are resampled along the row when the first output row needs them and kept
/// until others take their place.
struct Interpolation {
    Planes planes;
    ResizeFunctions const& functions;
    int64_t pixel;  ///< floats

    int64_t in_row() const { return planes.columns.in * pixel; }
    int64_t out_row() const { return planes.columns.out * pixel; }
    size_t scratch_bytes() const {
        auto taps = static_cast<size_t>(planes.rows.taps);
        auto bytes = taps * (static_cast<size_t>(out_row()) * 4 + sizeof(float*) + sizeof(int64_t) + 4);
        return (bytes + 63) / 64 * 64;
    }

    void run(float const* x, float* y, std::byte* scratch, int64_t begin, int64_t end) const {
        auto taps = planes.rows.taps, in = planes.rows.in;
        auto** used = reinterpret_cast<float const**>(scratch);
        auto* held = reinterpret_cast<int64_t*>(used + taps);
        auto* weights = reinterpret_cast<float*>(held + taps);
        auto* rows = weights + taps;
        auto pass = planes.columns.pass(pixel);
        std::fill_n(held, taps, -1);
        for (auto row = begin; row < end; ++row) {
            auto plane = row / planes.rows.out, o = row % planes.rows.out;
            int count = 0;
            for (auto k = o * taps; k < (o + 1) * taps; ++k) {
                if (planes.rows.weight[k] == 0) continue;
                // Taps that are not clamped are next to each other: no two of them share a place.
                auto from = plane * in + planes.rows.index[k], place = planes.rows.index[k] % taps;
                auto* kept = rows + place * out_row();
                if (held[place] != from) functions.resize(pass, x + from * in_row(), kept, 0, planes.columns.out);
                held[place] = from, used[count] = kept, weights[count++] = planes.rows.weight[k];
            }
            if (count > 0)
                functions.blend(count, used, weights, y + row * out_row(), out_row());
            else
                std::fill_n(y + row * out_row(), out_row(), 0.f);
        }
    }
};

TaskResult bind_planes(ResizeInfo const& info, BindArgs const& args, Isa isa) {
    auto planes = planes_of(info, args);
    if (!planes) return Err{planes.error()};
    auto pixel = planes->pixel / 4;
    Interpolation all{std::move(*planes), resize_functions_of(isa), pixel};
    auto scratch = all.scratch_bytes();
    auto body = [all = std::move(all), scratch](void* const* a, runtime::RunContext const& c) {
        auto* x = static_cast<float const*>(a[0]);
        auto* y = static_cast<float*>(a[all.planes.output]);
        auto count = all.planes.planes * all.planes.rows.out, bytes = count * all.planes.out_row();
        auto run = [&](int64_t begin, int64_t end, int worker) {
            all.run(x, y, c.workspace + static_cast<size_t>(worker) * scratch, begin, end);
        };
        if (bytes < 128 << 10 || c.pool.threads() == 1 || count == 1) return run(0, count, 0);
        auto chunks = std::min<int64_t>(count, int64_t{4} * c.pool.threads());
        c.pool.parallel_for(chunks,
                            [&](int64_t i, int worker) { run(count * i / chunks, count * (i + 1) / chunks, worker); });
    };
    return make_task(std::move(body), 0, scratch * static_cast<size_t>(args.threads));
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
    if (request.inputs[0].dtype != DataType::F32)
        return Err{Rejection{"dtype " + std::string(name_of(request.inputs[0].dtype)) + ", expected f32"}};
    return make_kernel(info, "resize", "planes", request, bind_planes);
}

}  // namespace refactor::kernel
