#include "common/error.h"
#include "common/thread_pool.h"
#include "elementwise/elementwise.h"
#include "elementwise/table.h"
#include "elementwise/tile_task.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace refactor::kernel {

using namespace elementwise;

namespace {

using Table = std::array<uint8_t, 256>;

/// How bytes are looked up, and ns for one of them: seven operations for a vector, or three for two bytes.
struct Method {
    TableLookup run;
    float cost;
    std::string_view name;
};

Method method_of(Isa isa) {
#if RG_X86
    if (isa >= Isa::Avx512 && __builtin_cpu_supports("avx512vbmi")) return {look_up_bytes_avx512, 0.03f, "avx512vbmi"};
    if (isa >= Isa::Avx2) return {look_up_bytes_avx2, 0.3f, "avx2"};
#endif
    constexpr TableLookup kScalar = [](uint8_t const* table, uint8_t const* x, uint8_t* y, int64_t n) {
        for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
    };
    return {kScalar, 0.5f, "scalar"};
}

/// Where every byte is itself: a change of type alone.
constexpr TableLookup kCopy = [](uint8_t const*, uint8_t const* x, uint8_t* y, int64_t n) {
    if (x != y) std::memcpy(y, x, static_cast<size_t>(n));
};
bool is_identity(Table const& table) {
    for (size_t i = 0; i < table.size(); ++i)
        if (table[i] != i) return false;
    return true;
}

class TableTask final : public runtime::Task {
public:
    TableTask(Table const& table, Method const& method, size_t input, size_t inputs, int64_t count, int threads)
        : table_(table), method_(method), input_(input), inputs_(inputs), count_(count) {
        // A fork-join costs about 1 µs.
        auto work = static_cast<double>(count) * static_cast<double>(method.cost);
        parts_ = threads > 1 ? std::clamp<int64_t>(static_cast<int64_t>(work / 4e3), 1, threads) : 1;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<uint8_t const*>(arguments[input_]);
        auto* y = static_cast<uint8_t*>(arguments[inputs_]);
        context.pool.parallel_for(parts_, [&](int64_t part, int) {
            auto begin = count_ * part / parts_, end = count_ * (part + 1) / parts_;
            method_.run(table_.data(), x + begin, y + begin, end - begin);
        });
    }
    uint64_t in_place_inputs() const override { return uint64_t{1} << input_; }

private:
    Table table_;
    Method method_;
    size_t input_, inputs_;
    int64_t count_, parts_;
};

class TableKernel final : public Kernel {
public:
    TableKernel(Table const& table, Method const& method, size_t input, std::string id)
        : table_(table), method_(method), input_(input), id_(std::move(id)) {}
    std::string id() const override { return id_; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        auto const &x = *args.inputs[input_], &y = *args.outputs[0];
        if (x.count() != y.count()) return Err{Rejection{"the input is broadcast"}};
        if (x.layout != Layout::Plain || y.layout != Layout::Plain)
            return Err{Rejection{"bytes behind the last channel would not stay 0"}};
        return std::unique_ptr<runtime::Task>(
            new TableTask(table_, method_, input_, args.inputs.size(), y.count(), args.threads));
    }

private:
    Table table_;
    Method method_;
    size_t input_;
    std::string id_;
};

/// What the program makes of every byte, by the functions that would compute it.
Result<Table, Rejection> tabulate(std::shared_ptr<TileProgram const> const& program, Request const& request,
                                  size_t input) {
    TensorDesc x{request.inputs[input].dtype, Layout::Plain, {256}}, y{request.outputs[0].dtype, Layout::Plain, {256}};
    std::vector<TensorDesc const*> inputs(request.inputs.size(), nullptr), outputs{&y};
    inputs[input] = &x;
    PackCache packs;
    auto nest = LoopNest::make({inputs, outputs, {}, packs, 1}, program->input_bytes);
    if (!nest) return Err{nest.error()};
    TileTask task(program, std::move(*nest), 1);
    alignas(64) Table bytes, table;
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
    std::vector<void*> arguments(inputs.size() + 1, nullptr);
    arguments[input] = bytes.data(), arguments[inputs.size()] = table.data();
    auto scratch = std::make_unique<std::byte[]>(task.scratch_bytes() + 64);
    auto address = (reinterpret_cast<uintptr_t>(scratch.get()) + 63) / 64 * 64;
    ThreadPool pool(1);
    FlushDenormals flush;
    try {
        task.run(arguments.data(), {pool, nullptr, nullptr, nullptr, reinterpret_cast<std::byte*>(address)});
    } catch (InvalidInput const& error) {
        return Err{Rejection{std::string("not every byte has a result: ") + error.what()}};
    }
    return table;
}

}  // namespace

ElementwiseResult elementwise_table(ElementwiseInfo const& info, Request const& request) {
    auto program = TileProgram::make(info, request, without_dots(request.isa));
    if (!program) return Err{program.error()};
    auto const &bytes = (*program)->input_bytes, &results = (*program)->output_bytes;
    auto read = std::count_if(bytes.begin(), bytes.end(), [](int64_t size) { return size != 0; });
    auto input = static_cast<size_t>(std::find(bytes.begin(), bytes.end(), 1) - bytes.begin());
    if (read != 1 || input == bytes.size() || results.size() != 1 || results[0] != 1)
        return Err{Rejection{"needs one input and one output, both of bytes"}};
    auto method = method_of(request.isa);
    if (method.cost >= (*program)->cost) return Err{Rejection{"computing takes less time than looking up"}};
    auto table = tabulate(*program, request, input);
    if (!table) return Err{table.error()};
    if (is_identity(*table)) method = {kCopy, 0.03f, "copy"};
    auto id =
        "elementwise:cpu:table:" + std::string(name_of(request.outputs[0].dtype)) + ":" + std::string(method.name);
    return ElementwiseResult(std::make_unique<TableKernel>(*table, method, input, std::move(id)));
}

}  // namespace refactor::kernel
