// SPDX-License-Identifier: Apache-2.0
// The keys and values of a decoder-only graph: inputs past_key_values.N.key and .value, outputs present.N.key and
// .value.
//
// Graphs differ in how they know the place of a token. One that is told positions, or counts them by the mask, is given
// all places of the cache, filled or not, and a mask that hides the empty ones: every step has one shape. One that
// counts the places of the past, or has a sliding window, which is counted in places, too, is given what was seen and
// no more: tokens are then read in blocks (decoder_with_past.h), so that few lengths are few programs. Which of both
// holds is tried out before the first text.
#pragma once

#include <memory>
#include <mutex>

#include "models/nn/attention/cache.h"
#include "models/onnx/import/run/imported_graph.h"
#include "transom/model.h"

namespace transom::onnx {

class TextPast {
 public:
  // `window`: how many tokens back a token sees at most, itself included; 0: all. No text has more than `limit` tokens,
  // unless that is 0.
  TextPast(std::shared_ptr<const ImportedGraph> graph, int64_t window, int64_t limit);

  // Whether the graph goes on from keys and values as this class gives them; if not, the whole text is read for each
  // token. The first call tries it out.
  bool works() const { return way() != Way::kNone; }
  // Whether every step behind the prompt has one shape.
  bool one_shape() const { return way() == Way::kPadded && window_ == 0; }

  // The logits [B, V], f32, behind ids [B, T], which the cache has not seen yet; keys and values go there. Any number
  // of threads may call it, each with a cache of its own.
  Tensor logits(const Tensor& ids, const Tensor& positions, KeyValueCache& cache, const Computing& computing) const;

 private:
  enum class Way { kNone, kPadded, kBlocks };
  Way way() const;
  Way find_way() const;
  int64_t layers_of_graph() const;
  bool keeps_tokens() const { return !one_shape(); }
  void append(const NamedTensors& outputs, const Tensor& ids, int64_t from, KeyValueCache& cache) const;
  Tensor from_padded(const Tensor& ids, const Tensor& positions, KeyValueCache& cache,
                     const Computing& computing) const;
  Tensor from_blocks(const Tensor& ids, KeyValueCache& cache, const Computing& computing) const;
  // Of ids [B, T] behind `past` (two tensors [B, heads, P, size] a layer), with a mask [B, P + T].
  NamedTensors run(const Tensor& ids, const Tensor& mask, const Tensor& positions, const std::vector<Tensor>& past,
                   const Computing& computing) const;

  std::shared_ptr<const ImportedGraph> graph_;
  bool takes_positions_;
  int64_t window_, limit_, layers_;
  mutable std::once_flag tried_;
  mutable Way way_ = Way::kNone;
};

}  // namespace transom::onnx
