#include "cuda/kernels.h"
#include "cuda/library.h"

namespace refactor::kernel::cuda {

namespace {

class DeviceCopy final : public runtime::Task {
    Library library_;
    size_t bytes_;

public:
    DeviceCopy(Library const& library, size_t bytes) : library_(library), bytes_(bytes) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        if (arguments[0] != arguments[1]) library_.copy(context.stream, arguments[1], arguments[0], bytes_);
    }
    uint64_t in_place_inputs() const override { return 1; }
};

class DeviceCopyKernel final : public Kernel {
    Library library_;
    std::string id_;

public:
    DeviceCopyKernel(Library const& library, DataType dtype) : library_(library), id_(id_of("copy", "memcpy", dtype)) {}
    std::string id() const override { return id_; }
    MaybeTask bind(BindArgs const& args) const override {
        auto const &x = *args.inputs[0], &y = *args.outputs[0];
        if (x.count() != y.count())
            return Err{Rejection{"input of " + std::to_string(x.count()) + " elements, expected " +
                                 std::to_string(y.count())}};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<DeviceCopy>(library_, storage_bytes(y.dtype, y.count())));
    }
};

}  // namespace

MaybeKernel copy_memcpy(CopyInfo const&, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    for (auto const* list : {&request.inputs, &request.outputs}) {
        if (list->size() != 1) return Err{Rejection{std::to_string(list->size()) + " operands, expected 1"}};
        if ((*list)[0].layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
    }
    if (bits_of(request.inputs[0].dtype) == 0) return Err{Rejection{"dtype has no fixed size"}};
    if (request.inputs[0].dtype != request.outputs[0].dtype) return Err{Rejection{"input and output differ in dtype"}};
    return std::unique_ptr<Kernel>(std::make_unique<DeviceCopyKernel>(*library, request.inputs[0].dtype));
}

}  // namespace refactor::kernel::cuda
