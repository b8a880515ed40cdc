// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/text/sparse_embedding.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "models/sentences/module_file.h"
#include "models/sentences/module_list.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr std::string_view kSpladePooling = "SpladePooling";

}  // namespace

bool SparsePooling::is_of(const fs::path& directory) { return names_module(directory, kSpladePooling); }

SparsePooling SparsePooling::read(const fs::path& directory) {
  SparsePooling pooling;
  if (!is_of(directory)) return pooling;
  const fs::path list = directory / "modules.json";
  bool found = false;
  for (const auto& [kind, folder] : read_module_list(list)) {
    if (kind == "MLMTransformer" || kind == "Transformer") {
      if (found || !folder.empty())
        fail(ErrorKind::kUnsupported, "{}: expected {} as the first module and in the directory itself", list.string(),
             kind);
      continue;
    }
    if (kind != kSpladePooling || found)
      fail(ErrorKind::kUnsupported, "{}: expected a language model and one {} behind it, found {} too", list.string(),
           kSpladePooling, kind);
    found = true;
    ModuleFile file(directory / folder / "config.json");
    const auto choice = [&](const char* name, const char* usual, const char* other) {
      const std::string value = file.text(name, usual);
      if (value != usual && value != other)
        fail("{}: {}: expected {} or {}, found {}", file.where(), name, usual, other, quoted(value));
      return value == other;
    };
    pooling.sum = choice("pooling_strategy", "max", "sum");
    pooling.log_twice = choice("activation_function", "relu", "log1p_relu");
    file.without_effect({"word_embedding_dimension", "embedding_dimension", "chunk_size"});
    file.finish();
  }
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
