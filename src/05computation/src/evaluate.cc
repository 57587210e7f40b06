#include "computation/evaluate.h"

#include "common/thread_pool.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"

namespace refactor::computation {

namespace {

using Outcome = Result<std::vector<Constant>, kernel::Rejection>;

kernel::Operand operand_of(Constant const& constant) {
    kernel::Operand operand;
    operand.dtype = constant.dtype, operand.dims = constant.dims, operand.constant = constant.blob;
    return operand;
}

Outcome run(runtime::Task const& task, std::span<Constant const> inputs, std::vector<Constant> outputs) {
    std::vector<void*> arguments;
    for (auto const& input : inputs) arguments.push_back(input.blob ? const_cast<void*>(input.blob->data()) : nullptr);
    std::vector<std::shared_ptr<mem_manager::Blob>> blobs;
    for (auto const& output : outputs) {
        blobs.push_back(output.dtype == DataType::Undefined
                            ? nullptr
                            : mem_manager::Blob::make(mem_manager::cpu_device(),
                                                      storage_bytes(output.dtype, element_count(output.dims))));
        arguments.push_back(blobs.back() ? blobs.back()->data() : nullptr);
    }
    auto workspace = mem_manager::Blob::make(mem_manager::cpu_device(), task.workspace_bytes());
    ThreadPool pool(1);
    FlushDenormals flush;
    task.run(arguments.data(), {pool, static_cast<std::byte*>(workspace->data()), nullptr});
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].blob = std::move(blobs[i]);
    return outputs;
}

}  // namespace

Outcome evaluate(Operator const& op, std::span<Constant const> inputs, std::vector<Constant> outputs,
                 std::span<int64_t const> params) {
    if (op.is_random()) return Err{kernel::Rejection{std::string(op.type()) + " is random"}};
    if (op.is_alias()) {
        outputs[0].blob = inputs[0].blob;
        return outputs;
    }
    std::vector<kernel::Operand> in, out;
    std::vector<kernel::TensorDesc const*> in_descs, out_descs;
    for (auto const& input : inputs) in.push_back(operand_of(input));
    for (auto const& output : outputs) out.push_back(operand_of(output));
    for (auto const& operand : in) in_descs.push_back(operand.absent() ? nullptr : &operand);
    for (auto const& operand : out) out_descs.push_back(operand.absent() ? nullptr : &operand);
    auto candidates = op.candidates({in, out, "cpu", cpu_features().isa, 1, kernel::Precision::Exact});
    std::string reasons;
    for (auto const& rejection : candidates.rejections) reasons += "\n  " + rejection.reason;
    kernel::PackCache packs;
    for (auto const& kernel : candidates.kernels) {
        auto task = kernel->bind({in_descs, out_descs, params, packs, 1});
        if (!task) {
            reasons += "\n  " + kernel->id() + ": " + task.error().reason;
            continue;
        }
        try {
            return run(**task, inputs, std::move(outputs));
        } catch (Error const& error) {
            return Err{kernel::Rejection{error.what()}};
        }
    }
    return Err{kernel::Rejection{"no kernel computes " + std::string(op.type()) + ":" + reasons}};
}

}  // namespace refactor::computation
