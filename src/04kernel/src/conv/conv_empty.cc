#include "conv/reference_task.h"

namespace refactor::kernel {

namespace {

/// Without X there are no products.
struct NoSum {
    NoSum(Geometry const&, TensorDesc const&) {}
    double products() const { return 0; }
    template <class T>
    double operator()(T const*, T const*, int64_t, int64_t, int64_t const (&)[3]) const {
        return 0;
    }
};

class EmptyKernel final : public NamedKernel {
    Window window_;
    int64_t group_;
    Epilogue epilogue_;
    ConvGeometry geometry_;

public:
    EmptyKernel(std::string id, Window window, int64_t group, Epilogue epilogue, ConvGeometry geometry)
        : NamedKernel(std::move(id)),
          window_(std::move(window)),
          group_(group),
          epilogue_(std::move(epilogue)),
          geometry_(geometry) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        if (args.inputs[0]->count()) return Err{Rejection{"is for X without elements"}};
        return static_cast<double>(args.outputs[0]->count()) / args.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        if (args.inputs[0]->count()) return Err{Rejection{"is for X without elements"}};
        auto g = geometry_(window_, group_, args);
        if (!g) return Err{g.error()};
        auto const &x = *args.inputs[0], &y = *args.outputs[0];
        std::unique_ptr<runtime::Task> task;
        if (y.layout == Layout::Blocked32)
            task = std::make_unique<ConvReferenceTask<float, NoSum, BFloat16>>(*g, epilogue_, x, y);
        else
            task = std::make_unique<ConvReferenceTask<float, NoSum>>(*g, epilogue_, x, y);
        return task;
    }
};

}  // namespace

void add_empty_conv(Candidates& found, std::string id, Window const& window, int64_t group, Epilogue const& epilogue,
                    ConvGeometry geometry, Request const& request) {
    auto is_rounded = [](Operand const& operand) { return operand.layout == Layout::Blocked32; };
    if (found.kernels.empty() || (!is_rounded(request.inputs[0]) && !is_rounded(request.outputs[0]))) return;
    found.kernels.push_back(std::make_unique<EmptyKernel>(std::move(id), window, group, epilogue, geometry));
}

}  // namespace refactor::kernel
