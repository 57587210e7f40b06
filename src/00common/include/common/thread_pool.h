#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

namespace refactor {

/// Fork-join pool: the calling thread and `threads() - 1` workers share the tasks of one `parallel_for` at a time.
///
/// Tasks are handed out dynamically from per-thread ranges, so that uneven cores finish together. Workers spin for a bounded time after a
/// job and then sleep. A nested call runs on the calling thread alone. Two threads that share one pool take turns. After `fork` the child
/// gets new workers on first use. Workers flush denormals (FTZ/DAZ); `FlushDenormals` does the same for the calling thread.
/// An exception of a task is rethrown by `parallel_for` after all tasks have stopped; tasks not yet begun are skipped.
class ThreadPool {
public:
    /// `threads` ≥ 1; 0 takes `default_thread_count()`.
    explicit ThreadPool(int threads = 0);
    ~ThreadPool();
    ThreadPool(ThreadPool const &) = delete;
    ThreadPool &operator=(ThreadPool const &) = delete;

    int threads() const { return threads_; }

    /// Calls `body(task, worker)` once for every task in [0, tasks), worker in [0, threads()): two calls with one worker number never
    /// overlap, so it indexes per-thread scratch memory. With one thread or one task: a plain loop, no synchronisation, no allocation.
    template<class F>
    void parallel_for(int64_t tasks, F &&body) {
        if (threads_ == 1 || tasks <= 1) {
            for (int64_t i = 0; i < tasks; ++i) body(i, 0);
            return;
        }
        run(tasks, [](void *f, int64_t task, int worker) { (*static_cast<std::remove_reference_t<F> *>(f))(task, worker); }, &body);
    }

private:
    using Body = void (*)(void *, int64_t task, int worker);
    void run(int64_t tasks, Body, void *argument);

    int threads_;
    struct State;
    std::unique_ptr<State> state_;
};

/// Processors that this process may really use: the affinity mask, cut by the cgroup (v1 and v2) CPU quota, at least 1.
int default_thread_count();

/// Sets flush-to-zero and denormals-are-zero on the current thread and restores the previous mode when destroyed.
class FlushDenormals {
    uint32_t saved_;

public:
    FlushDenormals();
    ~FlushDenormals();
    FlushDenormals(FlushDenormals const &) = delete;
    FlushDenormals &operator=(FlushDenormals const &) = delete;
};

}// namespace refactor
