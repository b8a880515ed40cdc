// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adapter_making.h"

#include <cmath>

#include "files/config/model_config.h"
#include "graph/ops/products/packed_matrix.h"

namespace transom {

std::vector<float> draw_linear(Mt19937& generator, int64_t count, int64_t inputs) {
  std::vector<float> values(static_cast<size_t>(count));
  const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(inputs)));
  generator.fill_uniform(values, -bound, bound);
  return values;
}

std::vector<float> draw_normal(Mt19937& generator, int64_t count, double deviation) {
  std::vector<float> values(static_cast<size_t>(count));
  generator.fill_normal(values, 0, static_cast<float>(deviation));
  return values;
}

std::vector<float> all_of(int64_t count, float value) { return std::vector<float>(static_cast<size_t>(count), value); }

std::shared_ptr<Parameter> token_table(const Model& model) {
  const int64_t vocabulary = text_config_of(model.config()).get_int("vocab_size", 0);
  if (vocabulary <= 0) return nullptr;
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group) {
      if (!parameter->is_table) continue;
      const int64_t rows = parameter->packed ? parameter->packed->rows : parameter->value.dim(0);
      if (rows == vocabulary) return parameter;
    }
  return nullptr;
}

std::shared_ptr<Parameter> find_parameter(const Model& model, const std::string& name) {
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group)
      if (parameter->name == name) return parameter;
  return nullptr;
}

}  // namespace transom
