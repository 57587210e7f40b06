#include "shape_values/shape_values.h"

#include "cuda/movement_kernels.h"

namespace refactor::kernel {

using namespace movement;

Candidates candidates(ShapeValuesInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("shape_values:nvidia:nvrtc", cuda::shape_values_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "shape_values/shape_values_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

TaskResult bind_reference(ShapeValuesInfo const&, BindArgs const& args, Isa) {
    Dims values(args.params.begin(), args.params.end());
    if (args.outputs[0]->count() != static_cast<int64_t>(values.size()))
        return Err{Rejection{"output " + to_string(args.outputs[0]->dims) + " for " + std::to_string(values.size()) +
                             " values"}};
    return make_task([values](void* const* a, runtime::RunContext const&) {
        std::memcpy(a[0], values.data(), values.size() * sizeof(int64_t));
    });
}

}  // namespace

KernelResult shape_values_reference(ShapeValuesInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 0, .max_inputs = 0, .same_dtype = false})) return Err{*no};
    if (request.outputs[0].dtype != DataType::I64)
        return Err{Rejection{"output of " + std::string(name_of(request.outputs[0].dtype)) + ", expected i64"}};
    return make_kernel(info, "shape_values", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
