#include "common/thread_pool.h"

#include "common/error.h"
#include "random_test.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace refactor {
namespace {

// Pools of these tests run all their threads, however few processors there are.
constexpr int kMany = 64;

/// Runs `tasks` and checks that each was called once, by one worker number at a time.
void check_job(ThreadPool& pool, int64_t tasks) {
    std::vector<int> calls(static_cast<size_t>(tasks));
    std::vector<std::atomic<int>> inside(static_cast<size_t>(pool.threads()));
    std::atomic<int> overlaps{0}, strangers{0};
    pool.parallel_for(tasks, [&](int64_t task, int worker) {
        if (worker < 0 || worker >= pool.threads()) {
            ++strangers;
            return;
        }
        auto& here = inside[static_cast<size_t>(worker)];
        if (here.fetch_add(1) != 0) ++overlaps;
        ++calls[static_cast<size_t>(task)];
        here.fetch_sub(1);
    });
    ASSERT_EQ(strangers, 0);
    ASSERT_EQ(overlaps, 0);
    for (int64_t i = 0; i < tasks; ++i) ASSERT_EQ(calls[static_cast<size_t>(i)], 1) << "task " << i << " of " << tasks;
}

TEST(ThreadPool, RunsEveryTaskOnce) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937_64 random(seed);
    for (int threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads, kMany);
        EXPECT_EQ(pool.threads(), threads);
        for (int64_t tasks : {0, 1, 2, 3, 7, 8, 9, 1000}) check_job(pool, tasks);
        for (int round = 0; round < 200; ++round) check_job(pool, static_cast<int64_t>(random() % 300));
    }
}

TEST(ThreadPool, ManyShortJobs) {
    ThreadPool pool(3, kMany);
    std::atomic<int64_t> sum{0};
    for (int round = 0; round < 20000; ++round)
        pool.parallel_for(4, [&](int64_t task, int) { sum.fetch_add(task + 1, std::memory_order_relaxed); });
    EXPECT_EQ(sum, 200000);
}

TEST(ThreadPool, WorkersWakeAfterSleeping) {
    ThreadPool pool(3, kMany);
    for (int round = 0; round < 20; ++round) {
        check_job(pool, 16);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

TEST(ThreadPool, UnevenTasksAreStolen) {
    ThreadPool pool(2, kMany);
    std::atomic<int> by_other{0};
    std::atomic<bool> released{false};
    // Task 0 waits until the other thread has run a task of its range: only stealing gets the job done.
    pool.parallel_for(64, [&](int64_t task, int worker) {
        if (task == 0)
            while (!released) std::this_thread::yield();
        else if (task < 32 && worker != 0 && ++by_other == 1)
            released = true;
        if (task < 32 && task > 0 && worker == 0) released = true;
    });
    EXPECT_TRUE(released);
}

TEST(ThreadPool, NestedCallsStayOnTheirThread) {
    ThreadPool pool(3, kMany), other(4, kMany);
    std::atomic<int> wrong{0}, calls{0};
    pool.parallel_for(12, [&](int64_t, int worker) {
        auto self = std::this_thread::get_id();
        for (int64_t tasks : {1, 5}) {
            pool.parallel_for(tasks, [&](int64_t, int inner) {
                ++calls;
                if (inner != worker || std::this_thread::get_id() != self) ++wrong;
            });
        }
        other.parallel_for(5, [&](int64_t, int inner) {
            if (inner != worker || std::this_thread::get_id() != self) ++wrong;
        });
    });
    EXPECT_EQ(calls, 72);
    EXPECT_EQ(wrong, 0);
    check_job(pool, 100);
}

TEST(ThreadPool, ExceptionsArriveOnceAllTasksHaveStopped) {
    ThreadPool pool(4, kMany);
    for (int64_t thrower : {int64_t(0), int64_t(500), int64_t(999)}) {
        std::atomic<int> running{0};
        std::atomic<int64_t> begun{0};
        try {
            pool.parallel_for(1000, [&](int64_t task, int) {
                ++running;
                ++begun;
                if (task == thrower) {
                    --running;
                    throw InvalidInput("task " + std::to_string(task));
                }
                --running;
            });
            FAIL() << "no exception";
        } catch (InvalidInput const& error) {
            EXPECT_EQ(error.message(), "task " + std::to_string(thrower));
        }
        EXPECT_EQ(running, 0);
        EXPECT_LE(begun, 1000);
        check_job(pool, 50);
    }
    EXPECT_THROW(pool.parallel_for(64, [](int64_t, int) { throw std::runtime_error("all"); }), std::runtime_error);
    EXPECT_EQ(ThreadPool::worker_number(), 0);
    check_job(pool, 50);
}

TEST(ThreadPool, TwoCallersTakeTurns) {
    ThreadPool pool(3, kMany);
    std::atomic<int> inside[3] = {};
    std::atomic<int> overlaps{0};
    auto caller = [&] {
        for (int round = 0; round < 500; ++round)
            pool.parallel_for(10, [&](int64_t, int worker) {
                if (inside[worker].fetch_add(1) != 0) ++overlaps;
                inside[worker].fetch_sub(1);
            });
    };
    std::thread a(caller), b(caller);
    a.join();
    b.join();
    EXPECT_EQ(overlaps, 0);
}

TEST(ThreadPool, StopsWhileWorkersSpinOrSleep) {
    for (int round = 0; round < 30; ++round) {
        ThreadPool idle(4, kMany), pool(4, kMany);
        check_job(pool, 8);
        if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

TEST(ThreadPool, WorkersFlushDenormals) {
    ThreadPool pool(2, kMany);
    std::atomic<int> flushed{0}, workers{0};
    FlushDenormals flush;
    volatile float tiny = 1e-39f;
    std::atomic<int> arrived{0};
    pool.parallel_for(2, [&](int64_t, int worker) {
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
        volatile float product = tiny * 0.5f;
        workers += worker;
        flushed += product == 0.0f;
    });
    EXPECT_EQ(workers, 1);
    EXPECT_EQ(flushed, 2);
}

TEST(ThreadPool, FlushingEndsWithItsScope) {
    volatile float tiny = 1e-39f;
    { FlushDenormals flush; }
    volatile float product = tiny * 0.5f;
    EXPECT_NE(product, 0.0f);
}

TEST(ThreadPool, RefusesNegativeNumbers) {
    EXPECT_THROW(ThreadPool(-1), InvalidInput);
    EXPECT_THROW(ThreadPool(2, -3), InvalidInput);
    EXPECT_EQ(ThreadPool().threads(), default_thread_count());
}

TEST(ThreadPool, NeverRunsMoreThreadsThanProcessors) {
    ThreadPool pool(8, 1);
    auto self = std::this_thread::get_id();
    int64_t calls = 0;
    pool.parallel_for(100, [&](int64_t, int worker) { calls += worker == 0 && std::this_thread::get_id() == self; });
    EXPECT_EQ(calls, 100);
    EXPECT_EQ(pool.threads(), 8);
}

#if !defined(__SANITIZE_THREAD__)
// ThreadSanitizer refuses to start threads in the child of a process that has some.
TEST(ThreadPool, TheChildOfAForkGetsItsOwnWorkers) {
    ThreadPool pool(3, kMany);
    check_job(pool, 20);
    auto child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        std::atomic<int> arrived{0};
        // Ends only if three threads are in it at once.
        pool.parallel_for(3, [&](int64_t, int) {
            ++arrived;
            while (arrived < 3) std::this_thread::yield();
        });
        bool ok = true;
        {
            ThreadPool own(2, kMany);
            std::atomic<int> calls{0};
            own.parallel_for(10, [&](int64_t, int) { ++calls; });
            ok = calls == 10;
        }
        pool.~ThreadPool();
        _exit(ok ? 42 : 1);
    }
    int status = 0;
    for (int waited = 0; waitpid(child, &status, WNOHANG) == 0; ++waited) {
        if (waited == 2000) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            FAIL() << "the child hangs";
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 42);
    check_job(pool, 20);
}

TEST(ThreadPool, APoolThatTheChildNeverUsesIsDestroyed) {
    auto pool = std::make_unique<ThreadPool>(3, kMany);
    check_job(*pool, 20);
    auto child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        pool.reset();
        _exit(42);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 42);
}
#endif

}  // namespace
}  // namespace refactor
