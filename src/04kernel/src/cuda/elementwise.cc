#include "cuda/expression_source.h"
#include "cuda/function_cache.h"
#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "movement/row_pieces.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

/// Their addresses and beginnings stay far below the limit of an argument.
constexpr size_t kMostPieces = 128;

/// What input 0 of a program is joined of.
struct Join {
    int64_t axis = 0;
    size_t pieces = 0;  ///< 0: it is one tensor
};

/// Operands as the program sees them; the concatenation is like the outputs, but of the type of its pieces.
class JoinedOperands {
    TensorDesc whole_;
    SmallVector<TensorDesc const*, 16> inputs_;
    Dims begins_;

public:
    static Result<JoinedOperands, Rejection> make(Join const& join, BindArgs const& args) {
        JoinedOperands operands;
        operands.whole_ = {args.inputs[0]->dtype, Layout::Plain, args.outputs[0]->dims};
        auto rows = movement::RowPieces::make(operands.whole_, args.inputs.first(join.pieces), join.axis);
        if (!rows) return Err{rows.error()};
        for (auto begin : rows->begin) operands.begins_.push_back(begin / (bits_of(operands.whole_.dtype) / 8));
        operands.inputs_.push_back(nullptr);
        for (auto const* input : args.inputs.subspan(join.pieces)) operands.inputs_.push_back(input);
        return operands;
    }
    Dims const& begins() const { return begins_; }
    BindArgs args(BindArgs const& all) {
        inputs_[0] = &whole_;
        return {inputs_, all.outputs, all.params, all.packs, all.threads};
    }
};

class ExpressionKernel final : public Kernel {
    ElementwiseInfo info_;
    Join join_;
    std::string id_;
    std::vector<DataType> inputs_;
    std::vector<bool> used_;
    int64_t widest_ = 1;
    FunctionCache functions_;

    void* function_of(ExpressionLoops const& loops) const {
        std::string name = "rg_elementwise";
        return functions_.get(name, loops.key(),
                              [&] { return kPrelude + expression_source(info_, loops, inputs_, name); });
    }

    /// Operands that stand in front of input 1 of the program.
    size_t pieces() const { return std::max<size_t>(1, join_.pieces); }

    /// Every thread reads its elements of such an input before it writes the same bytes.
    uint64_t in_place(ExpressionLoops const& loops) const {
        uint64_t inputs = 0;
        auto bits = bits_of(info_.code[info_.outputs[0]].dtype);
        for (size_t i = 0; i < inputs_.size(); ++i) {
            auto operand = i ? pieces() + i - 1 : 0;
            if (operand < 64 && loops.walks[i] == Walk::Linear && bits_of(inputs_[i]) == bits)
                inputs |= uint64_t{1} << operand;
        }
        return inputs;
    }

    std::vector<Address> addresses(ExpressionLoops const& loops, BindArgs const& args) const {
        std::vector<Address> all;
        for (size_t i = 0; i < loops.pieces(); ++i) all.push_back({static_cast<int>(std::min(i, pieces() - 1))});
        for (auto i = pieces(); i < args.inputs.size() + args.outputs.size(); ++i) all.push_back({static_cast<int>(i)});
        if (can_fault(info_)) all.push_back({Address::kFault});
        return all;
    }

public:
    /// `request`: of the program.
    ExpressionKernel(ElementwiseInfo info, Join join, Request const& request, Library const& library)
        : info_(std::move(info)), join_(join), used_(request.inputs.size()), functions_(library) {
        for (auto const& operand : request.inputs) inputs_.push_back(operand.dtype);
        for (auto const& code : info_.code) {
            if (code.op != ExprOp::Input) continue;
            used_[code.operands[0]] = true;
            widest_ = std::max<int64_t>(widest_, bits_of(code.dtype) / 8);
        }
        for (auto output : info_.outputs) widest_ = std::max<int64_t>(widest_, bits_of(info_.code[output].dtype) / 8);
        id_ = id_of(join_.pieces ? "joined_elementwise" : "elementwise", "nvrtc", info_.code[info_.outputs[0]].dtype);
    }

    std::string id() const override { return id_; }

    MaybeTask bind(BindArgs const& args) const override {
        auto loops = loops_of(args);
        if (!loops) return Err{loops.error()};
        Launch launch{function_of(*loops), blocks_for(loops->count, int64_t{kBlockThreads} * loops->vector),
                      kBlockThreads, addresses(*loops, args), expression_words(*loops)};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<LaunchTask>(functions_.library(), std::vector{std::move(launch)}, 0, in_place(*loops)));
    }

private:
    Result<ExpressionLoops, Rejection> loops_of(BindArgs const& args) const {
        if (!join_.pieces) return ExpressionLoops::make(args, used_, widest_);
        auto operands = JoinedOperands::make(join_, args);
        if (!operands) return Err{operands.error()};
        return ExpressionLoops::make(operands->args(args), used_, widest_, operands->begins());
    }
};

}  // namespace

MaybeKernel elementwise_nvrtc(ElementwiseInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (auto no = why_no_source(info, request)) return Err{*no};
    return std::unique_ptr<Kernel>(std::make_unique<ExpressionKernel>(info, Join{}, request, *library));
}

MaybeKernel joined_elementwise_nvrtc(JoinedElementwiseInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (info.pieces == 0 || info.pieces > kMostPieces || info.pieces > request.inputs.size())
        return Err{Rejection{std::to_string(info.pieces) + " pieces among " + std::to_string(request.inputs.size()) +
                             " inputs, expected 1 to " + std::to_string(kMostPieces)}};
    auto const& first = request.inputs[0];
    for (auto const& piece : request.inputs.first(info.pieces))
        if (piece.dtype != first.dtype || piece.layout != Layout::Plain)
            return Err{Rejection{"a piece of " + std::string(refactor::name_of(piece.dtype)) + " beside one of " +
                                 std::string(refactor::name_of(first.dtype)) + ", expected plain ones of one type"}};
    Operand whole{request.outputs[0], nullptr};
    whole.dtype = first.dtype;
    std::vector<Operand> inputs{whole};
    inputs.insert(inputs.end(), request.inputs.begin() + static_cast<std::ptrdiff_t>(info.pieces),
                  request.inputs.end());
    auto of_program = request;
    of_program.inputs = inputs;
    if (auto no = why_no_source(info.program, of_program)) return Err{*no};
    return std::unique_ptr<Kernel>(
        std::make_unique<ExpressionKernel>(info.program, Join{info.axis, info.pieces}, of_program, *library));
}

}  // namespace refactor::kernel::cuda
