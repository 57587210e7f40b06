#include "cuda/instances.h"
#include "cuda/kernels.h"
#include "integer_conv/integer_conv.h"
#include "integer_matmul/integer_matmul.h"

#include <bit>
#include <limits>

namespace refactor::kernel::cuda {

namespace {

using I = IntegerMatMulInfo;

uint64_t word(int64_t value) { return static_cast<uint64_t>(value); }
uint64_t bits(float value) { return std::bit_cast<uint32_t>(value); }

/// Sixteenths of the rows and columns of a block: four, or two where that would leave multiprocessors idle.
int64_t side_of(int64_t rows, int64_t columns, int64_t batches) {
    return ceil_div(rows, 64) * ceil_div(columns, 64) * batches < kBusyBlocks ? 2 : 4;
}

/// The words of `rg_tail`.
std::vector<uint64_t> tail_numbers(IntegerResult const& r, bool many_scales) {
    return {word(many_scales),
            word(r.rounded),
            bits(r.middle_low),
            bits(r.middle_high),
            bits(r.middle_scale),
            bits(r.slope),
            bits(r.residual_scale),
            bits(static_cast<float>(r.residual_zero)),
            bits(r.relu ? std::max(0.f, r.low) : r.low),
            bits(r.high)};
}

struct OperandTypes {
    char const *a, *b, *y, *residual;
    bool sum_a, sum_b;  ///< zero points of B (of A) may be other than 0 after the shift to signed bytes

    explicit OperandTypes(BindArgs const& args)
        : a(element_text(args.inputs[I::kA]->dtype)),
          b(element_text(args.inputs[I::kB]->dtype)),
          y(element_text(args.outputs[0]->dtype)),
          residual(args.inputs[I::kResidual] ? element_text(args.inputs[I::kResidual]->dtype) : "float"),
          sum_a(args.inputs[I::kBZero] || args.inputs[I::kB]->dtype == DataType::U8),
          sum_b(args.inputs[I::kAZero] || args.inputs[I::kA]->dtype == DataType::U8) {}
};

Result<Launches, Rejection> bind_matmul(IntegerMatMulInfo const& info, BindArgs const& args,
                                        Instances const& instances) {
    IntegerShape s;
    if (auto why = s.init(args); !why.empty()) return Err{Rejection{why}};
    // A zero point for each row of A must go on from one matrix to the next.
    bool folds = s.folds_rows(false) && (s.a_zero.element == 0 || s.a_zero.matrix != 0 || s.batches == 1);
    auto rows = folds ? s.m * s.batches : s.m, batches = folds ? 1 : s.batches;
    if (std::max({rows, s.n, s.k}) > std::numeric_limits<int32_t>::max())
        return Err{Rejection{"more than 2^31 rows, columns or terms"}};
    OperandTypes types(args);
    auto side = side_of(rows, s.n, batches);
    auto rank = folds ? 0 : s.batch.size();
    auto numbers = tail_numbers(info.result, s.many_scales);
    for (auto number : {rows, s.n, s.k, s.a_zero.element, s.a_zero.matrix, s.b_zero.element, s.b_zero.matrix})
        numbers.push_back(word(number));
    for (bool of_b : {false, true}) {
        for (size_t i = 0; i < rank; ++i) numbers.push_back(word(s.batch[i].size));
        for (size_t i = 0; i < rank; ++i) numbers.push_back(word(of_b ? s.batch[i].b : s.batch[i].a));
    }
    auto call = template_text("rg_integer_matmul", types.a, types.b, types.y, types.residual, side, types.sum_a,
                              types.sum_b, s.k % 4 == 0, s.n % 4 == 0, rank);
    Launches launches;
    launches.operations = s.operations();
    launches.list.push_back(instances.launch("rg_integer_matmul", call,
                                             ceil_div(rows, 16 * side) * ceil_div(s.n, 16 * side) * batches,
                                             all_operands(I::kInputs + 1), std::move(numbers)));
    return launches;
}

Result<Launches, Rejection> bind_conv(IntegerConvInfo const& info, BindArgs const& args, Instances const& instances) {
    IntegerConvShape s;
    if (auto why = s.init(info, args); !why.empty()) return Err{Rejection{why}};
    auto rows = s.batch * s.out_size(), outputs = rows * s.out_channels, depth = s.taps() * s.group_in();
    if (std::max({rows, s.in_size(), depth, outputs}) > std::numeric_limits<int32_t>::max())
        return Err{Rejection{"more than 2^31 positions or terms"}};
    auto numbers = tail_numbers(info.result, s.many_scales);
    for (auto number : {s.batch, s.in_channels, s.out_channels, s.group, int64_t{s.many_zeros}})
        numbers.push_back(word(number));
    for (auto const* sizes : {s.out, s.in, s.kernel, s.stride, s.dilation, s.pad})
        for (int axis = 0; axis < 3; ++axis) numbers.push_back(word(sizes[axis]));
    OperandTypes types(args);
    Launches launches;
    launches.operations = s.operations();
    // A square of 32 columns of which fewer than 8 are filters would do four times the work.
    bool narrow = s.group_out() < 8;
    auto side = side_of(rows, s.group_out(), s.group);
    auto squares = ceil_div(rows, 16 * side) * ceil_div(s.group_out(), 16 * side) * s.group;
    auto call =
        narrow ? template_text("rg_integer_conv_narrow", types.a, types.b, types.y, types.residual, s.channels_last)
               : template_text("rg_integer_conv", types.a, types.b, types.y, types.residual, s.channels_last,
                               (s.channels_last ? s.group_in() : depth) % 4 == 0, side);
    launches.list.push_back(instances.launch("rg_integer_conv", call,
                                             narrow ? ceil_div(outputs, kBlockThreads) : squares,
                                             all_operands(I::kInputs + 1), std::move(numbers)));
    return launches;
}

}  // namespace

MaybeKernel integer_matmul_nvrtc(IntegerMatMulInfo const& info, Request const& request) {
    return make_instances(info, request, "integer_matmul", request.inputs[I::kA].dtype, kIntegerSource,
                          make_integer_matmul_reference, bind_matmul);
}

MaybeKernel integer_conv_nvrtc(IntegerConvInfo const& info, Request const& request) {
    static auto const* const family = new std::string(std::string(kIntegerSource) + kIntegerConvSource);
    return make_instances(info, request, "integer_conv", request.inputs[I::kA].dtype, family->c_str(),
                          make_integer_conv_reference, bind_conv);
}

}  // namespace refactor::kernel::cuda
