#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

namespace refactor {

/// Fork-join pool: the calling thread and `threads() - 1` workers share the tasks of one `parallel_for` at a time.
///
/// Tasks are handed out dynamically from per-thread ranges, so that uneven cores finish together. Workers spin for a
/// bounded time after a job and then sleep; they keep off the processor that the calling thread runs on. A nested call
/// (of any pool) runs on the calling thread alone, under the worker number of the task it is in (0 if the nested pool
/// has fewer threads). Two threads that share one pool take turns. Workers start on first use; after `fork` (not from
/// inside a task) the child gets new ones on first use. Workers flush denormals (FTZ/DAZ) and block signals;
/// `FlushDenormals` does the same for denormals of the calling thread. An exception of a task is rethrown by
/// `parallel_for` after all tasks have stopped; tasks not yet begun are skipped.
class ThreadPool {
public:
    /// `threads` ≥ 1; 0 takes `default_thread_count()`. No more than `processors` (0: `default_thread_count()`) of them
    /// ever run at once, since threads that share a processor only wait for each other; `threads()` stays as asked.
    /// Throws `InvalidInput` if one is negative.
    explicit ThreadPool(int threads = 0, int processors = 0);
    ~ThreadPool();
    ThreadPool(ThreadPool const&) = delete;
    ThreadPool& operator=(ThreadPool const&) = delete;

    int threads() const { return threads_; }

    /// Calls `body(task, worker)` once for every task in [0, tasks), worker in [0, threads()): two calls with one
    /// worker number never overlap, so it indexes per-thread scratch memory. With one thread or one task: a plain loop,
    /// no synchronisation, no allocation.
    template <class F>
    void parallel_for(int64_t tasks, F&& body) {
        if (threads_ == 1 || tasks <= 1) {
            int worker = threads_ > worker_number() ? worker_number() : 0;
            for (int64_t i = 0; i < tasks; ++i) body(i, worker);
            return;
        }
        run(
            tasks,
            [](void* f, int64_t task, int worker) { (*static_cast<std::remove_reference_t<F>*>(f))(task, worker); },
            const_cast<void*>(static_cast<void const*>(&body)));
    }

    /// Worker number of the task that the calling thread is inside of, 0 outside.
    static int worker_number();

private:
    using Body = void (*)(void*, int64_t task, int worker);
    void run(int64_t tasks, Body, void* argument);

    int threads_;
    struct State;
    std::unique_ptr<State> state_;
};

/// A pool of one thread, the caller's: its `parallel_for` is a loop.
ThreadPool& calling_thread();

/// Processors that this process may really use: the affinity mask, cut by the cgroup (v1 and v2) CPU quota, at least 1.
int default_thread_count();

/// Sets flush-to-zero and denormals-are-zero on the current thread and restores the previous mode when destroyed.
class FlushDenormals {
    uint32_t saved_;

public:
    FlushDenormals();
    ~FlushDenormals();
    FlushDenormals(FlushDenormals const&) = delete;
    FlushDenormals& operator=(FlushDenormals const&) = delete;
};

}  // namespace refactor
