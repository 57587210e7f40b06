#include "common/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace refactor {
namespace {

constexpr std::string_view kNames[] = {"debug", "info", "warning", "error", "off"};

LogLevel level_from_environment() {
    auto const* text = std::getenv("REFACTOR_GRAPH_LOG");
    for (int i = 0; text && i < 5; ++i)
        if (kNames[i] == text) return static_cast<LogLevel>(i);
    return LogLevel::Warning;
}

std::atomic<LogLevel>& level() {
    static std::atomic<LogLevel> value{level_from_environment()};
    return value;
}

struct Sink {
    std::mutex mutex;
    LogSink function = nullptr;
    void* user = nullptr;
};

Sink& sink() {
    // Never destroyed: messages may come from destructors of other static objects.
    static auto* instance = new Sink;
    return *instance;
}

}  // namespace

void set_log_level(LogLevel value) { level().store(value, std::memory_order_relaxed); }

LogLevel log_level() { return level().load(std::memory_order_relaxed); }

void set_log_sink(LogSink function, void* user) {
    std::lock_guard lock(sink().mutex);
    sink().function = function;
    sink().user = user;
}

void log(LogLevel message_level, std::string_view message) {
    if (message_level == LogLevel::Off || !log_enabled(message_level)) return;
    LogSink function;
    void* user;
    {
        std::lock_guard lock(sink().mutex);
        function = sink().function;
        user = sink().user;
    }
    // Outside the lock, so that a sink may log or be replaced.
    if (function) return function(message_level, message, user);
    auto name = kNames[static_cast<int>(message_level)];
    std::fprintf(stderr, "[refactor_graph %.*s] %.*s\n", static_cast<int>(name.size()), name.data(),
                 static_cast<int>(message.size()), message.data());
}

}  // namespace refactor
