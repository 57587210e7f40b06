#include "kernel/ops/movement.h"
#include "operator_def.h"

// Operators that give the same elements another shape, or repeat them.

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

}  // namespace

void define_shape(Definitions& all) {
    all.push_back(
        {"Tensor.reshape Tensor.view torch.reshape aten::reshape aten::view", "input shape | size", build_reshape});
    all.push_back(
        {"torch.repeat_interleave aten::repeat_interleave", "input repeats dim output_size", build_repeat_interleave});
    all.push_back({"ncnn.Reshape", "input | shape x*", build_reshape});
    all.push_back({"Tensor.reshape_as Tensor.view_as aten::reshape_as aten::view_as", "input other", build_reshape_as});
    all.push_back({"torch.flatten Tensor.flatten nn.Flatten aten::flatten", "input start_dim end_dim", build_flatten});
    all.push_back({"Tensor.unflatten torch.unflatten aten::unflatten", "input dim sizes", build_unflatten});
    all.push_back({"torch.squeeze Tensor.squeeze aten::squeeze", "input dim", build_squeeze});
    all.push_back({"torch.unsqueeze Tensor.unsqueeze aten::unsqueeze", "input dim", build_unsqueeze});
    all.push_back({"Tensor.expand aten::expand aten::broadcast_to torch.broadcast_to",
                   "input sizes implicit | shape size", build_expand});
    all.push_back({"Tensor.expand_as aten::expand_as", "input other", build_expand_as});
    all.push_back({"Tensor.repeat aten::repeat", "input sizes", build_repeat});
    all.push_back({"torch.tile aten::tile", "input dims", build_repeat});
}

}  // namespace refactor::pnnx
