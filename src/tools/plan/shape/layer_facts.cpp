// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/shape/layer_facts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/generative.h"
#include "models/loading/maximum_tokens.h"
#include "models/records.h"
#include "tools/plan/shape/model_shape.h"
#include "transom/scope.h"

namespace transom {
namespace {

// Notes what modules ask for, and makes nothing.
class ShapeCollector : public ParameterSource {
 public:
  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, const Initial&) override {
    shapes.emplace(name, shape);
    return std::make_shared<Parameter>(Parameter{name, {}});
  }
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type&, const Initial&) override {
    return std::make_shared<Parameter>(Parameter{name, {}});
  }
  void tied(const std::string& name, const std::shared_ptr<Parameter>&, Tie) override { ties.insert(name); }
  void derived(const std::string&) override {}
  bool holds(const std::string&) const override { return false; }

  std::map<std::string, Shape> shapes;
  std::set<std::string> ties;
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_of_attention(const std::string& name) {
  return contains(name, "attn") || contains(name, "attention") || contains(name, "Attention");
}

// Where the first number of a name stands, behind a dot: the layer's; npos: there is none.
size_t place_of_number(std::string_view name) {
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
    if (dot + 1 < name.size() && name[dot + 1] >= '0' && name[dot + 1] <= '9') return dot + 1;
  return name.npos;
}

// The layers that attend, by their numbers: each with its parameters, by their names behind it. Of several stacks the
// first by name, or of an encoder and its decoder the encoder, whose layers have no part that looks at the other.
using Layers = std::map<std::string, std::map<std::string, Shape>>;
Layers layers_of(const std::map<std::string, Shape>& shapes, ModelKind kind) {
  std::map<std::string, Layers> stacks;
  for (const auto& [name, shape] : shapes) {
    const size_t number = place_of_number(name), end = name.find('.', number);
    if (number == name.npos || end == name.npos) continue;
    stacks[name.substr(0, number)][name.substr(number, end - number)].emplace(name.substr(end + 1), shape);
  }
  const Layers* chosen = nullptr;
  for (const auto& [path, layers] : stacks) {
    const auto& first = layers.begin()->second;
    if (std::none_of(first.begin(), first.end(), [](const auto& item) { return is_of_attention(item.first); }))
      continue;
    const bool smaller = chosen && first.size() < chosen->begin()->second.size();
    if (!chosen || (kind == ModelKind::kTwoStacks && smaller)) chosen = &layers;
  }
  return chosen ? *chosen : Layers();
}

// The matrices of a layer's feed-forward part, by how many times its width and its inner width they have. With a gate
// these are three, whether two of them lie in one tensor or not. Of experts those of the first.
double feed_forward_matrices(const std::map<std::string, Shape>& layer, int64_t width) {
  const bool experts =
      std::any_of(layer.begin(), layer.end(), [](const auto& item) { return contains(item.first, "experts."); });
  double elements = 0;
  int64_t inner = 0;
  for (const auto& [name, shape] : layer) {
    const bool joined = contains(name, "experts.") && shape.size() == 3;  // the matrices of all experts
    if ((shape.size() != 2 && !joined) || is_of_attention(name)) continue;
    if (experts && !joined && !contains(name, "experts.0.")) continue;
    const int64_t rows = shape[joined ? 1 : 0], columns = shape[joined ? 2 : 1], other = rows == width ? columns : rows;
    inner = inner == 0 ? other : std::min(inner, other);
    elements += static_cast<double>(rows) * static_cast<double>(columns);
  }
  return inner > 0 && width > 0 ? elements / (static_cast<double>(width) * static_cast<double>(inner)) : 0;
}

void add_layers(const ShapeCollector& collector, LayerFacts& facts) {
  const Layers layers = layers_of(collector.shapes, facts.kind);
  if (layers.empty()) return;
  facts.shared = layers.size() == 1;  // of two
  double norms = 0;
  int64_t width = 0;
  for (const auto& [number, layer] : layers) {
    double own = 0;
    for (const auto& [name, shape] : layer)
      if (shape.size() == 1 && name.ends_with("weight")) own += 1, width = std::max(width, shape[0]);
    norms = std::max(norms, own);
  }
  if (norms > 0) facts.norms = norms;
  constexpr double kBetweenTwoAndThree = 2.75;  // an encoder may have some matrices more
  facts.gated = feed_forward_matrices(layers.begin()->second, width) > kBetweenTwoAndThree;
}

// The configuration with what a case leaves out, in each family's words, and two layers.
Config with_two_layers(Json fields, const LayerStack& widths) {
  const auto fill = [&](std::initializer_list<const char*> names, double value, bool anyway = false) {
    for (const char* name : names)
      if (anyway || !fields.contains(name) || fields[name].is_null()) fields[name] = static_cast<int64_t>(value);
  };
  fill({"num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
        "num_decoder_layers"},
       2, true);
  fill({"hidden_size", "n_embd", "d_model", "dim"}, widths.hidden);
  fill({"num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"},
       widths.heads);
  fill({"num_key_value_heads"}, widths.key_value_heads);
  fill({"intermediate_size", "ffn_dim", "d_ff", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner"},
       widths.intermediate);
  fill({"d_kv", "head_dim"}, widths.head_dim);
  fill({"vocab_size"}, 1000);
  for (const char* by_layer : {"layer_types", "architectures", "quantization_config"}) fields.erase(by_layer);
  return make_config(std::move(fields), "config");
}

// The class's parameters; nothing where it refuses the configuration.
struct Trace {
  ShapeCollector collector;
  std::unique_ptr<Model> model;
};
std::unique_ptr<Trace> trace(const Architecture* architecture, const Config& config) {
  if (!architecture) return nullptr;
  auto result = std::make_unique<Trace>();
  try {
    result->model = architecture->make(config, Scope(result->collector));
  } catch (const Error&) {
    return nullptr;
  }
  return result;
}

ModelKind kind_of(const Family& family) {
  using Kind = FamilyInput::Kind;
  const auto reads = [&](Kind kind) {
    return std::any_of(family.inputs->begin(), family.inputs->end(),
                       [&](const FamilyInput& input) { return input.kind == kind; });
  };
  if (reads(Kind::kDecoderTokens)) return ModelKind::kTwoStacks;
  if (find_architecture(family, HeadTask::kCausalLM)) return ModelKind::kText;  // pictures become tokens of the text
  if (reads(Kind::kPixels)) return reads(Kind::kTokens) ? ModelKind::kTwoTowers : ModelKind::kPictures;
  if (reads(Kind::kSpectrum) && !reads(Kind::kTokens)) return ModelKind::kSpectra;
  return reads(Kind::kSamples) ? ModelKind::kSamples : ModelKind::kText;
}

LayerFacts facts_of(const Json& json, const Family& family, const LayerStack& widths) {
  LayerFacts facts{.kind = kind_of(family),
                   .causal = false,
                   .fused_attention = *family.planning.fused_attention,
                   .local_share = family.planning.local_share};
  const Config config = with_two_layers(json, widths);
  if (const auto body = trace(find_architecture(family, HeadTask::kBody), config)) {
    facts.causal = facts.kind == ModelKind::kText && dynamic_cast<const GenerativeModel*>(body->model.get());
    add_layers(body->collector, facts);
  }
  const HeadTask writes = facts.kind == ModelKind::kTwoStacks ? HeadTask::kSequenceToSequence
                          : facts.causal                      ? HeadTask::kCausalLM
                                                              : HeadTask::kMaskedLM;
  const Architecture* writer = find_architecture(family, writes);
  if (const auto whole = trace(writer, config))
    for (const std::string& layer : *writer->head.vocabulary)
      facts.tied = facts.tied || whole->collector.ties.contains(layer + ".weight");
  constexpr int64_t kTextsOfClip = 77;
  if (facts.kind == ModelKind::kTwoTowers)
    facts.text_tokens = static_cast<double>(maximum_tokens(make_config(json, "config")).value_or(kTextsOfClip));
  return facts;
}

bool is_named(const std::string& text, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return text == name; });
}
bool begins_with_one_of(const std::string& text, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return text.starts_with(name); });
}

// Types that Transom plans for and cannot load.
LayerFacts facts_by_name(const std::string& type) {
  if (type.empty()) return {.gated = true, .fused_attention = true};  // what most configurations are of
  LayerFacts facts;
  facts.causal =
      !is_named(type, {"bert_pretraining", "vision-text-dual-encoder", "bridgetower", "conformer", "generic_encoder"});
  facts.gated = begins_with_one_of(type, {"llama", "mistral", "mixtral", "qwen", "gemma", "deepseek", "chatglm", "glm",
                                          "mllama", "idefics", "llava", "cohere", "granite", "olmo"}) ||
                is_named(type, {"internlm2", "baichuan", "xverse", "yi", "decilm"});
  facts.fused_attention = facts.gated;
  facts.tied = type.starts_with("gemma");
  facts.norms = type.starts_with("gemma3") ? 6 : begins_with_one_of(type, {"gemma2", "qwen3"}) ? 4 : 2;
  facts.local_share = type.starts_with("gemma3") ? 5.0 / 6 : 1;
  facts.shared_experts = type.starts_with("deepseek") ? 2 : 0;
  if (type == "speech_to_text") facts.kind = ModelKind::kTwoStacks;
  if (is_named(type, {"vision-text-dual-encoder", "bridgetower"})) {
    facts.kind = ModelKind::kTwoTowers;
    facts.text_tokens = type == "bridgetower" ? 50 : 128;
  }
  return facts;
}

}  // namespace

LayerFacts layer_facts(const Json& config, const std::string& model_type, const LayerStack& widths) {
  const Family* family = find_family(model_type);
  return family ? facts_of(config, *family, widths) : facts_by_name(model_type);
}

double frames_of_sound(const Json& config, const std::string& model_type) {
  const Family* family = find_family(model_type);
  if (!family) return 0;
  for (const FamilyInput& input : *family->inputs)
    if (input.kind == FamilyInput::Kind::kSpectrum)
      return static_cast<double>(extent_of(make_config(config, "config"), input.axes.back()).value_or(0) /
                                 input.axes.back().times);
  return 0;
}

}  // namespace transom
