// Convolutions, products and attention, compiled by NVRTC. What they compute is tested by tests/test_cuda_libs.py.
#include "cuda/attention_source.h"
#include "cuda/block_product_source.h"
#include "cuda/conv_source.h"
#include "cuda/product_source.h"
#include "kernel/device_kernels.h"
#include "mem_manager/device_plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace refactor::kernel::cuda {

namespace {

using enum DataType;

std::vector<std::string> sources() {
    std::vector<std::string> all;
    for (auto dtype : {F32, F16, BF16, F64})
        for (bool odd : {false, true}) {
            ConvKind conv;
            conv.dtype = dtype, conv.transposed = conv.epilogue.residual = conv.wide = odd;
            conv.epilogue.bias = conv.vector = !odd, conv.rank = odd ? 3 : 2;
            conv.epilogue.activation.kind = odd ? ActivationKind::Silu : ActivationKind::HardSwish;
            all.push_back(direct_conv_source(conv));
            for (auto const& tile : kConvTiles)
                if (dtype != F64 || tile.rows <= 64) all.push_back(implicit_conv_source(conv, tile));
            AttentionKind attention;
            attention.dtype = dtype, attention.mask = odd ? Bool : dtype;
            attention.info.has_mask = true, attention.info.has_sinks = attention.info.k_transposed = odd;
            attention.info.causal = attention.vector = !odd;
            attention.values = 2, attention.wide = odd;
            all.push_back(row_attention_source(attention));
            attention.values = odd ? 64 : 128;
            if (dtype != F64) all.push_back(tiled_attention_source(attention));
        }
    std::pair<DataType, DataType> const types[] = {{F32, F32}, {F16, F16},  {BF16, BF16}, {F64, F64}, {F32, F16},
                                                   {F32, I8},  {F32, BF16}, {I32, I32},   {U64, U64}};
    for (auto [a, b] : types)
        for (bool odd : {false, true}) {
            ProductKind product;
            product.a = a, product.b = b, product.info.trans_b = product.wide = odd;
            product.info.scaled = b == I8, product.vector_a = product.vector_b = !odd, product.rows = odd ? 8 : 1;
            if (is_float(a)) all.push_back(row_product_source(product));
            product.info.trans_a = odd, product.tile = odd && a != F64 && a != U64 ? 128 : 64;
            all.push_back(tiled_product_source(product));
        }
    for (int bits : {2, 4, 8})
        for (bool odd : {false, true}) {
            BlockProductKind block;
            block.bits = bits, block.zeros = bits == 2 ? Undefined : odd ? U8 : F32, block.words = odd ? 1 : 4;
            block.rows = odd ? 8 : 1, block.ordered = block.vector = !odd, block.bias = block.wide = odd;
            all.push_back(row_block_source(block)), all.push_back(tiled_block_source(block));
        }
    return all;
}

TEST(CudaPlugin, CompilesConvolutionsProductsAndAttention) {
    if (!*RG_CUDA_PLUGIN) GTEST_SKIP() << "the CUDA plugin is not part of this build: configure with RG_CUDA=ON";
    auto* library = dlopen(RG_CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (!library) GTEST_SKIP() << dlerror();
    auto entry = reinterpret_cast<RefactorDevicePluginEntry>(dlsym(library, RG_DEVICE_PLUGIN_ENTRY));
    char text[4096] = "";
    auto const* table = entry(RG_DEVICE_PLUGIN_ABI, text, sizeof text);
    ASSERT_TRUE(table) << text;
    auto const& kernels = *static_cast<RefactorDeviceKernels const*>(table->extension(RG_KERNELS_EXTENSION));
    char const* const architectures[] = {"sm_80", "sm_90a", "sm_100"};
    size_t number = 0;
    for (auto const& source : sources()) {
        // Each on one of them: what they differ in is the compiler's concern.
        auto const* architecture = architectures[number++ % std::size(architectures)];
        void* code = nullptr;
        size_t bytes = 0;
        ASSERT_EQ(kernels.compile(source.c_str(), architecture, &code, &bytes, text, sizeof text), 0)
            << architecture << ": " << text;
        kernels.release(code);
    }
}

}  // namespace

}  // namespace refactor::kernel::cuda
