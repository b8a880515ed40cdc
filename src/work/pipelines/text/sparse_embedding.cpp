// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/text/sparse_embedding.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The module that pools the scores; null where there is none.
Json splade_module(const fs::path& directory) {
  const fs::path file = directory / "modules.json";
  if (!path_exists(file)) return nullptr;
  const Json modules = read_json(file);
  if (!modules.is_array()) return nullptr;
  for (const Json& module : modules) {
    const Json type = module.is_object() ? module.value("type", Json()) : Json();
    if (type.is_string() && type.get_ref<const std::string&>().ends_with("SpladePooling")) return module;
  }
  return nullptr;
}

}  // namespace

bool SparsePooling::is_of(const fs::path& directory) { return !splade_module(directory).is_null(); }

SparsePooling SparsePooling::read(const fs::path& directory) {
  SparsePooling pooling;
  const Json module = splade_module(directory);
  if (module.is_null()) return pooling;
  const Json path = module.value("path", Json("1_SpladePooling"));
  if (!path.is_string() || path.get_ref<const std::string&>().find("..") != std::string::npos ||
      path.get_ref<const std::string&>().starts_with("/"))
    fail("{}: expected the folder of SpladePooling within the directory, found {}",
         (directory / "modules.json").string(), quoted(dump_json(path)));
  const fs::path file = directory / path.get<std::string>() / "config.json";
  const Json config = read_json(file);
  const auto choice = [&](const char* name, const char* usual, const char* other) {
    const Json value = config.is_object() ? config.value(name, Json(usual)) : Json();
    if (value != usual && value != other)
      fail("{}: {}: expected {} or {}, found {}", file.string(), name, usual, other, quoted(dump_json(value)));
    return value == other;
  };
  pooling.sum = choice("pooling_strategy", "max", "sum");
  pooling.log_twice = choice("activation_function", "relu", "log1p_relu");
  return pooling;
}

std::vector<std::vector<float>> sparse_embeddings(const TextModel& model, const std::vector<Encoding>& encodings,
                                                  const SparsePooling& pooling) {
  const NoGradient inference;
  std::vector<const Encoding*> batch;
  for (const Encoding& encoding : encodings) batch.push_back(&encoding);
  const Tensor scores = model.model->forward(model.inputs_of(batch)).at("logits");    // [B, T, V]
  const Tensor counted = unsqueeze(cast(model.mask_of(batch), DType::kFloat32), -1);  // [B, T, 1]
  Tensor weights = log1p(relu(cast(scores, DType::kFloat32) * counted));
  if (pooling.log_twice) weights = log1p(weights);
  weights = pooling.sum ? reduce_sum(weights, {1}) : reduce_max(weights, {1});  // [B, V]
  const std::vector<float> values = weights.to_vector<float>();
  const auto width = static_cast<ptrdiff_t>(weights.dim(1));
  std::vector<std::vector<float>> vectors;
  for (auto begin = values.begin(); begin != values.end(); begin += width) vectors.emplace_back(begin, begin + width);
  return vectors;
}

}  // namespace transom
