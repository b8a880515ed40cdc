// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/shape/model_shape.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/json/json.h"
#include "tools/plan/plan_data.h"
#include "tools/plan/shape/layer_facts.h"
#include "tools/plan/shape/network_layers.h"

namespace transom {
namespace {

constexpr double kLargestField = 1e12;

// The fields of a configuration, with their checks.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}
  bool has(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && !found->is_null();
  }
  // The first of the names that is there; else `fallback`.
  double number(std::initializer_list<const char*> names, double fallback = 0) const {
    for (const char* name : names) {
      if (!has(name)) continue;
      const Json* value = &json_.at(name);
      if (value->is_array() && !value->empty()) value = &value->at(0);
      if (!value->is_number())
        fail(ErrorKind::kUsage, "config.{}: expected a number, found {}", name, value->type_name());
      const double number = value->get<double>();
      if (!(number >= 0) || number > kLargestField)
        fail(ErrorKind::kUsage, "config.{}: expected a number from 0 to 1e12, found {}", name, value->dump());
      return number;
    }
    return fallback;
  }
  double positive(std::initializer_list<const char*> names, double fallback = 0) const {
    const double value = number(names, fallback);
    if (!(value > 0)) fail(ErrorKind::kUsage, "config.{}: expected a number above 0, found {}", *names.begin(), value);
    return value;
  }
  bool flag(const char* name, bool fallback = false) const {
    if (!has(name)) return fallback;
    if (!json_.at(name).is_boolean())
      fail(ErrorKind::kUsage, "config.{}: expected true or false, found {}", name, json_.at(name).type_name());
    return json_.at(name).get<bool>();
  }
  std::string text(const char* name, std::string fallback = "") const {
    if (!has(name)) return fallback;
    if (!json_.at(name).is_string())
      fail(ErrorKind::kUsage, "config.{}: expected a string, found {}", name, json_.at(name).type_name());
    return json_.at(name).get<std::string>();
  }
  const Json& json() const { return json_; }

 private:
  const Json& json_;
};

bool is_one_of(const std::string& text, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return text == name; });
}

// The sizes that the configuration states.
LayerStack widths_of(const Fields& fields) {
  LayerStack stack;
  stack.layers = fields.positive({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  stack.hidden = fields.positive({"hidden_size", "n_embd", "d_model", "dim"});
  const double heads_guess = std::max(1.0, std::round(stack.hidden / 64));
  stack.heads = fields.positive({"num_attention_heads", "n_head", "n_heads", "num_heads"}, heads_guess);
  stack.key_value_heads = fields.number({"num_key_value_heads", "num_kv_heads", "multi_query_group_num"}, 0);
  if (stack.key_value_heads == 0) stack.key_value_heads = fields.flag("multi_query") ? 1 : stack.heads;
  if (stack.key_value_heads > stack.heads)
    fail(ErrorKind::kUsage, "config.num_key_value_heads: expected at most num_attention_heads ({}), found {}",
         stack.heads, stack.key_value_heads);
  stack.head_dim = fields.number({"head_dim", "d_kv"}, 0);
  if (stack.head_dim == 0) {
    if (std::fmod(stack.hidden, stack.heads) != 0)
      fail(ErrorKind::kUsage, "config.num_attention_heads: expected a divisor of hidden_size ({}), found {}",
           stack.hidden, stack.heads);
    stack.head_dim = stack.hidden / stack.heads;
  }
  stack.intermediate =
      fields.number({"intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size", "hidden_dim"});
  if (stack.intermediate == 0) stack.intermediate = 4 * stack.hidden;
  return stack;
}

LayerStack stack_of(const Fields& fields, LayerStack stack, const LayerFacts& facts) {
  stack.gated = facts.gated || fields.flag("is_gated_act");
  stack.causal = facts.causal;
  stack.fused_attention = facts.fused_attention;
  stack.experts = fields.number({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"});
  if (stack.experts > 1) {
    stack.experts_per_token = fields.positive({"num_experts_per_tok", "moe_top_k", "num_experts_per_token"}, 2);
    if (stack.experts_per_token > stack.experts)
      fail(ErrorKind::kUsage, "config.num_experts_per_tok: expected at most num_experts ({}), found {}", stack.experts,
           stack.experts_per_token);
    stack.expert_intermediate = fields.number({"moe_intermediate_size", "expert_ffn"}, stack.intermediate);
    const double shared = fields.number({"n_shared_experts"}, facts.shared_experts);
    stack.shared_intermediate = fields.number({"shared_expert_intermediate_size"}, shared * stack.expert_intermediate);
  } else {
    stack.experts = 0;
  }
  stack.window = fields.number({"sliding_window"});
  if (fields.has("use_sliding_window") && !fields.flag("use_sliding_window")) stack.window = 0;
  stack.local_share = facts.local_share;
  stack.norms = facts.norms;
  stack.parameters_shared = facts.shared;
  return stack;
}

double patches(double image, double patch) { return patch > 0 ? std::pow(std::floor(image / patch), 2) + 1 : 0; }

void add_encoder_and_decoder(ModelShape& result, const Fields& fields, const LayerStack& base) {
  LayerStack encoder = base, decoder = base;
  encoder.layers = fields.number({"encoder_layers"}, base.layers);
  decoder.layers = fields.number({"decoder_layers", "num_decoder_layers"}, base.layers);
  if (fields.has("encoder_layers") || fields.has("encoder_ffn_dim"))
    encoder.intermediate = fields.number({"encoder_ffn_dim"}, base.intermediate),
    decoder.intermediate = fields.number({"decoder_ffn_dim"}, base.intermediate);
  encoder.causal = false, decoder.causal = true, decoder.cross = true, decoder.norms = 3;
  if (const double frames = frames_of_sound(fields.json(), result.model_type); frames > 0) {
    encoder.tokens = decoder.cross_tokens = frames;
    decoder.tokens = 128;
    result.audio = true;
  }
  result.head = Head::kCausalLanguage;
  result.stacks = {encoder, decoder};
}

void add_towers(ModelShape& result, const Fields& fields, const LayerStack& base, double image_tokens,
                double text_tokens) {
  LayerStack vision = base, text = base;
  vision.tokens = image_tokens, text.tokens = text_tokens;
  result.images = true;
  result.stacks = {vision, text};
  if (result.model_type != "bridgetower") return;
  LayerStack crossing = base;
  crossing.layers = 2 * fields.number({"cross_layers"}, 6);
  crossing.cross = true;
  crossing.tokens = vision.tokens / 2 + text.tokens / 2;
  crossing.cross_tokens = crossing.tokens;
  result.stacks.push_back(crossing);
}

// Pictures become this many tokens before the text: 576 a crop of 336 pixels, several crops and pictures a sample.
void add_pictures_before_text(ModelShape& result) {
  const std::string& type = result.model_type;
  if (is_one_of(type, {"mllama", "idefics2", "llava", "llava_next", "qwen2_vl", "paligemma"})) result.images = true;
  if (type == "llava") result.default_tokens = 2400;
  if (type == "llava_next") result.default_tokens = 2900;
  if (type == "idefics2" || type == "mllama") result.default_tokens = 4800;
}

// The stacks of the layers, and what stands before and behind them.
LayerFacts add_stacks(ModelShape& result, const Fields& fields) {
  const LayerStack widths = widths_of(fields);
  const LayerFacts facts = layer_facts(fields.json(), result.model_type, widths);
  LayerStack base = stack_of(fields, widths, facts);
  const double patch = fields.number({"patch_size"}, 16),
               image_tokens = patches(fields.number({"image_size"}, 224), patch);
  result.head = base.causal ? Head::kCausalLanguage : Head::kClassifier;
  switch (facts.kind) {
    case ModelKind::kText:
      result.stacks = {base};
      if (result.model_type == "conformer") result.audio = true, result.default_tokens = 500;
      add_pictures_before_text(result);
      break;
    case ModelKind::kPictures:
      base.tokens = image_tokens;
      result.images = true;
      result.convolution_flops = 2 * base.tokens * base.hidden * 3 * patch * patch;
      result.stacks = {base};
      break;
    case ModelKind::kSpectra:
      base.tokens = fields.number({"num_patches"}, 146);  // a second of speech commands: 12 x 12 patches
      result.audio = true;
      result.stacks = {base};
      break;
    case ModelKind::kSamples:
      // Seven convolutions of 512 channels over 16,000 samples a second; a token is 20 ms (Baevski et al., 2020).
      result.audio = true;
      result.default_tokens = 50;
      result.convolution_flops = 10e9;  // of a second
      result.convolution_activations = 3.3e6;
      result.stacks = {base};
      break;
    case ModelKind::kTwoStacks:
      add_encoder_and_decoder(result, fields, base);
      break;
    case ModelKind::kTwoTowers:
      result.head = Head::kNone;
      add_towers(result, fields, base, image_tokens, facts.text_tokens);
      break;
  }
  return facts;
}

// Depth and width of a decoder of so many parameters, where nothing else is known: hidden = 128 layers (Kaplan et al.).
LayerStack generic_stack(double parameters) {
  LayerStack stack;
  stack.layers = std::clamp(std::round(std::cbrt(parameters / (12.0 * 128 * 128))), 2.0, 200.0);
  stack.hidden = std::max(64.0, std::round(std::sqrt(parameters / 12 / stack.layers) / 64) * 64);
  stack.heads = stack.key_value_heads = stack.hidden / 64;
  stack.head_dim = 64;
  stack.intermediate = 4 * stack.hidden;
  stack.causal = stack.fused_attention = true;
  return stack;
}

const Json& known_models() {
  static std::once_flag once;
  static Json models;
  std::call_once(once, [] { models = read_json(plan_data("plan/models.json")).at("models"); });
  return models;
}

std::string plain_model(std::string_view name) {
  std::string result;
  if (const size_t slash = name.rfind('/'); slash != name.npos) name.remove_prefix(slash + 1);
  for (const unsigned char c : name)
    if (std::isalnum(c)) result += static_cast<char>(std::tolower(c));
  return result;
}

// Its name in the table; empty where it is not there.
std::string known_name(const std::string& model) {
  const std::string sought = plain_model(model);
  std::string best;
  for (const auto& [name, config] : known_models().items()) {
    const std::string candidate = plain_model(name);
    if (candidate == sought) return name;
    // "bert-large" for "bert-large-uncased", "Llama-2-7b" for "Llama-2-7b-hf".
    if (best.empty() && sought.size() > 4 && (candidate.starts_with(sought) || sought.starts_with(candidate)))
      best = name;
  }
  return best;
}

const Json* find_known(const std::string& model) {
  const std::string name = known_name(model);
  return name.empty() ? nullptr : &known_models().at(name);
}

double count_parameters(const ModelShape& a) {
  return a.layer_parameters() + a.vocabulary * a.embedding * (a.tied || a.head != Head::kCausalLanguage ? 1 : 2);
}

ModelShape read_config(const Json& json, const std::string& model, double parameters) {
  const Fields outer(json);
  ModelShape result;
  result.name = model;
  result.model_type = outer.text("model_type");
  result.parameters = parameters > 0 ? parameters : outer.number({"parameters", "num_parameters"});
  const double gflop = outer.number({"forward_gflop_per_sample"});
  const bool has_layers =
      outer.has("num_hidden_layers") || outer.has("n_layer") || outer.has("n_layers") || outer.has("num_layers");
  if (gflop > 0 && (!has_layers || outer.has("depths") || result.model_type == "convolutional")) {
    result.convolution_flops = gflop * 1e9;
    // Dense networks write about 2.7 elements a thousand operations (ResNet-50); what is separable more.
    result.convolution_activations =
        outer.number({"activation_elements_per_sample"}, std::max(4e6, 6e6 * std::pow(gflop, 0.6)));
    result.vector_operations = outer.number({"vector_operations_per_sample"}, 0.4 * result.convolution_activations);
    result.large_maps = outer.number({"large_map_elements_per_sample"}, 0);
    result.network = find_network(known_name(model));
    const std::string name = plain_model(model);
    result.separable =
        outer.flag("separable") || name.find("efficientnet") != name.npos || name.find("nano") != name.npos;
    if (name.find("inception") != name.npos || name.find("squeeze") != name.npos) result.convolution_share = 0.5;
    result.images = true;
    if (result.parameters == 0) result.parameters = 3e6 * gflop;
    return result;
  }
  // Models of several parts keep the text part's fields one level below.
  const Json* inner = &json;
  for (const char* part : {"text_config", "llm_config", "language_config"})
    if (!has_layers && outer.has(part) && json.at(part).is_object()) inner = &json.at(part);
  const Fields fields(*inner);
  const LayerFacts facts = add_stacks(result, fields);
  result.vocabulary = fields.number({"vocab_size"});
  result.embedding = fields.number({"embedding_size"}, result.stacks.back().hidden);
  result.tied = fields.flag("tie_word_embeddings", facts.tied);
  if (result.parameters == 0) result.parameters = count_parameters(result);
  return result;
}

}  // namespace

double LayerStack::attention_weights() const {
  const double one = hidden * head_dim * (2 * heads + 2 * key_value_heads);
  return cross ? 2 * one : one;
}
double LayerStack::feed_forward_weights() const {
  const double matrices = gated ? 3 : 2;
  if (experts > 1) return matrices * hidden * (experts * expert_intermediate + shared_intermediate) + hidden * experts;
  return matrices * hidden * intermediate;
}
double LayerStack::active_feed_forward_weights() const {
  const double matrices = gated ? 3 : 2;
  if (experts > 1) return matrices * hidden * (experts_per_token * expert_intermediate + shared_intermediate);
  return matrices * hidden * intermediate;
}

const LayerStack& ModelShape::decoder() const {
  static const LayerStack none{.tokens = 1};
  return stacks.empty() ? none : stacks.back();
}
double ModelShape::layers() const {
  double total = 0;
  for (const LayerStack& stack : stacks) total += stack.layers;
  return total;
}
double ModelShape::layer_parameters() const {
  double total = 0;
  for (const LayerStack& stack : stacks) total += stack.weights() * (stack.parameters_shared ? 1 : stack.layers);
  return total;
}

std::vector<std::string> known_model_names() {
  std::vector<std::string> names;
  for (const auto& [name, fields] : known_models().items()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

ModelShape model_shape_of(std::string_view config, const std::string& model, double parameters) {
  if (!config.empty()) {
    const Json json = parse_json(config, "config");
    if (!json.is_object()) fail(ErrorKind::kUsage, "config: expected an object, found {}", json.type_name());
    const Fields fields(json);
    const bool useful =
        fields.has("forward_gflop_per_sample") || fields.has("text_config") || fields.has("llm_config") ||
        fields.has("language_config") ||
        ((fields.has("hidden_size") || fields.has("n_embd") || fields.has("d_model") || fields.has("dim")) &&
         (fields.has("num_hidden_layers") || fields.has("n_layer") || fields.has("n_layers") ||
          fields.has("num_layers") || fields.has("encoder_layers")));
    if (useful) {
      Json whole = json;
      // Fields that a case leaves out are those of the table.
      const Json* known = find_known(model);
      const double hidden = fields.number({"hidden_size", "n_embd", "d_model", "dim"});
      if (known && (hidden == 0 || !known->contains("hidden_size") || hidden == known->at("hidden_size").get<double>()))
        for (const auto& [name, value] : known->items())
          if (!whole.contains(name) && name != "parameters") whole[name] = value;
      return read_config(whole, model, parameters);
    }
  }
  if (const Json* known = find_known(model)) return read_config(*known, model, parameters);
  if (!(parameters > 0))
    fail(ErrorKind::kUsage,
         "model: unknown model {}{} Give a directory with config.json, a .gguf file, or a name that `transom plan "
         "--list_models` shows (in a case: config or parameters)",
         quoted(model), did_you_mean(model, known_model_names()));
  ModelShape result;
  result.name = model;
  result.model_type = "generic";
  result.parameters = parameters;
  result.stacks = {generic_stack(parameters)};
  result.vocabulary = 0;
  result.head = Head::kCausalLanguage;
  return result;
}

}  // namespace transom
