// SPDX-License-Identifier: Apache-2.0
// The rules of Transformers 4: modeling_tf_pytorch_utils.py, modeling_flax_pytorch_utils.py, and
// load_tf_weights_in_bert, _albert, _electra and _t5.
#include "files/foreign/parameter_names.h"

#include <algorithm>
#include <array>

namespace transom {
namespace {

using Parts = std::vector<std::string>;

Parts split(std::string_view text) {
  Parts parts;
  while (true) {
    const size_t end = text.find('/');
    if (end != 0) parts.emplace_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(const Parts& parts, size_t from = 0) {
  std::string text;
  for (size_t i = from; i < parts.size(); ++i) text += (text.empty() ? "" : ".") + parts[i];
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "layer_11" -> "layer", "11"; "albert_layers_0" stays.
void split_number(const std::string& part, Parts& parts) {
  const size_t at = part.find('_');
  const bool numbered = at != part.npos && is_number(std::string_view(part).substr(at + 1)) &&
                        std::all_of(part.begin(), part.begin() + static_cast<ptrdiff_t>(at),
                                    [](unsigned char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; });
  if (!numbered) return parts.push_back(part);
  parts.push_back(part.substr(0, at));
  parts.push_back(std::to_string(std::stoi(part.substr(at + 1, 9))));
}

bool belongs_to_training(std::string_view part) {
  static constexpr std::array<std::string_view, 12> kWords = {"adam_v",
                                                              "adam_m",
                                                              "Adam",
                                                              "Adam_1",
                                                              "AdamWeightDecayOptimizer",
                                                              "AdamWeightDecayOptimizer_1",
                                                              "lamb_m",
                                                              "lamb_v",
                                                              "global_step",
                                                              "beta1_power",
                                                              "beta2_power",
                                                              "temperature"};
  return std::find(kWords.begin(), kWords.end(), part) != kWords.end() || part.find("_slot_") != part.npos ||
         part == "_CHECKPOINTABLE_OBJECT_GRAPH" || part == "save_counter";
}

// ALBERT's names follow the graph of its code, Transformers' those of its modules.
std::string albert_modules(std::string name) {
  constexpr std::pair<std::string_view, std::string_view> kRenames[] = {
      {"module/", ""},
      {"ffn_1", "ffn"},
      {"bert/", "albert/"},
      {"attention_1", "attention"},
      {"transform/", ""},
      {"LayerNorm_1", "full_layer_layer_norm"},
      {"LayerNorm", "attention/LayerNorm"},
      {"transformer/", ""},
      {"intermediate/dense/", ""},
      {"ffn/intermediate/output/dense/", "ffn_output/"},
      {"/output/", "/"},
      {"/self/", "/"},
      {"pooler/dense", "pooler"},
      {"cls/predictions", "predictions"},
      {"predictions/attention", "predictions"},
      {"embeddings/attention", "embeddings"},
      {"inner_group_", "albert_layers/"},
      {"group_", "albert_layer_groups/"},
      {"cls/seq_relationship/output_", "sop_classifier/classifier/"},
      {"seq_relationship/output_", "sop_classifier/classifier/"}};
  for (const auto& [from, to] : kRenames) replace_all(name, from, to);
  if (name.ends_with("classifier/weights")) name.pop_back();
  return name;
}

std::string electra_modules(std::string name) {
  replace_all(name, "dense_1", "dense_prediction");
  replace_all(name, "generator_predictions/output_bias", "generator_lm_head/bias");
  return name;
}

ParameterName name_of_mesh_variable(std::string_view name) {
  Parts parts;
  for (const std::string& part : split(name)) {
    if (part == "rms_norm") parts.push_back("final_layer_norm");
    else if (part == "wi_0" || part == "wi_1") parts.push_back(part);
    else split_number(part, parts);
  }
  const std::string leaf = parts.empty() ? "" : parts.back();
  if (leaf == "kernel" || leaf == "scale" || leaf == "embedding") parts.back() = "weight";
  else parts.push_back("weight");  // "SelfAttention/q" is the matrix itself
  if (parts.size() == 3 && parts[0] == "decoder" && parts[1] == "logits") parts = {"lm_head", "weight"};
  if (parts.size() == 2 && parts[0] == "logits") parts = {"lm_head", "weight"};
  return {join(parts), leaf != "embedding" && leaf != "scale"};
}

}  // namespace

ParameterName name_of_keras_weight(std::string_view path, bool in_shard) {
  Parts parts = split(path);
  if (!parts.empty() && parts.back().ends_with(":0")) parts.back().resize(parts.back().size() - 2);
  if (!in_shard && parts.size() > 1) parts.erase(parts.begin());  // the layer of Keras, which the weight's name repeats
  if (!in_shard && parts.size() > 1) parts.erase(parts.begin());  // the model
  if (in_shard && parts.size() > 1 && parts[0] == parts[1]) parts.erase(parts.begin());  // "model.shared/model.shared"
  Parts modules;
  for (std::string& part : parts) {
    if (const size_t at = part.rfind("___"); at != part.npos) part.erase(0, at + 3);  // "nsp___cls"
    size_t begin = 0;
    for (size_t at; (at = part.find("_._", begin)) != part.npos; begin = at + 3)  // "layer_._0"
      modules.push_back(part.substr(begin, at - begin));
    modules.push_back(part.substr(begin));
  }
  if (modules.size() > 1 && modules[0] == "clip")
    modules.erase(modules.begin());  // in PyTorch its parts are the model's
  if (modules.empty()) return {std::string(path), false};
  std::string& leaf = modules.back();
  const bool transposed = leaf == "kernel" || leaf == "pointwise_kernel" || leaf == "depthwise_kernel";
  if (leaf == "kernel" || leaf == "embeddings" || leaf == "gamma" || leaf == "depthwise_kernel") leaf = "weight";
  else if (leaf == "pointwise_kernel") leaf = "pointwise.weight";
  else if (leaf == "beta") leaf = "bias";
  else if (leaf == "moving_mean") leaf = "running_mean";
  else if (leaf == "moving_variance") leaf = "running_var";
  return {join(modules), transposed};
}

ParameterName name_of_flax_parameter(std::string_view path, bool has_statistics) {
  Parts parts = split(path);
  if (has_statistics && parts.size() > 1) parts.erase(parts.begin());
  if (parts.empty()) return {std::string(path), false};
  std::string& leaf = parts.back();
  const bool transposed = leaf == "kernel";
  if (leaf == "kernel" || leaf == "scale" || leaf == "embedding") leaf = "weight";
  else if (leaf == "mean") leaf = "running_mean";
  else if (leaf == "var") leaf = "running_var";
  return {join(parts), transposed};
}

GoogleModel google_model_of(const std::vector<std::string>& variables) {
  for (const std::string& name : variables) {
    if (name.find("inner_group_") != name.npos) return GoogleModel::kAlbert;
    if (name.find("block_0") != name.npos && name.find("layer_0") != name.npos) return GoogleModel::kMeshT5;
    if (name.starts_with("electra/") || name.starts_with("discriminator_predictions/") ||
        name.starts_with("generator_predictions/"))
      return GoogleModel::kElectra;
  }
  return GoogleModel::kBert;
}

std::optional<ParameterName> name_of_google_variable(std::string_view name, GoogleModel model) {
  for (const std::string& part : split(name))
    if (belongs_to_training(part)) return {};
  if (model == GoogleModel::kMeshT5) return name_of_mesh_variable(name);
  std::string path(name);
  if (model == GoogleModel::kAlbert) path = albert_modules(path);
  if (model == GoogleModel::kElectra) path = electra_modules(path);
  if (path == "output_weights" || path == "output_bias") path = "classifier/" + path;
  for (const std::string_view squad : {"cls/squad/", "squad/"})
    if (path.starts_with(squad)) path = "qa_outputs/" + path.substr(squad.size());
  Parts parts;
  for (const std::string& part : split(path)) split_number(part, parts);
  if (parts.empty()) return {};
  const std::string leaf = parts.back();
  if (leaf == "kernel" || leaf == "gamma" || leaf == "output_weights") parts.back() = "weight";
  else if (leaf == "beta" || leaf == "output_bias") parts.back() = "bias";
  else if (leaf.ends_with("_embeddings")) parts.push_back("weight");
  return ParameterName{join(parts), leaf == "kernel"};
}

std::vector<int64_t> torch_axes(size_t rank) {
  if (rank == 2) return {1, 0};
  if (rank == 3) return {2, 1, 0};
  if (rank == 4) return {3, 2, 0, 1};
  std::vector<int64_t> same;
  for (size_t i = 0; i < rank; ++i) same.push_back(static_cast<int64_t>(i));
  return same;
}

}  // namespace transom
