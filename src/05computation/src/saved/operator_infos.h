#pragma once
#include "kernel/ops/cache.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/conv_chain.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/fourier.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/joined_elementwise.h"
#include "kernel/ops/lookup.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/normalized_matmul.h"
#include "kernel/ops/quantize.h"
#include "kernel/ops/random.h"
#include "kernel/ops/recurrent.h"
#include "kernel/ops/reduce.h"
#include "kernel/ops/rotary.h"
#include "kernel/ops/svm.h"
#include "kernel/ops/trees.h"
#include "kernel/ops/vision.h"

namespace refactor::computation {

template <class... Infos>
struct InfoList {};

namespace detail {

using namespace kernel;

/// Every info of `kernel/ops`, in alphabetical order (`make lint` compares).
using AllInfos =
    InfoList<ArgReduceInfo, AttentionInfo, BlockMatMulInfo, CachedAttentionInfo, ChannelVectorsInfo, Col2ImInfo,
             ConcatInfo, ConvChainInfo, ConvInfo, ConvTransposeInfo, ConvertInfo, CopyInfo, CumSumInfo,
             DeformColumnsInfo, DequantizeInfo, ElementwiseInfo, ExpandInfo, FourierInfo, GatherBlockMatMulInfo,
             GatherElementsInfo, GatherInfo, GatherMatMulInfo, GatherNDInfo, GlobalPoolInfo, GridSampleInfo,
             GroupNormInfo, IntegerConvInfo, IntegerMatMulInfo, IntegerPoolInfo, JoinedElementwiseInfo, LayerNormInfo,
             LinearAttentionInfo, LookupInfo, LrnInfo, MatMulInfo, MatrixInfo, MaxRoiPoolInfo, MaxUnpoolInfo,
             MultinomialInfo, NormalizedMatMulInfo, OneHotInfo, PadInfo, PoolInfo, QuantizeInfo, RandomInfo, RangeInfo,
             RecurrentInfo, ReduceInfo, ReorderInfo, ResizeInfo, ReverseSequenceInfo, RoiAlignInfo, RotaryInfo,
             ScatterInfo, ShapeValuesInfo, SliceInfo, SoftmaxInfo, SplitInfo, SquaredDistanceInfo, StftInfo,
             SvmVotesInfo, TensorScatterInfo, TopKInfo, TransposeInfo, TreeEnsembleInfo, TriluInfo>;

}  // namespace detail

using detail::AllInfos;

}  // namespace refactor::computation
