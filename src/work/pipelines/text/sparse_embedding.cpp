// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/text/sparse_embedding.h"

#include <algorithm>
#include <numeric>

#include "models/sentences/module_list.h"
#include "models/sentences/sentence_modules.h"
#include "transom/ops.h"

namespace transom {

SparsePooling sparse_pooling_of(const std::filesystem::path& directory) {
  if (!names_module(directory, kSpladePooling)) return {};
  return read_sentence_modules(directory).sparse.value_or(SparsePooling());
}

std::vector<std::vector<float>> sparse_embeddings(const TextModel& model, const std::vector<Encoding>& encodings,
                                                  const SparsePooling& pooling) {
  const NoGradient inference;
  std::vector<const Encoding*> batch;
  for (const Encoding& encoding : encodings) batch.push_back(&encoding);
  const Tensor weights =
      sparse_weights(model.model->forward(model.inputs_of(batch)).at("logits"), model.mask_of(batch), pooling);
  const std::vector<float> values = weights.to_vector<float>();
  const auto width = static_cast<ptrdiff_t>(weights.dim(1));
  std::vector<std::vector<float>> vectors;
  for (auto begin = values.begin(); begin != values.end(); begin += width) vectors.emplace_back(begin, begin + width);
  return vectors;
}

void keep_largest(std::vector<float>& weights, int64_t kept) {
  if (kept >= static_cast<int64_t>(weights.size())) return;
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  for (auto place = order.begin() + kept; place != order.end(); ++place) weights[*place] = 0;
}

}  // namespace transom
