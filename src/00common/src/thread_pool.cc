#include "common/thread_pool.h"

#include "common/error.h"
#include "placement.h"
#include "waiting.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#ifdef __linux__
#include <pthread.h>
#include <signal.h>
#endif

namespace refactor {
namespace {

// Worker number of the task that this thread is inside of, -1 outside.
thread_local int current_task_worker = -1;

struct TaskScope {
    explicit TaskScope(int worker) { current_task_worker = worker; }
    ~TaskScope() { current_task_worker = -1; }
};

// Number of forks between the first process and this one. `fork_mutex` is held across a fork, so that the child finds
// it free.
std::atomic<uint32_t> fork_count{0};
std::mutex fork_mutex;

void watch_forks() {
#ifdef __linux__
    static bool const registered = [] {
        return pthread_atfork([] { fork_mutex.lock(); }, [] { fork_mutex.unlock(); },
                              [] {
                                  fork_count.fetch_add(1, std::memory_order_relaxed);
                                  fork_mutex.unlock();
                              }) == 0;
    }();
    (void)registered;
#endif
}

/// Keeps signals away from workers: handlers of the host program expect its own threads.
class BlockSignals {
#ifdef __linux__
    sigset_t saved_;

public:
    BlockSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &saved_);
    }
    ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
#endif
};

}  // namespace

// Life of a job. The caller fills `body` and the ranges while the gate is closed (even), opens it (odd), works, closes
// it, and waits until no participant is active. A worker that sees an open gate first declares itself active and then
// looks at the gate again: with both sides sequentially consistent, either the worker sees that the gate has closed, or
// the caller sees that the worker is active.
struct ThreadPool::State {
    /// What one participant owns, on a cache line pair of its own (adjacent lines are fetched together).
    struct alignas(128) Slot {
        std::atomic<int64_t> next{0};  // first task of the range that nobody has taken
        int64_t end = 0;
        std::atomic<uint32_t> active{0};
    };

    explicit State(int most) : slots(static_cast<size_t>(most)) {}

    // Written by the caller of a job.
    alignas(128) std::atomic<uint32_t> gate{0};
    std::atomic<bool> stop{false};
    int participants = 0;  // slots in use: the caller's and those of the workers that have started
    Body body = nullptr;
    void* argument = nullptr;
    // Written by anyone, rarely.
    alignas(128) std::atomic<uint32_t> sleepers{0};
    std::atomic<bool> caller_sleeps{false};
    std::atomic<bool> failed{false};
    std::exception_ptr error;

    std::vector<Slot> slots;
    std::mutex turn;
    std::vector<std::thread> workers;
    Placement placement;
    std::atomic<uint32_t> started_after_forks{UINT32_MAX};

    void start();
    void stop_workers();
    void worker_loop(int self);
    void drain(int self, Slot& from);
    void work(int self);
    void leave(Slot& slot);
    void publish(int64_t tasks);
    void finish();
    bool usable() const {
        return started_after_forks.load(std::memory_order_acquire) == fork_count.load(std::memory_order_relaxed);
    }
};

void ThreadPool::State::start() {
    watch_forks();
    std::lock_guard lock(fork_mutex);
    if (usable()) return;
    if (started_after_forks.load(std::memory_order_relaxed) != UINT32_MAX) {
        // In the child of a fork the workers are gone and the mutex may be held by one of their callers: leave both
        // behind.
        new (&turn) std::mutex;
        new std::vector<std::thread>(std::move(workers));
        workers.clear();
        gate.store(0, std::memory_order_relaxed);
        sleepers.store(0, std::memory_order_relaxed);
        for (auto& slot : slots) slot.active.store(0, std::memory_order_relaxed);
    }
    BlockSignals block;
    participants = 1;
    workers.reserve(slots.size() - 1);
    try {
        for (size_t i = 1; i < slots.size(); ++i) {
            workers.emplace_back([this, i] { worker_loop(static_cast<int>(i)); });
            ++participants;
        }
    } catch (std::system_error const&) {
        // No more threads allowed: those that started do the work.
    }
    placement.watch(workers);
    started_after_forks.store(fork_count.load(std::memory_order_relaxed), std::memory_order_release);
}

void ThreadPool::State::stop_workers() {
    if (workers.empty()) return;
    if (!usable()) {
        new std::vector<std::thread>(std::move(workers));
        return;
    }
    stop.store(true);
    gate.fetch_add(2);
    wake(gate, INT_MAX);
    for (auto& worker : workers) worker.join();
}

void ThreadPool::State::worker_loop(int self) {
    FlushDenormals flush;
    auto& slot = slots[static_cast<size_t>(self)];
    for (uint32_t seen = 0;;) {
        uint32_t now = gate.load(std::memory_order_acquire);
        if (now == seen && !spin_until([&] { return (now = gate.load(std::memory_order_acquire)) != seen; })) {
            sleepers.fetch_add(1);
            while ((now = gate.load()) == seen) sleep_while(gate, seen);
            sleepers.fetch_sub(1, std::memory_order_relaxed);
        }
        if (stop.load(std::memory_order_relaxed)) return;
        seen = now;
        if (now % 2 == 0) continue;
        slot.active.store(1);
        if (gate.load() == now) {
            TaskScope scope(self);
            work(self);
        }
        leave(slot);
    }
}

/// Takes tasks from one range until it is empty, an eighth of what is left at a time, so that the last pieces are
/// single tasks.
void ThreadPool::State::drain(int self, Slot& from) {
    for (;;) {
        auto next = from.next.load(std::memory_order_relaxed);
        if (next >= from.end) return;
        auto chunk = std::max<int64_t>(1, (from.end - next) / 8);
        next = from.next.fetch_add(chunk, std::memory_order_relaxed);
        auto end = std::min(next + chunk, from.end);
        for (; next < end; ++next) {
            if (failed.load(std::memory_order_relaxed)) return;
            body(argument, next, self);
        }
    }
}

void ThreadPool::State::work(int self) {
    try {
        for (int i = 0; i < participants; ++i) {
            int victim = self + i < participants ? self + i : self + i - participants;
            drain(self, slots[static_cast<size_t>(victim)]);
        }
    } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
    }
}

void ThreadPool::State::leave(Slot& slot) {
    slot.active.store(0);
    if (caller_sleeps.load()) wake(slot.active, 1);
}

/// Splits [0, tasks) evenly and opens the gate.
void ThreadPool::State::publish(int64_t tasks) {
    int64_t share = tasks / participants, rest = tasks % participants, begin = 0;
    for (int i = 0; i < participants; ++i) {
        auto& slot = slots[static_cast<size_t>(i)];
        slot.next.store(begin, std::memory_order_relaxed);
        begin += share + (i < rest);
        slot.end = begin;
    }
    placement.keep_off_this_processor(workers);
    gate.fetch_add(1);
    auto asleep = static_cast<int64_t>(sleepers.load());
    if (asleep == 0) return;
    // Those awake are not worth counting exactly: a worker too many finds nothing to do.
    wake(gate, static_cast<int>(std::min<int64_t>(asleep, tasks - 1)));
}

/// Closes the gate and waits until every participant has left the job.
void ThreadPool::State::finish() {
    gate.fetch_add(1);
    for (int i = 1; i < participants; ++i) {
        auto& active = slots[static_cast<size_t>(i)].active;
        if (active.load() == 0 || spin_until([&] { return active.load(std::memory_order_acquire) == 0; })) continue;
        caller_sleeps.store(true);
        while (active.load()) sleep_while(active, 1);
        caller_sleeps.store(false);
    }
}

ThreadPool::ThreadPool(int threads, int processors) : threads_(threads) {
    if (threads < 0 || processors < 0)
        throw InvalidInput(
            "a thread pool needs a positive number of threads (0: as many as there are processors), got " +
            std::to_string(std::min(threads, processors)));
    if (threads == 0) threads_ = default_thread_count();
    if (threads_ == 1) return;
    if (processors == 0) processors = default_thread_count();
    state_ = std::make_unique<State>(std::min(threads_, processors));
}

ThreadPool::~ThreadPool() {
    if (state_) state_->stop_workers();
}

ThreadPool& calling_thread() {
    static ThreadPool pool(1);
    return pool;
}

int ThreadPool::worker_number() { return std::max(0, current_task_worker); }

void ThreadPool::run(int64_t tasks, Body body, void* argument) {
    auto& state = *state_;
    if (current_task_worker >= 0 || state.slots.size() == 1) {
        int worker = worker_number() < threads_ ? worker_number() : 0;
        for (int64_t i = 0; i < tasks; ++i) body(argument, i, worker);
        return;
    }
    if (!state.usable()) state.start();
    std::lock_guard lock(state.turn);
    state.body = body;
    state.argument = argument;
    state.publish(tasks);
    {
        TaskScope scope(0);
        state.work(0);
    }
    state.finish();
    if (!state.failed.load(std::memory_order_relaxed)) return;
    auto error = std::move(state.error);
    state.error = nullptr;
    state.failed.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::move(error));
}

}  // namespace refactor
