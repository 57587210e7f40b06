#pragma once
#include <string_view>

namespace refactor {

enum class LogLevel { Debug, Info, Warning, Error, Off };

/// Messages go to stderr, or to the sink if one is set. The level starts at Warning, or at `REFACTOR_GRAPH_LOG` (debug,
/// info, …).
using LogSink = void (*)(LogLevel, std::string_view message, void* user);
void set_log_level(LogLevel);
LogLevel log_level();
void set_log_sink(LogSink, void* user);
/// Cheap to call when the level is off; build expensive messages only if `log_enabled(level)`.
void log(LogLevel, std::string_view message);
inline bool log_enabled(LogLevel level) { return level >= log_level(); }

}  // namespace refactor
