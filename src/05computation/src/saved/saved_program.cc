#include "computation/saved_program.h"

#include "common/cpu_features.h"
#include "common/error.h"
#include "common/thread_pool.h"
#include "lowering.h"
#include "mem_manager/device.h"
#include "saved/flat_model.h"

#include <algorithm>
#include <tuple>

namespace refactor::computation {

namespace {

struct Target {
    std::string device;
    Isa isa{};
    kernel::Precision precision{};
};

struct Choice {
    std::string key, kernel;
};

/// What a kernel made of a constant.
struct Pack {
    uint32_t edge = 0;
    std::string format;
    uint32_t tensor = 0;
};

std::vector<Choice> choices_of(kernel::ProgramParts const& parts) {
    std::vector<Choice> choices;
    if (parts.tuning)
        for (auto& [key, kernel] : parts.tuning->choices()) choices.push_back({key, kernel});
    return choices;
}

/// In the order of edges and formats, so that equal programs become equal bytes.
std::vector<Pack> packs_of(GraphWriter& writer, kernel::Program const& program) {
    std::unordered_map<mem_manager::Blob const*, uint32_t> edges;
    auto const& parts = program.parts();
    for (uint32_t i = 0; i < parts.edges.size(); ++i)
        if (auto const& constant = parts.edges[i].constant) edges.emplace(constant.get(), i);
    std::vector<std::pair<Pack, kernel::PackCache::Entry>> found;
    // Kernels pack tables of their own, too; those are made again.
    for (auto& entry : program.packs().entries())
        if (auto edge = edges.find(entry.source); edge != edges.end())
            found.push_back({{edge->second, entry.format}, std::move(entry)});
    std::sort(found.begin(), found.end(), [](auto const& a, auto const& b) {
        return std::tie(a.first.edge, a.first.format) < std::tie(b.first.edge, b.first.format);
    });
    std::vector<Pack> packs;
    for (auto& [pack, entry] : found) {
        auto bytes = static_cast<int64_t>(entry.packed->bytes());
        pack.tensor = writer.add(
            {parts.edges[pack.edge].name + " as " + pack.format, DataType::U8, {bytes}, std::move(entry.packed)});
        packs.push_back(std::move(pack));
    }
    return packs;
}

void check(Target const& target) {
    auto const& cpu = cpu_features();
    if (target.precision > kernel::Precision::F8 || target.isa > Isa::Avx512Amx)
        throw InvalidModel("not what was written: an unknown precision or instruction set");
    bool has = target.device != "cpu" || (target.isa <= cpu.isa && (target.isa != Isa::Avx2Vnni || cpu.avx2_vnni));
    if (!has)
        throw Unsupported("the saved model's kernels are for " + std::string(name_of(target.isa)) +
                          ", this processor has " + std::string(name_of(cpu.isa)) + ": compile the model here");
}

}  // namespace

void write_program(GraphWriter& writer, kernel::Program const& program) {
    auto const& parts = program.parts();
    writer.write(Target{parts.device, parts.isa, parts.precision});
    writer.write(parts.tuning != nullptr);
    writer.write(choices_of(parts));
    write(writer, flatten(parts));
    writer.write(packs_of(writer, program));
}

std::shared_ptr<kernel::Program> read_program(GraphReader& reader, LoadOptions const& load) {
    auto target = reader.read<Target>();
    check(target);
    CompileOptions options;
    options.device = target.device, options.precision = target.precision;
    options.max_tensor_bytes = load.max_tensor_bytes;
    if (reader.read<bool>()) options.tuning = std::make_shared<kernel::TuningTable>();
    for (auto& choice : reader.read<std::vector<Choice>>())
        if (options.tuning) options.tuning->set(std::move(choice.key), std::move(choice.kernel));
    auto read = read_model(reader);
    std::vector<kernel::PackCache::Entry> packs;
    for (auto& pack : reader.read<std::vector<Pack>>()) {
        auto* edge = pack.edge < read.edges.size() ? read.edges[pack.edge] : nullptr;
        if (!edge || !edge->value.constant) throw InvalidModel("not what was written: packed weights of no constant");
        packs.push_back({edge->value.constant.get(), std::move(pack.format), reader.tensor(pack.tensor)});
    }
    auto* place = target.device == "cpu" ? nullptr : &mem_manager::find_device(target.device, 0);
    auto threads = load.threads > 0 ? load.threads : default_thread_count();
    return lower(read.model, {options, target.isa, threads}, place, std::move(packs));
}

}  // namespace refactor::computation
