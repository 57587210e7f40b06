#include "lookup/lookup.h"

#include "cuda/movement_kernels.h"

#include <algorithm>

namespace refactor::kernel {

using namespace movement;

Candidates candidates(LookupInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("lookup:nvidia:nvrtc", cuda::lookup_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "lookup/lookup_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

template <class T>
TaskResult bind_typed(LookupInfo const&, BindArgs const& args, Isa) {
    auto keys = args.inputs[1]->count();
    if (args.inputs[2]->count() != keys || args.inputs[3]->count() != 1)
        return Err{Rejection{std::to_string(args.inputs[2]->count()) + " values and " +
                             std::to_string(args.inputs[3]->count()) + " defaults, expected " + std::to_string(keys) +
                             " and 1"}};
    auto count = args.inputs[0]->count(), bytes = element_bytes(args.outputs[0]->dtype);
    return make_task([=](void* const* a, runtime::RunContext const& context) {
        auto* x = static_cast<T const*>(a[0]);
        auto* codes = static_cast<uint64_t const*>(a[1]);
        auto* values = static_cast<std::byte const*>(a[2]);
        auto* fallback = static_cast<std::byte const*>(a[3]);
        auto* y = static_cast<std::byte*>(a[4]);
        // A search touches about 64 bytes of keys at each of its last steps.
        parallel_bytes(context.pool, count, count * 64, [&](int64_t begin, int64_t end) {
            with_word(bytes, [&](auto word) {
                using W = decltype(word);
                for (auto i = begin; i < end; ++i) {
                    auto code = lookup_code(x[i]);
                    auto* found = std::lower_bound(codes, codes + keys, code);
                    bool hit = found != codes + keys && *found == code;
                    store(y + i * bytes, load<W>(hit ? values + (found - codes) * bytes : fallback));
                }
            });
        });
    });
}

}  // namespace

KernelResult lookup_search(LookupInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 4, .max_inputs = 4, .same_dtype = false})) return Err{*no};
    auto type = request.inputs[0].dtype, value = request.outputs[0].dtype;
    for (size_t i : {2, 3})
        if (request.inputs[i].dtype != value)
            return Err{Rejection{"values of " + std::string(name_of(request.inputs[i].dtype)) + ", expected " +
                                 std::string(name_of(value))}};
    auto made = [&](auto x) { return make_kernel(info, "lookup", "search", request, bind_typed<decltype(x)>); };
    switch (type) {
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
            return Err{Rejection{"keys of " + std::string(name_of(type)) + ", expected f32, f64, i16, i32 or i64"}};
    }
}

}  // namespace refactor::kernel
