#include "common/cpu_features.h"
#include "common/error.h"
#include "common/thread_pool.h"
#include "cuda/device_selects.h"
#include "kernel/ops/trees.h"
#include "nms/box_strips.h"

#include <algorithm>
#include <compare>

namespace refactor::kernel {

namespace {

using runtime::Value;

void set(BoxColumns& to, size_t i, float const* box, bool center) {
    if (center)
        to.x0[i] = box[0] - box[2] / 2, to.x1[i] = box[0] + box[2] / 2, to.y0[i] = box[1] - box[3] / 2,
        to.y1[i] = box[1] + box[3] / 2;
    else
        to.y0[i] = std::min(box[0], box[2]), to.y1[i] = std::max(box[0], box[2]), to.x0[i] = std::min(box[1], box[3]),
        to.x1[i] = std::max(box[1], box[3]);
    to.area[i] = (to.y1[i] - to.y0[i]) * (to.x1[i] - to.x0[i]);
}

struct Limits {
    int64_t most = 0;
    float overlap = 0, score = 0;
    bool has_score = false;
};

bool is_covered_scalar(BoxColumns const& boxes, size_t count, Candidate const& c) {
    for (size_t k = 0; k < count; ++k) {
        auto height = std::min(c.y1, boxes.y1[k]) - std::max(c.y0, boxes.y0[k]);
        auto width = std::min(c.x1, boxes.x1[k]) - std::max(c.x0, boxes.x0[k]);
        auto common = std::max(height, 0.f) * std::max(width, 0.f);
        auto both = c.area + boxes.area[k] - common;
        if (common > c.limit * both && both > 0) return true;
    }
    return false;
}

CoverFunction cover_function() {
#if RG_X86
    if (cpu_features().isa >= Isa::Avx2) return is_covered_avx2;
#endif
    return is_covered_scalar;
}

/// Boxes from the highest score to the lowest, equal ones as they stand. Few of many are wanted as a rule: they are
/// sorted in portions, when somebody asks for them.
class ByScore {
    struct Ranked {
        uint32_t rank;  ///< less for a higher score
        int64_t index;
        auto operator<=>(Ranked const&) const = default;
    };
    std::vector<Ranked> all_;
    size_t sorted_ = 0, portion_;

public:
    ByScore(float const* scores, int64_t count, Limits const& limits) {
        for (int64_t i = 0; i < count; ++i)
            if (!limits.has_score || scores[i] > limits.score) all_.push_back({~tree_key(scores[i]), i});
        portion_ = static_cast<size_t>(std::clamp<int64_t>(limits.most, 32, int64_t{1} << 32)) * 2;
    }
    size_t count() const { return all_.size(); }
    int64_t operator[](size_t i) {
        if (i >= sorted_) {
            auto begin = all_.begin() + static_cast<int64_t>(sorted_);
            auto end = all_.size() - sorted_ > portion_ ? begin + static_cast<int64_t>(portion_) : all_.end();
            if (end != all_.end()) std::nth_element(begin, end, all_.end());
            std::sort(begin, end);
            sorted_ = static_cast<size_t>(end - all_.begin());
            portion_ *= 2;
        }
        return all_[i].index;
    }
};

/// `count` boxes, of which `order` has those with enough score.
std::vector<int64_t> choose(BoxColumns const& boxes, size_t count, ByScore order, Limits const& limits) {
    auto room = std::min(static_cast<size_t>(limits.most), order.count());
    BoxStrips chosen(boxes, count, room, cover_function());
    std::vector<int64_t> result;
    for (size_t next = 0; next < order.count() && result.size() < room; ++next) {
        auto i = static_cast<size_t>(order[next]);
        Candidate box{boxes.y0[i], boxes.x0[i], boxes.y1[i], boxes.x1[i], boxes.area[i], limits.overlap};
        if (chosen.cover(box)) continue;
        chosen.add(box);
        result.push_back(order[next]);
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
            BoxColumns corners(static_cast<size_t>(count));
            for (int64_t i = 0; i < count; ++i)
                set(corners, static_cast<size_t>(i), boxes.data<float>() + (batch * count + i) * 4, center_);
            context.pool->parallel_for(classes, [&](int64_t c, int) {
                auto task = batch * classes + c;
                chosen[static_cast<size_t>(task)] =
                    choose(corners, static_cast<size_t>(count),
                           ByScore(scores.data<float>() + task * count, count, limits), limits);
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
