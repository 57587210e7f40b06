#include "kernel/procedures/tfidf.h"

#include "common/error.h"
#include "mem_manager/blob.h"
#include "movement/ranges.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace refactor::kernel {

using runtime::CallContext;
using runtime::Value;

namespace {

using Mode = TfIdfInfo::Mode;

constexpr int32_t kNone = -1;
// One look-up in a table that is larger than L1, for each item, length and distance.
constexpr double kLookUpNs = 10;

/// The n-grams as a tree: from a node by an item to the node of the longer n-gram.
class Grams {
    std::unordered_map<std::string_view, int32_t> texts_;
    std::unordered_map<int64_t, int32_t> numbers_;
    std::unordered_map<int64_t, int32_t> children_;
    std::vector<int32_t> grams_{kNone};
    std::vector<int32_t> roots_;  ///< children of the root by item

    static int64_t key(int32_t node, int32_t item) { return static_cast<int64_t>(node) << 32 | item; }

public:
    /// `info` must outlive the tree.
    explicit Grams(TfIdfInfo const& info) {
        auto total = std::max(info.texts.size(), info.numbers.size());
        size_t gram = 0;
        for (size_t size = 1; size <= info.counts.size(); ++size) {
            auto begin = static_cast<size_t>(info.counts[size - 1]);
            auto end = size < info.counts.size() ? static_cast<size_t>(info.counts[size]) : total;
            for (; begin + size <= end; begin += size, ++gram) {
                auto length = static_cast<int64_t>(size);
                if (length < info.shortest || length > info.longest) continue;
                int32_t node = 0;
                for (auto i = begin; i < begin + size; ++i) node = add(node, intern(info, i));
                grams_[static_cast<size_t>(node)] = static_cast<int32_t>(gram);
            }
        }
        roots_.assign(std::max(texts_.size(), numbers_.size()), kNone);
        for (size_t item = 0; item < roots_.size(); ++item)
            roots_[item] = find(children_, key(0, static_cast<int32_t>(item)));
    }

    int32_t item(std::string_view text) const { return find(texts_, text); }
    int32_t item(int64_t number) const { return find(numbers_, number); }
    int32_t child(int32_t node, int32_t item) const {
        return node == 0 ? roots_[static_cast<size_t>(item)] : find(children_, key(node, item));
    }
    /// Number of the n-gram that ends at the node.
    int32_t gram(int32_t node) const { return grams_[static_cast<size_t>(node)]; }

private:
    template <class Map, class Key>
    static int32_t find(Map const& map, Key const& wanted) {
        auto found = map.find(wanted);
        return found == map.end() ? kNone : found->second;
    }
    int32_t intern(TfIdfInfo const& info, size_t i) {
        if (info.is_text()) return texts_.emplace(info.texts[i], static_cast<int32_t>(texts_.size())).first->second;
        return numbers_.emplace(info.numbers[i], static_cast<int32_t>(numbers_.size())).first->second;
    }
    int32_t add(int32_t node, int32_t item) {
        auto [found, fresh] = children_.emplace(key(node, item), static_cast<int32_t>(grams_.size()));
        if (fresh) grams_.push_back(kNone);
        return found->second;
    }
};

class TfIdf final : public runtime::Procedure {
    TfIdfInfo info_;
    Grams grams_;
    int64_t outputs_;

    void add(int32_t gram, float* y) const {
        auto number = static_cast<size_t>(gram);
        auto weight = info_.mode == Mode::Tf || info_.weights.empty() ? 1.0f : info_.weights[number];
        auto& output = y[info_.indexes[number]];
        output = info_.mode == Mode::Idf ? weight : output + weight;
    }

    /// Adds what one row holds. Source: `onnx.reference`, TfIdfVectorizer.
    void count(std::span<int32_t const> items, float* y) const {
        auto length = static_cast<int64_t>(items.size());
        auto shortest = info_.shortest;
        // Farther apart than the row is long, only the first items of n-grams are left.
        auto farthest = std::min(info_.most_skipped + 1, std::max<int64_t>(length, 1));
        for (int64_t distance = 1; distance <= farthest; ++distance) {
            for (int64_t first = 0; first + distance * (shortest - 1) < length; ++first) {
                int32_t node = 0;
                int64_t at = first;
                for (int64_t size = 1; size <= info_.longest && at < length; ++size, at += distance) {
                    auto item = items[static_cast<size_t>(at)];
                    node = item == kNone ? kNone : grams_.child(node, item);
                    if (node == kNone) break;
                    if (size >= shortest && grams_.gram(node) != kNone) add(grams_.gram(node), y);
                }
            }
            // A 1-gram has no distances.
            if (shortest == 1 && ++shortest > info_.longest) break;
        }
    }

    void read_items(Value const& x, int64_t begin, std::span<int32_t> items) const {
        for (size_t i = 0; i < items.size(); ++i) {
            auto at = static_cast<size_t>(begin) + i;
            if (x.dtype == DataType::String)
                items[i] = grams_.item(x.contents->strings[at]);
            else
                items[i] = grams_.item(x.dtype == DataType::I32 ? x.data<int32_t>()[at] : x.data<int64_t>()[at]);
        }
    }

public:
    explicit TfIdf(TfIdfInfo info) : info_(std::move(info)), grams_(info_), outputs_(info_.outputs()) {}
    std::string id() const override { return std::string("tfidf:cpu:tree:") + (info_.is_text() ? "string" : "i64"); }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs, CallContext const& c) const override {
        auto const& x = *inputs[0];
        if (x.dims.empty() || x.dims.size() > 2) throw InvalidInput("expected [C] or [N, C], got " + describe(x));
        auto rows = x.dims.size() == 2 ? x.dims[0] : 1, length = x.dims.back();
        auto dims = x.dims;
        dims.back() = outputs_;
        auto* y = static_cast<float*>(outputs[0].resize(DataType::F32, dims));
        std::fill(y, y + rows * outputs_, 0.0f);
        auto distances = std::min(info_.most_skipped, length) + 1;
        auto steps = static_cast<double>(length * (1 + distances * std::min(info_.longest, length)));
        movement::for_ranges(*c.pool, rows, kLookUpNs * (1 + steps), [&](int64_t begin, int64_t end) {
            std::vector<int32_t> items(static_cast<size_t>(length));
            for (auto row = begin; row < end; ++row) {
                read_items(x, row * length, items);
                count(items, y + row * outputs_);
            }
        });
    }
};

}  // namespace

int64_t TfIdfInfo::outputs() const {
    return indexes.empty() ? 0 : *std::max_element(indexes.begin(), indexes.end()) + 1;
}

ProcedurePtr make_tfidf(TfIdfInfo info) { return std::make_shared<TfIdf>(std::move(info)); }

}  // namespace refactor::kernel
