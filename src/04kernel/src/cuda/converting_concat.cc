#include "cuda/converting_concat.h"

#include "cuda/converting.h"
#include "movement/row_pieces.h"

namespace refactor::kernel::cuda {

namespace {

// The whole is in memory once for each output.
constexpr char const* kBody = R"cuda(
struct rg_join_args {
    rg_u64 pieces[kPieces], wholes[kWholes], count;
    rg_axis width;
    rg_u64 row, first, begin[kPieces + 1];
};
RG_GLOBAL rg_join(RG_ARGUMENT rg_join_args a) {
    RG_WAIT();
    rg_for_items<4, Run>((Index)a.count, [&](Index row) {
        Index column = rg_split(row, a.width);
        int piece = 0;
#pragma unroll
        for (int half = kPieces / 2; half > 0; half /= 2)
            if (column >= (Index)a.begin[piece + half]) piece += half;
        Index begin = (Index)a.begin[piece], width = (Index)a.begin[piece + 1] - begin;
        return rg_read(a.pieces[piece], row * width + column - begin, (unsigned)(kTypes >> 2 * piece) & 3u);
    }, [&](Index row, Run run) {
        Index column = rg_split(row, a.width), at = row * (Index)a.row + (Index)a.first + column;
        rg_write<kFirst>(a.wholes[0], at, run);
        if (kWholes > 1) rg_write<kSecond>(a.wholes[kWholes - 1], at, run);
    });
}
)cuda";

/// Pieces of one launch, whose types fit one word.
constexpr size_t kMostPieces = 32;

/// Pieces [first, last) of the rows, in runs of `run` elements.
GeneratedLaunch launch_of(movement::RowPieces const& rows, size_t first, size_t last, int64_t run, BindArgs const& args,
                          Code const& code) {
    auto capacity = std::bit_ceil(last - first), wholes = args.outputs.size();
    auto base = rows.begin[first], width = (rows.begin[last] - base) / run, row = rows.row_bytes / run;
    GeneratedLaunch launch;
    uint64_t types = 0;
    for (size_t i = 0; i < capacity; ++i) {
        auto piece = std::min(first + i, last - 1);
        types |= converting_number(args.inputs[piece]->dtype).value_or(0) << 2 * i;
        launch.on({static_cast<int>(piece)});
    }
    for (size_t i = 0; i < wholes; ++i) launch.on({static_cast<int>(args.inputs.size() + i)});
    auto kind = index_kind(rows.rows * row < kNarrow) + constant_kind("kRun", run) +
                constant_kind("kPieces", static_cast<int64_t>(capacity)) + outputs_kind(args) +
                "constexpr rg_u64 kTypes = " + std::to_string(types) + "ull;\n";
    static auto const body = std::string(kConverting) + kBody;
    launch.function = code.function("rg_join", kind, body.c_str());
    launch.blocks = blocks_for(rows.rows * width, 4 * int64_t{kBlockThreads});
    launch.add(rows.rows * width), launch.add_axis(width), launch.add(row), launch.add(base / run);
    for (size_t i = 0; i <= capacity; ++i) launch.add((rows.begin[std::min(first + i, last)] - base) / run);
    return launch;
}

Result<Launches, Rejection> bind(ConcatInfo const& info, BindArgs const& args, Code const& code) {
    // Sizes are counted in elements, whatever their types.
    auto counted = [](TensorDesc const& desc) {
        auto as_bytes = desc;
        as_bytes.dtype = DataType::U8;
        return as_bytes;
    };
    std::vector<TensorDesc> descs;
    for (auto const* input : args.inputs) descs.push_back(counted(*input));
    std::vector<TensorDesc const*> pieces;
    for (auto const& desc : descs) pieces.push_back(&desc);
    for (auto const* output : args.outputs)
        if (output->dims != args.outputs[0]->dims) return Err{Rejection{"outputs of different shapes"}};
    auto rows = movement::RowPieces::make(counted(*args.outputs[0]), pieces, info.axis);
    if (!rows) return Err{rows.error()};
    auto run = kWidestRun;
    for (auto begin : rows->begin)
        while (begin % run) run /= 2;
    Launches launches;
    for (size_t first = 0; first < pieces.size(); first += kMostPieces)
        launches.list.push_back(launch_of(*rows, first, std::min(pieces.size(), first + kMostPieces), run, args, code));
    return launches;
}

}  // namespace

movement::KernelResult converting_concat(ConcatInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (auto no = refuse_converting(request)) return Err{*no};
    return std::unique_ptr<Kernel>(std::make_unique<LaunchKernel<ConcatInfo, Code>>(
        info, id_of("concat", "converting", request.outputs[0].dtype), nullptr, bind, *library));
}

}  // namespace refactor::kernel::cuda
