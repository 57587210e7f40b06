#include "concat/concat.h"
#include "movement/channel_copy.h"

namespace refactor::kernel {

using namespace movement;

namespace {

TaskResult bind_lanes(ConcatInfo const&, BindArgs const& args, Isa) {
    ChannelCopy copy(*args.outputs[0], args.inputs);
    return make_task(
        [copy = std::move(copy), output = args.inputs.size()](void* const* a, runtime::RunContext const& c) {
            parallel_bytes(c.pool, copy.blocks(), copy.bytes(),
                           [&](int64_t begin, int64_t end) { copy.run(a, a[output], begin, end); });
        });
}

}  // namespace

KernelResult concat_lanes(ConcatInfo const& info, Request const& request) {
    if (auto no = refuse_concat(info, request)) return Err{*no};
    if (request.outputs[0].layout == Layout::Plain) return Err{Rejection{"expects a blocked layout"}};
    return make_kernel(info, "concat", "lanes", request, bind_lanes);
}

}  // namespace refactor::kernel
