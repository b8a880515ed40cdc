// SPDX-License-Identifier: Apache-2.0
// Prefix tuning (Li and Liang, 2021): trained keys and values stand before those of the tokens in each layer.
#include "base/error.h"
#include "base/json/json.h"
#include "models/generative.h"
#include "models/loading/adapters/kinds/prompt_learning.h"
#include "models/loading/input_names.h"
#include "models/nn/attention/paged_cache.h"
#include "models/records.h"

namespace transom {
namespace {

// Keys and values of all layers in one row [2 L G d] a virtual token; K and V of a layer stand side by side.
struct PrefixShape {
  int64_t count = 0, layers = 0, heads = 0, width = 0;  // n, L, G, d
  int64_t row() const { return 2 * layers * heads * width; }
};

class TrainedKeys : public VirtualTokens {
 public:
  TrainedKeys(AdapterMaking& making, const PrefixShape& shape) : shape_(shape) {
    const Config& fields = making.config.fields();
    const bool zero = fields.get_string("init_weights", "") == "zero";
    const int64_t inner = shape.heads * shape.width;
    if (fields.get_bool("prefix_projection", false) && (making.reads_training() || !making.reads_file())) {
      PromptLayers layers(making);
      const int64_t hidden = fields.get_int("encoder_hidden_size", inner);
      rows_ = layers.normal("prompt_encoder.embedding.weight", {shape.count, inner});
      transform_ = {layers.linear("prompt_encoder.transform.0", inner, hidden),
                    layers.linear("prompt_encoder.transform.2", hidden, shape.row(), zero)};
      return;
    }
    const auto first = [&] {
      return zero ? all_of(shape.count * shape.row(), 0) : draw_normal(making.generator, shape.count * shape.row());
    };
    rows_ = making.tensor("prompt_embeddings", {shape.count, shape.row()}, first);
  }

  int64_t count() const override { return shape_.count; }
  Tensor embeddings(ForwardContext&) const override { return {}; }
  std::vector<KeysAndValues> keys_and_values(ForwardContext& context) const override {
    const Tensor all = reshape(made(context.computing), {shape_.count, 2 * shape_.layers, shape_.heads, shape_.width});
    const auto part = [&](int64_t i) { return permute(slice(all, 1, i, i + 1), {1, 0, 2, 3}); };
    std::vector<KeysAndValues> layers;
    for (int64_t i = 0; i < shape_.layers; ++i) layers.push_back({part(2 * i), part(2 * i + 1)});
    return layers;
  }
  Tensor saved() const override {
    const NoGradient values_alone;
    return made(kAsGiven);
  }

 private:
  Tensor made(const Computing& computing) const {
    if (transform_.empty()) return rows_->value;
    return transform_[1](tanh(transform_[0](rows_->value, computing)), computing);
  }
  PrefixShape shape_;
  std::shared_ptr<Parameter> rows_;
  std::vector<PromptLayers::Layer> transform_;
};

// What a layer of the model keeps of each token, all of them the same.
KeyValueShape keys_of_model(const AdapterConfig& config, const Model& model, int64_t* layers) {
  const auto refuse = [&](std::string_view why) {
    fail(ErrorKind::kUnsupported, "{}: peft_type PREFIX_TUNING is not carried out for {}, which {}", config.where(),
         model.architecture(), why);
  };
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (!writer || writer->has_encoder()) refuse("is no decoder alone");
  if (writer->cache_expires_at() != 0) refuse("keeps no keys and values at every length");
  const NoGradient shapes_alone;
  PagedCache cache;
  ForwardContext context{.cache = &cache};
  const Tensor one = zeros({1, 1}, DType::kInt64);
  NamedTensors inputs{{"input_ids", one}};
  const std::vector<std::string> names = input_names_of(model);
  if (std::find(names.begin(), names.end(), "position_ids") != names.end()) inputs.set("position_ids", one);
  model.forward(inputs, context);
  const std::vector<KeyValueShape>& found = cache.shapes();
  if (found.empty()) refuse("keeps no keys and values");
  if (!cache.state_shapes().empty()) refuse("keeps states beside keys and values");
  for (const KeyValueShape& shape : found)
    if (shape.heads != found[0].heads || shape.key_width != found[0].key_width ||
        shape.value_width != found[0].key_width)
      refuse("keeps keys and values of several widths");
  *layers = static_cast<int64_t>(found.size());
  return found[0];
}

void complete_prefix(AdapterConfig& config, const Model& model) {
  int64_t layers = 0;
  const KeyValueShape shape = keys_of_model(config, model, &layers);
  config.set("num_layers", layers);
  config.set("num_attention_heads", shape.heads);
  config.set("token_dim", shape.heads * shape.key_width);
  config.set("num_transformer_submodules", 1);
  if (!config.fields().has("encoder_hidden_size")) config.set("encoder_hidden_size", shape.heads * shape.key_width);
}

std::unique_ptr<VirtualTokens> make_prefix(AdapterMaking& making) {
  const Config& fields = making.config.fields();
  int64_t layers = 0;
  const KeyValueShape own = keys_of_model(making.config, making.model, &layers);
  const PrefixShape shape{count_of_virtual_tokens(making.config), fields.get_int("num_layers"),
                          fields.get_int("num_attention_heads"), own.key_width};
  if (shape.layers != layers || shape.heads != own.heads || fields.get_int("token_dim") != shape.heads * shape.width)
    fail(
        "{}: expected keys and values of {} layers with {} heads of {}, as the model has, found num_layers {}, "
        "num_attention_heads {} and token_dim {}",
        making.config.where(), layers, own.heads, own.key_width, shape.layers, shape.heads,
        fields.get_int("token_dim"));
  return std::make_unique<TrainedKeys>(making, shape);
}

void check_prefix(const AdapterConfig& config) {
  check_prompt_fields(config);
  if (const std::string first = config.fields().get_string("init_weights", "zero"); first != "zero")
    fail("{}: init_weights: expected null or \"zero\", found {}", config.where(), transom::quoted(first));
  if (const int64_t hidden = config.fields().get_int("encoder_hidden_size", 1); hidden < 1 || hidden > (1 << 20))
    fail("{}: encoder_hidden_size: expected a number from 1 to {}, found {}", config.where(), 1 << 20, hidden);
}

AdapterKind prefix_tuning_kind() {
  return {.type = "PREFIX_TUNING",
          .what = "keys and values before those of each row",
          .defaults = "{" TRANSOM_PROMPT_FIELDS
                      R"(, "encoder_hidden_size": null, "init_weights": null, "prefix_projection": false})",
          .carried_out = {"encoder_hidden_size", "init_weights", "num_attention_heads", "num_layers",
                          "num_transformer_submodules", "num_virtual_tokens", "prefix_projection", "token_dim"},
          .virtual_tokens = make_prefix,
          .check = check_prefix,
          .complete = complete_prefix,
          .prefix = "base_model.",
          .unmerged = kVirtualTokensStay};
}

const RegisterAdapterKind kPrefixTuning{prefix_tuning_kind};

}  // namespace
}  // namespace transom
