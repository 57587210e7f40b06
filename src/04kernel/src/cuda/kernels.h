#pragma once
#include "kernel/ops/cache.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/fourier.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/joined_elementwise.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/normalized_matmul.h"
#include "kernel/ops/quantize.h"
#include "kernel/ops/random.h"
#include "kernel/ops/recurrent.h"
#include "kernel/ops/reduce.h"
#include "kernel/ops/vision.h"

namespace refactor::kernel::cuda {

using MaybeKernel = Result<std::unique_ptr<Kernel>, Rejection>;
using MaybeTask = Result<std::unique_ptr<runtime::Task>, Rejection>;

/// Algorithms of a vendor's library that tuning chooses from.
inline constexpr int kLibraryRanks = 3;

/// Generated code, one pass over memory for any chain: f32, f64, f16, bf16, integers and bool; integers are divided by
/// constants only.
MaybeKernel elementwise_nvrtc(ElementwiseInfo const&, Request const&);
/// The same over pieces of one type, at most 128.
MaybeKernel joined_elementwise_nvrtc(JoinedElementwiseInfo const&, Request const&);
/// cuBLASLt, the `rank`-th of its algorithms: f32 (TF32 if asked for), f64, f16 and bf16 with f32 accumulators; what
/// its epilogues lack is done by generated code.
MaybeKernel matmul_cublaslt(MatMulInfo const&, Request const&, int rank);
/// A of f32, f16 or bf16, B of fewer bits: B is widened to the type of A in the workspace, the product is cuBLASLt's.
MaybeKernel matmul_widened(MatMulInfo const&, Request const&);
/// cuBLASLt, if the request allows `Precision::F8`: A of f16 or bf16, which is rounded to f8e4m3fn with one scale that
/// its largest magnitude gives, constant B of that type, transposed, with one scale.
MaybeKernel matmul_f8(MatMulInfo const&, Request const&);
/// Generated code. Tiles in shared memory: any type, floats with B of fewer bits, integers modulo 2^bits. Few rows:
/// floats, B read once at the memory's speed.
MaybeKernel matmul_tiled(MatMulInfo const&, Request const&);
MaybeKernel matmul_few_rows(MatMulInfo const&, Request const&);
/// The latter, each block with all rows as it normalises them; and a normalisation, then the best of all products.
MaybeKernel normalized_few_rows(NormalizedMatMulInfo const&, Request const&);
MaybeKernel normalized_in_steps(NormalizedMatMulInfo const&, Request const&);
/// Products with packed numbers of 2, 4 or 8 bits: up to 8 rows at the memory's speed, and tiles for more.
MaybeKernel block_matmul_few_rows(BlockMatMulInfo const&, Request const&);
MaybeKernel block_matmul_tiled(BlockMatMulInfo const&, Request const&);
/// The same for routed rows, one after the other.
MaybeKernel gather_block_matmul_rows(GatherBlockMatMulInfo const&, Request const&);
/// Asynchronous copy within the device.
MaybeKernel copy_memcpy(CopyInfo const&, Request const&);

/// Generated code, f32, f64, f16 and bf16 with f32 sums: a product of tiles in shared memory, and an output for each
/// thread, which few channels of a group need.
MaybeKernel conv_implicit_product(ConvInfo const&, Request const&);
MaybeKernel conv_direct(ConvInfo const&, Request const&);
/// Generated code, f32, f16 and bf16 with f32 sums: depthwise with the channels last, windows of up to 9 by 9; what a
/// strip of outputs reads is read once.
MaybeKernel conv_depthwise(ConvInfo const&, Request const&);
MaybeKernel conv_transpose_implicit_product(ConvTransposeInfo const&, Request const&);
MaybeKernel conv_transpose_direct(ConvTransposeInfo const&, Request const&);
/// Generated code, online softmax: tiles of queries and keys (not f64), and for few queries parts of the keys.
MaybeKernel attention_tiled(AttentionInfo const&, Request const&);
MaybeKernel attention_split_keys(AttentionInfo const&, Request const&);
/// The caches of f32, f16 and bf16: for few queries read once, as they are used and written; for many joined first, for
/// the best kernel of attention.
MaybeKernel cached_attention_one_launch(CachedAttentionInfo const&, Request const&);
MaybeKernel cached_attention_composed(CachedAttentionInfo const&, Request const&);

/// cuDNN, the `rank`-th of its plans: convolutions in f32, f64, f16 and bf16 with f32 sums, the epilogue inside where
/// it has an engine for that, else behind; attention in f16 and bf16 without masks.
MaybeKernel conv_cudnn(ConvInfo const&, Request const&, int rank);
MaybeKernel conv_transpose_cudnn(ConvTransposeInfo const&, Request const&, int rank);
MaybeKernel attention_cudnn(AttentionInfo const&, Request const&);

/// Generated code. Sums of floats below f64 are made in f32, of integers in 64 bits; a warp or a block for a reduced
/// set, or several blocks and a second launch where outputs are few.
MaybeKernel reduce_nvrtc(ReduceInfo const&, Request const&);
MaybeKernel arg_reduce_nvrtc(ArgReduceInfo const&, Request const&);
MaybeKernel global_pool_nvrtc(GlobalPoolInfo const&, Request const&);
/// One read of memory where rows fit in registers.
MaybeKernel softmax_nvrtc(SoftmaxInfo const&, Request const&);
MaybeKernel layer_norm_nvrtc(LayerNormInfo const&, Request const&);
MaybeKernel group_norm_nvrtc(GroupNormInfo const&, Request const&);
/// A thread for each output.
MaybeKernel pool_nvrtc(PoolInfo const&, Request const&);
MaybeKernel integer_pool_nvrtc(IntegerPoolInfo const&, Request const&);
MaybeKernel lrn_nvrtc(LrnInfo const&, Request const&);
/// Of equal positions the last one wins, in any order of the threads.
MaybeKernel max_unpool_nvrtc(MaxUnpoolInfo const&, Request const&);
/// Eight elements a thread; packed integers and small floats too.
MaybeKernel quantize_nvrtc(QuantizeInfo const&, Request const&);
MaybeKernel dequantize_nvrtc(DequantizeInfo const&, Request const&);
MaybeKernel convert_nvrtc(ConvertInfo const&, Request const&);
/// One block for each sequence if a multiprocessor reads the weights of a step in the time of a launch, else a launch
/// for each step; the products of all inputs by the plugin.
MaybeKernel recurrent_nvrtc(RecurrentInfo const&, Request const&);
/// Squares of 64 or 32 sums by tensor cores; convolutions as products over what their windows cover.
MaybeKernel integer_matmul_nvrtc(IntegerMatMulInfo const&, Request const&);
MaybeKernel integer_conv_nvrtc(IntegerConvInfo const&, Request const&);
/// The numbers of the CPU's kernels, up to the rounding of the device's f64 functions.
MaybeKernel random_nvrtc(RandomInfo const&, Request const&);
MaybeKernel multinomial_nvrtc(MultinomialInfo const&, Request const&);
/// A block for 32 columns of a head's state, which is kept in registers.
MaybeKernel linear_attention_nvrtc(LinearAttentionInfo const&, Request const&);
/// A block for each matrix.
MaybeKernel matrix_nvrtc(MatrixInfo const&, Request const&);
/// In two steps over the factors of the length nearest to its root, in f64.
MaybeKernel fourier_nvrtc(FourierInfo const&, Request const&);
MaybeKernel stft_nvrtc(StftInfo const&, Request const&);

}  // namespace refactor::kernel::cuda
