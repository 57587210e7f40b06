#include "operator_def.h"

#include <algorithm>
#include <numeric>

// Operators that move elements.

namespace refactor::pnnx {

namespace {

void build_permute(Call& c) {
    auto* x = c.tensor("input");
    auto dims = c.integers("dims");
    std::vector<int64_t> perm;
    for (auto dim : dims) perm.push_back(static_cast<int64_t>(c.axis(dim, Call::rank(x))));
    auto sorted = perm;
    std::sort(sorted.begin(), sorted.end());
    bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
    if (perm.size() != Call::rank(x) || twice) refuse_invalid("dims is no permutation of ", Call::rank(x), " axes");
    c.set(c.transpose(x, perm));
}

void build_transpose(Call& c) {
    auto* x = c.tensor("input");
    if (Call::rank(x) == 0) return c.set(x);
    c.set(c.swap_axes(x, c.axis(c.integer("dim0"), Call::rank(x)), c.axis(c.integer("dim1"), Call::rank(x))));
}

void build_t(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 0, 2, "the input");
    c.set(Call::rank(x) < 2 ? x : c.swap_axes(x, 0, 1));
}

/// All axes in reverse order.
void build_reversed(Call& c) {
    auto* x = c.tensor("input");
    std::vector<int64_t> perm(Call::rank(x));
    std::iota(perm.rbegin(), perm.rend(), 0);
    c.set(c.transpose(x, perm));
}

void build_last_transposed(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 2, 64, "the input");
    c.set(c.swap_axes(x, Call::rank(x) - 2, Call::rank(x) - 1));
}

void build_movedim(Call& c) {
    auto* x = c.tensor("input");
    auto rank = Call::rank(x);
    auto from = c.integers("source"), to = c.integers("destination");
    if (from.size() != to.size()) refuse_invalid("source has ", from.size(), " entries, destination ", to.size());
    std::vector<int64_t> perm(rank, -1), left;
    std::vector<bool> moved(rank);
    for (size_t i = 0; i < from.size(); ++i) {
        auto source = c.axis(from[i], rank), target = c.axis(to[i], rank);
        if (moved[source] || perm[target] >= 0) refuse_invalid("an axis is moved twice");
        moved[source] = true, perm[target] = static_cast<int64_t>(source);
    }
    for (size_t i = 0, next = 0; i < rank; ++i) {
        if (perm[i] >= 0) continue;
        while (moved[next]) ++next;
        perm[i] = static_cast<int64_t>(next++);
    }
    c.set(c.transpose(x, perm));
}

void build_flip(Call& c) {
    auto* x = c.tensor("input");
    for (auto axis : c.axes("dims", Call::rank(x))) x = c.slice(x, axis, -1, INT64_MIN + 1, -1);
    c.set(x);
}

/// Without dims over all elements in a row.
void build_roll(Call& c) {
    auto* x = c.tensor("input");
    auto shifts = c.sizes("shifts");
    bool flat = !c.has("dims") || c.sizes("dims").empty();
    auto* rolled = flat ? c.reshape(x, {element_count(Call::shape(x))}) : x;
    auto dims = flat ? std::vector<int64_t>{0} : c.integers("dims");
    if (dims.size() != shifts.size()) refuse_invalid("shifts has ", shifts.size(), " entries, dims ", dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
        auto axis = c.axis(dims[i], Call::rank(rolled));
        auto const size = Call::shape(rolled)[axis];
        if (size == DimExpr(0)) continue;
        auto cut = size - mod(shifts[i], size);
        rolled = c.concat({c.slice(rolled, axis, cut, size), c.slice(rolled, axis, 0, cut)}, axis);
    }
    c.set(c.reshape(rolled, Call::shape(x)));
}

void build_channel_shuffle(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 3, 64, "the input");
    auto groups = c.integer("groups");
    auto const shape = Call::shape(x);
    if (groups < 1 || (shape[1].constant() && *shape[1].constant() % groups))
        refuse_invalid("the channels are not divisible by ", groups, " groups");
    Shape split{shape[0], groups, floor_div(shape[1], groups)};
    split.insert(split.end(), shape.begin() + 2, shape.end());
    c.set(c.reshape(c.swap_axes(c.reshape(x, split), 1, 2), shape));
}

/// Blocks of channels become positions (or back). Leading axes stay.
template <bool kUp>
void build_pixel_shuffle(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 3, 64, "the input");
    auto r = c.integer(kUp ? "upscale_factor" : "downscale_factor");
    if (r < 1 || r > (1 << 20)) refuse_invalid("the factor is ", r, ", expected 1 to 2^20");
    auto const& shape = Call::shape(x);
    Shape lead(shape.begin(), shape.end() - 3);
    auto channels = shape[shape.size() - 3], h = shape[shape.size() - 2], w = shape.back();
    auto divisible = [&](DimExpr const& size, int64_t by) {
        if (size.constant() && *size.constant() % by)
            refuse_invalid("size ", *size.constant(), " is not divisible by ", by);
        return floor_div(size, by);
    };
    auto n = static_cast<int64_t>(lead.size());
    std::vector<int64_t> perm(lead.size());
    std::iota(perm.begin(), perm.end(), 0);
    auto with = [&](std::initializer_list<DimExpr> tail) {
        auto result = lead;
        result.insert(result.end(), tail);
        return result;
    };
    if (kUp) {
        auto depth = divisible(channels, r * r);
        for (auto axis : {n, n + 3, n + 1, n + 4, n + 2}) perm.push_back(axis);
        auto* parts = c.transpose(c.reshape(x, with({depth, r, r, h, w})), perm);
        return c.set(c.reshape(parts, with({depth, h * r, w * r})));
    }
    auto rows = divisible(h, r), columns = divisible(w, r);
    for (auto axis : {n, n + 2, n + 4, n + 1, n + 3}) perm.push_back(axis);
    auto* parts = c.transpose(c.reshape(x, with({channels, rows, r, columns, r})), perm);
    c.set(c.reshape(parts, with({channels * (r * r), rows, columns})));
}

void build_meshgrid(Call& c) {
    auto edges = c.tensors();
    auto indexing = c.text("indexing", "ij");
    if (indexing != "ij" && indexing != "xy") refuse_invalid("indexing is \"", indexing, "\", expected ij or xy");
    auto count = edges.size();
    Shape full;
    for (auto* edge : edges) {
        c.expect_rank(edge, 0, 1, "an input");
        full.push_back(element_count(Call::shape(edge)));
    }
    bool swap = indexing == "xy" && count > 1;
    if (swap) std::swap(full[0], full[1]);
    for (size_t i = 0; i < count; ++i) {
        auto axis = swap && i < 2 ? 1 - i : i;
        Shape along(count, DimExpr(1));
        along[axis] = full[axis];
        c.set(i, c.expand(c.reshape(edges[i], along), full));
    }
}

}  // namespace

void define_rearrange(Definitions& all) {
    all.push_back(
        {"torch.transpose Tensor.transpose aten::transpose aten::swapaxes", "input dim0 dim1", build_transpose});
    all.push_back(
        {"nn.PixelShuffle F.pixel_shuffle aten::pixel_shuffle", "input upscale_factor", build_pixel_shuffle<true>});
    all.push_back({"Tensor.permute torch.permute aten::permute", "input dims", build_permute});
    all.push_back({"torch.t Tensor.t aten::t", "input", build_t});
    all.push_back({"aten::numpy_T", "input", build_reversed});
    all.push_back({"aten::mT", "input", build_last_transposed});
    all.push_back({"aten::movedim torch.movedim", "input source destination", build_movedim});
    all.push_back({"torch.flip aten::flip", "input dims", build_flip});
    all.push_back({"torch.roll aten::roll", "input shifts dims", build_roll});
    all.push_back({"nn.ChannelShuffle aten::channel_shuffle", "input groups", build_channel_shuffle});
    all.push_back({"nn.PixelUnshuffle F.pixel_unshuffle aten::pixel_unshuffle", "input downscale_factor",
                   build_pixel_shuffle<false>});
    all.push_back({"torch.meshgrid aten::meshgrid", "* indexing", build_meshgrid});
}

}  // namespace refactor::pnnx
