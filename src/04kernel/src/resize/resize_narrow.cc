#include "resize/resize_narrow.h"

#include "movement/strided_copy.h"

namespace refactor::kernel {

using namespace movement;

namespace {

constexpr int64_t kFloat = sizeof(float), kLine = 16;  // floats of a cache line
/// Floats of a strip of a turned image, before and after: half of L2 of 512 KiB.
constexpr int64_t kMostOfStrip = 64 << 10, kLeastRows = 64;

/// Elements of a turned row: whole lines, of which not all begin in the same set of the caches.
int64_t pitch_of(int64_t elements) { return (elements + kLine - 1) / kLine * kLine + kLine; }

/// Rows [begin, begin + rows.out) of the output, made of those of the input from `first` on.
struct Strip {
    int64_t begin, first;
    AxisTaps rows;
};

struct NarrowResize {
    std::vector<Strip> strips;
    AxisTaps columns;
    int64_t planes, in_rows, out_rows;
    ResizeFunctions const& functions;
    Isa isa;
    int64_t in_pitch = 0, out_pitch = 0;  ///< the longest of all strips
    std::vector<uint8_t> used;            ///< columns of the input

    /// Columns are mixed before rows are if that leaves less of them.
    bool mixes_first() const { return columns.out < columns.in; }
    int64_t mixed_pitch() const { return mixes_first() ? in_pitch : out_pitch; }
    size_t scratch_bytes() const {
        auto between = (mixes_first() ? columns.out : columns.in) * mixed_pitch();
        return static_cast<size_t>(columns.in * in_pitch + between + columns.out * out_pitch) * kFloat;
    }

    static void turn(float* to, int64_t to_row, float const* from, int64_t from_row, int64_t rows, int64_t columns,
                     Isa isa) {
        plane_function(kFloat, columns, isa)(reinterpret_cast<std::byte*>(to), to_row * kFloat,
                                             reinterpret_cast<std::byte const*>(from), from_row * kFloat, rows,
                                             columns);
    }

    /// Rows of `x`, one for each column of the input, become those of `y`, one for each of the output.
    void mix(float const* x, float* y, int64_t pitch, int64_t size) const {
        constexpr int kMost = 64;
        float const* rows[kMost];
        float weights[kMost];
        for (int64_t o = 0; o < columns.out; ++o, y += pitch) {
            int count = 0;
            for (auto k = o * columns.taps; k < (o + 1) * columns.taps; ++k)
                if (columns.weight[k] != 0)
                    rows[count] = x + columns.index[k] * pitch, weights[count++] = columns.weight[k];
            if (count == 0)
                std::fill_n(y, size, 0.f);
            else
                functions.blend(count, rows, weights, y, size);
        }
    }

    void run(float const* x, float* y, std::byte* scratch, int64_t unit) const {
        auto plane = unit / std::ssize(strips);
        auto const& strip = strips[static_cast<size_t>(unit % std::ssize(strips))];
        auto const pass = strip.rows.pass(1);
        x += (plane * in_rows + strip.first) * columns.in, y += (plane * out_rows + strip.begin) * columns.out;
        auto* turned = reinterpret_cast<float*>(scratch);
        auto *between = turned + columns.in * in_pitch, *result = scratch_end(between);
        turn(turned, in_pitch, x, columns.in, columns.in, pass.in, isa);
        if (mixes_first()) {
            mix(turned, between, in_pitch, pass.in);
            for (int64_t o = 0; o < columns.out; ++o)
                functions.resize(pass, between + o * in_pitch, result + o * out_pitch, 0, pass.out);
        } else {
            for (int64_t i = 0; i < columns.in; ++i)
                if (used[static_cast<size_t>(i)])
                    functions.resize(pass, turned + i * in_pitch, between + i * out_pitch, 0, pass.out);
            mix(between, result, out_pitch, pass.out);
        }
        turn(y, columns.out, result, out_pitch, pass.out, columns.out, isa);
    }

private:
    float* scratch_end(float* between) const {
        return between + (mixes_first() ? columns.out : columns.in) * mixed_pitch();
    }
};

}  // namespace

bool is_narrow_resize(AxisTaps const& rows, AxisTaps const& columns) {
    constexpr int64_t kMostColumns = 128, kMostTaps = 64;
    return columns.in + columns.out <= kMostColumns && columns.taps <= kMostTaps && rows.out >= 2 * kLine;
}

TaskResult resize_narrow(AxisTaps const& rows, AxisTaps columns, int64_t planes, size_t output, Isa isa) {
    auto size = std::max(columns.in * rows.in, columns.out * rows.out);
    auto count =
        std::clamp<int64_t>((size + kMostOfStrip - 1) / kMostOfStrip, 1, std::max<int64_t>(1, rows.out / kLeastRows));
    NarrowResize all{{}, std::move(columns), planes, rows.in, rows.out, resize_functions_of(isa), isa, 0, 0, {}};
    for (int64_t i = 0; i < count; ++i) {
        Strip strip{rows.out * i / count, 0, {}};
        strip.rows = rows.part(strip.begin, rows.out * (i + 1) / count, strip.first);
        all.in_pitch = std::max(all.in_pitch, pitch_of(strip.rows.in));
        all.out_pitch = std::max(all.out_pitch, pitch_of(strip.rows.out));
        all.strips.push_back(std::move(strip));
    }
    all.used.resize(static_cast<size_t>(all.columns.in));
    for (size_t k = 0; k < all.columns.index.size(); ++k)
        if (all.columns.weight[k] != 0) all.used[static_cast<size_t>(all.columns.index[k])] = 1;
    auto scratch = all.scratch_bytes();
    auto body = [all = std::move(all), output](void* const* a, runtime::RunContext const& c) {
        auto const units = all.planes * std::ssize(all.strips);
        auto run = [&](int64_t begin, int64_t end, int worker) {
            for (auto unit = begin; unit < end; ++unit)
                all.run(static_cast<float const*>(a[0]), static_cast<float*>(a[output]), c.scratch_of(worker), unit);
        };
        auto bytes = all.planes * all.out_rows * all.columns.out * kFloat;
        if (bytes < 64 << 10 || c.pool.threads() == 1 || units == 1) return run(0, units, 0);
        auto chunks = std::min<int64_t>(units, int64_t{4} * c.pool.threads());
        c.pool.parallel_for(chunks,
                            [&](int64_t i, int worker) { run(units * i / chunks, units * (i + 1) / chunks, worker); });
    };
    return make_task(std::move(body), 0, 0, scratch);
}

}  // namespace refactor::kernel
