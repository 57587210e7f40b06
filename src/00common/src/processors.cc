#include "processors.h"

#include "common/thread_pool.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace refactor {
namespace {

/// The file's text, empty if it cannot be read.
std::string read_text(std::string const& path) {
    std::string text;
    auto* stream = std::fopen(path.c_str(), "r");
    if (!stream) return text;
    char buffer[512];
    for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, stream)) > 0;) text.append(buffer, n);
    std::fclose(stream);
    return text;
}

/// Rounded up to whole processors; 0 for "max", -1 and what cannot be read.
int whole_processors(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    return static_cast<int>(std::min<long long>((quota + period - 1) / period, 1 << 16));
}

int quota_v2(std::string const& folder) {
    auto text = read_text(folder + "/cpu.max");
    long long quota = 0, period = 0;
    return std::sscanf(text.c_str(), "%lld %lld", &quota, &period) == 2 ? whole_processors(quota, period) : 0;
}

int quota_v1(std::string const& folder) {
    auto quota = read_text(folder + "/cpu.cfs_quota_us"), period = read_text(folder + "/cpu.cfs_period_us");
    return whole_processors(std::atoll(quota.c_str()), std::atoll(period.c_str()));
}

/// Smallest quota of `path` and its ancestors below `mount`.
template <class Quota>
int smallest_quota(std::string const& mount, std::string path, Quota quota) {
    int smallest = 0;
    for (;;) {
        int here = quota(mount + path);
        if (here && (!smallest || here < smallest)) smallest = here;
        if (path.empty()) return smallest;
        path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
}

/// Whether `list`, separated by commas, names the controller "cpu".
bool names_cpu(std::string_view list) {
    while (!list.empty()) {
        auto comma = std::min(list.find(','), list.size());
        if (list.substr(0, comma) == "cpu") return true;
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return false;
}

}  // namespace

int affinity_processors() {
#ifdef __linux__
    // A machine may have more processors than cpu_set_t holds: EINVAL asks for a larger set.
    for (int capacity = 1024; capacity <= 1 << 16; capacity *= 2) {
        auto* set = CPU_ALLOC(capacity);
        auto size = CPU_ALLOC_SIZE(capacity);
        int count = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int cgroup_processors(std::string const& root) {
    // Lines are "id:controllers:path"; version 2 has id 0 and no controllers. A path of the host that is not visible
    // inside a container reads as no quota, and the walk up ends at the mount, which is the container's own group.
    auto lines = read_text(root + "/proc/self/cgroup");
    int smallest = 0;
    auto consider = [&](int limit) {
        if (limit && (!smallest || limit < smallest)) smallest = limit;
    };
    for (size_t begin = 0; begin < lines.size();) {
        auto end = std::min(lines.find('\n', begin), lines.size());
        auto line = lines.substr(begin, end - begin);
        begin = end + 1;
        auto first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        auto controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
        if (path == "/") path.clear();
        if (controllers.empty()) {
            consider(smallest_quota(root + "/sys/fs/cgroup", path, quota_v2));
        } else if (names_cpu(controllers)) {
            consider(smallest_quota(root + "/sys/fs/cgroup/cpu", path, quota_v1));
            consider(smallest_quota(root + "/sys/fs/cgroup/" + controllers, path, quota_v1));
        }
    }
    return smallest;
}

int default_thread_count() {
    int processors = affinity_processors(), quota = cgroup_processors();
    return quota ? std::min(processors, quota) : processors;
}

}  // namespace refactor
