#include "elementwise/elementwise.h"
#include "elementwise/tile_task.h"

#include <algorithm>

namespace refactor::kernel {

using namespace elementwise;

namespace {

class TileKernel final : public Kernel {
public:
    TileKernel(std::shared_ptr<TileProgram const> program, std::string id)
        : program_(std::move(program)), id_(std::move(id)) {}
    std::string id() const override { return id_; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        if (args.inputs.size() != program_->input_bytes.size() || args.outputs.size() != program_->output_bytes.size())
            return Err{Rejection{std::to_string(args.inputs.size()) + " inputs and " +
                                 std::to_string(args.outputs.size()) + " outputs, expected " +
                                 std::to_string(program_->input_bytes.size()) + " and " +
                                 std::to_string(program_->output_bytes.size())}};
        auto nest = LoopNest::make(args, program_->input_bytes);
        if (!nest) return Err{nest.error()};
        return std::unique_ptr<runtime::Task>(new TileTask(program_, std::move(*nest), args.threads));
    }

private:
    std::shared_ptr<TileProgram const> program_;
    std::string id_;
};

ElementwiseResult make_tile(ElementwiseInfo const& info, Request const& request, Isa isa) {
    if (request.isa < isa)
        return Err{
            Rejection{"instruction set " + std::string(name_of(request.isa)) + ", needs " + std::string(name_of(isa))}};
    auto program = TileProgram::make(info, request, isa);
    if (!program) return Err{program.error()};
    auto id =
        "elementwise:cpu:tile:" + std::string(name_of(request.outputs[0].dtype)) + ":" + std::string(name_of(isa));
    return ElementwiseResult(std::make_unique<TileKernel>(*program, std::move(id)));
}

}  // namespace

ElementwiseResult elementwise_tile_avx512bf16(ElementwiseInfo const& info, Request const& request) {
    auto is_bf16 = [](Operand const& operand) { return operand.dtype == DataType::BF16; };
    if (std::none_of(request.inputs.begin(), request.inputs.end(), is_bf16) &&
        std::none_of(request.outputs.begin(), request.outputs.end(), is_bf16))
        return Err{Rejection{"neither inputs nor outputs of bf16"}};
    return make_tile(info, request, Isa::Avx512Bf16);
}
ElementwiseResult elementwise_tile_avx512(ElementwiseInfo const& info, Request const& request) {
    return make_tile(info, request, Isa::Avx512);
}
ElementwiseResult elementwise_tile_avx2(ElementwiseInfo const& info, Request const& request) {
    return make_tile(info, request, Isa::Avx2);
}
ElementwiseResult elementwise_tile_scalar(ElementwiseInfo const& info, Request const& request) {
    return make_tile(info, request, Isa::Scalar);
}

}  // namespace refactor::kernel
