// NonMaxSuppression: boxes of a class are sorted by their scores, then one block chooses among them.
#include "common/error.h"
#include "cuda/device_selects.h"
#include "cuda/selection.h"
#include "kernel/ops/reduce.h"
#include "mem_manager/device.h"

namespace refactor::kernel::cuda {

using runtime::Value;

namespace {

// A line is a class of a batch. `covered` has a byte for each of its boxes in the order of their scores.
constexpr char const* kChoice = R"cuda(
struct rg_choice_args {
    rg_u64 boxes, scores, order, covered, chosen, counts, target, lines, classes, size, room, overlap, score;
};
struct rg_box { float y0, x0, y1, x1, area; };
RG_FN rg_box rg_box_at(float const* box) {
    rg_box b;
    if constexpr (kCenter) {
        b.x0 = box[0] - box[2] / 2, b.x1 = box[0] + box[2] / 2;
        b.y0 = box[1] - box[3] / 2, b.y1 = box[1] + box[3] / 2;
    } else {
        b.y0 = rg_least(box[0], box[2]), b.y1 = rg_most(box[0], box[2]);
        b.x0 = rg_least(box[1], box[3]), b.x1 = rg_most(box[1], box[3]);
    }
    b.area = (b.y1 - b.y0) * (b.x1 - b.x0);
    return b;
}
RG_FN bool rg_covers(rg_box const& a, rg_box const& b, float limit) {
    const float height = rg_least(a.y1, b.y1) - rg_most(a.y0, b.y0);
    const float width = rg_least(a.x1, b.x1) - rg_most(a.x0, b.x0);
    const float common = rg_most(height, 0.f) * rg_most(width, 0.f), both = a.area + b.area - common;
    return common > limit * both && both > 0;
}
)cuda";

// All warps look for the next box together; it covers later ones only, so that they find the same.
constexpr char const* kChooseBody = R"cuda(
RG_GLOBAL rg_choose(rg_choice_args a) {
    RG_WAIT();
    const float limit = (float)rg_f64(a.overlap), least = (float)rg_f64(a.score);
    const unsigned lane = threadIdx.x % 32;
    for (rg_u64 line = blockIdx.x; line < a.lines; line += gridDim.x) {
        float const* boxes = (float const*)a.boxes + line / a.classes * a.size * 4;
        float const* scores = (float const*)a.scores + line * a.size;
        rg_u64 const* order = (rg_u64 const*)a.order + line * a.size;
        unsigned char* covered = (unsigned char*)a.covered + line * a.size;
        rg_u64* chosen = (rg_u64*)a.chosen + line * a.room;
        for (rg_u64 i = threadIdx.x; i < a.size; i += 256) covered[i] = kHasScore && !(scores[i] > least);
        __syncthreads();
        rg_u64 taken = 0, at = 0;
        while (taken < a.room && at < a.size) {
            const unsigned open = __ballot_sync(0xffffffffu, at + lane < a.size && !covered[at + lane]);
            if (!open) {
                at += 32;
                continue;
            }
            at += __ffs(open) - 1;
            const rg_box box = rg_box_at(boxes + order[at] * 4);
            if (threadIdx.x == 0) chosen[taken] = order[at];
            ++taken, ++at;
            for (rg_u64 i = at + threadIdx.x; i < a.size; i += 256)
                if (!covered[i] && rg_covers(rg_box_at(boxes + order[i] * 4), box, limit)) covered[i] = 1;
            __syncthreads();
        }
        if (threadIdx.x == 0) ((rg_u64*)a.counts)[line] = taken;
        __syncthreads();
    }
}
)cuda";

constexpr char const* kWriteBody = R"cuda(
RG_GLOBAL rg_write_chosen(rg_choice_args a) {
    RG_WAIT();
    RG_FOR(rg_u64, i, a.lines * a.room) {
        const rg_u64 line = i / a.room, rank = i % a.room, first = ((rg_u64 const*)a.counts)[line];
        if (first + rank >= ((rg_u64 const*)a.counts)[line + 1]) continue;
        rg_u64* target = (rg_u64*)a.target + (first + rank) * 3;
        target[0] = line / a.classes, target[1] = line % a.classes, target[2] = ((rg_u64 const*)a.chosen)[i];
    }
}
)cuda";

template <class T>
std::optional<T> scalar(std::span<Value const* const> inputs, size_t i, char const* what) {
    if (i >= inputs.size() || !inputs[i]) return std::nullopt;
    if (inputs[i]->count() != 1)
        throw InvalidInput(std::string(what) + " is " + describe(*inputs[i]) + ", expected one element");
    return *on_host(*inputs[i]).template data<T>();
}

class Suppression final : public DeviceProcedure {
    bool center_;
    std::unique_ptr<Kernel> sort_;

    static std::unique_ptr<Kernel> sorter(mem_manager::Device& place) {
        TopKInfo info;
        info.axis = 1;
        return kernel_for(place, info, {row_major(DataType::F32, {-1, -1})},
                          {row_major(DataType::F32, {-1, -1}), row_major(DataType::I64, {-1, -1})});
    }

protected:
    void compute(DeviceCall& call, Inputs inputs, Outputs outputs) const override {
        auto const &boxes = *inputs[0], &scores = *inputs[1];
        auto batches = scores.dims[0], classes = scores.dims[1], size = scores.dims[2], lines = batches * classes;
        if (boxes.dims[0] != batches || boxes.dims[1] != size || boxes.dims[2] != 4)
            throw InvalidInput("boxes are " + describe(boxes) + ", scores " + describe(scores) +
                               ", expected [batches, boxes, 4] and [batches, classes, boxes]");
        auto room = std::clamp<int64_t>(scalar<int64_t>(inputs, 2, "the number of boxes").value_or(0), 0, size);
        auto overlap = scalar<float>(inputs, 3, "the overlap").value_or(0);
        if (!(overlap >= 0 && overlap <= 1))
            throw InvalidInput("the overlap is " + std::to_string(overlap) + ", expected 0 to 1");
        auto score = scalar<float>(inputs, 4, "the least score");
        if (!room || !lines) {
            call.make(outputs[0], DataType::I64, {0, 3});
            return;
        }
        auto* sorted = call.scratch_of<float>(lines * size);
        auto *order = call.scratch_of<int64_t>(lines * size), *chosen = call.scratch_of<int64_t>(lines * room);
        auto* counts = call.scratch_of<int64_t>(lines + 1);
        auto* covered = call.scratch_of<uint8_t>(lines * size);
        Dims sizes{lines, size};
        call.run(*sort_, {{row_major(DataType::F32, sizes), call.here(scores)}},
                 {{row_major(DataType::F32, sizes), sorted}, {row_major(DataType::I64, sizes), order}});
        auto const* corners = call.here(boxes);
        auto start = [&](char const* name, char const* body, uint32_t blocks, void* target) {
            GeneratedLaunch launch;
            auto kind = constant_kind("kCenter", center_) + constant_kind("kHasScore", score.has_value()) + kChoice;
            launch.function = code_.function(name, kind, body);
            launch.blocks = blocks, launch.on({0, 1, 2, 3, 4, 5, 6});
            for (auto word : {lines, classes, size, room}) launch.add(word);
            launch.add(overlap), launch.add(score.value_or(0));
            call.launch(launch, {corners, sorted, order, covered, chosen, counts, target});
        };
        start("rg_choose", kChooseBody, blocks_for(lines, 1), nullptr);
        auto total = sum_up(call, code_, counts, lines);
        auto* target = call.make(outputs[0], DataType::I64, {total, 3});
        if (total) start("rg_write_chosen", kWriteBody, blocks_for(lines * room, kBlockThreads), target);
    }

public:
    Suppression(Library const& library, bool center)
        : DeviceProcedure("non_max_suppression:nvidia:nvrtc:f32", library),
          center_(center),
          sort_(sorter(library.device())) {}
    bool can_sort() const { return sort_ != nullptr; }
};

}  // namespace

ProcedurePtr non_max_suppression_nvrtc(mem_manager::Device& place, bool center) {
    auto library = Library::on(place);
    if (!library) return nullptr;
    auto made = std::make_shared<Suppression>(*library, center);
    return made->can_sort() ? made : nullptr;
}

}  // namespace refactor::kernel::cuda
