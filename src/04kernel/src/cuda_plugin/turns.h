#pragma once
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

namespace refactor::cuda_plugin {

/// Whoever makes something that takes long has a turn at its key: others wait, and then find what the first has left.
/// Different keys do not wait for each other.
class Turns {
    std::mutex mutex_;
    std::condition_variable ended_;
    std::set<std::string> taken_;

public:
    class Turn {
        Turns& turns_;
        std::set<std::string>::iterator key_;

    public:
        Turn(Turns& turns, std::string const& key) : turns_(turns) {
            std::unique_lock lock(turns_.mutex_);
            bool first = false;
            turns_.ended_.wait(lock, [&] {
                std::tie(key_, first) = turns_.taken_.insert(key);
                return first;
            });
        }
        ~Turn() {
            {
                std::lock_guard lock(turns_.mutex_);
                turns_.taken_.erase(key_);
            }
            turns_.ended_.notify_all();
        }
        Turn(Turn const&) = delete;
        Turn& operator=(Turn const&) = delete;
    };
};

}  // namespace refactor::cuda_plugin
