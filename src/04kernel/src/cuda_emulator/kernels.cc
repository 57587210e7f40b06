#include "cuda_emulator/builtins.h"
#include "cuda_emulator/device.h"
#include "cuda_plugin/code_cache.h"
#include "cuda_plugin/turns.h"
#include "mem_manager/device_plugin.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <span>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace refactor::cuda_emulator {

namespace {

constexpr size_t kMostArgumentBytes = 4096;

struct LoadedFunction : Function {
    size_t argument_bytes = 0;
};

/// A folder of its own, removed with what is in it.
class Scratch {
    std::string path_;

public:
    Scratch() {
        char name[] = "/tmp/rg_emulated_XXXXXX";
        if (mkdtemp(name)) path_ = name;
    }
    ~Scratch() {
        for (auto const* file : {"source.cc", "code.so", "log"}) unlink(this->file(file).c_str());
        rmdir(path_.c_str());
    }
    Scratch(Scratch const&) = delete;
    Scratch& operator=(Scratch const&) = delete;
    std::string file(char const* name) const { return path_ + '/' + name; }
};

std::string content_of(std::string const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

int32_t build(std::string const& source, std::string& code, Complaint complain) {
    Scratch scratch;
    std::ofstream(scratch.file("source.cc")) << source;
    auto const* own = std::getenv("CXX");
    auto command = std::string(own && *own ? own : "c++") + " -std=c++17 -O1 -w -ffp-contract=off -shared -fPIC -o " +
                   scratch.file("code.so") + ' ' + scratch.file("source.cc") + " 2>" + scratch.file("log");
    if (std::system(command.c_str()) != 0) return complain(kFailure, content_of(scratch.file("log")));
    code = content_of(scratch.file("code.so"));
    return 0;
}

int32_t compile(char const* source, char const*, void** code, size_t* code_bytes, char* text, size_t text_bytes) {
    std::string built;
    if (auto status = build(std::string(kBuiltins) + source, built, {text, text_bytes})) return status;
    *code = std::malloc(built.size());
    if (!*code) return RG_OUT_OF_MEMORY;
    std::memcpy(*code, built.data(), built.size());
    *code_bytes = built.size();
    return 0;
}

void release(void* code) { std::free(code); }

/// The functions that a launch can start, with the blocks of their clusters.
std::map<std::string, uint32_t> kernels_of(std::string const& source) {
    static std::regex const pattern(
        R"((?:RG_GLOBAL|__global__\s+void(?:\s+__launch_bounds__\([^)]*\))?)(?:\s+RG_CLUSTER\((\d+)\))?\s+(\w+)\s*\()");
    std::map<std::string, uint32_t> kernels;
    for (std::sregex_iterator found(source.begin(), source.end(), pattern), end; found != end; ++found)
        if ((*found)[2] != "__launch_bounds__")
            kernels[(*found)[2]] = (*found)[1].matched ? static_cast<uint32_t>(std::stoul((*found)[1])) : 1;
    return kernels;
}

/// What is loaded of one source, by name.
using Functions = std::map<std::string, LoadedFunction>;

/// What of a library is zero before anything runs: the shared memory of its kernels, and its pointer to the grid.
std::span<char> zeros_of(void* library) {
    link_map* map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return {};
    struct Search {
        uintptr_t base;
        std::span<char> found;
    } search{map->l_addr, {}};
    auto look = [](dl_phdr_info* info, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        if (info->dlpi_addr != wanted.base) return 0;
        for (auto const& part : std::span(info->dlpi_phdr, info->dlpi_phnum))
            if (part.p_type == PT_LOAD && part.p_memsz > part.p_filesz)
                wanted.found = {reinterpret_cast<char*>(wanted.base + part.p_vaddr + part.p_filesz),
                                part.p_memsz - part.p_filesz};
        return 1;
    };
    dl_iterate_phdr(look, &search);
    return search.found;
}

int32_t link(std::string const& code, Functions& functions, Complaint complain) {
    Scratch scratch;
    std::ofstream(scratch.file("code.so"), std::ios::binary) << code;
    auto* library = dlopen(scratch.file("code.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return complain(kFailure, dlerror());
    for (auto& [name, function] : functions) {
        function.start = reinterpret_cast<void (*)(void const*)>(dlsym(library, ("rg_start_" + name).c_str()));
        function.argument_bytes = *static_cast<unsigned long*>(dlsym(library, ("rg_size_" + name).c_str()));
        function.grid = static_cast<Grid**>(dlsym(library, "rg_grid"));
        function.zeros = zeros_of(library);
    }
    return 0;
}

int32_t load_source(std::string const& source, Functions& functions, Complaint complain) {
    auto whole = kBuiltins + source;
    bool cooperates = false;
    for (auto const* barrier : {"__sync", "__shfl", "__ballot", "__any_sync", "__all_sync"})
        cooperates |= source.find(barrier) != source.npos;
    for (auto const& [name, cluster] : kernels_of(source)) {
        whole += "extern \"C\" void rg_start_" + name + "(void const* a) { rg_call(" + name + ", a); }\n";
        whole += "extern \"C\" unsigned long const rg_size_" + name + " = rg_argument_bytes(" + name + ");\n";
        functions[name].cooperates = cooperates, functions[name].cluster = cluster;
    }
    cuda_plugin::CodeCache cache("emulated", whole);
    auto code = cache.find();
    if (code.empty()) {
        if (auto status = build(whole, code, complain)) return status;
        cache.store(code);
    }
    return link(code, functions, complain);
}

int32_t load(void*, char const* source, char const* name, void** function, char* text, size_t text_bytes) {
    static std::mutex mutex;
    static cuda_plugin::Turns turns;
    static auto* sources = new std::map<std::string, Functions, std::less<>>;
    Complaint complain{text, text_bytes};
    auto find = [&]() -> Functions* {
        std::lock_guard lock(mutex);
        auto known = sources->find(std::string_view(source));
        return known == sources->end() ? nullptr : &known->second;
    };
    auto* known = find();
    if (!known) {
        cuda_plugin::Turns::Turn turn(turns, source);
        known = find();
        if (!known) {
            Functions functions;
            if (auto status = load_source(source, functions, complain)) return status;
            std::lock_guard lock(mutex);
            known = &sources->emplace(source, std::move(functions)).first->second;
        }
    }
    auto found = known->find(name);
    if (found == known->end()) return complain(kFailure, "there is no kernel " + std::string(name));
    *function = &found->second;
    return 0;
}

/// Words that are addresses of the device become the host's.
int32_t launch(void* device, void* stream, void* function, uint32_t blocks, uint32_t threads, void const* argument,
               char* text, size_t text_bytes) {
    Complaint complain{text, text_bytes};
    auto const& entry = *static_cast<LoadedFunction*>(function);
    if (!blocks || !threads || threads > 1024 || entry.argument_bytes > kMostArgumentBytes || blocks % entry.cluster)
        return complain(1, "invalid configuration: " + std::to_string(blocks) + " blocks of " +
                               std::to_string(threads) + " threads, in clusters of " + std::to_string(entry.cluster) +
                               ", arguments of " + std::to_string(entry.argument_bytes) + " bytes");
    // Functions belong to no device: the stream's counts.
    auto& owner = stream ? *static_cast<Stream*>(stream)->device : device_of(device);
    std::array<uint64_t, kMostArgumentBytes / 8> words{};
    std::memcpy(words.data(), argument, entry.argument_bytes);
    for (size_t i = 0; i < entry.argument_bytes / 8; ++i)
        if (auto* host = owner.memory.host(reinterpret_cast<void*>(words[i])))
            words[i] = reinterpret_cast<uint64_t>(host);
    auto work = [&entry, blocks, threads, words](char* t, size_t n) {
        auto wrong = run_grid(entry, blocks, threads, words.data());
        return wrong.empty() ? 0 : Complaint{t, n}(kFailure, wrong);
    };
    return stream ? static_cast<Stream*>(stream)->perform(text, text_bytes, work) : work(text, text_bytes);
}

}  // namespace

RefactorDeviceKernels const& kernel_table() {
    static constexpr RefactorDeviceKernels kTable{sizeof(RefactorDeviceKernels),
                                                  compile,
                                                  release,
                                                  load,
                                                  launch,
                                                  matmul_create,
                                                  matmul_destroy,
                                                  matmul_run,
                                                  capability};
    return kTable;
}

}  // namespace refactor::cuda_emulator
