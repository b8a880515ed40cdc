// SPDX-License-Identifier: Apache-2.0
#include "models/sentences/sentence_modules.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/files/directories.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "models/next_token.h"
#include "models/sentences/module_file.h"
#include "models/sentences/module_list.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

// In the order in which the flags of older files put them behind each other.
struct ModeName {
  PoolingMode mode;
  const char *name, *flag;
};
constexpr ModeName kModes[] = {
    {PoolingMode::kCls, "cls", "pooling_mode_cls_token"},
    {PoolingMode::kMax, "max", "pooling_mode_max_tokens"},
    {PoolingMode::kMean, "mean", "pooling_mode_mean_tokens"},
    {PoolingMode::kMeanSqrtLength, "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    {PoolingMode::kWeightedMean, "weightedmean", "pooling_mode_weightedmean_tokens"},
    {PoolingMode::kLastToken, "lasttoken", "pooling_mode_lasttoken"},
};

constexpr std::pair<Similarity, const char*> kSimilarities[] = {{Similarity::kCosine, "cosine"},
                                                                {Similarity::kDot, "dot"},
                                                                {Similarity::kEuclidean, "euclidean"},
                                                                {Similarity::kManhattan, "manhattan"}};

PoolingMode mode_of(const Json& name, const std::string& where) {
  if (name.is_string())
    if (const auto mode = pooling_mode_of(name.get<std::string>())) return *mode;
  fail("{}: pooling_mode: expected {}, found {}", where, fmt::join(pooling_mode_names(), ", "),
       quoted(dump_json(name)));
}

void read_pooling(const fs::path& folder, SentenceModules& modules) {
  ModuleFile file(folder / "config.json");
  modules.pooling.clear();
  const Json given = file.get("pooling_mode");
  for (const ModeName& each : kModes)
    if (file.flag(each.flag, false) && given.is_null()) modules.pooling.push_back(each.mode);
  if (given.is_array())
    for (const Json& each : given) modules.pooling.push_back(mode_of(each, file.where()));
  else if (!given.is_null()) modules.pooling.push_back(mode_of(given, file.where()));
  if (modules.pooling.empty()) modules.pooling.push_back(PoolingMode::kMean);
  modules.include_prompt = file.flag("include_prompt", true);
  file.without_effect({"embedding_dimension", "word_embedding_dimension"});  // the model's own is there
  file.finish();
}

// "torch.nn.modules.activation.Tanh": only those of torch say what they are.
std::string activation_name(ModuleFile& file) {
  const std::string path = file.text("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string name = path.substr(path.rfind('.') + 1);
  if (!path.starts_with("torch.nn."))
    fail(ErrorKind::kUnsupported, "{}: activation_function: expected one of torch.nn, found {}", file.where(),
         quoted(path));
  return name;
}

SentenceLayer read_dense(const fs::path& folder) {
  ModuleFile file(folder / "config.json");
  SentenceLayer layer{.kind = SentenceLayer::Kind::kDense, .folder = folder};
  const auto inputs = file.count("in_features"), outputs = file.count("out_features");
  if (!inputs || !outputs) fail("{}: expected in_features and out_features", file.where());
  layer.inputs = *inputs, layer.outputs = *outputs;
  layer.bias = file.flag("bias", true);
  layer.residual = file.flag("use_residual", false);
  layer.activation = activation_name(file);
  file.only("module_input_name", "sentence_embedding");
  file.only("module_output_name", "sentence_embedding");
  file.finish();
  return layer;
}

SentenceLayer read_layer_norm(const fs::path& folder) {
  ModuleFile file(folder / "config.json");
  const auto dimension = file.count("dimension");
  if (!dimension) fail("{}: expected dimension", file.where());
  file.finish();
  return {.kind = SentenceLayer::Kind::kLayerNorm, .folder = folder, .inputs = *dimension, .outputs = *dimension};
}

void check_normalize(const fs::path& folder) {
  ModuleFile file(folder / "config.json");
  file.only("module_input_name", "sentence_embedding");
  file.only("module_output_name", "sentence_embedding");
  file.finish();
}

// sentence_bert_config.json of a Transformer, which older versions named after the model.
void read_transformer(const fs::path& folder, bool sparse, SentenceModules& modules) {
  fs::path path = folder / "sentence_bert_config.json";
  for (const char* type : {"roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"})
    if (!path_exists(path)) path = folder / fmt::format("sentence_{}_config.json", type);
  ModuleFile file(path_exists(path) ? path : folder / "sentence_bert_config.json");
  modules.max_seq_length = file.count("max_seq_length");
  modules.do_lower_case = file.flag("do_lower_case", false);
  file.without_effect({"unpad_inputs", "backend"});
  file.only("transformer_task", sparse ? "fill-mask" : "feature-extraction");
  file.only("module_output_name", "token_embeddings");
  for (const char* name : {"tokenizer_name_or_path", "query_length", "document_length", "query_expansion"})
    file.only(name, nullptr);
  ModuleFile modalities = file.object("modality_config");
  ModuleFile text = modalities.object("text");
  text.only("method", "forward");
  const char* output = sparse ? "logits" : "last_hidden_state";
  if (text.get("method_output_name") != Json::array({output})) text.only("method_output_name", output);
  text.finish();
  modalities.finish();
  ModuleFile processing = file.object("processing_kwargs");
  ModuleFile of_text = processing.object("text");
  if (const auto length = of_text.count("max_length")) modules.max_seq_length = length;
  if (of_text.get("truncation") != "longest_first") of_text.only("truncation", true);
  of_text.without_effect({"padding", "pad_to_multiple_of"});
  of_text.finish();
  for (const char* name : {"common", "audio", "image", "video", "chat_template"}) processing.object(name).finish();
  processing.finish();
  for (const char* name : {"model_args", "model_kwargs"}) {
    ModuleFile given = file.object(name);
    given.without_effect({"attn_implementation", "torch_dtype", "dtype", "trust_remote_code", "low_cpu_mem_usage",
                          "device_map", "use_safetensors", "add_pooling_layer"});
    given.finish();
  }
  for (const char* name : {"tokenizer_args", "processor_kwargs"}) {
    ModuleFile given = file.object(name);
    if (const auto length = given.count("model_max_length")) modules.max_seq_length = length;
    given.only("truncation_side", "right");
    given.without_effect({"padding_side", "use_fast", "trust_remote_code"});  // padding takes no part in a vector
    given.finish();
  }
  for (const char* name : {"config_args", "config_kwargs"}) {
    ModuleFile given = file.object(name);
    given.without_effect({"attn_implementation", "torch_dtype", "dtype", "trust_remote_code", "use_cache"});
    given.finish();
  }
  file.finish();
}

void read_encode_settings(const fs::path& directory, bool sparse, SentenceModules& modules) {
  ModuleFile file(directory / "config_sentence_transformers.json");
  file.without_effect({"__version__", "requirements"});
  file.only("model_type", sparse ? "SparseEncoder" : "SentenceTransformer");
  if (sparse) modules.max_active_dims = file.count("max_active_dims");
  const Json& prompts = file.get("prompts");
  if (!prompts.is_null() && !prompts.is_object())
    fail("{}: prompts: expected an object, found {}", file.where(), quoted(dump_json(prompts)));
  for (const auto& [name, text] : prompts.items()) {
    if (!text.is_string() && !text.is_null())
      fail("{}: prompts: {}: expected a text, found {}", file.where(), quoted(name), quoted(dump_json(text)));
    modules.prompts[name] = text.is_string() ? text.get<std::string>() : "";
  }
  if (const std::string name = file.text("default_prompt_name", ""); !name.empty()) {
    const auto found = modules.prompts.find(name);
    if (found != modules.prompts.end()) modules.default_prompt = found->second;
    else if (name != "query" && name != "document")  // which each model has, empty
      fail("{}: default_prompt_name: there is no prompt {}", file.where(), quoted(name));
  }
  const std::string similarity = file.text("similarity_fn_name", sparse ? "dot" : "cosine");
  const auto known = std::find_if(std::begin(kSimilarities), std::end(kSimilarities),
                                  [&](const auto& each) { return each.second == similarity; });
  if (known == std::end(kSimilarities))
    fail(ErrorKind::kUnsupported, "{}: similarity_fn_name: expected cosine, dot, euclidean or manhattan, found {}",
         file.where(), quoted(similarity));
  modules.similarity = known->first;
  modules.truncate_dim = file.count("truncate_dim");
  file.finish();
}

}  // namespace

std::string name_of(PoolingMode mode) {
  for (const ModeName& each : kModes)
    if (each.mode == mode) return each.name;
  return "";
}

std::optional<PoolingMode> pooling_mode_of(const std::string& name) {
  for (const ModeName& each : kModes)
    if (each.name == name) return each.mode;
  return std::nullopt;
}

std::vector<std::string> pooling_mode_names() {
  std::vector<std::string> names;
  for (const ModeName& each : kModes) names.emplace_back(each.name);
  return names;
}

std::vector<std::pair<PoolingMode, std::string>> pooling_flags() {
  std::vector<std::pair<PoolingMode, std::string>> flags;
  for (const ModeName& each : kModes) flags.emplace_back(each.mode, each.flag);
  return flags;
}

std::string name_of(Similarity similarity) {
  for (const auto& [known, name] : kSimilarities)
    if (known == similarity) return name;
  return "";
}

double similarity_of(Similarity similarity, const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0, of_a = 0, of_b = 0, square = 0, absolute = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double x = a[i], y = b[i];
    dot += x * y, of_a += x * x, of_b += y * y;
    square += (x - y) * (x - y), absolute += std::abs(x - y);
  }
  switch (similarity) {
    case Similarity::kDot:
      return dot;
    case Similarity::kEuclidean:
      return -std::sqrt(square);
    case Similarity::kManhattan:
      return -absolute;
    default:
      return dot / std::max(std::sqrt(of_a) * std::sqrt(of_b), 1e-12);
  }
}

SentenceModules read_sentence_modules(const fs::path& directory) {
  SentenceModules modules;
  const fs::path file = directory / "modules.json";
  std::vector<ModuleEntry> entries;
  if (path_exists(file)) entries = read_module_list(file);
  const bool sparse = std::any_of(entries.begin(), entries.end(),
                                  [](const ModuleEntry& entry) { return entry.kind == kSpladePooling; });
  read_encode_settings(directory, sparse, modules);
  if (entries.empty()) {
    if (!has_model_config(directory)) return modules;
    const Config config = read_model_config(directory);
    const Json& json = json_of(config);
    const bool causal = predicts_next_token(json) && json.value("is_causal", Json()) != false;
    if (causal) modules.pooling = {PoolingMode::kLastToken};
    return modules;
  }
  modules.declared = true;
  bool pooled = false;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [kind, path] = entries[i];
    const fs::path folder = directory / path;
    const bool is_model = kind == "Transformer" || (sparse && kind == "MLMTransformer");
    if ((i == 0) != is_model)
      fail(ErrorKind::kUnsupported, "{}: expected the Transformer as the first module, found {} as module {}",
           file.string(), kind, i);
    if (is_model) {
      modules.transformer = path;
      read_transformer(folder, sparse, modules);
    } else if (sparse) {
      if (kind != kSpladePooling || pooled)
        fail(ErrorKind::kUnsupported, "{}: expected a model and one {} behind it, found {} too", file.string(),
             kSpladePooling, kind);
      pooled = true;
      modules.sparse = SparsePooling::read(folder);
    } else if (kind == "Pooling") {
      if (pooled) fail(ErrorKind::kUnsupported, "{}: expected one Pooling, found two", file.string());
      pooled = true;
      read_pooling(folder, modules);
    } else if (kind == "Dropout") {  // of training alone
      ModuleFile(folder / "config.json").get("dropout");
    } else if (kind == "Dense" || kind == "LayerNorm" || kind == "Normalize") {
      if (!pooled) fail(ErrorKind::kUnsupported, "{}: {} before the Pooling is not supported", file.string(), kind);
      if (kind == "Normalize") check_normalize(folder);
      modules.layers.push_back(kind == "Dense"       ? read_dense(folder)
                               : kind == "LayerNorm" ? read_layer_norm(folder)
                                                     : SentenceLayer{});
      modules.layers.back().path = path.generic_string();
    } else {
      fail(ErrorKind::kUnsupported,
           "{}: the module {} is not supported; Transformer, Pooling, Dense, LayerNorm, Normalize and Dropout are",
           file.string(), quoted(kind));
    }
  }
  if (!pooled)
    fail(ErrorKind::kUnsupported, "{}: expected a Pooling behind the Transformer, found none", file.string());
  return modules;
}

std::string sentence_model_type(const fs::path& directory) {
  const fs::path file = directory / "config_sentence_transformers.json";
  return ModuleFile(file).text("model_type", "SentenceTransformer");
}

}  // namespace transom
