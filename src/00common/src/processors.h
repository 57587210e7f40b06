#pragma once
#include <string>

namespace refactor {

/// Processors of the affinity mask of the calling thread, at least 1.
int affinity_processors();

/// CPU quota of the control groups (v1 and v2) of this process in whole processors, rounded up; 0 if there is none.
/// Every ancestor counts. `root` is put before `/proc` and `/sys`, for tests.
int cgroup_processors(std::string const& root = {});

}  // namespace refactor
