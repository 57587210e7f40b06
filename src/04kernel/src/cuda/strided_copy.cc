// Transpose, Slice, Expand and Tile: the output in order, the input by one step for each axis.
#include "cuda/converting.h"
#include "cuda/movement_kernels.h"
#include "expand/expand.h"
#include "slice/slice.h"
#include "transpose/transpose.h"

namespace refactor::kernel::cuda {

using movement::strides_of;

namespace {

constexpr char const* kCopyBody = R"cuda(
struct rg_copy_args { rg_u64 x, y, count, offset; rg_axis sizes[kRank]; rg_u64 steps[kRank]; };
RG_GLOBAL rg_strided_copy(rg_copy_args a) {
    RG_WAIT();
    Word const* x = (Word const*)a.x;
    Word* y = (Word*)a.y;
    rg_for_items<kItems, Word>((Index)a.count, [&](Index rest) {
        Index from = (Index)a.offset;
#pragma unroll
        for (int axis = kRank - 1; axis > 0; --axis) from += rg_split(rest, a.sizes[axis]) * (Index)a.steps[axis];
        return x[from + rest * (Index)a.steps[0]];
    }, [&](Index i, Word word) { y[i] = word; });
}
)cuda";

// Squares through shared memory: read along the axis that is contiguous in the input, written along the output's last.
constexpr char const* kSquareBody = R"cuda(
struct rg_square_args {
    rg_u64 x, y, offset, squares, read_size, read_to, write_size, write_from;
    rg_axis write_squares, read_squares, sizes[kRank];
    rg_u64 from[kRank], to[kRank];
};
RG_GLOBAL rg_transpose_squares(rg_square_args a) {
    RG_WAIT();
    __shared__ Word square[kSide][kSide + kPadding];
    Word const* x = (Word const*)a.x;
    Word* y = (Word*)a.y;
    const int lane = threadIdx.x % kSide, line = threadIdx.x / kSide, lines = 256 / kSide;
    for (Index s = blockIdx.x; s < (Index)a.squares; s += gridDim.x) {
        Index rest = s, column = rg_split(rest, a.write_squares) * kSide, row = rg_split(rest, a.read_squares) * kSide;
        Index from = (Index)a.offset, to = 0;
#pragma unroll
        for (int axis = kRank - 1; axis >= 0; --axis) {
            Index at = rg_split(rest, a.sizes[axis]);
            from += at * (Index)a.from[axis], to += at * (Index)a.to[axis];
        }
        const Index rows = rg_least((Index)a.read_size - row, (Index)kSide);
        const Index columns = rg_least((Index)a.write_size - column, (Index)kSide);
        from += row + lane + (column + line) * (Index)a.write_from;
        to += column + lane + (row + line) * (Index)a.read_to;
#pragma unroll
        for (int k = 0; k < kSide; k += lines)
            if (lane < rows && line + k < columns) square[line + k][lane] = x[from + k * (Index)a.write_from];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kSide; k += lines)
            if (lane < columns && line + k < rows) y[to + k * (Index)a.read_to] = square[lane][line + k];
        __syncthreads();
    }
}
)cuda";

constexpr char const* kConvertBody = R"cuda(
struct rg_convert_args { rg_u64 x, y[kWholes], count; rg_axis sizes[kRank]; rg_u64 steps[kRank]; };
RG_GLOBAL rg_strided_convert(rg_convert_args a) {
    RG_WAIT();
    rg_for_items<4, Run>((Index)a.count, [&](Index rest) {
        Index from = 0;
#pragma unroll
        for (int axis = kRank - 1; axis > 0; --axis) from += rg_split(rest, a.sizes[axis]) * (Index)a.steps[axis];
        return rg_read(a.x, from + rest * (Index)a.steps[0], kRead);
    }, [&](Index i, Run run) {
        rg_write<kFirst>(a.y[0], i, run);
        if (kWholes > 1) rg_write<kSecond>(a.y[kWholes - 1], i, run);
    });
}
)cuda";

/// A dense output of these sizes whose elements come from `offset + sum of coordinate * step`.
struct Walk {
    AxisList axes;  ///< steps of the input
    int64_t offset = 0, bytes = 1, input_count = 0;

    int64_t count() const { return element_count(axes.sizes); }
    bool narrow() const { return count() < kNarrow && input_count < kNarrow; }

    /// Whether the output is the input, element by element.
    bool keeps_order() const {
        bool one_run = axes.sizes.empty() || (axes.sizes.size() == 1 && axes.steps[0][0] == 1);
        return one_run && offset == 0 && count() == input_count;
    }

    /// Makes words of elements that always go together.
    void widen() {
        auto& steps = axes.steps[0];
        if (axes.sizes.empty()) axes.sizes = {1}, steps = {0};
        if (steps.back() != 1) return;
        auto width = kWidestBytes / bytes;
        auto fits = [&] {
            bool all = axes.sizes.back() % width == 0 && offset % width == 0;
            for (size_t i = 0; i + 1 < steps.size(); ++i) all = all && steps[i] % width == 0;
            return all;
        };
        while (width > 1 && !fits()) width /= 2;
        if (width <= 1) return;
        axes.sizes.back() /= width, offset /= width, bytes *= width, input_count /= width;
        for (size_t i = 0; i + 1 < steps.size(); ++i) steps[i] /= width;
        if (axes.sizes.back() == 1 && steps.size() > 1) axes.sizes.pop_back(), steps.pop_back();
    }

    /// The axis that is contiguous in the input if squares pay: half of a warp's lanes must have work on both sides.
    size_t square_axis() const {
        constexpr int64_t kLeast = 16;
        auto last = axes.sizes.size() - 1;
        if (axes.steps[0][last] != 1 && axes.sizes[last] >= kLeast)
            for (size_t i = 0; i < last; ++i)
                if (axes.steps[0][i] == 1 && axes.sizes[i] >= kLeast) return i;
        return SIZE_MAX;
    }
};

GeneratedLaunch copy_launch(Walk const& walk, Code const& code) {
    GeneratedLaunch launch;
    auto items = items_of(walk.bytes);
    auto kind = index_kind(walk.narrow()) + word_kind("Word", walk.bytes) +
                constant_kind("kRank", static_cast<int64_t>(walk.axes.sizes.size())) + constant_kind("kItems", items);
    launch.function = code.function("rg_strided_copy", kind, kCopyBody);
    launch.blocks = blocks_for(walk.count(), items * kBlockThreads);
    launch.on({0, 1});
    launch.add(walk.count()), launch.add(walk.offset);
    launch.add_axes(walk.axes.sizes), launch.add_steps(walk.axes.steps[0]);
    return launch;
}

GeneratedLaunch square_launch(Walk const& walk, size_t read, Code const& code) {
    // 64 narrow words of a row are two or four sectors of memory; the padding makes columns hit all banks.
    int64_t const side = walk.bytes < 4 ? 64 : 32, padding = walk.bytes < 4 ? 4 / walk.bytes : 1;
    auto const &sizes = walk.axes.sizes, &from = walk.axes.steps[0];
    auto to = strides_of(sizes);
    auto write = sizes.size() - 1;
    auto squares_of = [&](int64_t size) { return (size + side - 1) / side; };
    Dims outer, outer_from, outer_to;
    for (size_t i = 0; i < write; ++i)
        if (i != read) outer.push_back(sizes[i]), outer_from.push_back(from[i]), outer_to.push_back(to[i]);
    auto squares = element_count(outer) * squares_of(sizes[read]) * squares_of(sizes[write]);
    GeneratedLaunch launch;
    auto kind = index_kind(walk.narrow()) + word_kind("Word", walk.bytes) + constant_kind("kSide", side) +
                constant_kind("kPadding", padding) +
                constant_kind("kRank", std::max<int64_t>(1, static_cast<int64_t>(outer.size())));
    launch.function = code.function("rg_transpose_squares", kind, kSquareBody);
    launch.blocks = blocks_for(squares, 1);
    launch.on({0, 1});
    for (auto word : {walk.offset, squares, sizes[read], to[read], sizes[write], from[write]}) launch.add(word);
    launch.add_axis(squares_of(sizes[write])), launch.add_axis(squares_of(sizes[read]));
    launch.add_axes(outer), launch.add_steps(outer_from), launch.add_steps(outer_to);
    return launch;
}

Launches launches_of(Walk walk, Code const& code) {
    walk.axes.merge();
    if (walk.keeps_order()) {
        Launches nothing;
        nothing.in_place = 1, nothing.copies = true;
        return nothing;
    }
    walk.widen();
    auto read = walk.square_axis();
    return {{read == SIZE_MAX ? copy_launch(walk, code) : square_launch(walk, read, code)}};
}

Walk walk_of(BindArgs const& args) {
    Walk walk;
    walk.bytes = movement::element_bytes(args.outputs[0]->dtype), walk.input_count = args.inputs[0]->count();
    walk.axes.sizes = args.outputs[0]->dims;
    return walk;
}

Result<Launches, Rejection> bind_transpose(TransposeInfo const& info, BindArgs const& args, Code const& code) {
    auto walk = walk_of(args);
    auto strides = strides_of(args.inputs[0]->dims);
    walk.axes.steps.resize(1);
    for (auto axis : info.perm) walk.axes.steps[0].push_back(strides[axis]);
    return launches_of(walk, code);
}

Result<Launches, Rejection> bind_converting_transpose(TransposeInfo const& info, BindArgs const& args,
                                                      Code const& code) {
    auto walk = walk_of(args);
    auto strides = strides_of(args.inputs[0]->dims);
    walk.axes.steps.resize(1);
    for (auto axis : info.perm) walk.axes.steps[0].push_back(strides[axis]);
    walk.axes.merge();
    walk.bytes = kWidestBytes / kWidestRun;
    walk.widen();
    GeneratedLaunch launch;
    auto kind = index_kind(walk.narrow()) + constant_kind("kRun", walk.bytes * kWidestRun / kWidestBytes) +
                constant_kind("kRank", static_cast<int64_t>(walk.axes.sizes.size())) +
                constant_kind("kRead", static_cast<int64_t>(*converting_number(args.inputs[0]->dtype))) +
                outputs_kind(args);
    static auto const body = std::string(kConverting) + kConvertBody;
    launch.function = code.function("rg_strided_convert", kind, body.c_str());
    launch.blocks = blocks_for(walk.count(), 4 * int64_t{kBlockThreads});
    launch.on({0});
    for (size_t i = 0; i < args.outputs.size(); ++i) launch.on({static_cast<int>(1 + i)});
    launch.add(walk.count());
    launch.add_axes(walk.axes.sizes), launch.add_steps(walk.axes.steps[0]);
    return Launches{{launch}};
}

Result<Launches, Rejection> bind_slice(SliceInfo const& info, BindArgs const& args, Code const& code) {
    auto walk = walk_of(args);
    auto strides = strides_of(args.inputs[0]->dims);
    walk.axes.steps.resize(1);
    for (size_t i = 0; i < strides.size(); ++i) {
        walk.offset += args.params[i] * strides[i];
        walk.axes.steps[0].push_back(strides[i] * info.steps[i]);
    }
    return launches_of(walk, code);
}

Result<Launches, Rejection> bind_expand(ExpandInfo const&, BindArgs const& args, Code const& code) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    if (args.outputs[0]->count() == 0) return Launches{};
    auto walk = walk_of(args);
    walk.axes.sizes = {}, walk.axes.steps.resize(1);
    auto strides = strides_of(x);
    auto lead = y.size() - x.size();
    for (size_t i = 0; i < y.size(); ++i) {
        auto size = i < lead ? 1 : x[i - lead];
        walk.axes.sizes.push_back(y[i] / size), walk.axes.steps[0].push_back(0);
        walk.axes.sizes.push_back(size), walk.axes.steps[0].push_back(i < lead ? 0 : strides[i - lead]);
    }
    return launches_of(walk, code);
}

/// Rows stay whole: squares in shared memory, which another last axis needs, are not worth a cast that they save.
KernelResult converting_transpose(TransposeInfo const& info, Request const& request) {
    if (auto no = refuse_converting(request)) return Err{*no};
    if (info.perm.empty() || info.perm.back() + 1 != static_cast<int64_t>(info.perm.size()))
        return Err{Rejection{"perm " + movement::to_string(info.perm) + " moves the last axis of what is converted"}};
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto unconverted = request;
    unconverted.outputs = unconverted.inputs;
    auto on_host = host_request(unconverted);
    if (!on_host) return Err{on_host.error()};
    auto reference = transpose_reference(info, *on_host);
    if (!reference) return Err{reference.error()};
    return std::unique_ptr<Kernel>(std::make_unique<LaunchKernel<TransposeInfo, Code>>(
        info, id_of("transpose", "converting", request.outputs[0].dtype), std::move(reference).value(),
        bind_converting_transpose, *library));
}

}  // namespace

KernelResult transpose_nvrtc(TransposeInfo const& info, Request const& request) {
    if (request.outputs.size() > 1 || request.inputs[0].dtype != request.outputs[0].dtype)
        return converting_transpose(info, request);
    return generate(info, "transpose", request, transpose_reference, bind_transpose);
}
KernelResult slice_nvrtc(SliceInfo const& info, Request const& request) {
    return generate(info, "slice", request, slice_reference, bind_slice);
}
KernelResult expand_nvrtc(ExpandInfo const& info, Request const& request) {
    return generate(info, "expand", request, expand_reference, bind_expand);
}

}  // namespace refactor::kernel::cuda
