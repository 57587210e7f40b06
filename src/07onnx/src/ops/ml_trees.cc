#include "ops/ml_trees.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace refactor::onnx {

using frontend::Inferred;
using frontend::invalid;
using frontend::Status;

namespace {

constexpr uint32_t kNone = UINT32_MAX;

template <class Key>
class Flattener {
    using Float = std::conditional_t<sizeof(Key) == 8, double, float>;
    using Node = TreeSource::Node;
    static constexpr Key kNan = std::numeric_limits<Key>::max();

    /// What still has to be put into a node: a node of the source, or what is left of its comparison.
    enum class Part : uint8_t { Whole, WithoutNan, Members };
    struct Work {
        uint32_t slot, node;
        Part part = Part::Whole;
        uint32_t begin = 0, end = 0;  ///< of the members
    };
    struct Interval {
        Key low, span;
    };

    TreeSource const& source_;
    int64_t targets_;
    FlatTrees<Key> flat_;
    std::vector<uint32_t> placed_;           ///< slot of a node of the source
    std::vector<uint32_t> leaf_of_slot_;     ///< node of the source
    std::vector<uint32_t> feature_numbers_;  ///< by column
    std::vector<std::vector<Key>> member_sets_;
    std::vector<Work> work_;

    /// Keys that the comparison accepts; of NotEqual those that it refuses.
    static Interval interval(Node const& node) {
        static Key const kInfinity = kernel::tree_key(std::numeric_limits<Float>::infinity());
        auto k = kernel::tree_key(static_cast<Float>(node.split));
        bool missing = node.missing_is_true && node.mode != TreeMode::NotEqual;
        if (k == kNan) return missing ? Interval{kNan, 0} : Interval{0, 0};
        switch (node.mode) {
            case TreeMode::Less:
                k -= 1;
                [[fallthrough]];
            case TreeMode::LessEqual:
                // NaN comes before the first key when the interval begins one step below 0.
                return missing ? Interval{kNan, static_cast<Key>(k + 1)} : Interval{1, static_cast<Key>(k - 1)};
            case TreeMode::GreaterEqual:
                k -= 1;
                [[fallthrough]];
            case TreeMode::Greater: {
                auto low = static_cast<Key>(k + 1), high = missing ? kNan : kInfinity;
                return low > high ? Interval{0, 0} : Interval{low, static_cast<Key>(high - low)};
            }
            default:
                return {k, 0};
        }
    }

    uint32_t new_slots(uint32_t count) {
        auto slot = static_cast<uint32_t>(flat_.nodes.size());
        flat_.nodes.resize(slot + count);
        leaf_of_slot_.resize(slot + count, kNone);
        return slot;
    }

    uint32_t feature(int64_t column) {
        auto index = static_cast<size_t>(column);
        if (index >= feature_numbers_.size()) feature_numbers_.resize(index + 1, kNone);
        auto& number = feature_numbers_[index];
        if (number == kNone) {
            number = static_cast<uint32_t>(flat_.features.size());
            flat_.features.push_back(static_cast<int32_t>(column));
            flat_.columns = std::max(flat_.columns, column + 1);
        }
        return number * static_cast<uint32_t>(kernel::kTreeLanes);
    }

    /// Both ways of `slot`: `no` gets what is refused, `yes` what is accepted.
    void branch(uint32_t slot, Interval keys, uint32_t column, Work no, Work yes) {
        auto pair = new_slots(2);
        flat_.nodes[slot] = {keys.low, keys.span, column, pair};
        no.slot = pair, yes.slot = pair + 1;
        work_.push_back(no), work_.push_back(yes);
    }

    void place_members(Work const& w, Node const& node, uint32_t column) {
        auto const& keys = member_sets_[node.members];
        auto count = w.end - w.begin;
        if (count == 0) return place({w.slot, node.no});
        if (count == 1) return branch(w.slot, {keys[w.begin], 0}, column, {0, node.no}, {0, node.yes});
        auto middle = w.begin + count / 2;
        Interval below{1, static_cast<Key>(keys[middle - 1] - 1)};
        branch(w.slot, below, column, {0, w.node, Part::Members, middle, w.end},
               {0, w.node, Part::Members, w.begin, middle});
    }

    void place(Work const& w) {
        auto const& node = source_.nodes[w.node];
        if (node.mode == TreeMode::Leaf) {
            flat_.nodes[w.slot] = {0, 0, 0, w.slot};
            leaf_of_slot_[w.slot] = w.node;
            return;
        }
        if (w.part == Part::Whole) {
            if (placed_[w.node] != kNone) {  // shared: every key goes there
                flat_.nodes[w.slot] = {0, kNan, 0, placed_[w.node] - 1};
                return;
            }
            placed_[w.node] = w.slot;
        }
        auto column = feature(node.feature);
        bool is_member = node.mode == TreeMode::Member;
        auto size = is_member ? static_cast<uint32_t>(member_sets_[node.members].size()) : 0;
        if (w.part == Part::Whole && node.missing_is_true && (is_member || node.mode == TreeMode::Equal)) {
            auto rest = is_member ? Part::Members : Part::WithoutNan;
            return branch(w.slot, {kNan, 0}, column, {0, w.node, rest, 0, size}, {0, node.yes});
        }
        if (is_member)
            return place_members(w.part == Part::Whole ? Work{w.slot, w.node, Part::Members, 0, size} : w, node,
                                 column);
        bool swap = node.mode == TreeMode::NotEqual;
        branch(w.slot, interval(node), column, {0, swap ? node.yes : node.no}, {0, swap ? node.no : node.yes});
    }

    Status check_acyclic() const {
        enum class State : uint8_t { New, Open, Done };
        std::vector<State> states(source_.nodes.size());
        std::vector<uint32_t> path;
        for (auto root : source_.roots) {
            path.push_back(root);
            while (!path.empty()) {
                auto at = path.back();
                auto& state = states[at];
                auto const& node = source_.nodes[at];
                if (state != State::New || node.mode == TreeMode::Leaf) {
                    state = State::Done, path.pop_back();
                    continue;
                }
                state = State::Open;
                if (node.feature < 0 || node.feature > INT32_MAX)
                    return invalid("node ", at, " compares feature ", node.feature);
                for (auto child : {node.yes, node.no}) {
                    if (states[child] == State::Open) return invalid("node ", child, " is below itself");
                    if (states[child] == State::New) path.push_back(child);
                }
            }
        }
        return std::nullopt;
    }

    /// Weights by node: those of node i are `order[first[i], first[i + 1])`, as the source has them.
    struct WeightsOf {
        std::vector<uint32_t> first, order;
    };

    Inferred<WeightsOf> group_weights() const {
        WeightsOf result{std::vector<uint32_t>(source_.nodes.size() + 1),
                         std::vector<uint32_t>(source_.weights.size())};
        for (auto const& weight : source_.weights) {
            if (weight.target < 0 || weight.target >= targets_)
                return Err{invalid("a weight is for target or class ", weight.target, " of ", targets_)};
            ++result.first[weight.node + 1];
        }
        std::partial_sum(result.first.begin(), result.first.end(), result.first.begin());
        auto next = result.first;
        for (size_t i = 0; i < source_.weights.size(); ++i)
            result.order[next[source_.weights[i].node]++] = static_cast<uint32_t>(i);
        return result;
    }

    void add_weights(WeightsOf const& weights_of) {
        flat_.dense = -1;
        for (auto leaf : leaf_of_slot_) {
            flat_.first.push_back(static_cast<uint32_t>(flat_.weights.size()));
            if (leaf == kNone) continue;
            auto const* own = weights_of.order.data() + weights_of.first[leaf];
            size_t count = weights_of.first[leaf + 1] - weights_of.first[leaf];
            bool ordered = true;
            for (size_t i = 0; i < count; ++i) {
                auto const& weight = source_.weights[own[i]];
                ordered = ordered && weight.target == static_cast<int64_t>(i);
                flat_.targets.push_back(static_cast<uint32_t>(weight.target)), flat_.weights.push_back(weight.value);
            }
            auto width = ordered ? static_cast<int64_t>(count) : 0;
            flat_.dense = flat_.dense < 0 || flat_.dense == width ? width : 0;
        }
        flat_.first.push_back(static_cast<uint32_t>(flat_.weights.size()));
        flat_.dense = std::max<int64_t>(flat_.dense, 0);
    }

public:
    Flattener(TreeSource const& source, int64_t targets)
        : source_(source), targets_(targets), placed_(source.nodes.size(), kNone) {}

    Inferred<FlatTrees<Key>> run() {
        if (auto failure = check_acyclic()) return Err{*failure};
        RG_TRY(weights_of, group_weights());
        for (auto const& set : source_.member_sets) {
            auto& keys = member_sets_.emplace_back();
            for (auto value : set) keys.push_back(kernel::tree_key(static_cast<Float>(value)));
            std::sort(keys.begin(), keys.end());
            keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
        }
        for (auto root : source_.roots) {
            work_.push_back({new_slots(1), root});
            flat_.roots.push_back(work_.back().slot);
            while (!work_.empty()) {
                auto next = work_.back();
                work_.pop_back();
                place(next);
            }
        }
        if (flat_.features.empty()) feature(0);
        add_weights(weights_of);
        return std::move(flat_);
    }
};

}  // namespace

template <class Key>
Inferred<FlatTrees<Key>> flatten(TreeSource const& source, int64_t targets) {
    return Flattener<Key>(source, targets).run();
}
template Inferred<FlatTrees<uint32_t>> flatten(TreeSource const&, int64_t);
template Inferred<FlatTrees<uint64_t>> flatten(TreeSource const&, int64_t);

}  // namespace refactor::onnx
