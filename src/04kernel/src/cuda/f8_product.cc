#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/library_product.h"
#include "cuda/rates.h"
#include "cuda/source_text.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

constexpr uint32_t kThreads = 256;
/// Elements that a thread reads at a time: 16 bytes of A.
constexpr int64_t kVector = 8;
/// Addresses and leading sizes of f8, in elements: cuBLAS documentation, cublasLtMatmul.
constexpr int64_t kAlignedSize = 16;
constexpr int kCapability = 89;

/// Largest magnitudes are compared as bits of floats, which have the order of integers. What is not finite counts for
/// nothing and becomes NaN, so that it spoils no other row.
char const* const kQuantize = R"cuda(
struct rg_f8_args {
    rg_u64 x, codes, scale, parts;
    rg_i64 count, blocks;
};
RG_FN unsigned largest_of_block(unsigned most) {
    __shared__ unsigned warps[8];
    for (int other = 16; other > 0; other /= 2) {
        unsigned next = __shfl_xor_sync(0xffffffffu, most, other);
        most = next > most ? next : most;
    }
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
    __syncthreads();
    for (int i = 0; i < 8; ++i) most = warps[i] > most ? warps[i] : most;
    return most;
}
RG_GLOBAL rg_f8_largest(rg_f8_args p) {
    RG_WAIT();
    unsigned most = 0;
    RG_FOR(rg_i64, i, p.count / 8) {
        rg_vec<A, 8> x = ((rg_vec<A, 8> const*)p.x)[i];
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            unsigned magnitude = __float_as_uint(rg_load(x.v[e])) & 0x7fffffffu;
            if (magnitude < 0x7f800000u && magnitude > most) most = magnitude;
        }
    }
    most = largest_of_block(most);
    if (threadIdx.x == 0) ((unsigned*)p.parts)[blockIdx.x] = most;
}
// Codes of two numbers, the first in the low byte.
RG_FN unsigned f8_pair(float first, float second) {
#if !defined(RG_HOST) && __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return rg_encoded<rg_e4m3fn>(first, true) | rg_encoded<rg_e4m3fn>(second, true) << 8;
#endif
}
RG_GLOBAL rg_f8_round(rg_f8_args p) {
    RG_WAIT();
    unsigned most = 0;
    for (int i = threadIdx.x; i < (int)p.blocks; i += 256) {
        unsigned part = ((unsigned const*)p.parts)[i];
        most = part > most ? part : most;
    }
    // The largest number of the type is 448.
    const float largest = rg_f32(largest_of_block(most)), scale = largest / 448.f;
    const float inverse = scale > 0.f ? 448.f / largest : 0.f;
    const bool finite = inverse < rg_f32(0x7f800000u);
    if (blockIdx.x == 0 && threadIdx.x == 0) *(float*)p.scale = finite ? scale : 0.f;
    RG_FOR(rg_i64, i, p.count / 8) {
        rg_vec<A, 8> x = ((rg_vec<A, 8> const*)p.x)[i];
        rg_vec<unsigned short, 4> codes;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            float pair[2];
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                float value = rg_load(x.v[2 * e + k]);
                bool number = (__float_as_uint(value) & 0x7fffffffu) < 0x7f800000u;
                pair[k] = !number ? rg_f32(0x7fc00000u) : finite ? value * inverse : 0.f;
            }
            codes.v[e] = (unsigned short)f8_pair(pair[0], pair[1]);
        }
        ((rg_vec<unsigned short, 4>*)p.codes)[i] = codes;
    }
}
)cuda";

std::string quantize_source(DataType a) {
    return std::string(kPrelude) + kElementSource + kMinifloatSource + "typedef " + element_text(a) + " A;\n" +
           kQuantize;
}

/// Parts of the workspace, each at a multiple of 256 bytes: codes of A, their scale, largest magnitudes of blocks, what
/// the library needs.
struct Parts {
    static constexpr int64_t kMostBlocks = kFillingBlocks;
    int64_t blocks;
    size_t scale, largest, library;

    explicit Parts(int64_t count)
        : blocks(std::clamp<int64_t>(count / kVector / kThreads, 1, kMostBlocks)),
          scale((static_cast<size_t>(count) + 255) / 256 * 256),
          largest(scale + 256),
          library(largest + (static_cast<size_t>(blocks) * 4 + 255) / 256 * 256) {}
};

class F8Task final : public runtime::Task {
    MatMulInfo info_;
    Library library_;
    std::vector<Launch> rounding_;
    Parts parts_;
    std::unique_ptr<BoundLibraryProduct> product_;

public:
    F8Task(MatMulInfo const& info, Library const& library, std::vector<Launch> rounding, Parts const& parts,
           std::unique_ptr<BoundLibraryProduct> product)
        : info_(info), library_(library), rounding_(std::move(rounding)), parts_(parts), product_(std::move(product)) {}

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        for (auto const& launch : rounding_) start(library_, launch, arguments, context);
        auto operands = operands_of(info_.epilogue, arguments, 3);
        operands.a = context.workspace, operands.b = arguments[1];
        operands.scale_a = reinterpret_cast<float const*>(context.workspace + parts_.scale);
        operands.scale_b = static_cast<float const*>(arguments[2]);
        operands.workspace = context.workspace + parts_.library;
        product_->run(operands, context);
    }
    size_t workspace_bytes() const override { return parts_.library + product_->workspace_bytes(); }
    double operations() const override { return product_->operations(); }
};

class F8Product final : public Kernel {
    MatMulInfo info_;
    DataType type_;
    Library library_;
    LibraryProduct product_;
    void* largest_;
    void* round_;

    /// The operands as the library has them: A of f8, no scales.
    struct Operands {
        TensorDesc a;
        SmallVector<TensorDesc const*, 4> inputs;
        explicit Operands(BindArgs const& args) : a(*args.inputs[0]) {
            a.dtype = DataType::F8E4M3FN;
            inputs.push_back(&a), inputs.push_back(args.inputs[1]);
            for (size_t i = 3; i < args.inputs.size(); ++i) inputs.push_back(args.inputs[i]);
        }
        Operands(Operands const&) = delete;
        Operands& operator=(Operands const&) = delete;
    };
    static std::string why_not(MatMulInfo const& info, MatMulShape const& shape) {
        if (!shape.folds_rows(info.trans_a)) return "a stack of matrices";
        return shape.m * shape.batches == 0 ? "no rows" : "";
    }

public:
    F8Product(MatMulInfo const& info, DataType type, Library const& library, LibraryProduct product)
        : info_(info), type_(type), library_(library), product_(std::move(product)) {
        auto source = quantize_source(type);
        largest_ = library_.load(source, "rg_f8_largest"), round_ = library_.load(source, "rg_f8_round");
    }

    std::string id() const override { return id_of("matmul", "cublaslt_f8", type_); }

    /// A is read, the second time from the cache, and its codes are written before the library's product.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return Err{Rejection{why}};
        if (auto why = why_not(info_, shape); !why.empty()) return Err{Rejection{why}};
        Operands operands(args);
        auto product = product_.estimate({operands.inputs, args.outputs, {}, args.packs, args.threads});
        if (!product) return product;
        return 2 * kLaunchTime + static_cast<double>(3 * operands.a.count()) / (0.75 * kMemoryRate) + *product;
    }
    MaybeTask bind(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return Err{Rejection{why}};
        if (auto why = why_not(info_, shape); !why.empty()) return Err{Rejection{why}};
        Operands operands(args);
        auto product = product_.bind({operands.inputs, args.outputs, {}, args.packs, args.threads});
        if (!product) return Err{product.error()};
        Parts parts(operands.a.count());
        std::vector<Address> places{
            {0}, {Address::kWorkspace}, {Address::kWorkspace, parts.scale}, {Address::kWorkspace, parts.largest}};
        std::vector<uint64_t> numbers{static_cast<uint64_t>(operands.a.count()), static_cast<uint64_t>(parts.blocks)};
        auto blocks = static_cast<uint32_t>(parts.blocks);
        auto round_blocks = blocks_for(operands.a.count() / kVector, kThreads);
        std::vector<Launch> rounding{{largest_, blocks, kThreads, places, numbers},
                                     {round_, round_blocks, kThreads, places, numbers}};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<F8Task>(info_, library_, std::move(rounding), parts, std::move(product).value()));
    }
};

/// Whether all scales of constant weights are one number.
bool has_one_scale(Operand const& scales) {
    if (!scales.constant || scales.dtype != DataType::F32) return false;
    mem_manager::Blob::Reader reader(*scales.constant);
    auto const* numbers = static_cast<float const*>(reader.data());
    auto count = static_cast<int64_t>(scales.constant->bytes() / sizeof(float));
    return std::all_of(numbers, numbers + count, [&](float number) { return number == numbers[0]; });
}

std::string why_not_f8(MatMulInfo const& info, Request const& request, Library const& library) {
    if (request.precision != Precision::F8) return "A is not to be rounded to f8";
    auto const &a = request.inputs[0], &b = request.inputs[1];
    if ((a.dtype != DataType::F16 && a.dtype != DataType::BF16) || b.dtype != DataType::F8E4M3FN)
        return std::string(refactor::name_of(b.dtype)) + " with " + std::string(refactor::name_of(a.dtype)) +
               ", expected f8e4m3fn with f16 or bf16";
    if (!info.scaled || !has_one_scale(request.inputs[2])) return "expected weights with one scale";
    if (info.trans_a || !info.trans_b) return "expected A by rows and B transposed";
    auto rows = b.dims[b.dims.size() - 2], columns = b.dims.back();
    if (rows % kAlignedSize || columns % kAlignedSize || rows < 0 || columns <= 0)
        return "B has " + std::to_string(rows) + " x " + std::to_string(columns) + " elements, expected multiples of " +
               std::to_string(kAlignedSize);
    if (library.capability() < kCapability)
        return "compute capability " + std::to_string(library.capability() / 10) + '.' +
               std::to_string(library.capability() % 10) + ", expected 8.9 or more";
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.layout != Layout::Plain) return "blocked layout, expected plain";
    return {};
}

}  // namespace

MaybeKernel matmul_f8(MatMulInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (auto why = why_not_f8(info, request, *library); !why.empty()) return Err{Rejection{why}};
    auto type = request.inputs[0].dtype;
    LibraryProductKind kind{info, type, true};
    kind.info.scaled = false;
    std::vector<Operand> inputs{request.inputs[0], request.inputs[1]};
    for (size_t i = 3; i < request.inputs.size(); ++i) inputs.push_back(request.inputs[i]);
    auto inner = request;
    inner.inputs = inputs;
    auto product = LibraryProduct::make(kind, *library, inner);
    if (!product) return Err{product.error()};
    return std::unique_ptr<Kernel>(std::make_unique<F8Product>(info, type, *library, std::move(product).value()));
}

}  // namespace refactor::kernel::cuda
