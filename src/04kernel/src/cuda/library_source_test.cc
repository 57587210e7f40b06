// Convolutions, products and attention, compiled by NVRTC. What they compute is tested by tests/test_cuda_libs.py.
#include "common/thread_pool.h"
#include "cuda/attention_source.h"
#include "cuda/block_product_source.h"
#include "cuda/conv_source.h"
#include "cuda/hidden_rows.h"
#include "cuda/plugin_compiler.h"
#include "cuda/product_source.h"
#include "kernel/device_dnn.h"
#include "kernel/device_kernels.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <sys/stat.h>

namespace refactor::kernel::cuda {

namespace {

using enum DataType;
using testing::built_plugin;
using testing::compile_all;

std::vector<std::string> sources() {
    std::vector<std::string> all;
    for (auto dtype : {F32, F16, BF16, F64})
        for (bool odd : {false, true}) {
            ConvKind conv;
            conv.dtype = dtype, conv.transposed = conv.epilogue.residual = conv.wide = odd;
            conv.epilogue.bias = conv.vector = !odd, conv.rank = odd ? 3 : 2;
            conv.epilogue.activation.kind = odd ? ActivationKind::Silu : ActivationKind::HardSwish;
            all.push_back(direct_conv_source(conv));
            conv.channels_last = true;
            all.push_back(direct_conv_source(conv));
            conv.channels_last = false;
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
            if (bits_of(dtype) == 16) all.push_back(hidden_rows_source(dtype, odd));
        }
    std::pair<DataType, DataType> const types[] = {{F32, F32}, {F16, F16}, {BF16, BF16},     {F64, F64},
                                                   {F32, F16}, {F32, I8},  {F32, BF16},      {I32, I32},
                                                   {U64, U64}, {F16, I8},  {BF16, F8E4M3FN}, {F16, F8E5M2}};
    for (auto [a, b] : types)
        for (bool odd : {false, true}) {
            ProductKind product;
            product.a = a, product.b = b, product.info.trans_b = product.wide = odd;
            product.info.scaled = bits_of(b) == 8, product.vector_a = product.vector_b = !odd,
            product.rows = odd ? 8 : 1;
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
            block.routes = odd ? I32 : I64, block.rows = 1;
            all.push_back(row_block_source(block));
        }
    return all;
}

/// The plugin's cuDNN; null, and why. Planning needs a driver to be loaded: where there is none, a stand-in.
RefactorDeviceDnn const* planning(std::string& why) {
    auto const* table = built_plugin(why);
    if (!table) return nullptr;
    static bool const driver = dlopen("libcuda.so.1", RTLD_NOW) || dlopen(RG_DESCRIBED_DRIVER, RTLD_NOW);
    why = "neither NVIDIA's driver nor its stand-in can be loaded";
    if (!driver) return nullptr;
    auto const* dnn = static_cast<RefactorDeviceDnn const*>(table->extension(RG_DNN_EXTENSION));
    char text[512] = "";
    if (dnn->version(text, sizeof text) == 0) return dnn;
    why = text;
    return nullptr;
}

TEST(CudaPlugin, CompilesConvolutionsProductsAndAttention) {
    auto all = sources();
    compile_all({all.begin(), all.end()});
}

TEST(CudaPlugin, AttentionReadsItsArgumentsWhereTheyAre) {
    std::string why;
    auto const* table = built_plugin(why);
    if (!table) GTEST_SKIP() << why;
    auto const* kernels = static_cast<RefactorDeviceKernels const*>(table->extension(RG_KERNELS_EXTENSION));
    int count = 0;
    for (auto const& source : sources()) {
        if (source.find("rg_attention_args a)") == source.npos) continue;
        char text[4096] = "";
        void* code = nullptr;
        size_t bytes = 0;
        ASSERT_EQ(kernels->compile(source.c_str(), "compute_90", &code, &bytes, text, sizeof text), 0) << text;
        EXPECT_EQ(std::string_view(static_cast<char*>(code), bytes).find("__local_depot"), std::string_view::npos)
            << source;
        kernels->release(code);
        ++count;
    }
    EXPECT_EQ(count, 14);
}

/// An H200, as cuDNN describes devices.
constexpr char const* kDescribed =
    R"({"version": 1, "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
    "pciDeviceId": 9013, "isTccDriver": 0, "supportCoopLaunch": 1, "multiProcessorCount": 132, "warpSize": 32,
    "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "maxBlockSize": [1024, 1024, 64], "maxGridSize": [2147483647, 65535, 65535],
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
    "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "memoryBusWidth": 6144,
    "l2CacheSize": 62914560})";

RefactorConvolution convolution(DataType dtype, int64_t groups, int64_t in, int64_t out, int64_t size, int64_t kernel) {
    RefactorConvolution c{};
    c.dtype = static_cast<int32_t>(dtype), c.batch = 1, c.groups = groups, c.in_channels = in, c.out_channels = out;
    for (int axis = 0; axis < 3; ++axis) {
        bool used = axis > 0;
        c.in[axis] = c.out[axis] = used ? size : 1, c.kernel[axis] = used ? kernel : 1;
        c.stride[axis] = c.dilation[axis] = 1, c.pad_begin[axis] = c.pad_end[axis] = used ? kernel / 2 : 0;
    }
    return c;
}

/// Variants of one convolution: with an epilogue or none, in either order of the channels.
std::vector<RefactorConvolution> convolutions() {
    std::vector<RefactorConvolution> all;
    for (auto dtype : {F32, F16, BF16, F64})
        for (auto c : {convolution(dtype, 1, 64, 64, 56, 3), convolution(dtype, 1, 3, 64, 112, 7),
                       convolution(dtype, 96, 96, 96, 56, 3), convolution(dtype, 4, 64, 128, 14, 3)})
            for (int mode = 0; mode < 4; ++mode) {
                bool follows = mode & 1, half = dtype == F16 || dtype == BF16;
                c.channels_last = mode & 2;
                // cuDNN 9.28 has none of f64 with groups.
                if ((dtype == F64 && c.groups > 1) || (c.channels_last && !half)) continue;
                c.bias = c.activation = follows, c.residual = follows && c.groups == 1;
                all.push_back(c);
            }
    return all;
}

TEST(CudaPlugin, PlansConvolutionsForADescribedDevice) {
    std::string why;
    auto const* dnn = planning(why);
    if (!dnn) GTEST_SKIP() << why;
    ASSERT_EQ(dnn->bytes, sizeof(RefactorDeviceDnn));
    char text[4096] = "";
    for (auto const& c : convolutions())
        EXPECT_EQ(dnn->convolution_check(kDescribed, &c, text, sizeof text), 0)
            << name_of(static_cast<DataType>(c.dtype)) << ", " << c.groups << " groups, channels last "
            << c.channels_last << ", epilogue " << c.bias << ": " << text;
    auto unknown = convolution(I32, 1, 8, 8, 8, 3);
    EXPECT_NE(dnn->convolution_check(kDescribed, &unknown, text, sizeof text), 0);
    EXPECT_NE(std::string(text).find("dtype"), std::string::npos) << text;
}

/// A folder for what is compiled, for as long as this lives.
class OwnCache {
    std::filesystem::path path_;
    std::string former_;
    bool had_;

public:
    OwnCache() {
        auto const* former = std::getenv("REFACTOR_GRAPH_CACHE");
        had_ = former, former_ = former ? former : "";
        auto name = (std::filesystem::temp_directory_path() / "rg_cache_XXXXXX").string();
        path_ = mkdtemp(name.data());
        setenv("REFACTOR_GRAPH_CACHE", path_.c_str(), 1);
    }
    ~OwnCache() {
        if (had_)
            setenv("REFACTOR_GRAPH_CACHE", former_.c_str(), 1);
        else
            unsetenv("REFACTOR_GRAPH_CACHE");
        std::filesystem::remove_all(path_);
    }
    OwnCache(OwnCache const&) = delete;
    OwnCache& operator=(OwnCache const&) = delete;
    /// By their names; a file that is written anew gets another number.
    std::map<std::filesystem::path, ino_t> files() const {
        std::map<std::filesystem::path, ino_t> found;
        for (auto const& entry : std::filesystem::recursive_directory_iterator(path_)) {
            struct stat info;
            if (entry.is_regular_file() && stat(entry.path().c_str(), &info) == 0) found[entry.path()] = info.st_ino;
        }
        return found;
    }
};

TEST(CudaPlugin, KeepsPlansOnDisk) {
    std::string why;
    auto const* dnn = planning(why);
    if (!dnn) GTEST_SKIP() << why;
    OwnCache const cache;
    char text[4096] = "";
    // cuDNN compiles code for this one.
    auto c = convolution(F16, 1, 64, 64, 28, 3);
    c.channels_last = c.bias = 1, c.activation = 5;
    auto plan = [&](char const* device) { return dnn->convolution_check(device, &c, text, sizeof text); };
    ASSERT_EQ(plan(kDescribed), 0) << text;
    auto const made = cache.files();
    ASSERT_EQ(made.size(), 1u);
    auto const& [file, number] = *made.begin();
    ASSERT_GT(std::filesystem::file_size(file), 20000u) << "the code is in it";
    ASSERT_EQ(plan(kDescribed), 0) << text;
    EXPECT_EQ(cache.files(), made) << "the second plan is the first, from disk";
    // A hard link keeps the number of a file that is replaced.
    std::filesystem::path const kept = file.string() + ".kept";
    for (bool damaged : {true, false}) {
        std::filesystem::create_hard_link(file, kept);
        if (damaged) {
            std::fstream content(file, std::ios::in | std::ios::out | std::ios::binary);
            content.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file) / 2));
            content.put('\xff');
        } else {
            std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
        }
        auto const before = cache.files().at(file);
        EXPECT_EQ(plan(kDescribed), 0) << text;
        EXPECT_NE(cache.files().at(file), before) << "a damaged file is replaced";
        std::filesystem::remove(kept);
    }
    std::string other = kDescribed;
    other.replace(other.find("132"), 3, "114");
    EXPECT_EQ(plan(other.c_str()), 0) << text;
    c.activation = 4;
    EXPECT_EQ(plan(kDescribed), 0) << text;
    EXPECT_EQ(cache.files().size(), 3u) << "another device and another graph have plans of their own";
}

/// Bias and causal mask of an attention of cuDNN.
struct Mask {
    int64_t bias[4];
    bool causal;
};

/// Operands by themselves, or Q, K and V side by side in one tensor of products, with Y as the next product takes it.
void place_operands(RefactorAttention& a, bool packed) {
    auto dense = [](int64_t heads, int64_t rows, int64_t row) {
        return RefactorSteps{heads * rows * row, rows * row, row};
    };
    auto beside = [](int64_t width, int64_t rows, int64_t row) { return RefactorSteps{rows * width, row, width}; };
    a.q = dense(a.heads, a.queries, a.depth), a.k = dense(a.kv_heads, a.keys, a.depth);
    a.v = dense(a.kv_heads, a.keys, a.value_depth), a.y = dense(a.heads, a.queries, a.value_depth);
    if (!packed) return;
    auto width = a.heads * a.depth + a.kv_heads * (a.depth + a.value_depth);
    a.q = beside(width, a.queries, a.depth), a.k = beside(width, a.keys, a.depth);
    a.v = beside(width, a.keys, a.value_depth), a.y = beside(a.heads * a.value_depth, a.queries, a.value_depth);
}

std::vector<RefactorAttention> attentions() {
    std::vector<RefactorAttention> all;
    RefactorAttention a{};
    a.scale = 0.125, a.batch = 2, a.heads = 12, a.depth = a.value_depth = 64;
    // Planning takes up to a second: types and places alternate.
    int number = 0;
    for (int64_t kv_heads : {12, 4})
        for (auto [queries, keys] : {std::pair<int64_t, int64_t>{128, 128}, {77, 77}, {64, 200}, {1, 513}})
            for (Mask const& mask : {Mask{{0, 0, 0, 0}, false}, Mask{{0, 0, 0, 0}, true}, Mask{{2, 1, 1, keys}, false},
                                     Mask{{1, 1, queries, keys}, true}, Mask{{2, 12, queries, keys}, false}}) {
                a.dtype = static_cast<int32_t>(number % 2 ? BF16 : F16), a.kv_heads = kv_heads;
                a.queries = queries, a.keys = keys, a.causal = mask.causal && queries > 1;
                std::copy(mask.bias, mask.bias + 4, a.bias);
                place_operands(a, number++ / 2 % 2);
                all.push_back(a);
            }
    return all;
}

/// On all threads, as plans of a model are made.
TEST(CudaPlugin, PlansAttentionForADescribedDevice) {
    std::string why;
    auto const* dnn = planning(why);
    if (!dnn) GTEST_SKIP() << why;
    auto all = attentions();
    std::vector<std::string> reasons(all.size());
    ThreadPool().parallel_for(static_cast<int64_t>(all.size()), [&](int64_t i, int) {
        char text[4096] = "";
        auto number = static_cast<size_t>(i);
        if (dnn->attention_check(kDescribed, &all[number], text, sizeof text) != 0) reasons[number] = text;
    });
    for (size_t i = 0; i < all.size(); ++i) {
        auto const& a = all[i];
        EXPECT_EQ(reasons[i], "") << name_of(static_cast<DataType>(a.dtype)) << ", " << a.kv_heads << " heads, "
                                  << a.queries << " queries, " << a.keys << " keys, causal " << a.causal << ", bias ["
                                  << a.bias[0] << ", " << a.bias[1] << ", " << a.bias[2] << ", " << a.bias[3] << ']';
    }
    auto odd = all[0];
    odd.depth = 12;
    place_operands(odd, false);
    char text[4096] = "";
    EXPECT_NE(dnn->attention_check(kDescribed, &odd, text, sizeof text), 0);
}

}  // namespace

}  // namespace refactor::kernel::cuda
