#include "matmul/matmul.h"

#include "cuda/kernels.h"

namespace refactor::kernel {
namespace {

std::string text_of(std::span<int64_t const> dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "]";
}

}  // namespace

std::string MatMulShape::init(MatMulInfo const& info, BindArgs const& args) {
    auto const &a = args.inputs[0]->dims, &b = args.inputs[1]->dims, &y = args.outputs[0]->dims;
    auto complain = [&](std::string const& what) {
        return what + ": A " + text_of(a) + ", B " + text_of(b) + ", Y " + text_of(y);
    };
    auto ra = a.size(), rb = b.size(), ry = y.size();
    if (ra < 2 || rb < 2 || ry < 2 || ry != std::max(ra, rb)) return complain("ranks do not fit");
    m = a[ra - 1 - !info.trans_a], k = a[ra - 1 - info.trans_a];
    n = b[rb - 1 - info.trans_b];
    if (b[rb - 1 - !info.trans_b] != k || y[ry - 2] != m || y[ry - 1] != n) return complain("sizes do not fit");
    int64_t step_a = m * k, step_b = k * n;
    SmallVector<Axis, 4> inner_first;
    for (size_t i = 3; i <= ry; ++i) {
        auto size = y[ry - i];
        auto size_a = i <= ra ? a[ra - i] : 1, size_b = i <= rb ? b[rb - i] : 1;
        if ((size_a != size && size_a != 1) || (size_b != size && size_b != 1))
            return complain("leading sizes do not broadcast");
        Axis axis{size, size_a == 1 ? 0 : step_a, size_b == 1 ? 0 : step_b};
        step_a *= size_a, step_b *= size_b, batches *= size;
        if (size == 1) continue;
        if (!inner_first.empty()) {
            auto& last = inner_first.back();
            if (axis.a == last.a * last.size && axis.b == last.b * last.size) {
                last.size *= size;
                continue;
            }
        }
        inner_first.push_back(axis);
    }
    for (auto i = inner_first.size(); i-- > 0;) batch.push_back(inner_first[i]);
    size_t next = 2;
    if (info.scaled) {
        auto count = args.inputs[next++]->count();
        if (count != n) return complain(std::to_string(count) + " scales do not fit");
    }
    if (info.epilogue.bias) {
        auto count = args.inputs[next++]->count();
        scalar_bias = count == 1;
        if (count != 1 && count != n) return complain("bias of " + std::to_string(count) + " elements does not fit");
    }
    if (info.epilogue.residual && args.inputs[next]->count() != args.outputs[0]->count())
        return complain("residual " + text_of(args.inputs[next]->dims) + " does not fit");
    return {};
}

std::string why_types_differ(MatMulInfo const& info, Request const& request) {
    auto a = request.inputs[0].dtype, b = request.inputs[1].dtype;
    auto text = [](DataType type) { return std::string(refactor::name_of(type)); };
    bool small = a == DataType::F32 &&
                 (b == (info.scaled ? DataType::I8 : DataType::F16) || (b == DataType::BF16 && !info.scaled));
    if (info.scaled && !small) return "scaled " + text(b) + " with " + text(a) + ", expected i8 with f32";
    for (auto const& input : request.inputs)
        if (!input.absent() && input.dtype != a && !(small && &input == &request.inputs[1]))
            return "inputs are of types " + text(a) + " and " + text(input.dtype);
    for (auto const& output : request.outputs)
        if (output.dtype != a) return "Y is " + text(output.dtype) + ", expected " + text(a);
    return {};
}

std::string MatMulInfo::attributes() const {
    std::string text = std::string(trans_a ? "T" : "N") + (trans_b ? "T" : "N");
    if (scaled) text += ",scaled";
    if (alpha != 1) text += ",alpha=" + exact_text(alpha);
    if (may_round) text += ",bf16";
    if (auto after = to_string(epilogue); !after.empty()) text += "," + after;
    return text;
}

Candidates candidates(MatMulInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        for (int rank = 0; rank < cuda::kLibraryRanks; ++rank)
            answer.add("matmul:nvidia:cublaslt", cuda::matmul_cublaslt(info, request, rank));
        answer.add("matmul:nvidia:cublaslt_f8", cuda::matmul_f8(info, request));
        answer.add("matmul:nvidia:few_rows", cuda::matmul_few_rows(info, request));
        answer.add("matmul:nvidia:widened", cuda::matmul_widened(info, request));
        answer.add("matmul:nvidia:tiled", cuda::matmul_tiled(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "matmul/matmul_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
