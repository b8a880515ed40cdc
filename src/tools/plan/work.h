// SPDX-License-Identifier: Apache-2.0
// What a forward pass has to do: operations, values that move through memory, launches. Nothing of any device.
#pragma once

#include "tools/plan/job.h"
#include "tools/plan/shape/model_shape.h"

namespace transom {

struct Work {
  double weight_flops = 0;     // products with weights
  double attention_flops = 0;  // products of activations
  double elements = 0;         // written between the products, each of which is read again
  double layers = 0;           // in units of a LLaMA layer's kernels
  double width = 1;            // columns of a typical product
  double rows = 1;             // and its rows
  double flops() const { return weight_flops + attention_flops; }
};

// Kernels of a layer, relative to those of LLaMA's (two norms, rotary embeddings, a gate).
double relative_kernels(const LayerStack& stack);

// Tokens of a sample in this stack; the job's sequence_length where the stack has no number of its own.
double tokens_of(const LayerStack& stack, double sequence);

// All layers of the stacks for so many samples. `context`: tokens before the new ones (decoding); `skip_causal`:
// kernels leave out what causal masks hide.
Work layers_forward(const ModelShape& shape, double samples, double sequence, double context, bool skip_causal);

// Embeddings' products and the head. `positions` are the rows that the head sees.
Work head_forward(const ModelShape& shape, double positions);

// Convolutions and patches, a number of samples.
Work convolutions_forward(const ModelShape& shape, double samples);

// Bytes of weights that a pass over so many tokens reads: of experts those that are touched.
double weights_touched(const ModelShape& shape, double tokens, bool all_experts);  // elements

// Elements of keys and values of one sequence of so many tokens; windows keep no more than their size.
double cache_elements(const ModelShape& shape, double tokens);

}  // namespace transom
