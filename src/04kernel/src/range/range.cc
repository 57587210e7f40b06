#include "range/range.h"

#include "cuda/movement_kernels.h"
#include "range/fill_range.h"

namespace refactor::kernel {

using namespace movement;

Candidates candidates(RangeInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("range:nvidia:nvrtc", cuda::range_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "range/range_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

template <class T>
TaskResult bind_typed(RangeInfo const&, BindArgs const& args, Isa) {
    auto n = args.outputs[0]->count();
    if (args.inputs.empty()) {
        if (args.params.size() != 2)
            return Err{Rejection{std::to_string(args.params.size()) + " params, expected start and delta"}};
        auto start = static_cast<T>(args.params[0]), delta = static_cast<T>(args.params[1]);
        return make_task(
            [=](void* const* a, runtime::RunContext const&) { fill_range<T>(static_cast<T*>(a[0]), n, start, delta); });
    }
    return make_task([=](void* const* a, runtime::RunContext const&) {
        fill_range<T>(static_cast<T*>(a[2]), n, *static_cast<T const*>(a[0]), *static_cast<T const*>(a[1]));
    });
}

}  // namespace

KernelResult range_reference(RangeInfo const& info, Request const& request) {
    auto n = request.inputs.size();
    if (auto no = refuse(request, {.min_inputs = n ? size_t{2} : 0, .max_inputs = n ? size_t{2} : 0})) return Err{*no};
    auto made = [&](auto value) {
        return make_kernel(info, "range", "reference", request, bind_typed<decltype(value)>);
    };
    switch (request.outputs[0].dtype) {
        case DataType::F32:
            return made(float{});
        case DataType::F64:
            return made(double{});
        case DataType::I16:
            return made(int16_t{});
        case DataType::I32:
            return made(int32_t{});
        case DataType::I64:
            return made(int64_t{});
        default:
            return Err{Rejection{"dtype " + std::string(name_of(request.outputs[0].dtype)) +
                                 ", expected f32, f64, i16, i32 or i64"}};
    }
}

}  // namespace refactor::kernel
