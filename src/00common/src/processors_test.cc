#include "processors.h"

#include "common/thread_pool.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace refactor {
namespace {

/// A file system of its own, removed at the end.
class Cgroup : public testing::Test {
protected:
    std::string root;

    void SetUp() override {
        root = testing::TempDir() + "rg_cgroup_XXXXXX";
        ASSERT_NE(mkdtemp(root.data()), nullptr);
    }
    void TearDown() override { std::filesystem::remove_all(root); }

    void write(std::string const& path, char const* text) {
        std::filesystem::path full = root + path;
        std::filesystem::create_directories(full.parent_path());
        std::ofstream(full) << text;
    }
};

TEST_F(Cgroup, NothingIsNoLimit) {
    EXPECT_EQ(cgroup_processors(root), 0);
    write("/proc/self/cgroup", "0::/\n");
    EXPECT_EQ(cgroup_processors(root), 0);
    write("/sys/fs/cgroup/cpu.max", "max 100000\n");
    EXPECT_EQ(cgroup_processors(root), 0);
}

TEST_F(Cgroup, Version2TakesTheSmallestAncestor) {
    write("/proc/self/cgroup", "0::/kube/pod/box\n");
    write("/sys/fs/cgroup/kube/pod/box/cpu.max", "max 100000\n");
    write("/sys/fs/cgroup/kube/pod/cpu.max", "250000 100000\n");
    write("/sys/fs/cgroup/kube/cpu.max", "800000 100000\n");
    EXPECT_EQ(cgroup_processors(root), 3);
    write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    EXPECT_EQ(cgroup_processors(root), 1);
}

TEST_F(Cgroup, Version1) {
    write("/proc/self/cgroup", "5:cpuset:/a\n4:cpu,cpuacct:/docker/x\n0::/\n");
    write("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n");
    write("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cgroup_processors(root), 0);
    write("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "200000\n");
    EXPECT_EQ(cgroup_processors(root), 2);
    // Inside a container the group is mounted at the root while the path is the host's.
    write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cgroup_processors(root), 1);
}

TEST_F(Cgroup, MalformedFilesAreNoLimit) {
    write("/proc/self/cgroup", "garbage\n0:\n0::/x");
    write("/sys/fs/cgroup/x/cpu.max", "many few\n");
    EXPECT_EQ(cgroup_processors(root), 0);
}

TEST(Processors, DefaultIsPositiveAndWithinAffinity) {
    EXPECT_GE(default_thread_count(), 1);
    EXPECT_LE(default_thread_count(), affinity_processors());
}

}  // namespace
}  // namespace refactor
