#include "ops/ml_tree_attributes.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <set>

namespace refactor::onnx {

namespace {

using kernel::PostTransform;
using kernel::TreeAggregate;
using kernel::TreeEnsembleInfo;

constexpr std::string_view kModes[]{"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                    "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};

bool is_classifier(NodeView const& n) { return n.op_type == "TreeEnsembleClassifier"; }

template <class T>
Status expect_count(std::vector<T> const& list, size_t expected, std::string_view name) {
    if (list.size() == expected) return std::nullopt;
    return invalid(name, " has ", list.size(), " elements, expected ", expected);
}

Inferred<TreeMode> mode_of(std::string_view name) {
    auto* found = std::find(std::begin(kModes), std::end(kModes), name);
    if (found == std::end(kModes) || name == "BRANCH_MEMBER")
        return Err{invalid("a node's mode is \"", name, "\", expected BRANCH_LEQ, _LT, _GTE, _GT, _EQ, _NEQ or LEAF")};
    return static_cast<TreeMode>(found - kModes);
}

/// Which node a tree and an id name.
class NodeIds {
    struct Entry {
        int64_t tree, id;
        uint32_t node;
        auto operator<=>(Entry const&) const = default;
    };
    std::vector<Entry> entries_;  ///< ascending
    size_t last_ = 0;             ///< what was found last

    bool is(size_t at, int64_t tree, int64_t id) const {
        return at < entries_.size() && entries_[at].tree == tree && entries_[at].id == id;
    }

public:
    Status fill(std::vector<int64_t> const& trees, std::vector<int64_t> const& ids) {
        for (size_t i = 0; i < ids.size(); ++i) entries_.push_back({trees[i], ids[i], static_cast<uint32_t>(i)});
        if (!std::ranges::is_sorted(entries_)) std::ranges::sort(entries_);
        for (size_t i = 1; i < entries_.size(); ++i)
            if (is(i - 1, entries_[i].tree, entries_[i].id))
                return invalid("tree ", entries_[i].tree, " has two nodes ", entries_[i].id);
        return std::nullopt;
    }
    /// Ids mostly rise by one within a tree, so that the distance to the last node is known.
    Inferred<uint32_t> find(int64_t tree, int64_t id) {
        auto guess = last_ + static_cast<size_t>(id) - static_cast<size_t>(entries_[last_].id);
        if (!is(guess, tree, id)) {
            auto it = std::ranges::lower_bound(entries_, Entry{tree, id, 0});
            guess = static_cast<size_t>(it - entries_.begin());
        }
        if (!is(guess, tree, id)) return Err{invalid("tree ", tree, " has no node ", id)};
        last_ = guess;
        return entries_[guess].node;
    }
};

/// Nodes of the operators before `TreeEnsemble`, which are named by tree and number.
Status read_nodes(NodeView const& n, TreeSource& trees, NodeIds& ids) {
    auto trees_of = n.integers("nodes_treeids"), nodes = n.integers("nodes_nodeids");
    auto yes = n.integers("nodes_truenodeids"), no = n.integers("nodes_falsenodeids");
    auto features = n.integers("nodes_featureids"), missing = n.integers("nodes_missing_value_tracks_true");
    auto splits = numbers_of(n, "nodes_values");
    std::vector<std::string> const none;
    auto const* given = n.get<std::vector<std::string>>("nodes_modes");
    auto const& modes = given ? *given : none;
    auto count = nodes.size();
    if (!count) return invalid("nodes_nodeids is empty, expected at least one node");
    RG_CHECK_STATUS(expect_count(trees_of, count, "nodes_treeids"));
    RG_CHECK_STATUS(expect_count(yes, count, "nodes_truenodeids"));
    RG_CHECK_STATUS(expect_count(no, count, "nodes_falsenodeids"));
    RG_CHECK_STATUS(expect_count(features, count, "nodes_featureids"));
    RG_CHECK_STATUS(expect_count(splits, count, "nodes_values"));
    RG_CHECK_STATUS(expect_count(modes, count, "nodes_modes"));
    if (!missing.empty()) RG_CHECK_STATUS(expect_count(missing, count, "nodes_missing_value_tracks_true"));
    RG_CHECK_STATUS(ids.fill(trees_of, nodes));
    std::set<int64_t> seen;
    for (size_t i = 0; i < count; ++i) {
        bool same = i && trees_of[i] == trees_of[i - 1];
        if (!same && seen.insert(trees_of[i]).second) trees.roots.push_back(static_cast<uint32_t>(i));
    }
    trees.nodes.reserve(count);
    for (size_t i = 0; i < count; ++i) {
        RG_TRY_STATUS(mode, mode_of(modes[i]));
        TreeSource::Node node{mode, !missing.empty() && missing[i] != 0, features[i], splits[i]};
        if (mode != TreeMode::Leaf) {
            RG_TRY_STATUS(on_true, ids.find(trees_of[i], yes[i]));
            RG_TRY_STATUS(on_false, ids.find(trees_of[i], no[i]));
            node.yes = on_true, node.no = on_false;
        }
        trees.nodes.push_back(node);
    }
    return std::nullopt;
}

Status read_weights(NodeView const& n, std::string const& what, TreeSource& trees, NodeIds& ids) {
    auto trees_of = n.integers(what + "_treeids"), nodes = n.integers(what + "_nodeids");
    auto targets = n.integers(what + "_ids");
    auto values = numbers_of(n, what + "_weights");
    RG_CHECK_STATUS(expect_count(trees_of, targets.size(), what + "_treeids"));
    RG_CHECK_STATUS(expect_count(nodes, targets.size(), what + "_nodeids"));
    RG_CHECK_STATUS(expect_count(values, targets.size(), what + "_weights"));
    for (size_t i = 0; i < targets.size(); ++i) {
        RG_TRY_STATUS(node, ids.find(trees_of[i], nodes[i]));
        trees.weights.push_back({node, targets[i], values[i]});
    }
    return std::nullopt;
}

Inferred<TreeAggregate> aggregate_of(NodeView const& n) {
    constexpr std::string_view kNames[]{"AVERAGE", "SUM", "MIN", "MAX"};
    auto name = n.text("aggregate_function", "SUM");
    auto* found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found == std::end(kNames))
        return Err{invalid("aggregate_function is \"", name, "\", expected AVERAGE, SUM, MIN or MAX")};
    return static_cast<TreeAggregate>(found - kNames);
}

Inferred<TreeAttributes> read_named(NodeView const& n) {
    TreeAttributes e;
    NodeIds ids;
    if (auto failure = read_nodes(n, e.trees, ids)) return Err{*failure};
    if (auto failure = read_weights(n, is_classifier(n) ? "class" : "target", e.trees, ids)) return Err{*failure};
    RG_TRY(transform, post_transform_of(n));
    e.info.transform = transform;
    e.base = numbers_of(n, "base_values");
    for (auto name : {"nodes_values_as_tensor", "class_weights_as_tensor", "target_weights_as_tensor"})
        e.wide = e.wide || n.has(name);
    if (is_classifier(n)) {
        RG_TRY(labels, class_labels_of(n, "classlabels_int64s"));
        auto const& w = e.trees.weights;
        bool one_class = std::all_of(w.begin(), w.end(), [&](auto const& x) { return x.target == w[0].target; });
        e.info.classify = true, e.info.targets = static_cast<int64_t>(labels.count());
        e.info.binary = e.info.targets == 2 && !w.empty() && one_class;
        e.info.positive_weights = std::none_of(w.begin(), w.end(), [](auto const& x) { return x.value < 0; });
        e.labels = std::move(labels);
    } else {
        RG_TRY(aggregate, aggregate_of(n));
        e.info.aggregate = aggregate, e.info.targets = n.integer("n_targets", 0);
        if (e.info.targets < 1) return Err{invalid("n_targets is ", e.info.targets, ", expected at least 1")};
    }
    auto count = static_cast<int64_t>(e.base.size());
    bool fits = count == 0 || count == e.info.targets || (e.info.targets == 2 && count == 1 && e.info.classify);
    if (!fits) return Err{invalid("base_values has ", count, " elements, expected ", e.info.targets)};
    return e;
}

/// One child of `TreeEnsemble`: a node, or a leaf, which come behind the nodes.
Inferred<uint32_t> child_of(std::vector<int64_t> const& ids, std::vector<int64_t> const& is_leaf, size_t i,
                            size_t nodes, size_t leaves) {
    auto count = is_leaf[i] ? leaves : nodes;
    if (ids[i] < 0 || ids[i] >= static_cast<int64_t>(count))
        return Err{invalid("node ", i, " points to ", is_leaf[i] ? "leaf " : "node ", ids[i], " of ", count)};
    return static_cast<uint32_t>(ids[i]) + static_cast<uint32_t>(is_leaf[i] ? nodes : 0);
}

/// The sets of `membership_values`, which NaN separates, in the order of the nodes that ask for them.
Status read_members(NodeView const& n, TreeSource& trees, size_t sets) {
    auto values = numbers_of(n, "membership_values");
    trees.member_sets.resize(sets);
    size_t set = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i])) {
            ++set;
            continue;
        }
        if (set >= sets) return invalid("membership_values has more than ", sets, " sets, one for each BRANCH_MEMBER");
        trees.member_sets[set].push_back(values[i]);
    }
    return std::nullopt;
}

/// Attributes that `TreeEnsemble` numbers instead of naming.
Status read_numbered(NodeView const& n, TreeEnsembleInfo& info) {
    auto transform = n.integer("post_transform", 0), aggregate = n.integer("aggregate_function", 1);
    if (transform < 0 || transform > 4) return invalid("post_transform is ", transform, ", expected 0 to 4");
    if (aggregate < 0 || aggregate > 3) return invalid("aggregate_function is ", aggregate, ", expected 0 to 3");
    info.transform = static_cast<PostTransform>(transform);
    info.aggregate = static_cast<TreeAggregate>(aggregate);
    info.targets = n.integer("n_targets", 1);
    if (info.targets < 1) return invalid("n_targets is ", info.targets, ", expected at least 1");
    return std::nullopt;
}

Inferred<TreeAttributes> read_indexed(NodeView const& n) {
    TreeAttributes e;
    auto features = n.integers("nodes_featureids"), roots = n.integers("tree_roots");
    auto yes = n.integers("nodes_truenodeids"), no = n.integers("nodes_falsenodeids");
    auto yes_leaf = n.integers("nodes_trueleafs"), no_leaf = n.integers("nodes_falseleafs");
    auto missing = n.integers("nodes_missing_value_tracks_true"), targets = n.integers("leaf_targetids");
    auto splits = numbers_of(n, "nodes_splits"), modes = numbers_of(n, "nodes_modes");
    auto weights = numbers_of(n, "leaf_weights");
    auto count = features.size(), leaves = targets.size();
    if (auto failure = expect_count(yes, count, "nodes_truenodeids")) return Err{*failure};
    if (auto failure = expect_count(no, count, "nodes_falsenodeids")) return Err{*failure};
    if (auto failure = expect_count(yes_leaf, count, "nodes_trueleafs")) return Err{*failure};
    if (auto failure = expect_count(no_leaf, count, "nodes_falseleafs")) return Err{*failure};
    if (auto failure = expect_count(splits, count, "nodes_splits")) return Err{*failure};
    if (auto failure = expect_count(modes, count, "nodes_modes")) return Err{*failure};
    if (auto failure = expect_count(weights, leaves, "leaf_weights")) return Err{*failure};
    if (!missing.empty())
        if (auto failure = expect_count(missing, count, "nodes_missing_value_tracks_true")) return Err{*failure};
    size_t sets = 0;
    for (size_t i = 0; i < count; ++i) {
        if (!(modes[i] >= 0 && modes[i] <= 6)) return Err{invalid("the mode of node ", i, " is ", modes[i])};
        TreeSource::Node node{static_cast<TreeMode>(modes[i]), !missing.empty() && missing[i] != 0, features[i],
                              splits[i]};
        if (node.mode == TreeMode::Member) node.members = static_cast<uint32_t>(sets++);
        RG_TRY(on_true, child_of(yes, yes_leaf, i, count, leaves));
        RG_TRY(on_false, child_of(no, no_leaf, i, count, leaves));
        node.yes = on_true, node.no = on_false;
        e.trees.nodes.push_back(node);
    }
    if (auto failure = read_members(n, e.trees, sets)) return Err{*failure};
    e.trees.nodes.resize(count + leaves);
    for (size_t i = 0; i < leaves; ++i)
        e.trees.weights.push_back({static_cast<uint32_t>(count + i), targets[i], weights[i]});
    if (roots.empty()) return Err{invalid("tree_roots is empty, expected at least one tree")};
    for (auto root : roots) {
        if (root < 0 || root >= static_cast<int64_t>(count))
            return Err{invalid("a root is node ", root, " of ", count)};
        e.trees.roots.push_back(static_cast<uint32_t>(root));
    }
    if (auto failure = read_numbered(n, e.info)) return Err{*failure};
    return e;
}

}  // namespace

Inferred<TreeAttributes> read_ensemble(NodeView const& n) {
    return n.op_type == "TreeEnsemble" ? read_indexed(n) : read_named(n);
}

}  // namespace refactor::onnx
