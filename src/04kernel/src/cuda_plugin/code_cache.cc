#include "cuda_plugin/code_cache.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <sys/stat.h>
#include <unistd.h>

namespace refactor::cuda_plugin {

namespace {

/// FNV-1a, 64 bits.
uint64_t hash_of(std::string const& text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (auto byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    return hash;
}

std::string folder() {
    if (auto const* own = std::getenv("REFACTOR_GRAPH_CACHE")) return own;
    if (auto const* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
        return std::string(cache) + "/refactor_graph";
    if (auto const* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/refactor_graph";
    return {};
}

bool make_folders(std::string const& path) {
    for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
        mkdir(path.substr(0, slash).c_str(), 0700);
        if (slash == std::string::npos) break;
    }
    struct stat info;
    return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

struct Header {
    char magic[8] = {'R', 'G', 'C', 'U', 'B', 'I', 'N', '1'};
    uint64_t source_bytes = 0, code_bytes = 0, code_hash = 0;
};

}  // namespace

CodeCache::CodeCache(std::string const& target, std::string source) : source_(std::move(source)) {
    auto base = folder();
    if (base.empty()) return;
    char name[24];
    std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash_of(source_)));
    path_ = base + '/' + target + '/' + name + ".code";
}

std::string CodeCache::find() const {
    if (path_.empty()) return {};
    std::ifstream file(path_, std::ios::binary);
    if (!file) return {};
    std::string content{std::istreambuf_iterator<char>(file), {}};
    Header header, expected;
    if (content.size() < sizeof header) return {};
    std::memcpy(&header, content.data(), sizeof header);
    auto room = content.size() - sizeof header;
    if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 || header.source_bytes != source_.size() ||
        room < source_.size() || header.code_bytes != room - source_.size() ||
        content.compare(sizeof header, source_.size(), source_) != 0)
        return {};
    auto code = content.substr(sizeof header + source_.size());
    return hash_of(code) == header.code_hash ? code : std::string();
}

void CodeCache::store(std::string const& code) const {
    if (path_.empty() || !make_folders(path_.substr(0, path_.rfind('/')))) return;
    Header header;
    header.source_bytes = source_.size(), header.code_bytes = code.size(), header.code_hash = hash_of(code);
    // Others see the whole file or none.
    auto temporary = path_ + '.' + std::to_string(gettid()) + ".tmp";
    {
        std::ofstream file(temporary, std::ios::binary);
        file.write(reinterpret_cast<char const*>(&header), sizeof header);
        file << source_ << code;
        if (!file.flush()) {
            unlink(temporary.c_str());
            return;
        }
    }
    if (rename(temporary.c_str(), path_.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace refactor::cuda_plugin
