#include "cuda_plugin/device.h"
#include "cuda_plugin/streams.h"
#include "cuda_plugin/tables.h"
#include "mem_manager/device_plugin.h"

#include <memory>
#include <tuple>

namespace refactor::cuda_plugin {

namespace {

/// What cuBLASLt's documentation recommends for Hopper; smaller cards use less.
constexpr size_t kMostWorkspace = size_t(32) << 20;

/// A chosen algorithm. cuBLASLt is column-major: Yᵀ = op(B)ᵀ · op(A)ᵀ, so B is its first operand, and the bias, one
/// value for each column of Y, runs along its rows.
struct Product {
    Gpu* gpu = nullptr;
    bool bias = false, f64 = false, f8 = false;
    double alpha = 1, beta = 0;
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t first, second, result;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes = 0;
};

struct Types {
    cudaDataType_t operands, result, scale;
    cublasComputeType_t compute;
};

bool types_of(RefactorMatMul const& product, Types& types) {
    auto single = product.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    switch (product.dtype) {
        case 1:
            types = {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, single};
            break;
        case 10:
            types = {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
            break;
        case 11:
            types = {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
            break;
        case 16:
            types = {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
            break;
        default:
            return false;
    }
    if (!product.f8) return true;
    types.operands = CUDA_R_8F_E4M3;
    return product.dtype == 10 || product.dtype == 16;
}

bool epilogue_of(RefactorMatMul const& product, cublasLtEpilogue_t& epilogue) {
    static constexpr cublasLtEpilogue_t kEpilogues[3][2] = {{CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS},
                                                            {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS},
                                                            {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS}};
    if (product.activation < 0 || product.activation > 2) return false;
    epilogue = kEpilogues[product.activation][product.bias != 0];
    return true;
}

int32_t open_cublas(Gpu& gpu, Complaint complaint) {
    std::lock_guard lock(gpu.mutex);
    Unrecorded aside;
    if (!gpu.cublas) RG_CUDA_CALL(cublasLtCreate(&gpu.cublas));
    return 0;
}

/// What cuBLASLt asks of products of f8: "TN" in its column-major terms, which is A by rows and B transposed in ours,
/// and addresses and leading sizes in multiples of 16 bytes.
int32_t check_f8(Gpu const& gpu, RefactorMatMul const& product, Complaint complaint) {
    if (gpu.capability < 89) {
        complaint.write("%s has compute capability %d.%d, products of f8 need 8.9", gpu.name.c_str(),
                        gpu.capability / 10, gpu.capability % 10);
        return CUBLAS_STATUS_ARCH_MISMATCH;
    }
    if (product.trans_a || !product.trans_b || product.batches != 1 || product.n % 16 || product.k % 16) {
        complaint.write(
            "products of f8 need B transposed, A not, one matrix, sizes in multiples of 16; %lld columns, "
            "inner size %lld",
            static_cast<long long>(product.n), static_cast<long long>(product.k));
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return 0;
}

template <class T>
cublasStatus_t set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, T const& value) {
    return cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value);
}

int32_t describe(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, int64_t rows, int64_t columns,
                 int64_t batches, int64_t stride, Complaint complaint) {
    RG_CUDA_CALL(
        cublasLtMatrixLayoutInit(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows));
    auto count = static_cast<int32_t>(batches);
    RG_CUDA_CALL(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    RG_CUDA_CALL(
        cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return 0;
}

struct Preference {
    cublasLtMatmulPreference_t native = nullptr;
    ~Preference() {
        if (native) cublasLtMatmulPreferenceDestroy(native);
    }
};

int32_t choose(Product& plan, RefactorMatMul const& product, Complaint complaint) {
    Preference preference;
    RG_CUDA_CALL(cublasLtMatmulPreferenceCreate(&preference.native));
    auto most = kMostWorkspace;
    RG_CUDA_CALL(cublasLtMatmulPreferenceSetAttribute(preference.native, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &most, sizeof most));
    auto alignment = static_cast<uint32_t>(product.alignment);
    for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        RG_CUDA_CALL(cublasLtMatmulPreferenceSetAttribute(preference.native, attribute, &alignment, sizeof alignment));
    // Partial sums of a product that is split stay f32, in the workspace: the other schemes add them in the type of Y.
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    RG_CUDA_CALL(cublasLtMatmulPreferenceSetAttribute(preference.native, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &sums, sizeof sums));
    constexpr int kMostRanks = 8;
    cublasLtMatmulHeuristicResult_t found[kMostRanks]{};
    int count = 0;
    RG_CUDA_CALL(cublasLtMatmulAlgoGetHeuristic(plan.gpu->cublas, &plan.operation, &plan.first, &plan.second,
                                                &plan.result, &plan.result, preference.native, kMostRanks, found,
                                                &count));
    auto rank = product.rank;
    if (rank < 0 || rank >= count || found[rank].state != CUBLAS_STATUS_SUCCESS)
        RG_CUDA_CALL(CUBLAS_STATUS_NOT_SUPPORTED);
    plan.algorithm = found[rank].algo, plan.workspace_bytes = found[rank].workspaceSize;
    return 0;
}

int32_t fill(Product& plan, RefactorMatMul const& product, Complaint complaint) {
    Types types;
    cublasLtEpilogue_t epilogue;
    if (!types_of(product, types) || !epilogue_of(product, epilogue)) {
        complaint.write("no product of dtype %d with activation %d", product.dtype, product.activation);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (product.f8)
        if (auto code = check_f8(*plan.gpu, product, complaint)) return code;
    plan.f64 = types.scale == CUDA_R_64F, plan.f8 = product.f8;
    plan.bias = product.bias, plan.alpha = product.alpha, plan.beta = product.residual ? 1 : 0;
    auto& operation = plan.operation;
    RG_CUDA_CALL(cublasLtMatmulDescInit(&operation, types.compute, types.scale));
    RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_TRANSA, product.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N));
    RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_TRANSB, product.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N));
    RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    auto const* aligned = reinterpret_cast<void const*>(static_cast<uintptr_t>(256));
    if (plan.bias) {
        // The choice looks at the alignment of the address only; every run sets its own.
        RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned));
    }
    if (plan.f8) {
        // Sums are promoted to f32 only at their end: what the rounding of the operands leaves is less exact.
        RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1}));
        RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, aligned));
        RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, aligned));
    }
    auto [m, n, k, batches] = std::tuple(product.m, product.n, product.k, product.batches);
    auto b_rows = product.trans_b ? k : n, a_rows = product.trans_a ? m : k;
    auto type = types.operands;
    if (auto code = describe(plan.first, type, b_rows, k + n - b_rows, batches, product.stride_b, complaint))
        return code;
    if (auto code = describe(plan.second, type, a_rows, k + m - a_rows, batches, product.stride_a, complaint))
        return code;
    if (auto code = describe(plan.result, types.result, n, m, batches, m * n, complaint)) return code;
    return choose(plan, product, complaint);
}

}  // namespace

int32_t matmul_create(void* device, RefactorMatMul const* product, void** plan, size_t* workspace_bytes, char* text,
                      size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    auto fresh = std::make_unique<Product>();
    fresh->gpu = static_cast<Gpu*>(device);
    CurrentGpu current(*fresh->gpu);
    if (auto code = open_cublas(*fresh->gpu, complaint)) return code;
    if (auto code = fill(*fresh, *product, complaint)) return code;
    *workspace_bytes = fresh->workspace_bytes;
    *plan = fresh.release();
    return 0;
}

void matmul_destroy(void* plan) { delete static_cast<Product*>(plan); }

int32_t matmul_run(void* plan, void* stream, RefactorMatMulOperands const* operands, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    auto product = *static_cast<Product const*>(plan);  // cuBLASLt takes descriptions by pointers to what may change
    auto& gpu = gpu_of_stream(stream);
    CurrentGpu current(gpu);
    // The executor may have moved to another GPU of the same architecture.
    if (&gpu != product.gpu)
        if (auto code = open_cublas(gpu, complaint)) return code;
    auto const& [a, b, scale_a, scale_b, bias, residual, y, workspace] = *operands;
    auto& operation = product.operation;
    if (product.bias) RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    if (product.f8) {
        RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale_b));
        RG_CUDA_CALL(set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale_a));
    }
    auto alpha = static_cast<float>(product.alpha), beta = static_cast<float>(product.beta);
    auto const* scale = product.f64 ? static_cast<void const*>(&product.alpha) : &alpha;
    auto const* keep = product.f64 ? static_cast<void const*>(&product.beta) : &beta;
    RG_CUDA_CALL(cublasLtMatmul(gpu.cublas, &operation, scale, b, &product.first, a, &product.second, keep,
                                residual ? residual : y, &product.result, y, &product.result, &product.algorithm,
                                product.workspace_bytes ? workspace : nullptr, product.workspace_bytes,
                                native(stream)));
    return 0;
}

int32_t capability(void* device) { return static_cast<Gpu*>(device)->capability; }

}  // namespace refactor::cuda_plugin
