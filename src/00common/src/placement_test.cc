#include "placement.h"

#include "common/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>

namespace refactor {
namespace {

std::vector<int> processors_of(pthread_t thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(pthread_getaffinity_np(thread, sizeof set, &set), 0);
    std::vector<int> all;
    for (int i = 0; i < CPU_SETSIZE; ++i)
        if (CPU_ISSET(static_cast<size_t>(i), &set)) all.push_back(i);
    return all;
}

void pin(pthread_t thread, std::vector<int> const& processors) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i : processors) CPU_SET(static_cast<size_t>(i), &set);
    ASSERT_EQ(pthread_setaffinity_np(thread, sizeof set, &set), 0);
}

std::vector<int> without(std::vector<int> all, int one) {
    all.erase(std::remove(all.begin(), all.end(), one), all.end());
    return all;
}

/// Moves the test's thread between processors; gives it all of them back.
class PlacementTest : public testing::Test {
protected:
    std::vector<int> all_ = processors_of(pthread_self());

    void SetUp() override {
        if (all_.size() < 2) GTEST_SKIP() << "one processor";
    }
    void TearDown() override { pin(pthread_self(), all_); }
};

TEST_F(PlacementTest, WorkersLeaveTheProcessorOfTheirCaller) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> workers;
    for (int i = 0; i < 3; ++i) workers.emplace_back([&] { stop.wait(false); });
    auto first = all_[0], second = all_[1];
    Placement placement;
    placement.watch(workers);
    for (int here : {first, second, second, first}) {
        pin(pthread_self(), {here});
        placement.keep_off_this_processor(workers);
        for (auto& worker : workers) EXPECT_EQ(processors_of(worker.native_handle()), without(all_, here));
    }
    // What somebody else says of a worker holds from then on.
    pin(workers[1].native_handle(), {first});
    for (int here : {second, first, second}) {
        pin(pthread_self(), {here});
        placement.keep_off_this_processor(workers);
        EXPECT_EQ(processors_of(workers[0].native_handle()), without(all_, here));
        EXPECT_EQ(processors_of(workers[1].native_handle()), std::vector{first}) << "nowhere else to go";
    }
    stop = true;
    stop.notify_all();
    for (auto& worker : workers) worker.join();
}

TEST_F(PlacementTest, APoolFollowsItsCaller) {
    ThreadPool pool(2, 2);
    // A task for each thread: they wait for each other.
    auto processors_of_worker = [&] {
        std::atomic<int> arrived{0};
        std::vector<int> processors;
        pool.parallel_for(2, [&](int64_t, int worker) {
            if (worker) processors = processors_of(pthread_self());
            for (++arrived; arrived < 2;) std::this_thread::yield();
        });
        return processors;
    };
    processors_of_worker();  // The worker starts with the processors of this thread.
    for (int here : {all_[0], all_[1]}) {
        pin(pthread_self(), {here});
        EXPECT_EQ(processors_of_worker(), without(all_, here));
    }
}

}  // namespace
}  // namespace refactor
