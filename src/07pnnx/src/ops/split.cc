#include "kernel/ops/movement.h"
#include "operator_def.h"
#include "promotion.h"

#include <algorithm>

// Joining and cutting along an axis.

namespace refactor::pnnx {

namespace {

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
    auto rank = Call::rank(parts[0]) + 1, axis = c.axis(c.integer("dim", 0), rank);
    auto dtype = Call::type_of(parts[0]);
    for (auto* part : parts) dtype = promote(dtype, Weight::Tensor, Call::type_of(part), Weight::Tensor);
    for (auto* part : parts)
        if (Call::rank(part) + 1 != rank) refuse_invalid("tensors of different ranks cannot be stacked");
    for (auto& part : parts) {
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

}  // namespace

void define_split(Definitions& all) {
    all.push_back({"torch.cat aten::cat", "* dim", build_cat});
    all.push_back({"torch.stack aten::stack", "* dim", build_stack});
    all.push_back({"torch.split aten::split", "tensor split_size_or_sections dim", build_split});
    all.push_back({"torch.chunk aten::chunk", "input chunks dim", build_chunk});
    all.push_back({"torch.tensor_split aten::tensor_split", "input sections dim | indices", build_tensor_split});
    all.push_back({"torch.unbind aten::unbind", "input dim", build_unbind});
}

}  // namespace refactor::pnnx
