// SPDX-License-Identifier: Apache-2.0
// The decoder of an encoder-decoder that goes on from keys and values: decoder_with_past_model.onnx, or the branch of a
// merged file.
//
// Nothing tells such a graph which places of a past count, so that each length would be a program of its own. Tokens
// are therefore read in blocks: the past ends where the last full block ended, and the block is read again for each of
// its tokens, filled up with tokens behind the text, which change nothing before them.
#pragma once

#include <memory>
#include <string>

#include "models/nn/attention/cache.h"
#include "models/onnx/import/run/imported_graph.h"
#include "transom/model.h"

namespace transom::onnx {

class DecoderWithPast {
 public:
  // Nothing where the two graphs do not fit together, or `next` does not read several tokens as it reads them one by
  // one, which is tried out. `first` reads a text from its beginning and gives present.N.decoder.key, .value and
  // .encoder.key, .value; `next` takes these as past_key_values.N and gives the decoder's anew. No text has more than
  // `limit` tokens, unless that is 0.
  static std::unique_ptr<const DecoderWithPast> of(std::shared_ptr<const ImportedGraph> first,
                                                   std::shared_ptr<const ImportedGraph> next, int64_t limit);

  // The logits [B, V], f32, behind ids [B, T], which the cache has not seen yet; what the graphs give goes there. Any
  // number of threads may call it, each with a cache of its own.
  Tensor logits(const Tensor& ids, KeyValueCache& cache, const Computing& computing) const;

 private:
  DecoderWithPast() = default;
  bool reads_blocks() const;
  Tensor begin(const Tensor& ids, KeyValueCache& cache, const Computing& computing) const;
  Tensor go_on(const Tensor& ids, KeyValueCache& cache, const Computing& computing) const;

  std::shared_ptr<const ImportedGraph> first_, next_;
  int64_t layers_ = 0, limit_ = 0;
};

}  // namespace transom::onnx
