// SquaredDistance and SvmVotes.
#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "cuda/scores.h"
#include "svm/svm.h"

namespace refactor::kernel::cuda {

namespace {

constexpr char const* kDistanceBody = R"cuda(
struct rg_distance_args { rg_u64 x, vectors, y, rows, count, features; };
// 16 rows by 16 vectors of a block share what they read.
RG_GLOBAL rg_squared_distance(rg_distance_args a) {
    RG_WAIT();
    __shared__ float rows[16][17], vectors[16][17];
    const unsigned i = threadIdx.x / 16, j = threadIdx.x % 16;
    const rg_u64 across = (a.count + 15) / 16;
    for (rg_u64 block = blockIdx.x; block < (a.rows + 15) / 16 * across; block += gridDim.x) {
        const rg_u64 row = block / across * 16, vector = block % across * 16;
        float sum = 0;
        for (rg_u64 f = 0; f < a.features; f += 16) {
            const bool inside = f + j < a.features;
            rows[i][j] = inside && row + i < a.rows ? ((float const*)a.x)[(row + i) * a.features + f + j] : 0;
            vectors[i][j] = inside && vector + i < a.count ? ((float const*)a.vectors)[(vector + i) * a.features + f + j] : 0;
            __syncthreads();
            for (int k = 0; k < 16; ++k) {
                const float d = rows[i][k] - vectors[j][k];
                sum += d * d;
            }
            __syncthreads();
        }
        if (row + i < a.rows && vector + j < a.count) ((float*)a.y)[(row + i) * a.count + vector + j] = sum;
    }
}
)cuda";

// One thread for each row. Scratch floats of a row: pairs, pair probabilities and Q [classes, classes], Q p [classes],
// votes [classes].
constexpr char const* kVotesBody = R"cuda(
struct rg_votes_args {
    rg_u64 kernels, coefficients, rho, labels, a, b, scores, label, scratch, rows, total, room, vectors[kClasses];
};
RG_FN void rg_vote(rg_votes_args const& a, float const* kernels, float* pairs, float* votes) {
    float const* c = (float const*)a.coefficients;
    for (int i = 0; i < kClasses; ++i) votes[i] = 0;
    rg_u64 pair = 0, start_i = 0;
    for (int i = 0; i < kClasses; start_i += a.vectors[i], ++i) {
        rg_u64 start_j = start_i + a.vectors[i];
        for (int j = i + 1; j < kClasses; start_j += a.vectors[j], ++j, ++pair) {
            double sum = 0;
            for (rg_u64 k = start_i; k < start_i + a.vectors[i]; ++k) sum += c[(j - 1) * a.total + k] * kernels[k];
            for (rg_u64 k = start_j; k < start_j + a.vectors[j]; ++k) sum += c[i * a.total + k] * kernels[k];
            sum += ((float const*)a.rho)[pair];
            pairs[pair] = (float)sum;
            votes[sum > 0 ? i : j] += 1;
        }
    }
}
// Probabilities of the classes from those of the pairs, second method of Wu, Lin and Weng (2004), as libsvm does it.
RG_FN void rg_couple(float const* r, float* q, float* qp, float* p) {
    constexpr int n = kClasses;
    for (int i = 0; i < n; ++i) {
        p[i] = 1.f / n, q[i * n + i] = 0;
        for (int j = 0; j < n; ++j) {
            if (j == i) continue;
            q[i * n + i] += r[j * n + i] * r[j * n + i];
            q[i * n + j] = j < i ? q[j * n + i] : -r[j * n + i] * r[i * n + j];
        }
    }
    for (int round = 0; round < 100; ++round) {
        float p_q_p = 0, largest = 0;
        for (int i = 0; i < n; ++i) {
            qp[i] = 0;
            for (int j = 0; j < n; ++j) qp[i] += q[i * n + j] * p[j];
            p_q_p += p[i] * qp[i];
        }
        for (int i = 0; i < n; ++i) largest = rg_most(largest, fabsf(qp[i] - p_q_p));
        if (largest < 0.005f / n) return;
        for (int i = 0; i < n; ++i) {
            const float d = (p_q_p - qp[i]) / q[i * n + i];
            p[i] += d;
            p_q_p = (p_q_p + d * (d * q[i * n + i] + 2 * qp[i])) / (1 + d) / (1 + d);
            for (int j = 0; j < n; ++j) qp[j] = (qp[j] + d * q[i * n + j]) / (1 + d), p[j] /= 1 + d;
        }
    }
}
RG_FN void rg_probabilities(rg_votes_args const& a, float const* pairs, float* scratch, float* p) {
    constexpr int n = kClasses;
    float *r = scratch, *q = r + n * n, *qp = q + n * n;
    rg_u64 pair = 0;
    for (int i = 0; i < n; ++i) {
        r[i * n + i] = 0;
        for (int j = i + 1; j < n; ++j, ++pair) {
            const float x = 1 - rg_logistic(pairs[pair] * ((float const*)a.a)[pair] + ((float const*)a.b)[pair]);
            r[i * n + j] = rg_within(x, 1e-7f, 1 - 1e-7f), r[j * n + i] = 1 - r[i * n + j];
        }
    }
    rg_couple(r, q, qp, p);
}
RG_GLOBAL rg_svm_votes(RG_ARGUMENT rg_votes_args a) {
    RG_WAIT();
    constexpr int pairs_count = kClasses * (kClasses - 1) / 2;
    constexpr int count = kProbabilities || kClasses == 2 ? kClasses : pairs_count;
    RG_FOR(rg_u64, row, a.rows) {
        float* pairs = (float*)a.scratch + row * a.room;
        float *votes = pairs + pairs_count, *rest = votes + kClasses;
        float* scores = (float*)a.scores + row * count;
        rg_vote(a, (float const*)a.kernels + row * a.total, pairs, votes);
        int best = 0;
        for (int i = 1; i < kClasses; ++i)
            if (votes[best] < votes[i]) best = i;
        ((rg_i64*)a.label)[row] = ((rg_i64 const*)a.labels)[best];
        if (kProbabilities) {
            rg_probabilities(a, pairs, rest, scores);
            rg_transform(scores, kClasses);
        } else if (kClasses == 2) {
            rg_expand(kTransform != kNone, pairs[0], scores);
        } else {
            for (int i = 0; i < pairs_count; ++i) scores[i] = pairs[i];
            rg_transform(scores, pairs_count);
        }
    }
}
)cuda";

Result<Launches, Rejection> bind_distance(SquaredDistanceInfo const&, BindArgs const& args, Code const& code) {
    auto const &x = args.inputs[0]->dims, &v = args.inputs[1]->dims;
    GeneratedLaunch launch;
    launch.function = code.function("rg_squared_distance", {}, kDistanceBody);
    launch.blocks = blocks_for((x[0] + 15) / 16 * ((v[0] + 15) / 16), 1);
    launch.on({0, 1, 2});
    for (auto word : {x[0], v[0], x[1]}) launch.add(word);
    return Launches{{launch}};
}

Result<Launches, Rejection> bind_votes(SvmVotesInfo const& info, BindArgs const& args, Code const& code) {
    auto const& k = args.inputs[0]->dims;
    auto n = info.classes(), room = info.pairs() + n + (info.probabilities ? 2 * n * n + n : 0);
    auto results = static_cast<int>(args.inputs.size());
    GeneratedLaunch launch;
    auto kind = std::string("typedef float Score;\n") +
                constant_kind("kTransform", static_cast<int64_t>(info.transform)) + constant_kind("kClasses", n) +
                constant_kind("kProbabilities", info.probabilities) + kScoresSource;
    launch.function = code.function("rg_svm_votes", kind, kVotesBody);
    launch.blocks = blocks_for(k[0], kBlockThreads);
    launch.on({0, 1, 2, 3, info.probabilities ? 4 : Address::kNone, info.probabilities ? 5 : Address::kNone, results,
               results + 1, Address::kWorkspace});
    for (auto word : {k[0], k[1], room}) launch.add(word);
    for (auto count : info.vectors) launch.add(count);
    Launches launches{{launch}};
    launches.workspace = static_cast<size_t>(k[0] * room) * sizeof(float);
    return launches;
}

}  // namespace

KernelResult squared_distance_nvrtc(SquaredDistanceInfo const& info, Request const& request) {
    return generate(info, "squared_distance", request, squared_distance_columns, bind_distance);
}
KernelResult svm_votes_nvrtc(SvmVotesInfo const& info, Request const& request) {
    return generate(info, "svm_votes", request, svm_votes_reference, bind_votes);
}

}  // namespace refactor::kernel::cuda
