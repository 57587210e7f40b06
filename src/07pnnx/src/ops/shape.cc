#include "kernel/ops/movement.h"
#include "operator_def.h"
#include "promotion.h"

#include <algorithm>
#include <numeric>

// Operators that give the same elements another shape or order.

namespace refactor::pnnx {

namespace {

void build_reshape(Call& c) {
    auto* x = c.tensor("input");
    auto sizes = c.sizes(c.has("size") ? "size" : "shape");
    // -1 is the rest; 0 is a size.
    c.set(c.reshape(x, take(frontend::reshape_rule(Call::shape(x), sizes, true, c.symbols()))));
}

void build_reshape_as(Call& c) {
    auto *x = c.tensor("input"), *like = c.tensor("other");
    c.expect_equal(element_count(Call::shape(x)), element_count(Call::shape(like)), "the number of elements");
    c.set(c.reshape(x, Call::shape(like)));
}

void build_flatten(Call& c) {
    auto* x = c.tensor("input");
    auto const& shape = Call::shape(x);
    if (shape.empty()) return c.set(c.reshape(x, {DimExpr(1)}));
    auto first = c.axis(c.integer("start_dim", 0), shape.size()), last = c.axis(c.integer("end_dim", -1), shape.size());
    if (first > last) refuse_invalid("start_dim ", first, " comes after end_dim ", last);
    Shape target(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(first));
    DimExpr merged = 1;
    for (auto i = first; i <= last; ++i) merged = merged * shape[i];
    target.push_back(merged);
    target.insert(target.end(), shape.begin() + static_cast<std::ptrdiff_t>(last) + 1, shape.end());
    c.set(c.reshape(x, std::move(target)));
}

void build_unflatten(Call& c) {
    auto* x = c.tensor("input");
    auto const& shape = Call::shape(x);
    auto axis = c.axis(c.integer("dim"), shape.size());
    auto parts = take(frontend::reshape_rule({shape[axis]}, c.sizes("sizes"), true, c.symbols()));
    auto target = shape;
    target.erase(target.begin() + static_cast<std::ptrdiff_t>(axis));
    target.insert(target.begin() + static_cast<std::ptrdiff_t>(axis), parts.begin(), parts.end());
    c.set(c.reshape(x, std::move(target)));
}

/// Axes that have another size than 1 stay; without dim all of size 1 go.
void build_squeeze(Call& c) {
    auto* x = c.tensor("input");
    auto const& shape = Call::shape(x);
    std::vector<size_t> gone;
    for (auto axis : shape.empty() ? std::vector<size_t>{} : c.axes("dim", shape.size())) {
        if (!shape[axis].is_constant() && !c.has("dim"))
            refuse_unsupported("without dim, size ", shape[axis].to_string(c.symbols()),
                               " must be known to be 1 or not");
        // A size that is not known when the model is exported is squeezed as it was then.
        if (shape[axis] == DimExpr(1)) gone.push_back(axis);
    }
    c.set(c.reshape(x, frontend::without_axes(shape, gone, false)));
}

void build_unsqueeze(Call& c) {
    auto* x = c.tensor("input");
    c.set(c.unsqueeze(x, c.axis(c.integer("dim"), Call::rank(x) + 1)));
}

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

/// -1 keeps a size; new axes come in front.
void build_expand(Call& c) {
    auto* x = c.tensor("input");
    auto sizes = c.sizes("sizes");
    auto rank = Call::rank(x);
    if (sizes.size() < rank) refuse_invalid("sizes has ", sizes.size(), " entries for an input with ", rank, " axes");
    auto added = sizes.size() - rank;
    Shape target;
    for (size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == DimExpr(-1) && i < added) refuse_invalid("-1 for a new axis");
        bool keep = sizes[i] == DimExpr(-1);
        target.push_back(keep ? Call::shape(x)[i - added] : sizes[i]);
        if (!keep && i >= added && Call::shape(x)[i - added] != DimExpr(1))
            c.expect_equal(sizes[i], Call::shape(x)[i - added], "an entry of sizes");
    }
    c.set(c.expand(x, std::move(target)));
}

void build_expand_as(Call& c) {
    auto *x = c.tensor("input"), *like = c.tensor("other");
    auto target = c.broadcast({Call::shape(x), Call::shape(like)});
    if (target.size() != Call::rank(like)) refuse_invalid("the input has more axes than the shape to expand to");
    c.set(c.expand(x, Call::shape(like)));
}

/// Tensor.repeat and torch.tile: missing entries are 1 in tile, an error in repeat.
void build_repeat(Call& c) {
    auto* x = c.tensor("input");
    auto repeats = c.sizes(c.has("sizes") ? "sizes" : "dims");
    bool tile = c.type.find("tile") != c.type.npos;
    if (!tile && repeats.size() < Call::rank(x))
        refuse_invalid("sizes has ", repeats.size(), " entries for an input with ", Call::rank(x), " axes");
    if (repeats.size() < Call::rank(x)) repeats.insert(repeats.begin(), Call::rank(x) - repeats.size(), DimExpr(1));
    auto from = Call::shape(x);
    from.insert(from.begin(), repeats.size() - from.size(), DimExpr(1));
    Shape target;
    for (size_t i = 0; i < from.size(); ++i) target.push_back(from[i] * repeats[i]);
    c.set(c.emit(kernel::ExpandInfo{true}, {c.reshape(x, from)}, Call::type_of(x), std::move(target)));
}

void build_repeat_interleave(Call& c) {
    auto* x = c.tensor("input");
    if (c.item("repeats").edge()) refuse_unsupported("repeats that depend on data");
    if (!c.has("dim")) x = c.reshape(x, {element_count(Call::shape(x))});
    auto axis = c.axis(c.integer("dim", 0), Call::rank(x));
    auto repeats = c.size("repeats");
    auto spread = Call::shape(x), target = spread;
    spread.insert(spread.begin() + static_cast<std::ptrdiff_t>(axis) + 1, repeats);
    target[axis] = target[axis] * repeats;
    c.set(c.reshape(c.expand(c.unsqueeze(x, axis + 1), spread), target));
}

void build_cat(Call& c) {
    auto parts = c.tensors();
    // Empty vectors are skipped, whatever the shapes of the others: what old models begin a loop with.
    std::erase_if(parts, [](Edge part) { return Call::shape(part) == Shape{DimExpr(0)}; });
    if (parts.empty()) refuse_invalid("there is nothing to join");
    auto dtype = Call::type_of(parts[0]);
    for (auto* part : parts) dtype = promote(dtype, Weight::Tensor, Call::type_of(part), Weight::Tensor);
    for (auto& part : parts) part = c.cast(part, dtype);
    c.set(c.concat(parts, c.axis(c.integer("dim", 0), Call::rank(parts[0]))));
}

void build_stack(Call& c) {
    auto parts = c.tensors();
    if (parts.empty()) refuse_invalid("there is nothing to join");
    auto axis = c.axis(c.integer("dim", 0), Call::rank(parts[0]) + 1);
    auto dtype = Call::type_of(parts[0]);
    for (auto* part : parts) dtype = promote(dtype, Weight::Tensor, Call::type_of(part), Weight::Tensor);
    for (auto& part : parts) {
        if (Call::rank(part) != Call::rank(parts[0]) && part != parts[0])
            c.broadcast({Call::shape(part), Call::shape(parts[0])});
        if (Call::rank(part) < axis) refuse_invalid("tensors of different ranks cannot be stacked");
        part = c.unsqueeze(c.cast(part, dtype), axis);
    }
    c.set(c.concat(parts, axis));
}

/// Parts of `x` along `axis` of the given sizes.
void set_parts(Call& c, Edge x, size_t axis, std::vector<DimExpr> const& sizes) {
    if (sizes.size() != c.output_count())
        refuse_invalid("there are ", sizes.size(), " parts, the node has ", c.output_count(), " outputs");
    std::vector<LowerContext::Spec> outputs;
    for (auto const& size : sizes) {
        if (size.constant().value_or(0) < 0) refuse_invalid("a part has the size ", *size.constant());
        auto shape = Call::shape(x);
        shape[axis] = size;
        outputs.push_back({Call::type_of(x), std::move(shape)});
    }
    auto parts = c.emit_all(kernel::SplitInfo{static_cast<int64_t>(axis)}, {x}, std::move(outputs));
    for (size_t i = 0; i < parts.size(); ++i) c.set(i, parts[i]);
}

/// Parts of `part` elements; the last one has the rest.
void set_equal_parts(Call& c, Edge x, size_t axis, DimExpr const& part) {
    std::vector<DimExpr> sizes(c.output_count(), part);
    auto const& size = Call::shape(x)[axis];
    auto count = static_cast<int64_t>(sizes.size());
    auto n = size.constant(), p = part.constant();
    if (count && n && p && (*p < 1 || (*n + *p - 1) / *p != count))
        refuse_invalid("size ", *n, " in parts of ", *p, " does not give the ", count, " outputs of the node");
    if (count) sizes.back() = size - part * (count - 1);
    set_parts(c, x, axis, sizes);
}

void build_split(Call& c) {
    auto* x = c.tensor("tensor");
    auto axis = c.axis(c.integer("dim", 0), Call::rank(x));
    auto sizes = c.sizes("split_size_or_sections");
    if (sizes.size() == 1 && !c.argument("split_size_or_sections")->is(Term::Kind::List))
        return set_equal_parts(c, x, axis, sizes[0]);
    DimExpr sum;
    for (auto const& size : sizes) sum = sum + size;
    c.expect_equal(sum, Call::shape(x)[axis], "the sum of the sections");
    set_parts(c, x, axis, sizes);
}

void build_chunk(Call& c) {
    auto* x = c.tensor("input");
    auto axis = c.axis(c.integer("dim", 0), Call::rank(x));
    auto chunks = c.integer("chunks");
    if (chunks < 1) refuse_invalid("chunks is ", chunks, ", expected at least 1");
    set_equal_parts(c, x, axis, ceil_div(Call::shape(x)[axis], chunks));
}

/// The first parts have one element more if the size does not divide; a list has the borders of the parts.
void build_tensor_split(Call& c) {
    auto* x = c.tensor("input");
    auto axis = c.axis(c.integer("dim", 0), Call::rank(x));
    auto const& size = Call::shape(x)[axis];
    std::vector<DimExpr> sizes;
    if (c.has("indices")) {
        DimExpr last = 0;
        for (auto const& border : c.sizes("indices")) sizes.push_back(border - last), last = border;
        sizes.push_back(size - last);
        return set_parts(c, x, axis, sizes);
    }
    auto sections = c.integer("sections");
    if (sections < 1 || sections > 4096) refuse_invalid("sections is ", sections);
    for (int64_t i = 0; i < sections; ++i) sizes.push_back(ceil_div(size - i, sections));
    set_parts(c, x, axis, sizes);
}

void build_unbind(Call& c) {
    auto* x = c.tensor("input");
    auto axis = c.axis(c.integer("dim", 0), Call::rank(x));
    c.expect_equal(Call::shape(x)[axis], static_cast<int64_t>(c.output_count()), "the size of the axis");
    std::vector<LowerContext::Spec> outputs;
    auto shape = Call::shape(x);
    shape[axis] = 1;
    for (size_t i = 0; i < c.output_count(); ++i) outputs.push_back({Call::type_of(x), shape});
    auto parts = c.emit_all(kernel::SplitInfo{static_cast<int64_t>(axis)}, {x}, std::move(outputs));
    for (size_t i = 0; i < parts.size(); ++i) c.set(i, c.squeeze(parts[i], axis));
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

void define_shape(Definitions& all) {
    all.push_back(
        {"Tensor.reshape Tensor.view torch.reshape aten::reshape aten::view", "input shape | size", build_reshape});
    all.push_back({"Tensor.reshape_as Tensor.view_as aten::reshape_as aten::view_as", "input other", build_reshape_as});
    all.push_back({"torch.flatten Tensor.flatten nn.Flatten aten::flatten", "input start_dim end_dim", build_flatten});
    all.push_back({"Tensor.unflatten torch.unflatten aten::unflatten", "input dim sizes", build_unflatten});
    all.push_back({"torch.squeeze Tensor.squeeze aten::squeeze", "input dim", build_squeeze});
    all.push_back({"torch.unsqueeze Tensor.unsqueeze aten::unsqueeze", "input dim", build_unsqueeze});
    all.push_back({"Tensor.permute torch.permute aten::permute", "input dims", build_permute});
    all.push_back(
        {"torch.transpose Tensor.transpose aten::transpose aten::swapaxes", "input dim0 dim1", build_transpose});
    all.push_back({"torch.t Tensor.t aten::t", "input", build_t});
    all.push_back({"aten::numpy_T", "input", build_reversed});
    all.push_back({"aten::mT", "input", build_last_transposed});
    all.push_back({"aten::movedim torch.movedim", "input source destination", build_movedim});
    all.push_back({"Tensor.expand aten::expand aten::broadcast_to torch.broadcast_to",
                   "input sizes implicit | shape size", build_expand});
    all.push_back({"Tensor.expand_as aten::expand_as", "input other", build_expand_as});
    all.push_back({"Tensor.repeat aten::repeat", "input sizes", build_repeat});
    all.push_back({"torch.tile aten::tile", "input dims", build_repeat});
    all.push_back(
        {"torch.repeat_interleave aten::repeat_interleave", "input repeats dim output_size", build_repeat_interleave});
    all.push_back({"torch.cat aten::cat", "* dim", build_cat});
    all.push_back({"torch.stack aten::stack", "* dim", build_stack});
    all.push_back({"torch.split aten::split", "tensor split_size_or_sections dim", build_split});
    all.push_back({"torch.chunk aten::chunk", "input chunks dim", build_chunk});
    all.push_back({"torch.tensor_split aten::tensor_split", "input sections dim | indices", build_tensor_split});
    all.push_back({"torch.unbind aten::unbind", "input dim", build_unbind});
    all.push_back({"torch.flip aten::flip", "input dims", build_flip});
    all.push_back({"torch.roll aten::roll", "input shifts dims", build_roll});
    all.push_back({"nn.ChannelShuffle aten::channel_shuffle", "input groups", build_channel_shuffle});
    all.push_back(
        {"nn.PixelShuffle F.pixel_shuffle aten::pixel_shuffle", "input upscale_factor", build_pixel_shuffle<true>});
    all.push_back({"nn.PixelUnshuffle F.pixel_unshuffle aten::pixel_unshuffle", "input downscale_factor",
                   build_pixel_shuffle<false>});
    all.push_back({"torch.meshgrid aten::meshgrid", "* indexing", build_meshgrid});
}

}  // namespace refactor::pnnx
