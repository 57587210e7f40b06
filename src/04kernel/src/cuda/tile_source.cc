#include "cuda/source_text.h"

namespace refactor::kernel::cuda {

// Sums of products from register tiles over slabs in shared memory, as in CUTLASS's SIMT products and Boehm, "How to
// Optimize a CUDA Matmul Kernel" (2022): the next slab is fetched into registers while the present one is multiplied.
char const* const kTileSource = R"cuda(
// 256 threads hold ROWS x COLUMNS sums; a slab has DEPTH of the inner size.
template <class Sum, int ROWS, int COLUMNS, int DEPTH, int ROWS_EACH, int COLUMNS_EACH> struct rg_tile {
    static constexpr int rows = ROWS, columns = COLUMNS, depth = DEPTH, rows_each = ROWS_EACH, columns_each = COLUMNS_EACH;
    typedef rg_vec<Sum, 4> Four;
    static constexpr int row_threads = ROWS / ROWS_EACH, column_threads = COLUMNS / COLUMNS_EACH;
    static constexpr int a_run = ROWS * DEPTH / 256, b_run = COLUMNS * DEPTH / 256, b_step = 256 / COLUMNS;
    static_assert(row_threads * column_threads == 256 && ROWS_EACH % 4 == 0 && COLUMNS_EACH % 4 == 0, "");
    // Padded, so that threads of a warp that store along the inner size meet different banks.
    struct alignas(Four) Shared { Sum a[2][DEPTH][ROWS + 4], b[2][DEPTH][COLUMNS + 4]; };

    Sum sum[ROWS_EACH][COLUMNS_EACH];
    int row_thread, column_thread;

    RG_FN int place(int thread, int threads, int i) { return i / 4 * threads * 4 + thread * 4 + i % 4; }
    RG_MEMBER int row(int i) const { return place(row_thread, row_threads, i); }
    RG_MEMBER int column(int i) const { return place(column_thread, column_threads, i); }

    RG_MEMBER void clear() {
        row_thread = threadIdx.x / column_threads, column_thread = threadIdx.x % column_threads;
        for (int i = 0; i < ROWS_EACH; ++i)
            for (int j = 0; j < COLUMNS_EACH; ++j) sum[i][j] = Sum(0);
    }
    // Row of A, and first of `a_run` places in a slab, that this thread fetches.
    RG_FN int a_row() { return threadIdx.x / (DEPTH / a_run); }
    RG_FN int a_first() { return threadIdx.x % (DEPTH / a_run) * a_run; }
    // Column of B that this thread fetches, and its places in a slab: consecutive ones if `runs`, that is, if B is
    // contiguous along the inner size, else such that a warp's are of consecutive columns.
    RG_FN int b_column(bool runs) { return runs ? threadIdx.x / (DEPTH / b_run) : threadIdx.x % COLUMNS; }
    RG_FN int b_place(bool runs, int i) {
        return runs ? threadIdx.x % (DEPTH / b_run) * b_run + i : threadIdx.x / COLUMNS + i * b_step;
    }

    template <class A, class B> RG_FN void fetch(A& a, B& b, int slab, Sum* from_a, Sum* from_b) {
        a.fetch(slab, from_a);
        if constexpr (B::runs) {
            b.fetch(slab, from_b);
        } else {
#pragma unroll
            for (int i = 0; i < b_run; ++i) from_b[i] = b.at(slab, b_place(false, i));
        }
    }
    RG_FN void store(Shared& shared, int slab, bool runs, Sum const* from_a, Sum const* from_b) {
#pragma unroll
        for (int i = 0; i < a_run; ++i) shared.a[slab & 1][a_first() + i][a_row()] = from_a[i];
#pragma unroll
        for (int i = 0; i < b_run; ++i) shared.b[slab & 1][b_place(runs, i)][b_column(runs)] = from_b[i];
    }
    RG_MEMBER void multiply(Shared const& shared, int slab) {
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            Four x[ROWS_EACH / 4], y[COLUMNS_EACH / 4];
#pragma unroll
            for (int i = 0; i < ROWS_EACH; i += 4) x[i / 4] = *(Four const*)&shared.a[slab & 1][k][row(i)];
#pragma unroll
            for (int j = 0; j < COLUMNS_EACH; j += 4) y[j / 4] = *(Four const*)&shared.b[slab & 1][k][column(j)];
#pragma unroll
            for (int i = 0; i < ROWS_EACH; ++i)
#pragma unroll
                for (int j = 0; j < COLUMNS_EACH; ++j)
                    sum[i][j] = rg_mad(x[i / 4].v[i % 4], y[j / 4].v[j % 4], sum[i][j]);
        }
    }
    // Adds the slabs [slab, end). `plan(slab)` writes to shared memory what `fetch` and `at` of that slab read from it.
    template <class Plan, class A, class B>
    RG_MEMBER void run(Shared& shared, int slab, int end, Plan& plan, A& a, B& b) {
        if (slab >= end) return;
        Sum from_a[a_run], from_b[b_run];
        plan.plan(slab);
        plan.plan(slab + 1);
        __syncthreads();
        fetch(a, b, slab, from_a, from_b);
        store(shared, slab, B::runs, from_a, from_b);
        __syncthreads();
        for (; slab < end; ++slab) {
            bool more = slab + 1 < end;
            if (more) fetch(a, b, slab + 1, from_a, from_b);
            multiply(shared, slab);
            if (more) store(shared, slab + 1, B::runs, from_a, from_b);
            plan.plan(slab + 2);
            __syncthreads();
        }
    }
};
// For operands that need no plan.
struct rg_no_plan {
    RG_MEMBER void plan(int) {}
};
)cuda";

}  // namespace refactor::kernel::cuda
