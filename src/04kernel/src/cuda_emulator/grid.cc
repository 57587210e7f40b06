// The checks of longjmp know one stack only.
#undef _FORTIFY_SOURCE
#include "cuda_emulator/grid.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include <setjmp.h>
#include <ucontext.h>

namespace refactor::cuda_emulator {

namespace {

constexpr size_t kStackBytes = size_t{1} << 16;
/// No address, no index of anything, and NaN in f32 and f64.
constexpr char kUnwritten = '\xff';

/// The threads of one block, as contexts that hand over to each other; once started, by jumps, which unlike
/// `swapcontext` need no system call.
class Block {
    enum class State : uint8_t { Ready, AtWarp, AtBlock, AtCluster, Done };
    struct Thread {
        ucontext_t context;
        jmp_buf resume;
        bool started = false;
        State state = State::Ready;
        uint32_t lanes = 0;
    };

    Function const& function_;
    Grid& grid_;
    void const* argument_;
    std::vector<Thread> threads_;
    std::unique_ptr<char[]> stacks_;
    jmp_buf scheduler_;
    uint32_t turn_ = 0, current_ = 0;
    bool down_ = runs_downwards();
    static Block*& running() {
        static Block* block = nullptr;
        return block;
    }

    static void enter() {
        auto& self = *running();
        self.function_.start(self.argument_);
        self.threads_[self.current_].state = State::Done;
        _longjmp(self.scheduler_, 1);
    }
    void wait(State state, uint32_t lanes) {
        auto& thread = threads_[current_];
        thread.state = state, thread.lanes = lanes;
        if (!_setjmp(thread.resume)) _longjmp(scheduler_, 1);
    }
    /// Returns when the thread waits or has ended.
    void hand_over_to(Thread& thread) {
        if (_setjmp(scheduler_)) return;
        if (thread.started) _longjmp(thread.resume, 1);
        thread.started = true;
        setcontext(&thread.context);
    }

    void start_all() {
        for (uint32_t i = 0; i < threads_.size(); ++i) {
            auto& thread = threads_[i];
            getcontext(&thread.context);
            thread.context.uc_stack.ss_sp = stacks_.get() + i * kStackBytes;
            thread.context.uc_stack.ss_size = kStackBytes;
            thread.context.uc_link = nullptr;
            makecontext(&thread.context, enter, 0);
            thread.state = State::Ready, thread.started = false;
        }
    }
    /// Lets every ready thread run until it waits or ends.
    bool run_ready() {
        bool any = false;
        auto count = static_cast<uint32_t>(threads_.size());
        for (turn_ = 0; turn_ < count; ++turn_) {
            current_ = down_ ? count - 1 - turn_ : turn_;
            if (threads_[current_].state != State::Ready) continue;
            any = true, grid_.thread.x = current_;
            hand_over_to(threads_[current_]);
        }
        return any;
    }
    bool all_are(std::initializer_list<State> states) const {
        return std::all_of(threads_.begin(), threads_.end(), [&](Thread const& thread) {
            return std::find(states.begin(), states.end(), thread.state) != states.end();
        });
    }
    bool release(State waiting) {
        bool any = false;
        for (auto& thread : threads_)
            if (thread.state == waiting) thread.state = State::Ready, any = true;
        return any;
    }
    bool release_warps() {
        bool any = false;
        for (size_t first = 0; first < threads_.size(); first += 32) {
            auto last = std::min(first + 32, threads_.size());
            for (auto i = first; i < last; ++i) {
                if (threads_[i].state != State::AtWarp) continue;
                auto lanes = threads_[i].lanes;
                bool complete = true;
                for (auto k = first; k < last; ++k)
                    if (lanes >> (k - first) & 1)
                        complete &= threads_[k].state == State::AtWarp && threads_[k].lanes == lanes;
                if (!complete) continue;
                for (auto k = first; k < last; ++k)
                    if (lanes >> (k - first) & 1) threads_[k].state = State::Ready;
                any = true;
            }
        }
        return any;
    }
    /// Threads that have ended count as arrived, as on devices since compute capability 7.0.
    bool release_block() { return all_are({State::AtBlock, State::Done}) && release(State::AtBlock); }

public:
    Block(Function const& function, Grid& grid, uint32_t threads, void const* argument)
        : function_(function),
          grid_(grid),
          argument_(argument),
          threads_(threads),
          stacks_(new char[threads * kStackBytes]) {
        grid_.wait_for_block = [] { running()->wait(State::AtBlock, 0); };
        grid_.wait_for_warp = [](uint32_t lanes) { running()->wait(State::AtWarp, lanes); };
        grid_.wait_for_cluster = [] { running()->wait(State::AtCluster, 0); };
    }
    void begin() { start_all(); }
    /// Until every thread has ended or waits for more than the threads of this block.
    void advance() {
        running() = this;
        do run_ready();
        while (release_warps() || release_block());
    }
    bool has_ended() const { return all_are({State::Done}); }
    bool waits_for_cluster() const { return all_are({State::AtCluster, State::Done}); }
    void release_from_cluster() { release(State::AtCluster); }
};

/// Blocks that see each other's shared memory: they take turns in it, what the others have is kept aside.
class Cluster {
    Function const& function_;
    Grid& grid_;
    std::vector<std::unique_ptr<Block>> blocks_;
    std::vector<std::vector<char>> aside_;
    uint32_t current_ = 0;
    static Cluster*& running() {
        static Cluster* cluster = nullptr;
        return cluster;
    }

    void* in_block(void* address, uint32_t block) const {
        if (block == current_) return address;
        return const_cast<char*>(aside_[block].data()) + (static_cast<char*>(address) - function_.zeros.data());
    }
    void exchange_memory() {
        std::swap_ranges(aside_[current_].begin(), aside_[current_].end(), function_.zeros.begin());
        *function_.grid = &grid_;
    }
    bool all(bool (Block::*is)() const) const {
        return std::all_of(blocks_.begin(), blocks_.end(), [is](auto const& block) { return (*block.*is)(); });
    }

public:
    Cluster(Function const& function, Grid& grid, uint32_t threads, void const* argument)
        : function_(function), grid_(grid), aside_(function.cluster) {
        for (uint32_t i = 0; i < function.cluster; ++i)
            blocks_.push_back(std::make_unique<Block>(function, grid, threads, argument));
        running() = this;
        grid_.in_block = [](void* address, uint32_t block) { return running()->in_block(address, block); };
    }

    std::string run(uint32_t first) {
        auto count = static_cast<uint32_t>(blocks_.size());
        if (count == 1) std::fill(function_.zeros.begin(), function_.zeros.end(), kUnwritten);
        for (auto& memory : aside_) memory.assign(count > 1 ? function_.zeros.size() : 0, kUnwritten);
        for (auto& block : blocks_) block->begin();
        while (!all(&Block::has_ended)) {
            for (uint32_t turn = 0; turn < count; ++turn) {
                current_ = runs_downwards() ? count - 1 - turn : turn;
                grid_.block.x = first + current_;
                exchange_memory();
                blocks_[current_]->advance();
                exchange_memory();
            }
            if (!all(&Block::waits_for_cluster))
                return "some threads of a warp, block or cluster never reach the barrier that others wait at";
            for (auto& block : blocks_) block->release_from_cluster();
        }
        return {};
    }
};

}  // namespace

bool runs_downwards() {
    static auto const* order = std::getenv("REFACTOR_GRAPH_EMULATED_ORDER");
    return order && order == std::string_view("down");
}

std::string run_grid(Function const& function, uint32_t blocks, uint32_t threads, void const* argument) {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    Grid grid;
    *function.grid = &grid;
    grid.blocks.x = blocks, grid.threads.x = threads;
    std::string wrong;
    bool down = runs_downwards();
    auto of = [&](uint32_t turn, uint32_t count) { return down ? count - 1 - turn : turn; };
    if (function.cooperates) {
        Cluster cluster(function, grid, threads, argument);
        auto count = blocks / function.cluster;
        for (uint32_t i = 0; i < count && wrong.empty(); ++i) wrong = cluster.run(of(i, count) * function.cluster);
    } else {
        for (uint32_t i = 0; i < blocks; ++i) {
            grid.block.x = of(i, blocks);
            for (uint32_t k = 0; k < threads; ++k) grid.thread.x = of(k, threads), function.start(argument);
        }
    }
    *function.grid = nullptr;
    return wrong;
}

}  // namespace refactor::cuda_emulator
