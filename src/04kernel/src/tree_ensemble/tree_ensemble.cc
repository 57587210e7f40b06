#include "tree_ensemble/tree_ensemble.h"

#include "cuda/movement_kernels.h"
#include "reduce/scalar_type.h"
#include "tree_ensemble/tree_scores.h"
#include "tree_ensemble/tree_walk.h"

#include <array>
#include <bit>

namespace refactor::kernel {

using movement::KernelResult;
using movement::TaskResult;

std::string_view name_of(PostTransform transform) {
    constexpr std::string_view kNames[]{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    return kNames[static_cast<int>(transform)];
}

std::string TreeEnsembleInfo::attributes() const {
    auto number = [](auto value) { return std::to_string(static_cast<int64_t>(value)); };
    return "targets=" + number(targets) + ",columns=" + number(columns) + ",dense=" + number(dense) +
           ",base_values=" + number(base_values) + ",aggregate=" + number(aggregate) +
           ",transform=" + std::string(name_of(transform)) + ",classify=" + number(classify) +
           ",binary=" + number(binary) + ",positive_weights=" + number(positive_weights);
}

Candidates candidates(TreeEnsembleInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("tree_ensemble:nvidia:nvrtc", cuda::tree_ensemble_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "tree_ensemble/tree_ensemble_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// A walk takes about a dozen steps of 8 lanes, a few cycles each: 10 ns a row and tree; 20 µs of work pay for a
/// fork-join of about 1 µs.
constexpr int64_t kLeastWalks = 2000;
/// Keys of a block of rows, which all trees read: half of a 32 KB L1, the nodes of one tree need the rest.
constexpr int64_t kKeyBytes = 16 << 10;

struct Sizes {
    int64_t rows, columns, features, trees, targets, block;
    bool direct;  ///< the trees compare fewer features of a row than there are: keys are made where they are compared

    int64_t groups() const { return (block + kTreeLanes - 1) / kTreeLanes; }
};

template <class T, class X>
T as(X x) {
    if constexpr (std::is_same_v<X, F16>)
        return static_cast<T>(widen(x));
    else
        return static_cast<T>(x);
}

template <class X, class Y, class T>
class TreeTask final : public runtime::Task {
    using Key = std::conditional_t<std::is_same_v<T, double>, uint64_t, uint32_t>;
    using Node = TreeNode<Key>;

    TreeEnsembleInfo info_;
    Sizes s_;
    int threads_;

    struct Scratch {
        Key* keys;    ///< [group, feature, lane]
        T* scores;    ///< [row, target]
        bool* given;  ///< [row, target]
    };
    struct Arguments {
        X const* x;
        Node const* nodes;
        int32_t const* features;
        uint32_t const *roots, *first;
        T const* weights;
        uint32_t const* targets;
        T const* base;
        int64_t const* labels;
        Y* y;
        int64_t* label;
    };

    size_t key_bytes() const { return static_cast<size_t>(s_.groups() * s_.features * kTreeLanes) * sizeof(Key); }
    size_t score_bytes() const { return static_cast<size_t>(s_.block * s_.targets) * sizeof(T); }
    size_t scratch_bytes() const override {
        auto bytes = key_bytes() + score_bytes() + static_cast<size_t>(s_.block * s_.targets);
        return (bytes + 63) / 64 * 64;
    }

    void add_leaf(Arguments const& a, uint32_t leaf, T* score, bool* given) const {
        auto begin = a.first[leaf];
        if (info_.dense && (info_.aggregate == TreeAggregate::Sum || info_.aggregate == TreeAggregate::Average)) {
            for (int64_t i = 0; i < info_.dense; ++i) score[i] += a.weights[begin + static_cast<uint32_t>(i)];
            return;
        }
        for (auto i = begin; i < a.first[leaf + 1]; ++i) {
            auto target = a.targets[i];
            auto& sum = score[target];
            auto weight = a.weights[i];
            switch (info_.aggregate) {
                case TreeAggregate::Min:
                    sum = given[target] ? std::min(sum, weight) : weight;
                    break;
                case TreeAggregate::Max:
                    sum = given[target] ? std::max(sum, weight) : weight;
                    break;
                default:
                    sum += weight;
            }
            given[target] = true;
        }
    }

    void load_keys(Arguments const& a, int64_t begin, int64_t rows, Key* keys) const {
        for (int64_t r = 0; r < rows; ++r) {
            auto const* x = a.x + (begin + r) * s_.columns;
            auto* to = keys + r / kTreeLanes * s_.features * kTreeLanes + r % kTreeLanes;
            for (int64_t f = 0; f < s_.features; ++f) to[f * kTreeLanes] = tree_key(as<T>(x[a.features[f]]));
        }
        // Lanes past the last row walk too, anywhere.
        for (auto r = rows; r % kTreeLanes; ++r)
            for (int64_t f = 0; f < s_.features; ++f)
                keys[(r / kTreeLanes * s_.features + f) * kTreeLanes + r % kTreeLanes] = 1;
    }

    /// `keys_of(row)` gives the keys of the lanes from `row` on.
    template <class KeysOf>
    void walk_rows(Arguments const& a, int64_t rows, Scratch const& scratch, KeysOf&& keys_of) const {
        for (int64_t tree = 0; tree < s_.trees; ++tree)
            for (int64_t r = 0; r < rows; r += kTreeLanes) {
                uint32_t at[kTreeLanes];
                std::fill_n(at, kTreeLanes, a.roots[tree]);
                walk(a.nodes, keys_of(r), at);
                for (int64_t i = 0; i < std::min<int64_t>(kTreeLanes, rows - r); ++i)
                    add_leaf(a, at[i], scratch.scores + (r + i) * s_.targets, scratch.given + (r + i) * s_.targets);
            }
    }

    void walk_trees(Arguments const& a, int64_t row, Scratch const& scratch) const {
        auto const* keys = scratch.keys + row / kTreeLanes * s_.features * kTreeLanes + row % kTreeLanes;
        for (int64_t tree = 0; tree < s_.trees; tree += kTreeLanes) {
            uint32_t at[kTreeLanes];
            auto count = std::min<int64_t>(kTreeLanes, s_.trees - tree);
            for (int64_t i = 0; i < kTreeLanes; ++i) at[i] = a.roots[tree + std::min(i, count - 1)];
            walk(a.nodes, [&](int, uint32_t feature) { return keys[feature]; }, at);
            for (int64_t i = 0; i < count; ++i)
                add_leaf(a, at[i], scratch.scores + row * s_.targets, scratch.given + row * s_.targets);
        }
    }

    void walk_block(Arguments const& a, int64_t begin, int64_t rows, Scratch const& scratch) const {
        if (s_.direct && rows > kTreeLanes / 2)
            return walk_rows(a, rows, scratch, [&](int64_t r) {
                std::array<X const*, kTreeLanes> x;
                for (int64_t i = 0; i < kTreeLanes; ++i)
                    x[static_cast<size_t>(i)] = a.x + (begin + std::min(r + i, rows - 1)) * s_.columns;
                return [&a, x](int i, uint32_t feature) {
                    return tree_key(as<T>(x[static_cast<size_t>(i)][a.features[feature / kTreeLanes]]));
                };
            });
        load_keys(a, begin, rows, scratch.keys);
        if (rows > kTreeLanes / 2)
            return walk_rows(a, rows, scratch, [&](int64_t r) {
                return [keys = scratch.keys + r * s_.features](int i, uint32_t feature) { return keys[feature + i]; };
            });
        for (int64_t r = 0; r < rows; ++r) walk_trees(a, r, scratch);
    }

    void run_block(Arguments const& a, int64_t begin, int64_t rows, std::byte* memory) const {
        Scratch scratch{reinterpret_cast<Key*>(memory), reinterpret_cast<T*>(memory + key_bytes()),
                        reinterpret_cast<bool*>(memory + key_bytes() + score_bytes())};
        auto cells = rows * s_.targets;
        std::fill_n(scratch.scores, cells, T{0});
        for (int64_t i = 0; i < cells; ++i) scratch.given[i] = i % s_.targets < info_.dense;
        if (info_.dense && info_.aggregate != TreeAggregate::Sum && info_.aggregate != TreeAggregate::Average)
            std::fill_n(scratch.given, cells, false);
        walk_block(a, begin, rows, scratch);
        TreeFinish<T> finish{info_, a.base, a.labels, s_.trees};
        for (int64_t r = 0; r < rows; ++r) {
            auto* score = scratch.scores + r * s_.targets;
            auto* given = scratch.given + r * s_.targets;
            if (info_.classify)
                a.label[begin + r] = finish.classify(score, given);
            else
                finish.regress(score, given);
            auto* y = a.y + (begin + r) * s_.targets;
            for (int64_t i = 0; i < s_.targets; ++i) {
                if constexpr (std::is_same_v<Y, F16>)
                    y[i] = narrow<F16>(score[i]);
                else
                    y[i] = static_cast<Y>(score[i]);
            }
        }
    }

public:
    TreeTask(TreeEnsembleInfo info, Sizes sizes, int threads) : info_(std::move(info)), s_(sizes), threads_(threads) {}

    void run(void* const* p, runtime::RunContext const& context) const override {
        Arguments a{static_cast<X const*>(p[0]),
                    static_cast<Node const*>(p[1]),
                    static_cast<int32_t const*>(p[2]),
                    static_cast<uint32_t const*>(p[3]),
                    static_cast<uint32_t const*>(p[4]),
                    static_cast<T const*>(p[5]),
                    static_cast<uint32_t const*>(p[6]),
                    static_cast<T const*>(p[7]),
                    static_cast<int64_t const*>(p[8]),
                    static_cast<Y*>(p[9]),
                    info_.classify ? static_cast<int64_t*>(p[10]) : nullptr};
        auto blocks = (s_.rows + s_.block - 1) / s_.block;
        auto block = [&](int64_t i, int worker) {
            run_block(a, i * s_.block, std::min(s_.block, s_.rows - i * s_.block), context.scratch_of(worker));
        };
        if (s_.rows * s_.trees < kLeastWalks || threads_ == 1)
            for (int64_t i = 0; i < blocks; ++i) block(i, ThreadPool::worker_number() % threads_);
        else
            context.pool.parallel_for(blocks, block);
    }
};

Result<Sizes, Rejection> sizes_of(TreeEnsembleInfo const& info, BindArgs const& args) {
    auto const& x = args.inputs[0]->dims;
    if (x.empty() || x.size() > 2)
        return Err{Rejection{"X has " + std::to_string(x.size()) + " axes, expected 1 or 2"}};
    Sizes s{};
    s.rows = x.size() == 1 ? 1 : x[0], s.columns = x.back();
    if (s.columns < info.columns)
        return Err{Rejection{"X has " + std::to_string(s.columns) + " columns, the trees need " +
                             std::to_string(info.columns)}};
    s.features = args.inputs[2]->dims[0], s.trees = args.inputs[3]->dims[0], s.targets = info.targets;
    // A node has two children: a walk has as many steps as the tree has levels.
    auto nodes = std::max<int64_t>(1, args.inputs[1]->dims[0] / std::max<int64_t>(1, s.trees));
    s.direct = s.trees * static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(nodes))) < s.features;
    auto bytes = std::max<int64_t>(1, s.features) * (args.inputs[1]->dtype == DataType::U64 ? 8 : 4);
    auto share = (s.rows + args.threads * 4 - 1) / (args.threads * 4);
    auto most = std::max<int64_t>(kTreeLanes, std::min(kKeyBytes / bytes, share));
    s.block = (most + kTreeLanes - 1) / kTreeLanes * kTreeLanes;
    return s;
}

template <class X, class Y, class T>
TaskResult bind_typed(TreeEnsembleInfo const& info, BindArgs const& args, Isa) {
    auto sizes = sizes_of(info, args);
    if (!sizes) return Err{sizes.error()};
    return TaskResult(std::make_unique<TreeTask<X, Y, T>>(info, *sizes, args.threads));
}

}  // namespace

KernelResult tree_ensemble_lanes(TreeEnsembleInfo const& info, Request const& request) {
    movement::Accepts accepts{.min_inputs = 9, .max_inputs = 9, .same_dtype = false};
    accepts.outputs = info.classify ? 2 : 1;
    if (auto no = movement::refuse(request, accepts)) return Err{*no};
    auto x = request.inputs[0].dtype, y = request.outputs[0].dtype;
    bool wide = request.inputs[1].dtype == DataType::U64;
    auto make = [&](auto bind) { return movement::make_kernel(info, "tree_ensemble", "lanes", request, bind); };
    auto of_input = [&](auto value) -> KernelResult {
        using X = decltype(value);
        if (y == DataType::F64 && wide) return make(bind_typed<X, double, double>);
        if (y == DataType::F32) return wide ? make(bind_typed<X, float, double>) : make(bind_typed<X, float, float>);
        if (y == DataType::F16 && !wide) return make(bind_typed<X, F16, float>);
        return Err{
            Rejection{"scores of " + std::string(name_of(y)) + " from keys of " + (wide ? "64" : "32") + " bits"}};
    };
    switch (x) {
        case DataType::F16:
            return of_input(F16{});
        case DataType::F32:
            return of_input(float{});
        case DataType::F64:
            return of_input(double{});
        case DataType::I32:
            return of_input(int32_t{});
        case DataType::I64:
            return of_input(int64_t{});
        default:
            return Err{Rejection{"X of " + std::string(name_of(x)) + ", expected f16, f32, f64, i32 or i64"}};
    }
}

}  // namespace refactor::kernel
