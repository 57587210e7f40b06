#include "kernel/ops/movement.h"
#include "operator_def.h"

#include <algorithm>

// Elements at indices.

namespace refactor::pnnx {

namespace {

/// Entries of x[i, None, …]: what pnnx calls None is a whole axis.
struct Indices {
    std::vector<Edge> edges;  ///< null: the whole axis
    size_t first = 0, count = 0;
    bool adjacent = true;
};

Indices read_indices(Call& c, Item const& list, size_t rank) {
    Indices indices;
    std::vector<Item> single{list};
    auto const& items = list.list() ? *list.list() : single;
    if (items.size() > rank) refuse_invalid(items.size(), " indices for a tensor with ", rank, " axes");
    for (size_t i = 0; i < items.size(); ++i) {
        auto* edge = items[i].is_none() ? nullptr : c.edge_of(items[i]);
        if (edge && Call::type_of(edge) == DataType::Bool)
            refuse_unsupported("a mask as an index: its size depends on data");
        if (edge && !is_integer(Call::type_of(edge))) refuse_invalid("an index is ", name_of(Call::type_of(edge)));
        if (edge && !indices.count) indices.first = i;
        if (edge && indices.count && !indices.edges.back()) indices.adjacent = false;
        indices.count += edge != nullptr;
        indices.edges.push_back(edge);
    }
    if (!indices.count) refuse_unsupported("an index without positions");
    return indices;
}

/// The index as rows of positions [broadcast…, count] for GatherND and ScatterND.
Edge rows_of(Call& c, Indices const& indices, Shape& common, Edge x) {
    std::vector<Shape> shapes;
    for (auto* edge : indices.edges)
        if (edge) shapes.push_back(Call::shape(edge));
    common = c.broadcast(shapes);
    std::vector<Edge> columns;
    for (size_t i = 0; i < indices.edges.size(); ++i) {
        if (!indices.edges[i]) continue;
        auto* size = c.size_edge(Scalar::of_int(Call::shape(x)[i]), DataType::I64);
        // Negative positions count from the end.
        auto* at = c.map({c.cast(indices.edges[i], DataType::I64), size}, [](Expression& e, auto const& v) {
            auto negative = e.binary(ExprOp::Less, v[0], e.constant(DataType::I64, 0));
            return e.select(negative, e.binary(ExprOp::Add, v[0], v[1]), v[0]);
        });
        columns.push_back(c.unsqueeze(c.expand(at, common), common.size()));
    }
    return c.concat(columns, common.size());
}

/// Axes with indices in front, the others behind.
std::vector<int64_t> front_order(Indices const& indices, size_t rank) {
    std::vector<int64_t> perm;
    for (bool indexed : {true, false})
        for (size_t i = 0; i < rank; ++i)
            if ((i < indices.edges.size() && indices.edges[i]) == indexed) perm.push_back(static_cast<int64_t>(i));
    return perm;
}

void build_index(Call& c) {
    auto* x = c.tensor("input");
    auto indices = read_indices(c, c.item(c.has("expr") ? "expr" : "indices"), Call::rank(x));
    if (indices.count == 1) return c.set(c.gather(x, indices.edges[indices.first], indices.first));
    Shape common;
    auto* rows = rows_of(c, indices, common, x);
    auto* front = c.transpose(x, front_order(indices, Call::rank(x)));
    auto target = common;
    target.insert(target.end(), Call::shape(front).begin() + static_cast<std::ptrdiff_t>(indices.count),
                  Call::shape(front).end());
    auto* y = c.emit(kernel::GatherNDInfo{}, {front, rows}, Call::type_of(x), target);
    if (!indices.adjacent || indices.first == 0) return c.set(y);
    // Neighbouring indices leave their axes in place.
    std::vector<int64_t> perm;
    auto n = static_cast<int64_t>(common.size());
    for (size_t i = 0; i < indices.first; ++i) perm.push_back(n + static_cast<int64_t>(i));
    for (int64_t i = 0; i < n; ++i) perm.push_back(i);
    for (auto i = n + static_cast<int64_t>(indices.first); i < static_cast<int64_t>(target.size()); ++i)
        perm.push_back(i);
    c.set(c.transpose(y, perm));
}

void build_index_put(Call& c) {
    auto* x = c.tensor("input");
    auto list = c.item("indices");
    auto* value = c.cast(c.edge_of(c.item("values"), Call::type_of(x)), Call::type_of(x));
    std::vector<Item> single{list};
    auto const& items = list.list() ? *list.list() : single;
    if (items.size() == 1 && items[0].edge() && Call::type_of(*items[0].edge()) == DataType::Bool) {
        auto* mask = *items[0].edge();
        if (Call::rank(value) || c.flag("accumulate", false)) refuse_unsupported("a mask with more than one value");
        Shape wide = Call::shape(mask);
        wide.resize(std::max(wide.size(), Call::rank(x)), DimExpr(1));
        return c.set(c.map({c.reshape(mask, wide), value, x},
                           [](Expression& e, auto const& v) { return e.select(v[0], v[1], v[2]); }));
    }
    auto indices = read_indices(c, list, Call::rank(x));
    Shape common;
    auto* rows = rows_of(c, indices, common, x);
    if (!indices.adjacent || indices.first) refuse_unsupported("indices that are not of the first axes");
    auto target = common;
    target.insert(target.end(), Call::shape(x).begin() + static_cast<std::ptrdiff_t>(indices.count),
                  Call::shape(x).end());
    kernel::ScatterInfo info;
    info.reduction = c.flag("accumulate", false) ? kernel::ScatterReduction::Add : kernel::ScatterReduction::None;
    c.set(c.emit(info, {x, rows, c.expand(value, target)}, Call::type_of(x), Call::shape(x)));
}

void build_index_select(Call& c) {
    auto *x = c.tensor("input"), *index = c.tensor("index");
    c.expect_rank(index, 0, 1, "the index");
    auto axis = c.axis(c.integer("dim"), Call::rank(x));
    c.set(c.gather(x, Call::rank(index) ? index : c.unsqueeze(index, 0), axis));
}

/// The leading part of `x` that the indices reach, so that sizes agree off the axis.
Edge reached(Call& c, Edge x, Edge index, size_t axis) {
    for (size_t i = 0; i < Call::rank(x); ++i)
        if (i != axis && Call::shape(x)[i] != Call::shape(index)[i]) x = c.slice(x, i, 0, Call::shape(index)[i]);
    return x;
}

void build_gather(Call& c) {
    auto *x = c.tensor("input"), *index = c.tensor("index");
    if (Call::rank(x) == 0 || Call::rank(x) != Call::rank(index))
        refuse_invalid("input and index have different ranks");
    auto axis = c.axis(c.integer("dim"), Call::rank(x));
    kernel::GatherElementsInfo info{static_cast<int64_t>(axis)};
    c.set(
        c.emit(info, {reached(c, x, index, axis), c.cast(index, DataType::I64)}, Call::type_of(x), Call::shape(index)));
}

void build_take_along_dim(Call& c) {
    auto *x = c.tensor("input"), *index = c.tensor("indices");
    if (Call::rank(x) == 0 || Call::rank(x) != Call::rank(index))
        refuse_unsupported("input and indices of different ranks");
    auto axis = c.axis(c.integer("dim"), Call::rank(x));
    auto from = Call::shape(x), to = Call::shape(index);
    from[axis] = to[axis] = 1;
    auto common = c.broadcast({from, to}), target = common;
    common[axis] = Call::shape(x)[axis], target[axis] = Call::shape(index)[axis];
    kernel::GatherElementsInfo info{static_cast<int64_t>(axis)};
    auto* wide = c.expand(c.cast(index, DataType::I64), target);
    c.set(c.emit(info, {c.expand(x, common), wide}, Call::type_of(x), target));
}

void build_scatter(Call& c) {
    auto *x = c.tensor("input"), *index = c.tensor("index");
    if (Call::rank(x) == 0 || Call::rank(x) != Call::rank(index))
        refuse_invalid("input and index have different ranks");
    auto* source = c.cast(c.edge_of(c.item(c.has("value") ? "value" : "src"), Call::type_of(x)), Call::type_of(x));
    auto axis = c.axis(c.integer("dim"), Call::rank(x));
    if (Call::rank(source) == 0)
        source = c.expand(source, Call::shape(index));
    else
        for (size_t i = 0; i < Call::rank(source); ++i)
            if (Call::shape(source)[i] != Call::shape(index)[i]) source = c.slice(source, i, 0, Call::shape(index)[i]);
    kernel::ScatterInfo info;
    info.axis = static_cast<int64_t>(axis);
    auto mode = c.text("reduce", c.type.find("scatter_add") != c.type.npos ? "add" : "none");
    using R = kernel::ScatterReduction;
    if (mode != "none" && mode != "add" && mode != "multiply") refuse_unsupported("reduce = ", mode);
    info.reduction = mode == "none" ? R::None : mode == "add" ? R::Add : R::Mul;
    c.set(c.emit(info, {x, c.cast(index, DataType::I64), source}, Call::type_of(x), Call::shape(x)));
}

void build_index_add(Call& c) {
    auto *x = c.tensor("input"), *index = c.tensor("index"), *source = c.tensor("source");
    c.expect_rank(index, 1, 1, "the index");
    if (Call::rank(x) != Call::rank(source)) refuse_invalid("input and source have different ranks");
    auto axis = c.axis(c.integer("dim"), Call::rank(x));
    if (c.number("alpha", 1) != 1)
        source = c.binary(ExprOp::Mul, source, c.scalar(Call::type_of(source), c.number("alpha")));
    Shape along(Call::rank(x), DimExpr(1));
    along[axis] = Call::shape(index)[0];
    auto* wide = c.expand(c.reshape(c.cast(index, DataType::I64), along), Call::shape(source));
    kernel::ScatterInfo info;
    info.axis = static_cast<int64_t>(axis), info.reduction = kernel::ScatterReduction::Add;
    c.set(c.emit(info, {x, wide, source}, Call::type_of(x), Call::shape(x)));
}

/// The largest k (all of them for a sort) and their positions.
void set_sorted(Call& c, Edge x, size_t axis, DimExpr const& k, bool largest, bool sorted) {
    auto shape = Call::shape(x);
    auto number = k.constant(), size = shape[axis].constant();
    if (number && (*number < 0 || (size && *number > *size)))
        refuse_invalid("k is ", *number, ", axis ", axis, " has the size ", shape[axis].to_string(c.symbols()));
    shape[axis] = k;
    kernel::TopKInfo info{static_cast<int64_t>(axis), largest, sorted};
    auto edges = c.emit_all(info, {x}, {{Call::type_of(x), shape}, {DataType::I64, shape}});
    bool positions_only = c.type.find("argsort") != c.type.npos;
    c.set(0, edges[positions_only]);
    if (!positions_only) c.set(1, edges[1]);
}

void build_topk(Call& c) {
    auto* x = c.tensor("input");
    auto axis = c.axis(c.integer("dim", -1), Call::rank(x));
    set_sorted(c, x, axis, c.size("k"), c.flag("largest", true), c.flag("sorted", true));
}

void build_sort(Call& c) {
    auto* x = c.tensor("input");
    auto axis = c.axis(c.integer("dim", -1), Call::rank(x));
    set_sorted(c, x, axis, Call::shape(x)[axis], c.flag("descending", false), true);
}

void build_one_hot(Call& c) {
    auto* x = c.tensor("input");
    auto classes = c.size("num_classes", -1);
    if (classes.constant().value_or(1) < 1) refuse_unsupported("num_classes that follows from the data");
    auto* positions = c.range(0, 1, classes);
    auto* hit = c.binary(ExprOp::Equal, c.cast(c.unsqueeze(x, Call::rank(x)), DataType::I64), positions);
    c.set(c.cast(hit, DataType::I64));
}

void build_embedding(Call& c) {
    auto *index = c.tensor("input"), *weight = c.tensor("weight");
    c.expect_rank(weight, 2, 2, "the weight");
    if (!is_integer(Call::type_of(index))) refuse_invalid("the indices are ", name_of(Call::type_of(index)));
    c.set(c.gather(weight, index, 0));
}

template <bool kUpper>
void build_triangle(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 2, 64, "the input");
    c.set(c.emit(kernel::TriluInfo{kUpper}, {x}, Call::type_of(x), Call::shape(x), {c.size("diagonal", 0)}));
}

/// The diagonal of a matrix, or a matrix with that diagonal.
void build_diag(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 1, 2, "the input");
    auto k = c.integer("diagonal", 0);
    auto below = std::max<int64_t>(-k, 0), right = std::max<int64_t>(k, 0);
    if (Call::rank(x) == 1) {
        auto n = Call::shape(x)[0], size = n + (below + right);
        auto* rows = c.reshape(c.range(-below, 1, size), {size, DimExpr(1)});
        auto* columns = c.range(-right, 1, size);
        kernel::PadInfo pad;
        auto* padded = c.emit(pad, {x}, Call::type_of(x), {size}, {DimExpr(right)});
        auto dtype = Call::type_of(x);
        return c.set(c.map({rows, columns, padded}, [&](Expression& e, auto const& v) {
            return e.select(e.binary(ExprOp::Equal, v[0], v[1]), v[2], e.constant(dtype, 0));
        }));
    }
    auto h = Call::shape(x)[0], w = Call::shape(x)[1];
    auto length = max(min(h - below, w - right), 0);
    auto* flat = c.reshape(x, {h * w});
    auto* positions = c.range(w * below + right, w + 1, length);
    c.set(c.gather(flat, positions, 0));
}

}  // namespace

void define_index(Definitions& all) {
    all.push_back({"Tensor.index aten::index", "input indices | expr", build_index});
    all.push_back({"Tensor.index_put aten::index_put", "input indices values accumulate", build_index_put});
    all.push_back({"torch.index_select aten::index_select", "input dim index", build_index_select});
    all.push_back({"torch.gather aten::gather", "input dim index sparse_grad", build_gather});
    all.push_back({"aten::take_along_dim torch.take_along_dim", "input indices dim", build_take_along_dim});
    all.push_back({"aten::scatter torch.scatter", "input dim index src reduce | value", build_scatter});
    all.push_back({"torch.scatter_add aten::scatter_add", "input dim index src", build_scatter});
    all.push_back({"aten::index_add torch.index_add", "input dim index source alpha", build_index_add});
    all.push_back({"torch.topk aten::topk", "input k dim largest sorted", build_topk});
    all.push_back({"torch.sort torch.argsort aten::sort aten::argsort", "input dim descending stable", build_sort});
    all.push_back({"aten::one_hot F.one_hot", "input num_classes", build_one_hot});
    all.push_back({"nn.Embedding F.embedding",
                   "input weight padding_idx | max_norm norm_type scale_grad_by_freq sparse "
                   "num_embeddings embedding_dim",
                   build_embedding});
    all.push_back({"aten::embedding", "weight input padding_idx scale_grad_by_freq sparse", build_embedding});
    all.push_back({"aten::triu torch.triu", "input diagonal", build_triangle<true>});
    all.push_back({"aten::tril torch.tril", "input diagonal", build_triangle<false>});
    all.push_back({"torch.diag aten::diag", "input diagonal", build_diag});
}

}  // namespace refactor::pnnx
