// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/kinds/prompt_learning.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/model_config.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/generative.h"
#include "models/loading/input_names.h"
#include "models/nn/weight.h"
#include "models/records.h"
#include "models/shared/decoder.h"

namespace transom {
namespace {

constexpr int64_t kMostVirtualTokens = 1 << 16;

int64_t width_of(const Parameter& table) { return table.packed ? table.packed->depth : table.value.dim(1); }

// The first of the names that configurations have for a number.
std::optional<int64_t> stated_number(const Config& config, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (config.has(name)) return config.get_int(name);
  return std::nullopt;
}

}  // namespace

int64_t count_of_virtual_tokens(const AdapterConfig& config) {
  const int64_t count = config.fields().get_int("num_virtual_tokens", 0);
  if (count < 1 || count > kMostVirtualTokens)
    fail("{}: num_virtual_tokens: expected a number from 1 to {}, found {}", config.where(), kMostVirtualTokens, count);
  return count;
}

void expect_vectors_taken(const AdapterConfig& config, const Model& model) {
  const FamilyHead& head = head_of(model);
  const std::vector<std::string> names = input_names_of(model);
  if (is_encoder_decoder(head) || *head.task == HeadTask::kQuestionAnswering ||
      std::find(names.begin(), names.end(), "inputs_embeds") == names.end() || !token_table(model))
    fail(ErrorKind::kUnsupported, "{}: peft_type {}: virtual tokens are not carried out before the rows of {}",
         config.where(), config.kind().type, model.architecture());
}

void complete_vectors(AdapterConfig& config, const Model& model) {
  expect_vectors_taken(config, model);
  const Config text = text_config_of(model.config());
  const auto set = [&](const char* field, std::optional<int64_t> value) {
    if (value && !config.fields().has(field)) config.set(field, *value);
  };
  set("token_dim", width_of(*token_table(model)));
  set("num_layers", stated_number(text, {"num_hidden_layers", "num_layers", "n_layer"}));
  set("num_attention_heads", stated_number(text, {"num_attention_heads", "n_head", "num_heads"}));
  set("num_transformer_submodules", 1);
}

void check_prompt_fields(const AdapterConfig& config) {
  count_of_virtual_tokens(config);
  if (const int64_t parts = config.fields().get_int("num_transformer_submodules", 1); parts != 1)
    fail(
        ErrorKind::kUnsupported,
        "{}: num_transformer_submodules = {} is not carried out; only 1 is: models without an encoder beside a decoder",
        config.where(), parts);
}

Tensor token_vectors(const Model& model, const Tensor& ids, ForwardContext& context) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (writer && !writer->has_encoder() && writer->embedding_width() > 0) return body_of(model).embed(ids, context);
  return rows_of(*token_table(model), ids, context.computing);
}

std::shared_ptr<Parameter> PromptLayers::normal(const std::string& name, const Shape& shape) {
  const auto drawn = [&] { return draw_normal(making_.generator, shape[0] * shape[1]); };
  return making_.tensor(name, shape, drawn, AdapterMaking::Kept::kTraining);
}

std::shared_ptr<Parameter> PromptLayers::uniform(const std::string& name, const Shape& shape, int64_t inputs,
                                                 bool zero) {
  const auto drawn = [&] {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return zero ? all_of(count, 0) : draw_linear(making_.generator, count, inputs);
  };
  return making_.tensor(name, shape, drawn, AdapterMaking::Kept::kTraining);
}

PromptLayers::Layer PromptLayers::linear(const std::string& name, int64_t in, int64_t out, bool zero) {
  return {uniform(name + ".weight", {out, in}, in, zero), uniform(name + ".bias", {out}, in, zero)};
}

Tensor PromptLayers::Layer::operator()(const Tensor& x, const Computing& computing) const {
  return transom::linear(x, weight->value, bias->value, computing);
}

}  // namespace transom
