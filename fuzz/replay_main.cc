// Runs inputs again that are files, without a sanitizer: `fuzz_replay corpus-folder`, each sub-folder for the target of
// its name, or `fuzz_replay target file...`. With -v in front it says what became of each.
#include "target.h"

#include <algorithm>
#include <cstdio>
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

void replay(Target const& target, std::filesystem::path const& path) {
    std::ifstream file(path, std::ios::binary);
    require(file.good(), "cannot be read", path.string());
    std::string text{std::istreambuf_iterator<char>(file), {}};
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
