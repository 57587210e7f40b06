#include "common/error.h"
#include "kernel/procedures/select.h"

namespace refactor::kernel {

namespace {

using runtime::Value;

class ContentSizes final : public runtime::Procedure {
    std::string name_;

public:
    explicit ContentSizes(std::string name) : name_(std::move(name)) {}
    std::string id() const override { return "content_sizes:cpu:read:i64"; }
    bool steers() const override { return true; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto const& x = *inputs[0];
        Dims dims{0};
        for (int64_t i = 0; i < x.count(); ++i) {
            auto size = x.dtype == DataType::I32 ? x.data<int32_t>()[i] : x.data<int64_t>()[i];
            if (size < 0)
                throw InvalidInput("element " + std::to_string(i) + " of \"" + name_ + "\" is " + std::to_string(size) +
                                   ", expected a size");
            dims.push_back(size);
        }
        outputs[0].resize(DataType::U8, std::move(dims));
    }
};

}  // namespace

ProcedurePtr make_content_sizes(std::string name) { return std::make_shared<ContentSizes>(std::move(name)); }

}  // namespace refactor::kernel
