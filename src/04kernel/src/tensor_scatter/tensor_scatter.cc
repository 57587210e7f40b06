#include "tensor_scatter/tensor_scatter.h"

#include "common/error.h"
#include "cuda/movement_kernels.h"

namespace refactor::kernel {

using namespace movement;

std::string TensorScatterInfo::attributes() const {
    return "axis=" + std::to_string(axis) + (circular ? ",circular" : "") + (indices ? ",indices" : "");
}

Candidates candidates(TensorScatterInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("tensor_scatter:nvidia:nvrtc", cuda::tensor_scatter_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "tensor_scatter/tensor_scatter_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

struct Sizes {
    int64_t batches, outer, kept, most, rows, row_bytes;  ///< `outer` blocks in each batch; rows of the cache, of a
                                                          ///< block of the output, and of the update
    bool circular;
};

/// Writes the same rows again if it is done again.
template <class F>
class WritingTask final : public FunctionTask<F> {
public:
    explicit WritingTask(F body) : FunctionTask<F>(std::move(body), 1) {}
    bool is_repeatable_in_place() const override { return true; }
};

void write(Sizes const& s, std::byte* y, std::byte const* update, int64_t batch, int64_t begin) {
    if (!s.circular && (begin < 0 || begin > s.most - s.rows))
        throw InvalidInput("TensorScatter writes " + std::to_string(s.rows) + " rows from " + std::to_string(begin) +
                           " in batch " + std::to_string(batch) + ", the cache has " + std::to_string(s.most));
    if (s.most == 0 || s.rows * s.row_bytes == 0) return;
    begin = (begin % s.most + s.most) % s.most;
    auto before_end = std::min(s.rows, s.most - begin);
    for (int64_t o = batch * s.outer; o < (batch + 1) * s.outer; ++o) {
        auto* block = y + o * s.most * s.row_bytes;
        auto const* rows = update + o * s.rows * s.row_bytes;
        std::memcpy(block + begin * s.row_bytes, rows, static_cast<size_t>(before_end * s.row_bytes));
        std::memcpy(block, rows + before_end * s.row_bytes, static_cast<size_t>((s.rows - before_end) * s.row_bytes));
    }
}

TaskResult bind_reference(TensorScatterInfo const& info, BindArgs const& args, Isa) {
    auto const &x = args.inputs[0]->dims, &update = args.inputs[1]->dims, &y = args.outputs[0]->dims;
    auto axis = static_cast<size_t>(info.axis);
    bool fits = info.axis > 0 && axis < x.size() && update.size() == x.size() && y.size() == x.size();
    for (size_t i = 0; fits && i < x.size(); ++i)
        fits = i == axis ? update[i] <= y[i] && x[i] <= y[i] : update[i] == x[i] && y[i] == x[i];
    if (fits && info.indices) fits = args.inputs[2]->dims == Dims{x[0]};
    if (!fits)
        return Err{Rejection{"cache " + to_string(x) + ", output " + to_string(y) + ", update " + to_string(update) +
                             ", axis " + std::to_string(info.axis)}};
    auto row_bytes = count_of(x, axis + 1, x.size()) * element_bytes(args.inputs[0]->dtype);
    Sizes s{x[0], count_of(x, 1, axis), x[axis], y[axis], update[axis], row_bytes, info.circular};
    auto output = 2 + info.indices;
    bool indices = info.indices;
    auto body = [s, output, indices](void* const* a, runtime::RunContext const& c) {
        auto* cache = static_cast<std::byte*>(a[output]);
        auto from = s.kept * s.row_bytes, to = s.most * s.row_bytes;
        if (a[0] != a[output])
            parallel_bytes(c.pool, s.batches * s.outer, s.batches * s.outer * to, [&](int64_t begin, int64_t end) {
                for (auto o = begin; o < end; ++o) {
                    // A cache without rows may have no address.
                    if (from)
                        std::memcpy(cache + o * to, static_cast<std::byte const*>(a[0]) + o * from,
                                    static_cast<size_t>(from));
                    std::memset(cache + o * to + from, 0, static_cast<size_t>(to - from));
                }
            });
        for (int64_t b = 0; b < s.batches; ++b)
            write(s, cache, static_cast<std::byte const*>(a[1]), b, indices ? static_cast<int64_t const*>(a[2])[b] : 0);
    };
    return std::unique_ptr<runtime::Task>(std::make_unique<WritingTask<decltype(body)>>(body));
}

}  // namespace

KernelResult tensor_scatter_reference(TensorScatterInfo const& info, Request const& request) {
    auto inputs = size_t{2} + info.indices;
    if (auto no = refuse(request, {.min_inputs = inputs, .max_inputs = inputs})) return Err{*no};
    if (request.inputs[1].dtype != request.inputs[0].dtype)
        return Err{Rejection{"an update of " + std::string(name_of(request.inputs[1].dtype)) + ", expected " +
                             std::string(name_of(request.inputs[0].dtype))}};
    if (info.indices && request.inputs[2].dtype != DataType::I64)
        return Err{Rejection{"indices of " + std::string(name_of(request.inputs[2].dtype)) + ", expected i64"}};
    return make_kernel(info, "tensor_scatter", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
