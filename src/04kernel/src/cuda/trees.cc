// Decision trees: a thread for each row and tree finds the leaf, then one for each row adds up what the leaves give, in
// the order of the trees, as the CPU does.
#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "cuda/scores.h"
#include "tree_ensemble/tree_ensemble.h"

namespace refactor::kernel::cuda {

namespace {

constexpr char const* kWalkBody = R"cuda(
struct rg_node { Key low, span; unsigned feature, base; };
struct rg_walk_args { rg_u64 x, nodes, columns, roots, leaves, rows, trees, width, used; };
RG_FN Key rg_tree_key(Score x) {
    if (x != x) return ~(Key)0;
    const Key sign = (Key)1 << (sizeof(Key) * 8 - 1);
    union { Score number; Key bits; } key = {x == 0 ? (Score)0 : x};
    return key.bits & sign ? ~key.bits : key.bits | sign;
}
RG_GLOBAL rg_walk_trees(rg_walk_args a) {
    RG_WAIT();
    RG_FOR(rg_u64, i, a.rows * a.trees) {
        Stored const* x = (Stored const*)a.x + i / a.trees * a.width;
        unsigned at = ((unsigned const*)a.roots)[i % a.trees];
        while (a.used) {
            const rg_node node = ((rg_node const*)a.nodes)[at];
            const Key key = rg_tree_key((Score)rg_load(x[((int const*)a.columns)[node.feature / kLanes]]));
            const unsigned next = node.base + ((Key)(key - node.low) <= node.span ? 1u : 0u);
            if (next == at) break;
            at = next;
        }
        ((unsigned*)a.leaves)[i] = at;
    }
}
)cuda";

constexpr char const* kFinishBody = R"cuda(
enum { kAverage, kTotal, kLeast, kMost };
struct rg_finish_args {
    rg_u64 leaves, first, weights, goals, base, labels, y, label, sums, given, rows, trees, targets, base_values, dense;
};
RG_FN void rg_add_leaf(rg_finish_args const& a, unsigned leaf, Score* score, unsigned char* has) {
    Score const* weights = (Score const*)a.weights;
    const unsigned begin = ((unsigned const*)a.first)[leaf];
    const unsigned end = a.dense ? begin + (unsigned)a.dense : ((unsigned const*)a.first)[leaf + 1];
    for (unsigned i = begin; i < end; ++i) {
        const unsigned target = a.dense ? i - begin : ((unsigned const*)a.goals)[i];
        const Score weight = weights[i];
        if (kAggregate == kLeast && has[target]) score[target] = rg_least(score[target], weight);
        else if (kAggregate == kMost && has[target]) score[target] = rg_most(score[target], weight);
        else if (kAggregate == kLeast || kAggregate == kMost) score[target] = weight;
        else score[target] += weight;
        has[target] = 1;
    }
}
RG_FN void rg_regress(rg_finish_args const& a, Score* score, unsigned char const* has) {
    for (rg_u64 i = 0; i < a.targets; ++i) {
        if (!has[i]) score[i] = 0;
        if (kAggregate == kAverage) score[i] /= (Score)a.trees;
        if (a.base_values == a.targets) score[i] += ((Score const*)a.base)[i];
    }
    if (a.targets > 1 || kTransform == kProbit) rg_transform(score, a.targets);
}
RG_FN rg_i64 rg_label_of(rg_finish_args const& a, Score positive) {
    if (!kBinary) return positive > 0;
    return ((rg_i64 const*)a.labels)[positive > (kPositiveWeights ? (Score)0.5 : 0)];
}
// onnxruntime's reading of two classes: a row that got weights for the first class only has one score, which is that of
// the second class.
RG_FN rg_i64 rg_classify_two(rg_finish_args const& a, Score* score, unsigned char const* has) {
    Score const* base = (Score const*)a.base;
    for (int i = 0; i < 2; ++i)
        if (!has[i]) score[i] = 0;
    if (a.base_values == 2) {
        if (has[1]) score[1] = base[1] + score[0], score[0] = has[0] ? -score[1] : 0;
        else score[0] += base[0];
    } else {
        if (a.base_values == 1) score[0] = has[0] || !has[1] ? score[0] + base[0] : 0;
        if (!has[1]) {
            const Score x = score[0];
            rg_expand(kBinary && kPositiveWeights, x, score);
            return rg_label_of(a, x);
        }
    }
    const rg_i64 label = rg_label_of(a, has[1] ? score[1] : score[0]);
    rg_transform(score, 2);
    return label;
}
RG_FN rg_i64 rg_classify(rg_finish_args const& a, Score* score, unsigned char* has) {
    if (a.targets == 2) return rg_classify_two(a, score, has);
    for (rg_u64 i = 0; i < rg_least(a.base_values, a.targets); ++i)
        score[i] = (has[i] ? score[i] : 0) + ((Score const*)a.base)[i], has[i] = 1;
    if (a.targets == 1) {
        if (!has[0]) score[0] = 0;
        if (kTransform == kProbit) rg_transform(score, 1);
        return score[0] > 0;
    }
    rg_i64 best = -1;
    for (rg_u64 i = 0; i < a.targets; ++i) {
        if (has[i] && (best < 0 || score[i] > score[best])) best = (rg_i64)i;
        if (!has[i]) score[i] = 0;
    }
    rg_transform(score, a.targets);
    return ((rg_i64 const*)a.labels)[rg_most(best, (rg_i64)0)];
}
RG_GLOBAL rg_finish_trees(rg_finish_args a) {
    RG_WAIT();
    RG_FOR(rg_u64, row, a.rows) {
        Score* score = (Score*)a.sums + row * a.targets;
        unsigned char* has = (unsigned char*)a.given + row * a.targets;
        for (rg_u64 i = 0; i < a.targets; ++i) score[i] = 0, has[i] = 0;
        for (rg_u64 tree = 0; tree < a.trees; ++tree)
            rg_add_leaf(a, ((unsigned const*)a.leaves)[row * a.trees + tree], score, has);
        if (kClassify) ((rg_i64*)a.label)[row] = rg_classify(a, score, has);
        else rg_regress(a, score, has);
        for (rg_u64 i = 0; i < a.targets; ++i) ((Result*)a.y)[row * a.targets + i] = rg_result(score[i]);
    }
}
)cuda";

std::string result_kind(DataType type) {
    if (type == DataType::F16)
        return "typedef unsigned short Result;\nRG_FN Result rg_result(Score x) { return rg_to_f16((float)x); }\n";
    std::string name = type == DataType::F64 ? "double" : "float";
    return "typedef " + name + " Result;\nRG_FN Result rg_result(Score x) { return (Result)x; }\n";
}

Result<Launches, Rejection> bind_trees(TreeEnsembleInfo const& info, BindArgs const& args, Code const& code) {
    auto const& x = *args.inputs[0];
    bool wide = args.inputs[1]->dtype == DataType::U64;
    auto rows = x.dims.size() == 1 ? 1 : x.dims[0], trees = args.inputs[3]->dims[0], cells = rows * info.targets;
    auto up = [](int64_t bytes) { return static_cast<size_t>((bytes + 63) / 64 * 64); };
    auto sums = up(rows * trees * 4), given = sums + up(cells * (wide ? 8 : 4));
    auto common = std::string(wide ? "typedef double Score; typedef rg_u64 Key;\n"
                                   : "typedef float Score; typedef unsigned Key;\n");
    GeneratedLaunch walk, finish;
    walk.function =
        code.function("rg_walk_trees", common + number_kind(x.dtype) + constant_kind("kLanes", kTreeLanes), kWalkBody);
    walk.blocks = blocks_for(rows * trees, kBlockThreads);
    walk.on({0, 1, 2, 3, Address::kWorkspace});
    for (auto word : {rows, trees, x.dims.back(), args.inputs[2]->dims[0]}) walk.add(word);
    auto kind = common + result_kind(args.outputs[0]->dtype) +
                constant_kind("kTransform", static_cast<int64_t>(info.transform)) +
                constant_kind("kAggregate", static_cast<int64_t>(info.aggregate)) +
                constant_kind("kClassify", info.classify) + constant_kind("kBinary", info.binary) +
                constant_kind("kPositiveWeights", info.positive_weights) + kScoresSource;
    finish.function = code.function("rg_finish_trees", kind, kFinishBody);
    finish.blocks = blocks_for(rows, kBlockThreads);
    finish.on({Address::kWorkspace, 4, 5, 6, 7, 8, 9, info.classify ? 10 : Address::kNone});
    finish.addresses.push_back({Address::kWorkspace, sums}), finish.addresses.push_back({Address::kWorkspace, given});
    for (auto word : {rows, trees, info.targets, info.base_values, info.dense}) finish.add(word);
    Launches launches{{walk, finish}};
    launches.workspace = given + up(cells);
    return launches;
}

}  // namespace

KernelResult tree_ensemble_nvrtc(TreeEnsembleInfo const& info, Request const& request) {
    return generate(info, "tree_ensemble", request, tree_ensemble_lanes, bind_trees);
}

}  // namespace refactor::kernel::cuda
