#include "host_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace refactor::mem_manager {

namespace {

/// The number in a file of one line, or `otherwise` if there is no such file or it says "max".
size_t number_in(char const* path, size_t otherwise) {
    auto* file = std::fopen(path, "r");
    if (!file) return otherwise;
    unsigned long long value = 0;
    bool read = std::fscanf(file, "%llu", &value) == 1;
    std::fclose(file);
    return read ? static_cast<size_t>(value) : otherwise;
}

/// What the kernel says could be had without swapping: free pages and caches that it would drop.
size_t available_bytes() {
    size_t kib = 0;
    if (auto* file = std::fopen("/proc/meminfo", "r")) {
        char line[128];
        while (std::fgets(line, sizeof line, file))
            if (std::strncmp(line, "MemAvailable:", 13) == 0) kib = std::strtoull(line + 13, nullptr, 10);
        std::fclose(file);
    }
    return kib * 1024;
}

struct Group {
    char const *limit, *used;
};
constexpr Group kGroups[] = {
    {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
};

}  // namespace

MemoryInfo host_memory() {
    MemoryInfo info{available_bytes(),
                    static_cast<size_t>(sysconf(_SC_PAGESIZE)) * static_cast<size_t>(sysconf(_SC_PHYS_PAGES))};
    for (auto [limit_file, used_file] : kGroups) {
        auto limit = number_in(limit_file, SIZE_MAX);
        if (limit >= info.total) continue;
        auto used = std::min(number_in(used_file, 0), limit);
        info.total = limit, info.free = std::min(info.free, limit - used);
    }
    return info;
}

}  // namespace refactor::mem_manager
