// Concat and Split: rows of a whole tensor, each made of one run of every piece.
#include "concat/concat.h"
#include "cuda/converting_concat.h"
#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "movement/row_pieces.h"
#include "split/split.h"

namespace refactor::kernel::cuda {

namespace {

constexpr char const* kPiecesBody = R"cuda(
struct rg_pieces_args {
    rg_u64 whole, pieces[kPieces], count;
    rg_axis width;
    rg_u64 row, first, begin[kPieces + 1];
};
RG_GLOBAL rg_pieces(RG_ARGUMENT rg_pieces_args a) {
    RG_WAIT();
    Word* whole = (Word*)a.whole;
    auto in_piece = [&](Index row, Index column) {
        int piece = 0;
#pragma unroll
        for (int half = kPieces / 2; half > 0; half /= 2)
            if (column >= (Index)a.begin[piece + half]) piece += half;
        Index begin = (Index)a.begin[piece], width = (Index)a.begin[piece + 1] - begin;
        return (Word*)a.pieces[piece] + row * width + column - begin;
    };
    rg_for_items<kItems, Word>((Index)a.count, [&](Index row) {
        Index column = rg_split(row, a.width);
        return kJoins ? *in_piece(row, column) : whole[row * (Index)a.row + (Index)a.first + column];
    }, [&](Index row, Word word) {
        Index column = rg_split(row, a.width);
        if (kJoins) whole[row * (Index)a.row + (Index)a.first + column] = word;
        else *in_piece(row, column) = word;
    });
}
)cuda";

/// Pieces of one launch: with the beginnings of their runs they stay below the limit of an argument.
constexpr size_t kMostPieces = 128;

/// Pieces [first, last) of the rows, in words of `bytes`.
GeneratedLaunch pieces_launch(movement::RowPieces const& rows, size_t first, size_t last, int64_t bytes, bool joins,
                              int16_t whole, int16_t piece, Code const& code) {
    auto capacity = std::bit_ceil(last - first);
    auto base = rows.begin[first], width = (rows.begin[last] - base) / bytes, row = rows.row_bytes / bytes;
    GeneratedLaunch launch;
    auto items = items_of(bytes);
    auto kind = index_kind(rows.rows * row < kNarrow) + word_kind("Word", bytes) +
                constant_kind("kPieces", static_cast<int64_t>(capacity)) + constant_kind("kItems", items) +
                constant_kind("kJoins", joins);
    launch.function = code.function("rg_pieces", kind, kPiecesBody);
    launch.blocks = blocks_for(rows.rows * width, items * kBlockThreads);
    launch.on({whole});
    for (size_t i = 0; i < capacity; ++i) launch.on({piece + static_cast<int>(std::min(first + i, last - 1))});
    launch.add(rows.rows * width), launch.add_axis(width), launch.add(row), launch.add(base / bytes);
    for (size_t i = 0; i <= capacity; ++i) launch.add((rows.begin[std::min(first + i, last)] - base) / bytes);
    return launch;
}

Result<Launches, Rejection> bind_pieces(TensorDesc const& whole, std::span<TensorDesc const* const> pieces,
                                        int64_t axis, bool joins, Code const& code) {
    auto rows = movement::RowPieces::make(whole, pieces, axis);
    if (!rows) return Err{rows.error()};
    auto bytes = kWidestBytes;
    for (auto begin : rows->begin)
        while (begin % bytes) bytes /= 2;
    auto count = pieces.size();
    Launches launches;
    for (size_t first = 0; first < count; first += kMostPieces)
        launches.list.push_back(pieces_launch(*rows, first, std::min(count, first + kMostPieces), bytes, joins,
                                              joins ? static_cast<int>(count) : 0, joins ? 0 : 1, code));
    return launches;
}

Result<Launches, Rejection> bind_concat(ConcatInfo const& info, BindArgs const& args, Code const& code) {
    return bind_pieces(*args.outputs[0], args.inputs, info.axis, true, code);
}
Result<Launches, Rejection> bind_split(SplitInfo const& info, BindArgs const& args, Code const& code) {
    return bind_pieces(*args.inputs[0], args.outputs, info.axis, false, code);
}

}  // namespace

KernelResult concat_nvrtc(ConcatInfo const& info, Request const& request) {
    bool alike = request.outputs.size() == 1;
    for (auto const& piece : request.inputs) alike &= piece.dtype == request.outputs[0].dtype;
    if (!alike) return converting_concat(info, request);
    return generate(info, "concat", request, concat_reference, bind_concat);
}
KernelResult split_nvrtc(SplitInfo const& info, Request const& request) {
    return generate(info, "split", request, split_reference, bind_split);
}

}  // namespace refactor::kernel::cuda
