#include "onnx/model_builder.h"

#include "importer.h"

namespace refactor::onnx {

void GraphBuilder::add_input(std::string name, DeclaredType type) {
    inputs_.push_back({std::move(name), std::move(type)});
}

void GraphBuilder::add_input(std::string name, int64_t dtype, DeclaredShape shape) {
    add_input(std::move(name), {dtype, std::move(shape)});
}

void GraphBuilder::add_output(std::string name, DeclaredType type) {
    outputs_.push_back({std::move(name), std::move(type)});
}

void GraphBuilder::add_output(std::string name, int64_t dtype, DeclaredShape shape) {
    add_output(std::move(name), {dtype, std::move(shape)});
}

void GraphBuilder::add_value_info(std::string name, DeclaredType type) {
    value_infos_.push_back({std::move(name), std::move(type)});
}

void GraphBuilder::add_value_info(std::string name, int64_t dtype, DeclaredShape shape) {
    add_value_info(std::move(name), {dtype, std::move(shape)});
}

void GraphBuilder::add_initializer(std::string name, RawTensor tensor) {
    initializers_.push_back({std::move(name), std::move(tensor)});
}

void GraphBuilder::add_node(std::string name, std::string domain, std::string op_type, std::vector<std::string> inputs,
                            std::vector<std::string> outputs, RawAttributes attributes, int64_t version) {
    nodes_.push_back({std::move(name), std::move(domain), std::move(op_type), std::move(inputs), std::move(outputs),
                      std::move(attributes), version});
}

void GraphBuilder::add_refused(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    nodes_.push_back({std::move(name), {}, {}, std::move(inputs), std::move(outputs), {}, 0, true});
}

void ModelBuilder::add_opset(std::string domain, int64_t version) { opsets_.emplace_back(std::move(domain), version); }

frontend::Model ModelBuilder::build() && { return Importer(*this).run(); }

}  // namespace refactor::onnx
