#include "common/error.h"
#include "common/thread_pool.h"
#include "cuda/device_selects.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

using runtime::Value;

/// Boxes of one batch by column, so that one is compared with many at once.
struct Corners {
    std::vector<float> y0, x0, y1, x1, area;

    explicit Corners(size_t count) : y0(count), x0(count), y1(count), x1(count), area(count) {}

    void set(size_t i, float const* box, bool center) {
        if (center)
            x0[i] = box[0] - box[2] / 2, x1[i] = box[0] + box[2] / 2, y0[i] = box[1] - box[3] / 2,
            y1[i] = box[1] + box[3] / 2;
        else
            y0[i] = std::min(box[0], box[2]), y1[i] = std::max(box[0], box[2]), x0[i] = std::min(box[1], box[3]),
            x1[i] = std::max(box[1], box[3]);
        area[i] = (y1[i] - y0[i]) * (x1[i] - x0[i]);
    }
};

struct Limits {
    int64_t most = 0;
    float overlap = 0, score = 0;
    bool has_score = false;
};

/// Whether the box `i` of `all` overlaps one of the `count` chosen boxes by more than `limit`.
bool is_covered(Corners const& all, size_t i, Corners const& chosen, size_t count, float limit) {
    // In blocks: the inner loop has no exit, so that it runs in vectors.
    constexpr size_t kBlock = 16;
    for (size_t begin = 0; begin < count; begin += kBlock) {
        auto end = std::min(begin + kBlock, count);
        int covered = 0;
        for (size_t k = begin; k < end; ++k) {
            auto height = std::min(all.y1[i], chosen.y1[k]) - std::max(all.y0[i], chosen.y0[k]);
            auto width = std::min(all.x1[i], chosen.x1[k]) - std::max(all.x0[i], chosen.x0[k]);
            auto common = std::max(height, 0.f) * std::max(width, 0.f);
            auto both = all.area[i] + chosen.area[k] - common;
            covered |= common > limit * both && both > 0;
        }
        if (covered) return true;
    }
    return false;
}

std::vector<int64_t> choose(Corners const& boxes, float const* scores, Limits const& limits) {
    auto count = static_cast<int64_t>(boxes.area.size());
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i)
        if (!limits.has_score || scores[i] > limits.score) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
    std::vector<int64_t> result;
    auto room = static_cast<size_t>(std::min<int64_t>(limits.most, static_cast<int64_t>(order.size())));
    Corners chosen(room);
    for (auto i : order) {
        auto at = static_cast<size_t>(i), k = result.size();
        if (k >= room) break;
        if (is_covered(boxes, at, chosen, k, limits.overlap)) continue;
        chosen.y0[k] = boxes.y0[at], chosen.x0[k] = boxes.x0[at], chosen.y1[k] = boxes.y1[at];
        chosen.x1[k] = boxes.x1[at], chosen.area[k] = boxes.area[at];
        result.push_back(i);
    }
    return result;
}

class NonMaxSuppression final : public runtime::Procedure {
    bool center_;

    template <class T>
    static std::optional<T> scalar(std::span<Value const* const> inputs, size_t i, char const* what) {
        if (i >= inputs.size() || !inputs[i]) return std::nullopt;
        if (inputs[i]->count() != 1)
            throw InvalidInput(std::string(what) + " is " + describe(*inputs[i]) + ", expected one element");
        return *inputs[i]->template data<T>();
    }

public:
    explicit NonMaxSuppression(bool center) : center_(center) {}
    std::string id() const override { return "non_max_suppression:cpu:greedy:f32"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& context) const override {
        auto const &boxes = *inputs[0], &scores = *inputs[1];
        auto batches = scores.dims[0], classes = scores.dims[1], count = scores.dims[2];
        if (boxes.dims[0] != batches || boxes.dims[1] != count || boxes.dims[2] != 4)
            throw InvalidInput("boxes are " + describe(boxes) + ", scores " + describe(scores) +
                               ", expected [batches, boxes, 4] and [batches, classes, boxes]");
        Limits limits;
        limits.most = std::max<int64_t>(scalar<int64_t>(inputs, 2, "the number of boxes").value_or(0), 0);
        limits.overlap = scalar<float>(inputs, 3, "the overlap").value_or(0);
        if (!(limits.overlap >= 0 && limits.overlap <= 1))
            throw InvalidInput("the overlap is " + std::to_string(limits.overlap) + ", expected 0 to 1");
        auto score = scalar<float>(inputs, 4, "the least score");
        limits.score = score.value_or(0), limits.has_score = score.has_value();
        std::vector<std::vector<int64_t>> chosen(static_cast<size_t>(batches * classes));
        for (int64_t batch = 0; batch < batches && limits.most; ++batch) {
            Corners corners(static_cast<size_t>(count));
            for (int64_t i = 0; i < count; ++i)
                corners.set(static_cast<size_t>(i), boxes.data<float>() + (batch * count + i) * 4, center_);
            context.pool->parallel_for(classes, [&](int64_t c, int) {
                auto task = batch * classes + c;
                chosen[static_cast<size_t>(task)] = choose(corners, scores.data<float>() + task * count, limits);
            });
        }
        size_t total = 0;
        for (auto const& list : chosen) total += list.size();
        auto* target = static_cast<int64_t*>(outputs[0].resize(DataType::I64, {static_cast<int64_t>(total), 3}));
        for (size_t task = 0; task < chosen.size(); ++task)
            for (auto i : chosen[task]) {
                *target++ = static_cast<int64_t>(task) / classes;
                *target++ = static_cast<int64_t>(task) % classes;
                *target++ = i;
            }
    }
};

}  // namespace

ProcedurePtr make_non_max_suppression(bool center, mem_manager::Device* place) {
    auto there = place ? cuda::non_max_suppression_nvrtc(*place, center) : nullptr;
    return there ? there : std::make_shared<NonMaxSuppression>(center);
}

}  // namespace refactor::kernel
