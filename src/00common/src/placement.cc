#include "placement.h"

#ifdef __linux__
#include <algorithm>

#include <pthread.h>
#include <unistd.h>
#endif

namespace refactor {

#ifdef __linux__

namespace {

size_t bytes(std::vector<cpu_set_t> const& mask) { return mask.size() * sizeof(cpu_set_t); }

bool equal(std::vector<cpu_set_t> const& a, std::vector<cpu_set_t> const& b) {
    return CPU_EQUAL_S(bytes(a), a.data(), b.data());
}

}  // namespace

void Placement::watch(std::vector<std::thread> const& workers) {
    auto processors = static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
    read_ = Mask(processors / CPU_SETSIZE + 1);
    masks_.assign(workers.size(), {read_, read_});
    processor_ = -1;
}

void Placement::keep_off_this_processor(std::vector<std::thread>& workers) {
    int processor = sched_getcpu();
    if (processor == processor_) return;
    processor_ = processor;
    if (processor < 0) return;
    for (size_t i = 0; i < masks_.size(); ++i) {
        auto& [allowed, given] = masks_[i];
        auto worker = workers[i].native_handle();
        if (pthread_getaffinity_np(worker, bytes(read_), read_.data()) != 0) continue;
        if (!equal(read_, given)) allowed = read_;
        read_ = allowed;
        CPU_CLR_S(static_cast<size_t>(processor), bytes(read_), read_.data());
        if (CPU_COUNT_S(bytes(read_), read_.data()) == 0) read_ = allowed;
        if (!equal(read_, given) && pthread_setaffinity_np(worker, bytes(read_), read_.data()) == 0) given = read_;
    }
}

#else

void Placement::watch(std::vector<std::thread> const&) {}
void Placement::keep_off_this_processor(std::vector<std::thread>&) {}

#endif

}  // namespace refactor
