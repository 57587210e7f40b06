// Runs inputs again that are files, without a sanitizer: `fuzz_replay corpus-folder`, each sub-folder for the target of
// its name, or `fuzz_replay target file...`. With -v in front it says what became of each. `fuzz_replay -m SECONDS SEED
// target file...` mutates them in turn, blind to coverage but fast; what ends it is in fuzz_replay.input.
#include "target.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace refactor::fuzz;

namespace {

Target const kTargets[]{dim_expr_target(), ncnn_target(), onnx_target(), pnnx_target(), pnnx_term_target()};

Target const* find(std::string_view name) {
    auto* end = std::end(kTargets);
    auto* found = std::find_if(std::begin(kTargets), end, [&](Target const& t) { return t.name == name; });
    return found == end ? nullptr : found;
}

std::string content(std::filesystem::path const& path) {
    std::ifstream file(path, std::ios::binary);
    require(file.good(), "cannot be read", path.string());
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Bytes for formats that have no mutator.
size_t scramble(char* text, size_t size, size_t most, uint32_t seed) {
    for (uint32_t left = 1 + seed % 5; left && size; --left, seed = seed * 1664525 + 1013904223) {
        auto at = seed / 7 % size;
        if (seed / 3 % 3 == 0) text[at] = text[seed / 11 % size];
        if (seed / 3 % 3 == 1 && size < most) std::copy_backward(text + at, text + size, text + size + 1), ++size;
        if (seed / 3 % 3 == 2) std::copy(text + at + 1, text + size, text + at), --size;
    }
    return size;
}

/// Mutates inputs for some time and puts those that have become something back.
size_t mutate(Target const& target, double seconds, uint32_t seed, std::vector<std::string> inputs) {
    using Clock = std::chrono::steady_clock;
    auto end = Clock::now() + std::chrono::duration<double>(seconds);
    auto change = target.mutate ? target.mutate : scramble;
    size_t count = 0;
    std::string text;
    for (; Clock::now() < end; ++count) {
        seed = seed * 747796405 + 2891336453;
        auto random = (seed >> ((seed >> 28) + 4) ^ seed) * 277803737;
        // Some steps away from an input, and then from another one.
        if (count % 4 == 0) text = inputs[random % inputs.size()];
        auto size = text.size();
        text.resize(size + 1024);
        text.resize(change(text.data(), size, text.size(), random));
        std::ofstream("fuzz_replay.input", std::ios::binary) << text;
        target.run(text);
    }
    return count;
}

void replay(Target const& target, std::filesystem::path const& path) {
    auto text = content(path);
    // The last line tells which input it was that ended the process.
    std::printf("%.*s %s\n", static_cast<int>(target.name.size()), target.name.data(), path.c_str());
    std::fflush(stdout);
    target.run(text);
}

size_t replay_folder(std::filesystem::path const& root) {
    size_t count = 0;
    for (auto const& target : kTargets) {
        auto folder = root / target.name;
        require(std::filesystem::is_directory(folder), "no such folder", folder.string());
        std::vector<std::filesystem::path> files;
        for (auto const& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
        std::sort(files.begin(), files.end());
        require(!files.empty(), "no inputs in", folder.string());
        for (auto const& file : files) replay(target, file);
        count += files.size();
    }
    return count;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 5 && std::string_view(argv[1]) == "-m" && find(argv[4])) {
        std::vector<std::string> inputs;
        for (int i = 5; i < argc; ++i) inputs.push_back(content(argv[i]));
        auto seed = static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10));
        std::printf("%zu inputs\n", mutate(*find(argv[4]), std::strtod(argv[2], nullptr), seed, std::move(inputs)));
        return 0;
    }
    verbose = argc > 1 && std::string_view(argv[1]) == "-v";
    if (verbose) --argc, ++argv;
    if (argc < 2) {
        std::fprintf(stderr, "usage: fuzz_replay [-v] CORPUS | fuzz_replay [-v] TARGET FILE...\n");
        return 2;
    }
    size_t count = 0;
    if (auto* target = find(argv[1]))
        for (int i = 2; i < argc; ++i, ++count) replay(*target, argv[i]);
    else
        count = replay_folder(argv[1]);
    std::printf("%zu inputs\n", count);
}
