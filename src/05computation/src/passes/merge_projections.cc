#include "passes/merge_projections.h"

#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "made_constants.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "passes/edges.h"

#include <algorithm>
#include <cstring>

namespace refactor::computation {

namespace {

/// A product of constant weights [K, N] or, transposed, [N, K], with at most a constant bias [N] behind it.
bool is_projection(NodePtr node) {
    auto const* info = info_of<kernel::MatMulInfo>(*node->value.op);
    if (!info || info->trans_a || info->scaled) return false;
    auto after = info->epilogue;
    after.bias = false;
    if (!(after == kernel::Epilogue{})) return false;
    auto const& weights = node->input(1)->value;
    auto const& y = node->output()->value;
    auto columns = weights.shape.size() == 2 ? weights.shape[info->trans_b ? 0 : 1].constant() : std::nullopt;
    if (!weights.constant || !columns || weights.dtype != y.dtype || bits_of(y.dtype) % 8) return false;
    if (!info->epilogue.bias) return true;
    auto const& bias = node->input(2)->value;
    return bias.constant && bias.dtype == y.dtype && bias.shape == Shape{DimExpr(*columns)};
}

/// The projection that makes the operand, behind nodes that only move its elements.
NodePtr projection_of(EdgePtr operand) {
    for (auto* edge = operand; edge && is_private(edge);) {
        auto* node = edge->producer();
        if (!node) return nullptr;
        if (info_of<kernel::MatMulInfo>(*node->value.op)) return is_projection(node) ? node : nullptr;
        if (!node->value.op->is_alias() && !info_of<kernel::TransposeInfo>(*node->value.op)) return nullptr;
        edge = node->input(0);
    }
    return nullptr;
}

bool alike(NodePtr a, NodePtr b) {
    auto const &x = *info_of<kernel::MatMulInfo>(*a->value.op), &y = *info_of<kernel::MatMulInfo>(*b->value.op);
    return a->input(0) == b->input(0) && x.trans_b == y.trans_b && x.alpha == y.alpha &&
           a->output()->value.dtype == b->output()->value.dtype;
}

class Merger {
    Graph& graph_;
    std::vector<NodePtr> const& products_;
    kernel::MatMulInfo info_;
    DataType dtype_;
    std::vector<size_t> columns_;  ///< of each
    size_t total_ = 0, element_;

    EdgePtr source(std::string name, Dims const& dims, std::shared_ptr<mem_manager::Blob const> data) {
        return graph_.add_source(
            {std::move(name), dtype_, Shape(dims.begin(), dims.end()), {}, std::move(data), false});
    }

    /// Rows of the weights are those of all one behind the other, or if transposed, all rows of the one stand before
    /// those of the next.
    EdgePtr weights() {
        auto const& shape = products_[0]->input(1)->value.shape;
        auto depth = static_cast<size_t>(shape[info_.trans_b ? 1 : 0].constant().value_or(0));
        auto rows = info_.trans_b ? 1 : depth, step = total_ * element_;
        std::vector<size_t> parts;
        for (auto columns : columns_) parts.push_back(columns * element_ * (info_.trans_b ? depth : 1));
        std::vector<SharedBlob> all;
        for (auto* product : products_) all.push_back(product->input(1)->value.constant);
        auto join = [=](std::span<void const* const> from, void* to) {
            auto* target = static_cast<char*>(to);
            for (size_t i = 0; i < parts.size(); target += parts[i++])
                for (size_t row = 0; row < rows; ++row)
                    std::memcpy(target + row * step, static_cast<char const*>(from[i]) + row * parts[i], parts[i]);
        };
        auto d = static_cast<int64_t>(depth), n = static_cast<int64_t>(total_);
        return source(products_[0]->input(1)->value.name + "/merged", info_.trans_b ? Dims{n, d} : Dims{d, n},
                      make_constant(depth * total_ * element_, std::move(all), join));
    }
    EdgePtr bias() {
        auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), total_ * element_);
        auto* target = static_cast<char*>(blob->data());
        for (size_t i = 0; i < products_.size(); ++i) {
            auto bytes = columns_[i] * element_;
            if (info_of<kernel::MatMulInfo>(*products_[i]->value.op)->epilogue.bias) {
                mem_manager::Blob::Reader reader(*products_[i]->input(2)->value.constant);
                std::memcpy(target, reader.data(), bytes);
            } else {
                std::memset(target, 0, bytes);
            }
            target += bytes;
        }
        return source(products_[0]->value.name + ".bias/merged", {static_cast<int64_t>(total_)}, std::move(blob));
    }

public:
    Merger(Graph& graph, std::vector<NodePtr> const& products)
        : graph_(graph),
          products_(products),
          info_(*info_of<kernel::MatMulInfo>(*products[0]->value.op)),
          dtype_(products[0]->output()->value.dtype),
          element_(bits_of(dtype_) / 8) {
        for (auto* product : products_) {
            auto columns = product->output()->value.shape.back().constant().value_or(0);
            columns_.push_back(static_cast<size_t>(columns)), total_ += columns_.back();
            info_.epilogue.bias |= info_of<kernel::MatMulInfo>(*product->value.op)->epilogue.bias;
        }
    }

    void run() {
        std::vector<EdgePtr> inputs{products_[0]->input(0), weights()}, parts;
        if (info_.epilogue.bias) inputs.push_back(bias());
        auto value = products_[0]->output()->value;
        auto* merged = graph_.insert({products_[0]->value.name, make_operator(info_)}, inputs);
        auto axis = static_cast<int64_t>(value.shape.size()) - 1;
        value.name += "/merged", value.shape.back() = static_cast<int64_t>(total_);
        merged->output()->value = std::move(value);
        for (auto* product : products_) parts.push_back(product->output());
        std::vector<EdgePtr> const all{merged->output()};
        graph_.insert_producing({products_[0]->value.name + "/split", make_operator(kernel::SplitInfo{axis})}, all,
                                parts);
        for (auto* product : products_) graph_.erase_unused(product);
    }
};

int merge(Graph& graph, NodePtr attention) {
    std::vector<NodePtr> left;
    for (size_t i = 0; i < 3; ++i)
        if (auto* node = projection_of(attention->input(i))) left.push_back(node);
    int merged = 0;
    while (left.size() > 1) {
        std::vector<NodePtr> same;
        for (auto* node : left)
            if (alike(left[0], node)) same.push_back(node);
        std::erase_if(left, [&](NodePtr node) { return std::find(same.begin(), same.end(), node) != same.end(); });
        if (same.size() > 1) Merger(graph, same).run(), merged += static_cast<int>(same.size()) - 1;
    }
    return merged;
}

}  // namespace

int merge_projections(Model& model, PassContext const& context) {
    if (context.options.device == "cpu") return 0;
    int merged = 0;
    for (auto* node : model.graph.topological())
        if (node->alive() && info_of<kernel::AttentionInfo>(*node->value.op)) merged += merge(model.graph, node);
    return merged;
}

}  // namespace refactor::computation
