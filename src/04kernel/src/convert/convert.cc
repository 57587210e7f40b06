#include "convert/convert.h"

#include "common/thread_pool.h"
#include "cuda/kernels.h"

#include <cstring>

namespace refactor::kernel {

namespace {

/// Elements of a unit of work: a multiple of 8, so that units of packed types begin on whole bytes.
constexpr int64_t kUnit = 512;
constexpr double kNsPerElement = 1;

class ConvertTask final : public runtime::Task {
    ConvertInfo info_;
    DataType from_, to_;
    int64_t count_;
    int threads_;

public:
    ConvertTask(ConvertInfo const& info, BindArgs const& args)
        : info_(info),
          from_(args.inputs[0]->dtype),
          to_(args.outputs[0]->dtype),
          count_(args.outputs[0]->count()),
          threads_(args.threads) {}
    static MaybeTask make(ConvertInfo const& info, BindArgs const& args) {
        if (args.inputs[0]->count() != args.outputs[0]->count())
            return reject("input of " + std::to_string(args.inputs[0]->count()) + " elements, output of " +
                          std::to_string(args.outputs[0]->count()));
        return std::unique_ptr<runtime::Task>(new ConvertTask(info, args));
    }
    static Result<double, Rejection> cost(ConvertInfo const&, BindArgs const& args) {
        return static_cast<double>(args.outputs[0]->count()) * kNsPerElement;
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto units = (count_ + kUnit - 1) / kUnit;
        auto chunks = chunks_of(units, kUnit * kNsPerElement, threads_);
        context.pool.parallel_for(chunks, [&](int64_t chunk, int) {
            auto begin = units * chunk / chunks * kUnit, end = std::min(units * (chunk + 1) / chunks * kUnit, count_);
            auto const* source = static_cast<std::byte const*>(arguments[0]) + storage_bytes(from_, begin);
            auto* target = static_cast<std::byte*>(arguments[1]) + storage_bytes(to_, begin);
            if (!info_.reinterpret)
                convert(from_, source, to_, target, end - begin, info_.saturate, info_.rounding);
            else if (source != target)
                std::memcpy(target, source, storage_bytes(to_, end - begin));
        });
    }
    uint64_t in_place_inputs() const override { return info_.reinterpret; }
};

bool is_number(DataType type) {
    return bits_of(type) > 0 && type != DataType::Complex64 && type != DataType::Complex128;
}

}  // namespace

std::string ConvertInfo::attributes() const {
    constexpr char const* kRounding[]{"up", "down", "nearest"};
    if (reinterpret) return "bits";
    return std::string(saturate ? "saturate," : "") + kRounding[static_cast<int>(rounding)];
}

MaybeKernel make_convert_blocks(ConvertInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto from = request.inputs[0].dtype, to = request.outputs[0].dtype;
    bool possible =
        info.reinterpret ? bits_of(from) == bits_of(to) && bits_of(to) > 0 : is_number(from) && is_number(to);
    if (!possible)
        return reject(std::string("no ") + (info.reinterpret ? "bit pattern of " : "conversion of ") +
                      std::string(name_of(from)) + " as " + std::string(name_of(to)));
    return std::unique_ptr<Kernel>(
        new InfoKernel<ConvertInfo, ConvertTask>(id_of("convert", "blocks", request.outputs[0].dtype), info));
}

Candidates candidates(ConvertInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("convert:nvidia:nvrtc", cuda::convert_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "convert/convert_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
