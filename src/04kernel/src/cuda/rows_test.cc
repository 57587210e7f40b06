// Kernels that combine many elements: on an emulated GPU against the host's reference, and through NVRTC.
#include "cuda/integer_cases.h"
#include "cuda/layer_cases.h"
#include "cuda/plugin_compiler.h"
#include "cuda/rows_cases.h"
#include "cuda/source_collector.h"
#include "cuda/window_cases.h"

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;
using namespace refactor::kernel::testing::rows;

constexpr unsigned kSeed = 20261121;

template <class Run>
void all_cases(std::mt19937& random, Run&& run) {
    reduce_cases(random, run), arg_reduce_cases(random, run), softmax_cases(random, run);
    normalize_cases(random, run), pool_cases(random, run), quantize_cases(random, run), convert_cases(random, run),
        recurrent_cases(random, run);
    integer_cases(random, run), linear_attention_cases(random, run), random_cases(random, run),
        matrix_cases(random, run), fourier_cases(random, run);
}

#define RG_EMULATED(NAME, CASES)             \
    TEST(CudaRows, NAME) {                   \
        std::mt19937 random(kSeed);          \
        CASES(random, OnDevice{emulated()}); \
    }
RG_EMULATED(Reduce, reduce_cases)
RG_EMULATED(FindPlaces, arg_reduce_cases)
RG_EMULATED(Softmax, softmax_cases)
RG_EMULATED(Normalize, normalize_cases)
RG_EMULATED(Pool, pool_cases)
RG_EMULATED(Quantize, quantize_cases)
RG_EMULATED(Convert, convert_cases)
RG_EMULATED(Recurrent, recurrent_cases)
RG_EMULATED(AttendLinearly, linear_attention_cases)
RG_EMULATED(Eliminate, matrix_cases)
RG_EMULATED(Transform, fourier_cases)
RG_EMULATED(Draw, random_cases)
RG_EMULATED(MultiplyBytes, integer_cases)

TEST(CudaPlugin, CompilesRows) {
    SourceCollector collector;
    std::mt19937 random(kSeed);
    all_cases(random, collector);
    ASSERT_GT(collector.sources.size(), 100u);
    compile_all(collector.sources);
}

}  // namespace

}  // namespace refactor::kernel::cuda
