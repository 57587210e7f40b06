#include "gather_matmul/gather_matmul.h"

#include "common/thread_pool.h"
#include "movement/indices.h"

namespace refactor::kernel {

std::string GatherMatMulShape::init(GatherMatMulInfo const& info, BindArgs const& args) {
    auto const &x = *args.inputs[0], &w = *args.inputs[1], &indices = *args.inputs[2], &y = *args.outputs[0];
    auto complain = [&] {
        return "X " + movement::to_string(x.dims) + ", W " + movement::to_string(w.dims) + ", indices " +
               movement::to_string(indices.dims) + ", Y " + movement::to_string(y.dims) + " do not fit";
    };
    if (w.dims.size() != 3) return complain();
    matrices = w.dims[0], k = w.dims[1 + info.trans_w], n = w.dims[2 - info.trans_w];
    rows = indices.count(), index = indices.dtype;
    if (x.count() != rows * k || y.count() != rows * n) return complain();
    return {};
}

int64_t GatherMatMulShape::matrix_of(void const* indices, int64_t t) const {
    return movement::checked_index("GatherMatMul", movement::index_at(indices, index, t), t, 0, matrices);
}

std::string why_not_gather_matmul(Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    if (request.inputs.size() != 3 || request.outputs.size() != 1) return "expects X, W, indices and Y";
    for (int i : {0, 1})
        if (auto type = request.inputs[static_cast<size_t>(i)].dtype; type != DataType::F32)
            return std::string(i ? "W" : "X") + " is " + std::string(name_of(type)) + ", expected f32";
    if (auto type = request.inputs[2].dtype; !movement::is_index(type))
        return "indices are " + std::string(name_of(type)) + ", expected i32 or i64";
    return {};
}

namespace {

class Reference final : public runtime::Task {
    GatherMatMulShape shape_;
    bool trans_w_;

    void row(void* const* arguments, int64_t t) const {
        auto const* x = static_cast<float const*>(arguments[0]) + t * shape_.k;
        auto const* w =
            static_cast<float const*>(arguments[1]) + shape_.matrix_of(arguments[2], t) * shape_.k * shape_.n;
        auto* y = static_cast<float*>(arguments[3]) + t * shape_.n;
        for (int64_t j = 0; j < shape_.n; ++j) {
            double sum = 0;
            for (int64_t p = 0; p < shape_.k; ++p)
                sum +=
                    static_cast<double>(x[p]) * static_cast<double>(w[trans_w_ ? j * shape_.k + p : p * shape_.n + j]);
            y[j] = static_cast<float>(sum);
        }
    }

public:
    Reference(GatherMatMulShape const& shape, bool trans_w) : shape_(shape), trans_w_(trans_w) {}
    static MaybeTask make(GatherMatMulInfo const& info, BindArgs const& args) {
        GatherMatMulShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new Reference(shape, info.trans_w));
    }
    static Result<double, Rejection> cost(GatherMatMulInfo const& info, BindArgs const& args) {
        GatherMatMulShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return shape.operations() * 0.75 / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(shape_.rows, [&](int64_t t, int) { row(arguments, t); });
    }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

MaybeKernel make_gather_matmul_reference(GatherMatMulInfo const& info, Request const& request) {
    if (auto why = why_not_gather_matmul(request); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new InfoKernel<GatherMatMulInfo, Reference>(id_of("gather_matmul", "reference", DataType::F32), info));
}

Candidates candidates(GatherMatMulInfo const& info, Request const& request) {
    Candidates answer;
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "gather_matmul/gather_matmul_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
