#include "waiting.h"

#if RG_X86
#include <xmmintrin.h>
#endif
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace refactor {

void pause() {
#if RG_X86
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
#ifdef __linux__
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
    word.wait(value);
#endif
}

void wake(std::atomic<uint32_t>& word, int count) {
#ifdef __linux__
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
#else
    (void)count;
    word.notify_all();
#endif
}

}  // namespace refactor
