#pragma once
#include "kernel/ops/cache.h"
#include "kernel/ops/lookup.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "kernel/ops/svm.h"
#include "kernel/ops/trees.h"
#include "kernel/ops/vision.h"
#include "movement/movement.h"

/// Generated kernels that move, index and resample elements, and those of classical models. All take the types that the
/// host's reference takes.
namespace refactor::kernel::cuda {

using movement::KernelResult;

KernelResult transpose_nvrtc(TransposeInfo const&, Request const&);
KernelResult slice_nvrtc(SliceInfo const&, Request const&);
KernelResult expand_nvrtc(ExpandInfo const&, Request const&);
KernelResult concat_nvrtc(ConcatInfo const&, Request const&);
KernelResult split_nvrtc(SplitInfo const&, Request const&);
KernelResult pad_nvrtc(PadInfo const&, Request const&);

KernelResult gather_nvrtc(GatherInfo const&, Request const&);
KernelResult gather_elements_nvrtc(GatherElementsInfo const&, Request const&);
KernelResult gather_nd_nvrtc(GatherNDInfo const&, Request const&);
KernelResult scatter_nvrtc(ScatterInfo const&, Request const&);
KernelResult tensor_scatter_nvrtc(TensorScatterInfo const&, Request const&);
KernelResult reverse_sequence_nvrtc(ReverseSequenceInfo const&, Request const&);
KernelResult lookup_nvrtc(LookupInfo const&, Request const&);

KernelResult shape_values_nvrtc(ShapeValuesInfo const&, Request const&);
KernelResult range_nvrtc(RangeInfo const&, Request const&);
KernelResult trilu_nvrtc(TriluInfo const&, Request const&);
KernelResult one_hot_nvrtc(OneHotInfo const&, Request const&);

KernelResult cumsum_nvrtc(CumSumInfo const&, Request const&);
KernelResult top_k_nvrtc(TopKInfo const&, Request const&);

KernelResult resize_nvrtc(ResizeInfo const&, Request const&);
KernelResult grid_sample_nvrtc(GridSampleInfo const&, Request const&);
KernelResult roi_align_nvrtc(RoiAlignInfo const&, Request const&);
KernelResult max_roi_pool_nvrtc(MaxRoiPoolInfo const&, Request const&);
KernelResult col2im_nvrtc(Col2ImInfo const&, Request const&);
KernelResult deform_columns_nvrtc(DeformColumnsInfo const&, Request const&);

KernelResult tree_ensemble_nvrtc(TreeEnsembleInfo const&, Request const&);
KernelResult squared_distance_nvrtc(SquaredDistanceInfo const&, Request const&);
KernelResult svm_votes_nvrtc(SvmVotesInfo const&, Request const&);

}  // namespace refactor::kernel::cuda
