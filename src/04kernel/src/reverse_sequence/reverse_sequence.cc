#include "reverse_sequence/reverse_sequence.h"

#include "common/error.h"
#include "cuda/movement_kernels.h"

namespace refactor::kernel {

using movement::make_task;
using movement::TaskResult;

std::string ReverseSequenceInfo::attributes() const {
    return "time_axis=" + std::to_string(time_axis) + ",batch_axis=" + std::to_string(batch_axis);
}

Candidates candidates(ReverseSequenceInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("reverse_sequence:nvidia:nvrtc", cuda::reverse_sequence_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "reverse_sequence/reverse_sequence_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

TaskResult bind_reference(ReverseSequenceInfo const& info, BindArgs const& args, Isa) {
    auto const &x = *args.inputs[0], &counts = *args.inputs[1];
    bool axes = info.time_axis + info.batch_axis == 1 && (info.time_axis == 0 || info.batch_axis == 0);
    if (!axes || x.dims.size() < 2 || x.dims != args.outputs[0]->dims || counts.dims.size() != 1 ||
        counts.dims[0] != x.dims[static_cast<size_t>(info.batch_axis)])
        return Err{Rejection{info.attributes() + ", input " + movement::to_string(x.dims) + ", lengths " +
                             movement::to_string(counts.dims) + ", output " +
                             movement::to_string(args.outputs[0]->dims)}};
    auto bytes = movement::count_of(x.dims, 2, x.dims.size()) * movement::element_bytes(x.dtype);
    return make_task(
        [info, bytes, first = x.dims[0], second = x.dims[1]](void* const* a, runtime::RunContext const& c) {
            auto* from = static_cast<std::byte const*>(a[0]);
            auto* lengths = static_cast<int64_t const*>(a[1]);
            auto* to = static_cast<std::byte*>(a[2]);
            auto steps = info.time_axis ? second : first, batch = info.time_axis ? first : second;
            for (int64_t b = 0; b < batch; ++b)
                if (lengths[b] < 0 || lengths[b] > steps)
                    throw InvalidInput("ReverseSequence: length " + std::to_string(lengths[b]) + " (at position " +
                                       std::to_string(b) + ") is not within 0 and " + std::to_string(steps));
            movement::parallel_bytes(c.pool, first * second, first * second * bytes, [&](int64_t begin, int64_t end) {
                for (auto i = begin; i < end; ++i) {
                    auto t = info.time_axis ? i % second : i / second, b = info.time_axis ? i / second : i % second;
                    auto source = t < lengths[b] ? lengths[b] - 1 - t : t;
                    auto at = info.time_axis ? b * second + source : source * second + b;
                    std::memcpy(to + i * bytes, from + at * bytes, static_cast<size_t>(bytes));
                }
            });
        });
}

}  // namespace

movement::KernelResult reverse_sequence_reference(ReverseSequenceInfo const& info, Request const& request) {
    if (auto no = movement::refuse(request, {.min_inputs = 2, .max_inputs = 2})) return Err{*no};
    if (request.inputs[1].dtype != DataType::I64)
        return Err{Rejection{"lengths of " + std::string(name_of(request.inputs[1].dtype)) + ", expected i64"}};
    return movement::make_kernel(info, "reverse_sequence", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
