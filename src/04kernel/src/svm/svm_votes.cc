#include "cuda/movement_kernels.h"
#include "svm/svm.h"
#include "tree_ensemble/post_transform.h"

#include <vector>

namespace refactor::kernel {

using namespace movement;

std::string SvmVotesInfo::attributes() const {
    return "vectors=" + to_string(vectors) + ",transform=" + std::string(name_of(transform)) +
           ",probabilities=" + std::to_string(probabilities);
}

Candidates candidates(SvmVotesInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("svm_votes:nvidia:nvrtc", cuda::svm_votes_nvrtc(info, request));
        return result;
    }
    result.add("svm_votes:cpu:reference", svm_votes_reference(info, request));
    return result;
}

namespace {

struct Arguments {
    float const *kernels, *coefficients, *rho;
    int64_t const* labels;
    float const *a, *b;
    float* scores;
    int64_t* label;
};

/// Scratch memory of one row; `c` classes.
struct Row {
    float* pairs;     ///< [pairs]
    float* pairwise;  ///< [c, c]: probability of the first class against the second
    float* q;         ///< [c, c]
    float* q_p;       ///< [c]
    int64_t* votes;   ///< [c]

    static size_t bytes(int64_t classes, int64_t pairs) {
        auto floats = pairs + 2 * classes * classes + classes;
        return (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64 +
               (static_cast<size_t>(classes) * sizeof(int64_t) + 63) / 64 * 64;
    }
    Row(std::byte* memory, int64_t classes, int64_t count) {
        votes = reinterpret_cast<int64_t*>(memory);
        pairs = reinterpret_cast<float*>(memory + (static_cast<size_t>(classes) * sizeof(int64_t) + 63) / 64 * 64);
        pairwise = pairs + count, q = pairwise + classes * classes, q_p = q + classes * classes;
    }
};

/// Four sums, as each addition waits for the one before it.
double weighted_sum(float const* weights, float const* x, int64_t count) {
    constexpr int64_t kSums = 4;
    double sums[kSums]{};
    int64_t k = 0;
    for (; k + kSums <= count; k += kSums)
        for (int64_t i = 0; i < kSums; ++i) sums[i] += weights[k + i] * x[k + i];
    for (; k < count; ++k) sums[k % kSums] += weights[k] * x[k];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Decision value of each pair of classes, and the votes.
void vote(SvmVotesInfo const& info, int64_t total, float const* kernels, Arguments const& a, Row& row) {
    auto classes = info.classes();
    std::fill_n(row.votes, classes, 0);
    int64_t pair = 0, start_i = 0;
    for (int64_t i = 0; i < classes; start_i += info.vectors[static_cast<size_t>(i)], ++i) {
        auto start_j = start_i + info.vectors[static_cast<size_t>(i)];
        for (int64_t j = i + 1; j < classes; start_j += info.vectors[static_cast<size_t>(j)], ++j, ++pair) {
            auto sum = weighted_sum(a.coefficients + (j - 1) * total + start_i, kernels + start_i,
                                    info.vectors[static_cast<size_t>(i)]) +
                       weighted_sum(a.coefficients + i * total + start_j, kernels + start_j,
                                    info.vectors[static_cast<size_t>(j)]) +
                       a.rho[pair];
            row.pairs[pair] = static_cast<float>(sum);
            ++row.votes[sum > 0 ? i : j];
        }
    }
}

/// Probabilities of the classes from those of the pairs, second method of Wu, Lin and Weng (2004), as libsvm does it.
void couple(int64_t n, Row const& row, float* p) {
    auto const* r = row.pairwise;
    auto *q = row.q, *qp = row.q_p;
    for (int64_t i = 0; i < n; ++i) {
        p[i] = 1.f / static_cast<float>(n);
        q[i * n + i] = 0;
        for (int64_t j = 0; j < n; ++j) {
            if (j == i) continue;
            q[i * n + i] += r[j * n + i] * r[j * n + i];
            q[i * n + j] = j < i ? q[j * n + i] : -r[j * n + i] * r[i * n + j];
        }
    }
    for (int round = 0; round < 100; ++round) {
        float p_q_p = 0, largest = 0;
        for (int64_t i = 0; i < n; ++i) {
            qp[i] = 0;
            for (int64_t j = 0; j < n; ++j) qp[i] += q[i * n + j] * p[j];
            p_q_p += p[i] * qp[i];
        }
        for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(qp[i] - p_q_p));
        if (largest < 0.005f / static_cast<float>(n)) return;
        for (int64_t i = 0; i < n; ++i) {
            auto d = (p_q_p - qp[i]) / q[i * n + i];
            p[i] += d;
            p_q_p = (p_q_p + d * (d * q[i * n + i] + 2 * qp[i])) / (1 + d) / (1 + d);
            for (int64_t j = 0; j < n; ++j) qp[j] = (qp[j] + d * q[i * n + j]) / (1 + d), p[j] /= 1 + d;
        }
    }
}

void probabilities(SvmVotesInfo const& info, Arguments const& a, Row& row, float* p) {
    auto n = info.classes();
    int64_t pair = 0;
    std::fill_n(row.pairwise, n * n, 0.f);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = i + 1; j < n; ++j, ++pair) {
            auto x = 1 - logistic(row.pairs[pair] * a.a[pair] + a.b[pair]);
            x = std::clamp(x, 1e-7f, 1 - 1e-7f);
            row.pairwise[i * n + j] = x, row.pairwise[j * n + i] = 1 - x;
        }
    couple(n, row, p);
}

/// Two classes follow onnxruntime: without probabilities the label is a vote, and one decision value becomes two
/// scores.
void finish(SvmVotesInfo const& info, Arguments const& a, Row& row, float* scores, int64_t* label) {
    auto best = std::max_element(row.votes, row.votes + info.classes()) - row.votes;
    *label = a.labels[best];
    if (info.probabilities) {
        probabilities(info, a, row, scores);
        post_transform(info.transform, scores, info.classes());
    } else if (info.classes() == 2) {
        expand_binary(info.transform, info.transform != PostTransform::None, row.pairs[0], scores);
    } else {
        std::copy_n(row.pairs, info.pairs(), scores);
        post_transform(info.transform, scores, info.pairs());
    }
}

TaskResult bind(SvmVotesInfo const& info, BindArgs const& args, Isa) {
    auto const& k = args.inputs[0]->dims;
    int64_t total = 0;
    for (auto count : info.vectors) total += count;
    if (k.size() != 2 || k[1] != total)
        return Err{Rejection{"kernel values " + to_string(k) + ", expected " + std::to_string(total) + " columns"}};
    auto scratch = Row::bytes(info.classes(), info.pairs());
    bool many = info.probabilities;
    return make_task(
        [info, total, many, rows = k[0], threads = args.threads](void* const* p, runtime::RunContext const& context) {
            auto f = [&](size_t i) { return static_cast<float const*>(p[i]); };
            size_t y = many ? 6 : 4;
            Arguments a{f(0),
                        f(1),
                        f(2),
                        static_cast<int64_t const*>(p[3]),
                        many ? f(4) : nullptr,
                        many ? f(5) : nullptr,
                        static_cast<float*>(p[y]),
                        static_cast<int64_t*>(p[y + 1])};
            auto one = [&](int64_t r, int worker) {
                Row row(context.scratch_of(worker), info.classes(), info.pairs());
                vote(info, total, a.kernels + r * total, a, row);
                finish(info, a, row, a.scores + r * info.scores(), a.label + r);
            };
            // A term takes about 0.5 ns (the sums are f64); 20 µs pay for a fork-join of 1 µs.
            auto terms = rows * total * (info.classes() - 1);
            auto chunks = threads == 1 || terms < 40000 ? 1 : std::min<int64_t>(rows, int64_t{8} * threads);
            context.pool.parallel_for(chunks, [&](int64_t i, int worker) {
                for (auto r = rows * i / chunks; r < rows * (i + 1) / chunks; ++r) one(r, worker % threads);
            });
        },
        0, 0, scratch);
}

}  // namespace

KernelResult svm_votes_reference(SvmVotesInfo const& info, Request const& request) {
    size_t inputs = info.probabilities ? 6 : 4;
    if (auto no = refuse(request, {.min_inputs = inputs, .max_inputs = inputs, .outputs = 2})) return Err{*no};
    if (request.inputs[0].dtype != DataType::F32)
        return Err{Rejection{"kernel values of " + std::string(name_of(request.inputs[0].dtype)) + ", expected f32"}};
    return make_kernel(info, "svm_votes", "reference", request, bind);
}

}  // namespace refactor::kernel
