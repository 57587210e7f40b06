#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

/// How the threads of a pool wait for one another: they spin, then yield, then sleep.
namespace refactor {

// The serial stretches inside one run are tens of us, and where other programs compete, a thread that yields is away
// for a time slice of milliseconds: yield only after clearly more than a stretch.
inline constexpr auto kPauseOnly = std::chrono::microseconds(100);
// Waking a sleeper costs 5 to 50 us, and the serial stretches inside one run are tens of us: sleep only after clearly
// more than both.
inline constexpr auto kSpin = std::chrono::microseconds(400);
// PAUSE takes 40 to 140 cycles, reading the clock about 25 ns: look at the clock once in about a microsecond.
inline constexpr int kPausesPerLook = 32;

/// Tells the processor that this thread spins.
void pause();
/// Sleeps until `word` differs from `value` and has been woken; may return early.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value);
/// Wakes at most `count` threads that sleep on `word`.
void wake(std::atomic<uint32_t>& word, int count);

/// Spins until `done()`, at most `kSpin`; yields to other threads after a while. Returns whether it is done.
template <class Done>
bool spin_until(Done done) {
    for (int i = 0; i < kPausesPerLook; ++i) {
        if (done()) return true;
        pause();
    }
    auto begin = std::chrono::steady_clock::now();
    for (;;) {
        auto waited = std::chrono::steady_clock::now() - begin;
        if (waited > kSpin) return done();
        if (waited > kPauseOnly) std::this_thread::yield();
        for (int i = 0; i < kPausesPerLook; ++i) {
            if (done()) return true;
            pause();
        }
    }
}

}  // namespace refactor
