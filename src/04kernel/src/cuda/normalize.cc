#include "cuda/instances.h"
#include "cuda/kernels.h"
#include "cuda/rows_in_registers.h"
#include "group_norm/group_norm.h"
#include "layer_norm/layer_norm.h"

#include <bit>

namespace refactor::kernel::cuda {

namespace {

/// Sets of consecutive elements that are normalised, and the words of the kernels about them.
struct NormalizePlan {
    DataType type;
    bool rms = false, channels = false;
    int64_t sets = 0, size = 0;
    std::vector<Address> places{};  ///< x, scale, bias, residual, y, sum
    float epsilon = 0;
    int64_t scale_step = 0, bias_step = 0;
    int64_t groups = 1, group_channels = 1, positions = 1;
};

/// Vectors of a thread of a set that several blocks share: 64 bytes of f32.
constexpr int64_t kSharedItems = 4;

std::vector<uint64_t> numbers_of(NormalizePlan const& plan, int64_t length, int vector, int64_t shares) {
    std::vector<uint64_t> numbers;
    for (auto number : {plan.sets, length, static_cast<int64_t>(std::bit_cast<uint32_t>(plan.epsilon)), plan.scale_step,
                        plan.bias_step, plan.groups, plan.group_channels, plan.positions / vector, shares})
        numbers.push_back(static_cast<uint64_t>(number));
    return numbers;
}

Launches launches_of(NormalizePlan const& plan, Instances const& instances) {
    Launches launches;
    launches.operations = 8. * static_cast<double>(plan.sets * plan.size);
    if (plan.sets * plan.size == 0) return launches;
    auto const* type = element_text(plan.type);
    // A vector must not reach into another channel.
    RowsInRegisters rows(plan.type, plan.sets, plan.size, plan.channels ? plan.positions : plan.size);
    bool idle = rows.blocks() < kBusyBlocks / 4 && rows.length > 2 * kSharedItems * kBlockThreads;
    auto shares = rows.fit && !idle ? 1 : ceil_div(rows.length, kSharedItems * kBlockThreads);
    auto numbers = numbers_of(plan, rows.length, rows.vector, shares);
    auto places = plan.places;
    places.push_back(shares > 1 ? scratch() : kNowhere);
    if (shares == 1) {
        auto call =
            template_text("rg_normalize_registers", type, plan.rms, plan.channels, rows.vector, rows.items, rows.lanes);
        launches.list.push_back(instances.launch("rg_normalize", call, rows.blocks(), places, numbers));
        return launches;
    }
    auto part_bytes = 3 * (plan.type == DataType::F64 ? sizeof(double) : sizeof(float));
    launches.workspace = static_cast<size_t>(plan.sets * shares) * part_bytes;
    auto call = template_text("rg_normalize_parts", type, plan.rms, rows.vector, kSharedItems);
    launches.list.push_back(instances.launch("rg_normalize_parts", call, plan.sets * shares, places, numbers));
    call = template_text("rg_normalize_apply", type, plan.rms, plan.channels, rows.vector, kSharedItems);
    launches.list.push_back(instances.launch("rg_normalize_apply", call, plan.sets * shares, places, numbers));
    return launches;
}

Result<Launches, Rejection> bind_layer_norm(LayerNormInfo const& info, BindArgs const& args,
                                            Instances const& instances) {
    auto const& x = *args.inputs[0];
    AxisSplit split(x.dims, info.axis, static_cast<int64_t>(x.dims.size()) - info.axis);
    NormalizePlan plan{x.dtype, info.rms};
    plan.sets = split.outer, plan.size = split.size, plan.epsilon = info.epsilon;
    int next = 2;
    auto bias = info.has_bias ? operand(next++) : kNowhere;
    auto residual = info.residual ? operand(next++) : kNowhere;
    auto y = operand(next++);
    bool has_sum = args.outputs.size() > 1 && args.outputs[1];
    plan.places = {operand(0), operand(1), bias, residual, y, has_sum ? operand(next) : kNowhere};
    plan.scale_step = args.inputs[1]->count() != 1, plan.bias_step = info.has_bias && args.inputs[2]->count() != 1;
    auto launches = launches_of(plan, instances);
    launches.in_place = has_sum ? 0 : 1;
    return launches;
}

Result<Launches, Rejection> bind_group_norm(GroupNormInfo const& info, BindArgs const& args,
                                            Instances const& instances) {
    auto const& x = *args.inputs[0];
    GroupShape shape(info, x.dims);
    NormalizePlan plan{x.dtype, false, true};
    plan.sets = shape.sets, plan.size = shape.channels * shape.positions, plan.epsilon = info.epsilon;
    plan.groups = shape.groups, plan.group_channels = shape.channels, plan.positions = shape.positions;
    plan.places = {operand(0), operand(1), operand(2), kNowhere, operand(3), kNowhere};
    auto launches = launches_of(plan, instances);
    launches.in_place = 1;
    return launches;
}

}  // namespace

MaybeKernel layer_norm_nvrtc(LayerNormInfo const& info, Request const& request) {
    return make_instances(info, request, "layer_norm", request.inputs[0].dtype, kNormalizeSource,
                          make_layer_norm_reference, bind_layer_norm);
}

MaybeKernel group_norm_nvrtc(GroupNormInfo const& info, Request const& request) {
    return make_instances(info, request, "group_norm", request.inputs[0].dtype, kNormalizeSource,
                          make_group_norm_reference, bind_group_norm);
}

}  // namespace refactor::kernel::cuda
