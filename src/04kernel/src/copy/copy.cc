#include "copy/copy.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

using namespace movement;

Candidates candidates(CopyInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("copy:nvidia:memcpy", cuda::copy_memcpy(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "copy/copy_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// Bytes of the output; both sides have as many.
Result<int64_t, Rejection> bytes_of(BindArgs const& args) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    bool stored_alike = x.layout == y.layout && x.dims == y.dims;
    if (!stored_alike && (x.layout != Layout::Plain || y.layout != Layout::Plain || x.count() != y.count()))
        return Err{Rejection{"input " + to_string(x.dims) + " and output " + to_string(y.dims) +
                             ", expected as many elements in one layout"}};
    return static_cast<int64_t>(storage_bytes(y.dtype, y.stored_count()));
}

TaskResult bind_threaded(CopyInfo const&, BindArgs const& args, Isa) {
    auto bytes = bytes_of(args);
    if (!bytes) return Err{bytes.error()};
    return make_task(
        [n = *bytes](void* const* a, runtime::RunContext const& c) {
            auto *x = static_cast<char const*>(a[0]), *end = x + n;
            auto* y = static_cast<char*>(a[1]);
            if (x == y) return;
            constexpr int64_t kLine = 64;
            parallel_bytes(c.pool, (n + kLine - 1) / kLine, n, [&](int64_t from, int64_t to) {
                std::memcpy(y + from * kLine, x + from * kLine,
                            std::min<int64_t>((to - from) * kLine, end - x - from * kLine));
            });
        },
        1);
}

TaskResult bind_reference(CopyInfo const&, BindArgs const& args, Isa) {
    auto bytes = bytes_of(args);
    if (!bytes) return Err{bytes.error()};
    return make_task([n = *bytes](void* const* a, runtime::RunContext const&) { std::memmove(a[1], a[0], n); }, 1);
}

}  // namespace

KernelResult copy_threaded(CopyInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.blocked = true, .packed = true})) return Err{*no};
    return make_kernel(info, "copy", "threaded", request, bind_threaded);
}

KernelResult copy_reference(CopyInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.blocked = true, .packed = true})) return Err{*no};
    return make_kernel(info, "copy", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
