#include "conv/conv.h"
#include "conv/geometry.h"
#include "cuda/channels_first.h"
#include "cuda/dnn.h"
#include "cuda/epilogue_program.h"
#include "cuda/kernels.h"
#include "cuda/library.h"
#include "cuda/rates.h"

#include <algorithm>
#include <optional>

namespace refactor::kernel {
namespace cuda {

namespace {

/// Of an activation in `RefactorConvolution`; nothing if the library has none like it.
std::optional<int32_t> number_of(Activation const& activation) {
    switch (activation.kind) {
        case ActivationKind::None:
            return 0;
        case ActivationKind::Relu:
            return 1;
        case ActivationKind::Clip:
            return 2;
        case ActivationKind::LeakyRelu:
            return 3;
        case ActivationKind::Sigmoid:
            return 4;
        case ActivationKind::Silu:
            return 5;
        case ActivationKind::GeluErf:
            return 6;
        case ActivationKind::GeluTanh:
            return 7;
        case ActivationKind::Tanh:
            return 8;
        default:
            return std::nullopt;
    }
}

/// An epilogue in two parts: what the library's plan does, and what a kernel does behind it, if anything.
struct Division {
    Epilogue inside, behind;
    std::unique_ptr<Kernel> kernel;  ///< null: nothing is behind
};

class DnnConvTask final : public runtime::Task {
    Dnn dnn_;
    DnnPlan plan_;
    ConvOperands operands_;
    Epilogue inside_, behind_;
    std::unique_ptr<runtime::Task> epilogue_;  ///< null if the plan does everything
    double operations_;

public:
    DnnConvTask(Dnn const& dnn, DnnPlan plan, ConvOperands const& operands, Division const& division,
                std::unique_ptr<runtime::Task> epilogue, double operations)
        : dnn_(dnn),
          plan_(std::move(plan)),
          operands_(operands),
          inside_(division.inside),
          behind_(division.behind),
          epilogue_(std::move(epilogue)),
          operations_(operations) {}

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto address = [&](int number) { return number < 0 ? nullptr : arguments[number]; };
        auto *y = arguments[operands_.output], *bias = address(operands_.bias), *residual = address(operands_.residual);
        void const* operands[]{arguments[0], arguments[1], inside_.bias ? bias : nullptr,
                               inside_.residual ? residual : nullptr};
        dnn_.run(plan_, context.stream, operands, y, context.workspace);
        if (!epilogue_) return;
        void* steps[4]{y};
        int count = 1;
        if (behind_.bias) steps[count++] = bias;
        if (behind_.residual) steps[count++] = residual;
        steps[count] = y;
        epilogue_->run(steps, context);
    }
    size_t workspace_bytes() const override { return plan_.workspace_bytes; }
    double operations() const override { return operations_; }
};

/// What the two operators have in common.
struct Convolution {
    Window window;
    int64_t group;
    Epilogue epilogue;
    bool transposed;
    bool channels_last;
};

class DnnConvKernel final : public Kernel {
    Convolution info_;
    DataType dtype_;
    Dnn dnn_;
    int rank_;
    Precision precision_;
    std::vector<Division> divisions_;  ///< of the epilogue, the best first

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        ChannelsFirst turned(args, info_.channels_last);
        auto g = info_.transposed ? conv_transpose_geometry(info_.window, info_.group, turned.args())
                                  : conv_geometry(info_.window, info_.group, turned.args());
        if (!g) return g;
        if (g->empty()) return Err{Rejection{"nothing to compute"}};
        for (int axis = 0; info_.transposed && axis < 3; ++axis) {
            auto reach = g->dilation[axis] * (g->kernel[axis] - 1) + 1;
            auto rest = g->out[axis] + 2 * g->pad[axis] - reach;
            if (rest < 0 || rest / g->stride[axis] + 1 != g->in[axis])
                return Err{Rejection{"axis " + std::to_string(axis) + " has other pads at its end than at its begin"}};
        }
        return g;
    }

    RefactorConvolution describe(Geometry const& g) const {
        RefactorConvolution c{};
        c.dtype = static_cast<int32_t>(dtype_), c.transposed = info_.transposed;
        c.channels_last = info_.channels_last;
        c.exact = precision_ == Precision::Exact, c.tf32 = precision_ == Precision::Tf32;
        c.batch = g.batch, c.groups = g.group, c.in_channels = g.in_channels, c.out_channels = g.out_channels;
        std::copy_n(g.in, 3, c.in), std::copy_n(g.out, 3, c.out), std::copy_n(g.kernel, 3, c.kernel);
        std::copy_n(g.stride, 3, c.stride), std::copy_n(g.dilation, 3, c.dilation);
        std::copy_n(g.pad, 3, c.pad_begin), std::copy_n(g.pad_end, 3, c.pad_end);
        return c;
    }

    /// The plan with this part of the epilogue inside, if the library has one.
    Result<DnnPlan, Rejection> plan(RefactorConvolution c, Epilogue const& inside) const {
        c.bias = inside.bias, c.residual = inside.residual, c.residual_last = inside.residual_last;
        c.activation = number_of(inside.activation).value_or(0);
        c.alpha = static_cast<double>(inside.activation.alpha), c.beta = static_cast<double>(inside.activation.beta);
        return dnn_.convolution(c, rank_);
    }

    MaybeTask bind_behind(BindArgs const& args, Division const& division, ConvOperands const& at) const {
        auto const& y = *args.outputs[0];
        SmallVector<TensorDesc const*, 4> inputs{&y};
        TensorDesc bias{dtype_, Layout::Plain, Dims(info_.channels_last ? 1 : y.dims.size() - 1, 1)};
        bias.dims[0] = info_.channels_last ? y.dims.back() : y.dims[1];
        if (division.behind.bias) inputs.push_back(&bias);
        if (division.behind.residual) inputs.push_back(args.inputs[static_cast<size_t>(at.residual)]);
        return division.kernel->bind({inputs, args.outputs, {}, args.packs, args.threads});
    }

public:
    DnnConvKernel(Convolution info, DataType dtype, Dnn const& dnn, int rank, Precision precision,
                  std::vector<Division> divisions)
        : info_(std::move(info)),
          dtype_(dtype),
          dnn_(dnn),
          rank_(rank),
          precision_(precision),
          divisions_(std::move(divisions)) {}

    std::string id() const override {
        auto algorithm = rank_ ? "cudnn_" + std::to_string(rank_) : std::string("cudnn");
        return id_of(info_.transposed ? "conv_transpose" : "conv", algorithm.c_str(), dtype_);
    }

    /// Reading operands, or 70 % of the units (tensor cores for f16 and bf16); with few channels of a group the
    /// library's engines waste most of a tile.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        bool half = dtype_ == DataType::F16 || dtype_ == DataType::BF16;
        auto group_out = g->out_channels / g->group;
        auto filling = std::min(1., static_cast<double>(group_out) / 32);
        auto computing = operations(*g) / 2 /
                         (kProcessors * kTiledRate *
                          (half                            ? 8
                           : precision_ == Precision::Tf32 ? 4
                                                           : 1.2) *
                          filling);
        double bytes = 0;
        for (auto const* operand : args.inputs) bytes += operand ? static_cast<double>(operand->count()) : 0;
        bytes *= bits_of(dtype_) / 8;
        auto const& first = divisions_.front();
        auto slowdown = is_slow_in_cudnn(first.inside.activation) ? 4 : 1;
        return kLaunchTime * (first.kernel ? 2 : 1) +
               slowdown * std::max(computing, bytes / (0.7 * kMemoryRate)) * (1 + 0.01 * rank_) +
               (slowdown - 1) * kLaunchTime;
    }

    MaybeTask bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        ConvOperands at(info_.epilogue);
        auto convolution = describe(*g);
        Rejection last;
        for (auto const& division : divisions_) {
            auto made = plan(convolution, division.inside);
            if (!made) {
                last = made.error();
                continue;
            }
            std::unique_ptr<runtime::Task> epilogue;
            if (division.kernel) {
                auto bound = bind_behind(args, division, at);
                if (!bound) return Err{bound.error()};
                epilogue = std::move(bound).value();
            }
            return std::unique_ptr<runtime::Task>(std::make_unique<DnnConvTask>(
                dnn_, std::move(made).value(), at, division, std::move(epilogue), operations(*g)));
        }
        return Err{last};
    }

private:
    double operations(Geometry const& g) const {
        auto positions = info_.transposed ? g.in_size() : g.out_size();
        return 2. * static_cast<double>(g.batch * positions * g.taps()) *
               static_cast<double>(g.in_channels / g.group * g.out_channels);
    }
};

/// The kernel that does `behind` to Y, null if there is nothing to do.
MaybeKernel kernel_behind(Epilogue const& behind, Convolution const& info, Request const& request) {
    if (behind == Epilogue{}) return std::unique_ptr<Kernel>();
    std::vector<Operand> inputs{request.outputs[0]};
    auto const& y = request.outputs[0].dims;
    if (behind.bias) {
        inputs.push_back(request.inputs[2]);
        auto& bias = inputs.back().dims;
        while (!info.channels_last && bias.size() + 1 < y.size()) bias.push_back(1);
    }
    if (behind.residual) inputs.push_back(request.inputs[info.epilogue.bias ? 3 : 2]);
    auto inner = request;
    inner.inputs = inputs;
    return elementwise_nvrtc(program_of(behind, request.inputs[0].dtype), inner);
}

/// Ways to divide the epilogue, the best first. Plans of a higher rank, which only measurements choose, have all
/// inside.
Result<std::vector<Division>, Rejection> divisions_of(Convolution const& info, Request const& request, int rank) {
    auto const& all = info.epilogue;
    std::vector<Division> divisions;
    bool late_first = rank == 0 && is_slow_in_cudnn(all.activation);
    if (!late_first && number_of(all.activation)) divisions.push_back({all, {}, nullptr});
    if (all.activation.kind != ActivationKind::None && all.activation.kind != ActivationKind::Relu) {
        Division late{all, {}, nullptr};
        late.inside.activation = {}, late.behind.activation = all.activation;
        if (all.residual_last) {
            late.inside.residual = late.inside.residual_last = false;
            late.behind.residual = all.residual, late.behind.residual_last = true;
        }
        divisions.push_back(std::move(late));
    }
    if (!(all == Epilogue{})) divisions.push_back({{}, all, nullptr});
    for (auto& division : divisions) {
        auto made = kernel_behind(division.behind, info, request);
        if (!made) return Err{made.error()};
        division.kernel = std::move(made).value();
    }
    return divisions;
}

MaybeKernel make(Convolution info, Request const& request, int rank) {
    auto dnn = Dnn::of(request);
    if (!dnn) return Err{dnn.error()};
    if (auto why = conv_operand_mismatch(info.epilogue, request); !why.empty()) return Err{Rejection{why}};
    auto dtype = request.inputs[0].dtype;
    if (dtype != DataType::F32 && dtype != DataType::F64 && dtype != DataType::F16 && dtype != DataType::BF16)
        return Err{Rejection{"dtype " + std::string(refactor::name_of(dtype)) + ", expected f32, f64, f16 or bf16"}};
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
    auto divisions = divisions_of(info, request, rank);
    if (!divisions) return Err{divisions.error()};
    return std::unique_ptr<Kernel>(std::make_unique<DnnConvKernel>(std::move(info), dtype, *dnn, rank,
                                                                   request.precision, std::move(divisions).value()));
}

}  // namespace
}  // namespace cuda

bool is_slow_in_cudnn(Activation const& activation) {
    return activation.kind == ActivationKind::Clip || activation.kind == ActivationKind::LeakyRelu;
}

namespace cuda {

MaybeKernel conv_cudnn(ConvInfo const& info, Request const& request, int rank) {
    return make({info.window, info.group, info.epilogue, false, info.channels_last}, request, rank);
}
MaybeKernel conv_transpose_cudnn(ConvTransposeInfo const& info, Request const& request, int rank) {
    return make({info.window, info.group, info.epilogue, true, info.channels_last}, request, rank);
}

}  // namespace cuda
}  // namespace refactor::kernel
