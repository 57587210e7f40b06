#include "common/error.h"
#include "cuda/expression_source.h"
#include "cuda/kernels.h"
#include "cuda/library.h"

#include <array>
#include <cstring>
#include <map>
#include <mutex>

namespace refactor::kernel::cuda {

namespace {

constexpr size_t kMostWords = 512;  // 4 KiB, the limit of a kernel's parameters
/// Blocks of a launch: enough to fill any card several times over; a thread then takes several vectors.
constexpr int64_t kMostBlocks = int64_t(1) << 20;

class ExpressionTask final : public runtime::Task {
    Library library_;
    void* function_;
    size_t addresses_;
    std::vector<uint64_t> words_;
    uint32_t blocks_;
    uint64_t in_place_;
    bool can_fault_;

public:
    ExpressionTask(Library const& library, void* function, size_t addresses, ExpressionLoops const& loops,
                   uint64_t in_place, bool can_fault)
        : library_(library),
          function_(function),
          addresses_(addresses),
          words_(expression_words(loops)),
          in_place_(in_place),
          can_fault_(can_fault) {
        auto per_block = int64_t(kBlockThreads) * loops.vector;
        blocks_ = static_cast<uint32_t>(std::min((loops.count + per_block - 1) / per_block, kMostBlocks));
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        std::array<uint64_t, kMostWords> words;
        for (size_t i = 0; i < addresses_; ++i) words[i] = reinterpret_cast<uint64_t>(arguments[i]);
        auto next = addresses_;
        if (can_fault_) words[next++] = reinterpret_cast<uint64_t>(context.fault);
        std::memcpy(words.data() + next, words_.data(), words_.size() * sizeof(uint64_t));
        library_.launch(context.stream, function_, blocks_, kBlockThreads, words.data());
    }
    uint64_t in_place_inputs() const override { return in_place_; }
};

class ExpressionKernel final : public Kernel {
    ElementwiseInfo info_;
    Library library_;
    std::string id_;
    std::vector<DataType> inputs_;
    std::vector<bool> used_;
    int64_t widest_ = 1;
    mutable std::mutex mutex_;
    mutable std::map<std::string, void*> functions_;  ///< by `ExpressionLoops::key`

    void* function_of(ExpressionLoops const& loops) const {
        std::lock_guard lock(mutex_);
        auto& function = functions_[loops.key()];
        if (!function) {
            std::string name = "rg_elementwise";
            function = library_.load(kPrelude + expression_source(info_, loops, inputs_, name), name);
        }
        return function;
    }

    /// Every thread reads its elements of such an input before it writes the same bytes.
    uint64_t in_place(ExpressionLoops const& loops) const {
        uint64_t inputs = 0;
        auto bits = bits_of(info_.code[info_.outputs[0]].dtype);
        for (size_t i = 0; i < inputs_.size() && i < 64; ++i)
            if (loops.walks[i] == Walk::Linear && bits_of(inputs_[i]) == bits) inputs |= uint64_t{1} << i;
        return inputs;
    }

public:
    ExpressionKernel(ElementwiseInfo info, Request const& request, Library const& library)
        : info_(std::move(info)), library_(library), used_(request.inputs.size()) {
        for (auto const& operand : request.inputs) inputs_.push_back(operand.dtype);
        for (auto const& code : info_.code) {
            if (code.op != ExprOp::Input) continue;
            used_[code.operands[0]] = true;
            widest_ = std::max<int64_t>(widest_, bits_of(code.dtype) / 8);
        }
        for (auto output : info_.outputs) widest_ = std::max<int64_t>(widest_, bits_of(info_.code[output].dtype) / 8);
        id_ = id_of("elementwise", "nvrtc", info_.code[info_.outputs[0]].dtype);
    }

    std::string id() const override { return id_; }

    MaybeTask bind(BindArgs const& args) const override {
        auto loops = ExpressionLoops::make(args, used_, widest_);
        if (!loops) return Err{loops.error()};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<ExpressionTask>(library_, function_of(*loops), args.inputs.size() + args.outputs.size(),
                                             *loops, in_place(*loops), can_fault(info_)));
    }
};

}  // namespace

MaybeKernel elementwise_nvrtc(ElementwiseInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (auto no = why_no_source(info, request)) return Err{*no};
    return std::unique_ptr<Kernel>(std::make_unique<ExpressionKernel>(info, request, *library));
}

}  // namespace refactor::kernel::cuda
