#include "computation/evaluate.h"

#include "common/thread_pool.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/quantize.h"
#include "made_constants.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <array>
#include <deque>

namespace refactor::computation {

namespace {

using mem_manager::Blob;
using Outcome = Result<std::vector<Constant>, kernel::Rejection>;

kernel::Operand operand_of(Constant const& constant) {
    kernel::Operand operand;
    operand.dtype = constant.dtype, operand.dims = constant.dims, operand.constant = constant.blob;
    return operand;
}

/// `outputs` are given memory: of the first `memory`, if it is not null.
Outcome run(runtime::Task const& task, std::span<Constant const> inputs, std::vector<Constant> outputs, void* memory) {
    std::vector<void*> arguments;
    std::deque<Blob::Reader> readers;
    for (auto const& input : inputs)
        arguments.push_back(input.blob ? const_cast<void*>(readers.emplace_back(*input.blob).data()) : nullptr);
    std::vector<std::shared_ptr<Blob>> blobs;
    for (auto const& output : outputs) {
        auto bytes = output.dtype == DataType::Undefined ? 0 : storage_bytes(output.dtype, element_count(output.dims));
        auto& blob = blobs.emplace_back();
        if (memory && blobs.size() == 1)
            blob = Blob::wrap(mem_manager::cpu_device(), memory, bytes, nullptr);
        else if (output.dtype != DataType::Undefined)
            blob = Blob::make_pages(bytes);
        arguments.push_back(blob ? blob->data() : nullptr);
    }
    auto workspace = Blob::make(mem_manager::cpu_device(), task.workspace_bytes());
    auto scratch = Blob::make(mem_manager::cpu_device(), task.scratch_bytes());
    ThreadPool pool(1);
    FlushDenormals flush;
    task.run(arguments.data(), {pool, static_cast<std::byte*>(workspace->data()), nullptr, nullptr,
                                static_cast<std::byte*>(scratch->data())});
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].blob = std::move(blobs[i]);
    return outputs;
}

Outcome compute(Operator const& op, std::span<Constant const> inputs, std::vector<Constant> outputs,
                std::span<int64_t const> params, void* memory = nullptr) {
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
            return run(**task, inputs, std::move(outputs), memory);
        } catch (Error const& error) {
            return Err{kernel::Rejection{error.what()}};
        }
    }
    return Err{kernel::Rejection{"no kernel computes " + std::string(op.type()) + ":" + reasons}};
}

/// Writes what `op` makes of inputs like `inputs` with the bytes `data`.
void compute_again(Operator const& op, std::span<Constant const> inputs, Constant const& output,
                   std::span<int64_t const> params, std::span<void const* const> data, void* to) {
    std::vector<Constant> in(inputs.begin(), inputs.end());
    for (size_t i = 0; i < in.size(); ++i)
        if (auto& blob = in[i].blob)
            blob = Blob::wrap(mem_manager::cpu_device(), const_cast<void*>(data[i]), blob->bytes(), nullptr);
    auto done = compute(op, in, {output}, params, to);
    if (!done) throw InternalError(done.error().reason);
}

SharedBlob evaluated_again(std::shared_ptr<Operator const> const& op, std::span<Constant const> inputs,
                           Constant const& output, std::span<int64_t const> params) {
    std::vector<SharedBlob> from;
    for (auto const& input : inputs) from.push_back(input.blob);
    Constant empty{output.dtype, output.dims, nullptr};
    auto again = [op, in = std::vector(inputs.begin(), inputs.end()), empty,
                  numbers = std::vector(params.begin(), params.end())](std::span<void const* const> data, void* to) {
        compute_again(*op, in, empty, numbers, data, to);
    };
    return remade(std::const_pointer_cast<Blob>(output.blob), std::move(from), std::move(again));
}

/// The deleter of a derived constant: pointers to it carry its derivation.
struct DerivedOwner {
    std::shared_ptr<Blob const> blob;
    DerivedSource const* derivation;
    void operator()(Blob const*) const {}
};

bool is_empty(Constant const& constant) {
    return constant.dtype != DataType::Undefined && element_count(constant.dims) == 0;
}

/// Elements that move, or become f32 without rounding.
bool is_derived(Operator const& op, std::span<Constant const> inputs, std::span<Constant const> outputs) {
    // Below, keeping the result costs less than computing it twice.
    constexpr size_t kLarge = 1 << 20;
    if (inputs.size() != 1 || outputs.size() != 1 || !bits_of(outputs[0].dtype)) return false;
    if (storage_bytes(outputs[0].dtype, element_count(outputs[0].dims)) < kLarge) return false;
    if (info_of<kernel::TransposeInfo>(op)) return true;
    bool widens =
        outputs[0].dtype == DataType::F32 && (inputs[0].dtype == DataType::F16 || inputs[0].dtype == DataType::BF16);
    if (auto const* convert = info_of<kernel::ConvertInfo>(op)) return widens && !convert->reinterpret;
    auto const* elementwise = info_of<kernel::ElementwiseInfo>(op);
    return widens && elementwise && elementwise->code.size() == 2 && elementwise->code[1].op == kernel::ExprOp::Cast &&
           inputs[0].dims == outputs[0].dims;
}

}  // namespace

DerivedSource const* derivation_of(std::shared_ptr<Blob const> const& blob) {
    auto const* owner = std::get_deleter<DerivedOwner>(blob);
    return owner ? owner->derivation : nullptr;
}

void DerivedSource::read(void* to) const {
    Blob::Reader reader(*from_.blob);
    compute_again(*op_, {&from_, 1}, to_, {}, std::array{reader.data()}, to);
}

void DerivedSource::discard() const { from_.blob->forget(); }

Outcome evaluate(std::shared_ptr<Operator const> const& op, std::span<Constant const> inputs,
                 std::vector<Constant> outputs, std::span<int64_t const> params) {
    if (op->is_random()) return Err{kernel::Rejection{std::string(op->type()) + " is random"}};
    if (op->is_alias()) {
        outputs[0].blob = inputs[0].blob;
        return outputs;
    }
    if (std::all_of(outputs.begin(), outputs.end(), is_empty)) {
        // Kernels are bound to what they have to do, as in plans.
        for (auto& output : outputs) output.blob = Blob::make(mem_manager::cpu_device(), 0);
        return outputs;
    }
    if (!is_derived(*op, inputs, outputs)) {
        auto computed = compute(*op, inputs, std::move(outputs), params);
        if (computed && computed->size() == 1 && (*computed)[0].blob->bytes() >= kLeastMadeAgain)
            (*computed)[0].blob = evaluated_again(op, inputs, (*computed)[0], params);
        return computed;
    }
    auto bytes = storage_bytes(outputs[0].dtype, element_count(outputs[0].dims));
    auto source = std::make_unique<DerivedSource>(op, inputs[0], outputs[0]);
    auto const* derivation = source.get();
    auto blob = Blob::lazy(bytes, std::move(source));
    auto const* address = blob.get();
    outputs[0].blob = std::shared_ptr<Blob const>(address, DerivedOwner{std::move(blob), derivation});
    return outputs;
}

}  // namespace refactor::computation
