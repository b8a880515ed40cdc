// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/contrib/contrib.h"

#include <algorithm>

#include "base/error.h"
#include "models/onnx/import/run/graph_run.h"

namespace transom::onnx {

void only_attributes(const Call& call, std::initializer_list<std::string_view> known) {
  for (const Attribute& attribute : call.node().attributes)
    if (std::find(known.begin(), known.end(), attribute.name) == known.end())
      call.not_supported(fmt::format("the attribute {}", quoted(attribute.name)));
}

void only_value(const Call& call, std::string_view attribute, int64_t value) {
  if (const int64_t given = call.integer(attribute, value); given != value)
    call.not_supported(fmt::format("{} = {}", attribute, given));
}

Results standard(Call& call, std::string_view name, int64_t version, std::vector<Value> inputs) {
  const OperatorRecord* record = find_operator("", name, version);
  if (!record) call.not_supported(fmt::format("{} of version {}", name, version));
  Call inner(call.run(), call.node(), record->name, record->domain, version, std::move(inputs));
  return record->run(inner);
}

}  // namespace transom::onnx
