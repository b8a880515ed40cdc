// SPDX-License-Identifier: Apache-2.0
#include "pipelines/text/sentence_embedding.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/threads/prefetcher.h"
#include "transom/ops.h"

namespace transom {
namespace {

// What modules.json of sentence-transformers says.
Pooling read_pooling(const fs::path& directory) {
  const fs::path modules = directory / "modules.json";
  Pooling pooling;
  if (!path_exists(modules)) {
    pooling.kind = Pooling::Kind::kMean;
    return pooling;
  }
  const Json list = read_json(modules);
  if (!list.is_array()) fail("{}: expected a list of modules", modules.string());
  for (const Json& module : list) {
    const std::string type = module.is_object() && module.contains("type") && module["type"].is_string()
                                 ? module["type"].get<std::string>()
                                 : "";
    if (type.ends_with("Normalize")) pooling.normalize = true;
    if (!type.ends_with("Pooling")) continue;
    const std::string path = module.value("path", std::string("1_Pooling"));
    if (path.find("..") != path.npos || path.starts_with("/"))
      fail("{}: the path {} leads out of the directory", modules.string(), quoted(path));
    const Json config = read_json(directory / path / "config.json");
    const auto mode = [&](const char* name) { return config.contains(name) && config[name] == true; };
    if (mode("pooling_mode_cls_token") || config.value("pooling_mode", Json()) == "cls")
      pooling.kind = Pooling::Kind::kCls;
    else if (mode("pooling_mode_mean_tokens") || config.value("pooling_mode", Json()) == "mean")
      pooling.kind = Pooling::Kind::kMean;
    else fail("{}: expected pooling by cls or mean", (directory / path / "config.json").string());
  }
  return pooling;
}

// hidden [B, T, D], mask [B, T] -> [B, D]
Tensor pooled(const Tensor& hidden, const Tensor& mask, const Pooling& pooling) {
  const int64_t width = hidden.dim(2);
  Tensor result;
  if (pooling.kind == Pooling::Kind::kCls) {
    result = reshape(slice(hidden, 1, 0, 1), {hidden.dim(0), width});
  } else {
    const Tensor counted = unsqueeze(cast(mask, DType::kFloat32), -1);  // [B, T, 1]
    result = reduce_sum(hidden * counted, {1}) / maximum(reduce_sum(counted, {1}), constant(1e-9));
  }
  if (!pooling.normalize) return result;
  return result / maximum(sqrt(reduce_sum(result * result, {-1}, true)), constant(1e-12));
}

constexpr int64_t kTogether = 2048;  // texts that are tokenised and sorted together

}  // namespace

Pooling Pooling::parse(const std::string& name, const std::filesystem::path& directory) {
  if (name == "none") return {};
  if (name == "mean") return {Kind::kMean};
  if (name == "cls") return {Kind::kCls};
  if (name == "auto") return read_pooling(directory);
  fail("pooling: expected none, auto, mean or cls, found {}", quoted(name));
}

// Batches are of texts of like length, so that little is padding.
std::vector<std::vector<float>> embed(const TextModel& model, const std::vector<Encoding>& encodings,
                                      const Pooling& pooling) {
  const NoGradient inference;
  constexpr size_t kBatch = 32;
  std::vector<size_t> order(encodings.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return encodings[a].size() > encodings[b].size(); });
  std::vector<std::vector<float>> vectors(encodings.size());
  for (size_t first = 0; first < order.size(); first += kBatch) {
    std::vector<const Encoding*> batch;
    for (size_t i = first; i < std::min(order.size(), first + kBatch); ++i) batch.push_back(&encodings[order[i]]);
    const NamedTensors inputs = model.inputs_of(batch);
    const Tensor hidden = model.model->forward(inputs).at("last_hidden_state");
    const Tensor vector = pooled(hidden, model.mask_of(batch), pooling);
    const std::vector<float> values = vector.to_vector<float>();
    const auto width = static_cast<ptrdiff_t>(vector.dim(1));
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(i) * width;
      vectors[order[first + i]].assign(begin, begin + width);
    }
  }
  return vectors;
}

std::vector<std::vector<float>> embed(const TextModel& model, const std::vector<std::string>& texts,
                                      const Pooling& pooling) {
  const NoGradient inference;
  const auto count = static_cast<int64_t>(texts.size());
  Prefetcher<std::vector<Encoding>> parts((count + kTogether - 1) / kTogether, [&](int64_t number) {
    const auto first = texts.begin() + number * kTogether;
    return model.encode({first, first + std::min(kTogether, count - number * kTogether)});
  });
  std::vector<std::vector<float>> vectors;
  while (parts.left() > 0)
    for (std::vector<float>& vector : embed(model, parts.next(), pooling)) vectors.push_back(std::move(vector));
  return vectors;
}

}  // namespace transom
