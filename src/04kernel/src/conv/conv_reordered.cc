#include "conv/conv_reordered.h"

#include "common/cpu_features.h"
#include "reorder/reorder_task.h"

namespace refactor::kernel {

namespace {

/// Copies operands that are Plain into scratch memory in the blocked layout, runs the inner task, and copies the output
/// back.
class ReorderedTask final : public runtime::Task {
    struct Moved {
        int argument = -1;
        size_t offset = 0;
        TensorReorder reorder;
    };
    std::unique_ptr<runtime::Task> inner_;
    ConvOperands operands_;
    SmallVector<int, 4> unused_;
    Moved before_[2], after_;
    size_t bytes_ = 0;

public:
    ReorderedTask(std::unique_ptr<runtime::Task> inner, Epilogue const& epilogue, ReorderIsa const& isa,
                  std::span<bool const> moved, BindArgs const& args)
        : inner_(std::move(inner)), operands_(epilogue) {
        auto place = [&](Moved& m, int argument, bool to_blocked, TensorDesc const& desc) {
            m = {argument, bytes_, TensorReorder(isa, to_blocked, desc)};
            TensorDesc blocked = desc;
            blocked.layout = isa.block == 16 ? Layout::Blocked16 : Layout::Blocked8;
            bytes_ += (static_cast<size_t>(blocked.stored_count()) * sizeof(float) + 63) / 64 * 64;
        };
        if (moved[0]) place(before_[0], 0, true, *args.inputs[0]);
        if (operands_.residual >= 0 && moved[1])
            place(before_[1], operands_.residual, true, *args.inputs[static_cast<size_t>(operands_.residual)]);
        if (moved[1]) place(after_, operands_.output, false, *args.outputs[0]);
    }

    size_t workspace_bytes() const override { return bytes_ + inner_->workspace_bytes(); }
    size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
    double operations() const override { return inner_->operations(); }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        void* inner[5];
        for (int i = 0; i <= operands_.output; ++i) inner[i] = arguments[i];
        for (auto const& m : before_) {
            if (m.argument < 0) continue;
            inner[m.argument] = context.workspace + m.offset;
            m.reorder.run(arguments[m.argument], inner[m.argument], context.pool);
        }
        if (after_.argument >= 0) inner[after_.argument] = context.workspace + after_.offset;
        auto below = context;
        below.workspace += bytes_;
        inner_->run(inner, below);
        if (after_.argument >= 0) after_.reorder.run(inner[after_.argument], arguments[after_.argument], context.pool);
    }
};

class ReorderedKernel final : public NamedKernel {
    std::vector<std::unique_ptr<Kernel>> inner_;
    Epilogue epilogue_;
    Isa isa_;
    bool move_x_, move_y_;

    /// Operands as the inner kernel sees them.
    struct Blocked {
        TensorDesc descs[3];
        TensorDesc const *inputs[4], *outputs[1];
    };
    BindArgs inner_args(BindArgs const& args, Blocked& b) const {
        ConvOperands operands(epilogue_);
        auto layout = isa_ == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
        auto moved = [&](bool move, TensorDesc const* desc, TensorDesc& copy) {
            if (!move) return desc;
            copy = *desc, copy.layout = layout;
            return static_cast<TensorDesc const*>(&copy);
        };
        for (size_t i = 0; i < args.inputs.size(); ++i) b.inputs[i] = args.inputs[i];
        b.inputs[0] = moved(move_x_, args.inputs[0], b.descs[0]);
        if (operands.residual >= 0) {
            auto i = static_cast<size_t>(operands.residual);
            b.inputs[i] = moved(move_y_, args.inputs[i], b.descs[1]);
        }
        b.outputs[0] = moved(move_y_, args.outputs[0], b.descs[2]);
        return {{b.inputs, args.inputs.size()}, b.outputs, args.params, args.packs, args.threads};
    }

    struct Choice {
        Kernel const* kernel = nullptr;
        double time = 0;
        std::string reason;
    };
    Choice choose(BindArgs const& args) const {
        if (inner_.size() == 1) return {inner_[0].get(), 0, {}};
        Choice best;
        for (auto const& kernel : inner_) {
            auto time = kernel->estimate(args);
            if (!time)
                best.reason += kernel->id() + ": " + time.error().reason + "; ";
            else if (!best.kernel || *time < best.time)
                best.kernel = kernel.get(), best.time = *time;
        }
        return best;
    }

public:
    ReorderedKernel(std::string id, std::vector<std::unique_ptr<Kernel>> inner, Epilogue const& epilogue, Isa isa,
                    bool move_x, bool move_y)
        : NamedKernel(std::move(id)),
          inner_(std::move(inner)),
          epilogue_(epilogue),
          isa_(isa),
          move_x_(move_x),
          move_y_(move_y) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        Blocked b;
        auto inner = inner_args(args, b);
        double time = 0;
        Choice best;
        for (auto const& kernel : inner_) {
            auto one = kernel->estimate(inner);
            if (one && (!best.kernel || *one < time)) best.kernel = kernel.get(), time = *one;
            if (!one) best.reason += one.error().reason + "; ";
        }
        if (!best.kernel) return Err{Rejection{best.reason}};
        // A reorder moves about 8 bytes a ns and core.
        auto bytes = [](TensorDesc const& t) { return 8. * static_cast<double>(t.stored_count()); };
        auto moved = (move_x_ ? bytes(*args.inputs[0]) : 0) +
                     (move_y_ ? bytes(*args.outputs[0]) * (epilogue_.residual ? 2 : 1) : 0);
        return time + moved / (8. * args.threads);
    }

    TaskResult bind(BindArgs const& args) const override {
        Blocked b;
        auto inner = inner_args(args, b);
        auto choice = choose(inner);
        if (!choice.kernel) return Err{Rejection{choice.reason}};
        auto task = choice.kernel->bind(inner);
        if (!task) return task;
        bool const moved[] = {move_x_, move_y_};
        return std::unique_ptr<runtime::Task>(std::make_unique<ReorderedTask>(
            std::move(task).value(), epilogue_, isa_ == Isa::Avx512 ? reorder_avx512() : reorder_avx2(), moved, args));
    }
};

}  // namespace

KernelResult reordered(std::string id, Epilogue const& epilogue, Request const& request, Isa isa,
                       std::vector<std::unique_ptr<Kernel>> (*find)(void const*, Request const&), void const* info) {
    if (auto reason = conv_mismatch(epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    auto const& x = request.inputs[0];
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    ConvOperands operands(epilogue);
    auto y_layout = request.outputs[0].layout;
    for (auto layout : {x.layout, y_layout})
        if (layout != Layout::Plain && layout != blocked)
            return Err{Rejection{"is for Plain and its vectors' blocked layout"}};
    if (x.layout == blocked && y_layout == blocked) return Err{Rejection{"is for Plain operands"}};
    std::vector<Operand> inputs(request.inputs.begin(), request.inputs.end());
    auto output = request.outputs[0];
    if (operands.residual >= 0 && inputs[static_cast<size_t>(operands.residual)].layout != y_layout)
        return Err{Rejection{"expects the residual in the layout of Y"}};
    auto inner = request;
    inner.inputs = inputs, inner.outputs = {&output, 1};
    output.layout = blocked;
    if (operands.residual >= 0) inputs[static_cast<size_t>(operands.residual)].layout = blocked;
    // Kernels that read X where it is come first.
    auto kernels = y_layout == blocked ? std::vector<std::unique_ptr<Kernel>>{} : find(info, inner);
    bool move_x = x.layout == Layout::Plain && kernels.empty();
    if (move_x) {
        inputs[0].layout = blocked;
        kernels = find(info, inner);
    }
    if (kernels.empty()) return Err{Rejection{"no kernel for the blocked layout"}};
    return std::unique_ptr<Kernel>(std::make_unique<ReorderedKernel>(std::move(id), std::move(kernels), epilogue, isa,
                                                                     move_x, y_layout == Layout::Plain));
}

}  // namespace refactor::kernel
