#include "saved/operator_archive.h"

#include "computation/if.h"
#include "saved/operator_infos.h"

#include <map>

namespace refactor::computation {

namespace {

using Params = std::vector<DimExpr>;
using Read = std::shared_ptr<Operator const> (*)(GraphReader&, Params);

template <class... Infos>
std::map<std::string, Read, std::less<>> readers_of(InfoList<Infos...>) {
    return {{Infos::kType, [](GraphReader& reader, Params params) {
                 return make_operator(reader.read<Infos>(), std::move(params));
             }}...};
}

std::map<std::string, Read, std::less<>> const& readers() {
    static auto const kReaders = [] {
        auto all = readers_of(AllInfos());
        all["Reshape"] = [](GraphReader&, Params) -> std::shared_ptr<Operator const> {
            return std::make_shared<Reshape>();
        };
        all["If"] = [](GraphReader& reader, Params) { return If::read(reader); };
        return all;
    }();
    return kReaders;
}

}  // namespace

void write_operator(GraphWriter& writer, Operator const& op) {
    writer.write(std::string(op.type()));
    writer.write(Params(op.params().begin(), op.params().end()));
    op.write(writer);
}

std::shared_ptr<Operator const> read_operator(GraphReader& reader) {
    auto type = reader.read<std::string>();
    auto found = readers().find(type);
    if (found == readers().end()) throw InvalidModel("not what was written: an operator \"" + type + '"');
    auto params = reader.read<Params>();
    return found->second(reader, std::move(params));
}

}  // namespace refactor::computation
