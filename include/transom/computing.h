// SPDX-License-Identifier: Apache-2.0
// What operations and layers compute under, as one object, which each call is given: nothing of it stands beside the
// call. Operations take a Computing, layers the ForwardContext (model.h) that holds one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "transom/dtype.h"

// The default of an argument in front of a Computing, and of that itself. Transom's own sources have none, so that a
// call there which does not hand on what it was given does not compile.
#ifdef TRANSOM_LIBRARY
#define TRANSOM_DEFAULT(value)
#else
#define TRANSOM_DEFAULT(value) = value
#endif

namespace transom {

class LinearObserver;  // nn/linear_observer.h
class NoisyEmbedding;  // nn/noisy_embedding.h
struct Parameter;
struct SparseLookup;  // nn/sparse_lookups.h
class WeightAdapter;  // nn/weight_adapter.h

// Adapters by the parameters of their weights.
using AdapterSet = std::map<const Parameter*, std::shared_ptr<const WeightAdapter>>;

// Pointers are not owned, and null where there is none.
struct Computing {
  // bfloat16 or float16: matrix products and convolutions of f32 are computed in it, softmax, norms and losses of it in
  // f32, as with torch.autocast. float32: each operation in the type of its operands.
  DType dtype = DType::kFloat32;
  // A device may round the f32 operands of matrix products and convolutions, and of their gradients, to TF32 (10 bits
  // after the point) and add in f32, as with torch.backends.cuda.matmul.allow_tf32: NVIDIA's from Ampere on and MI300
  // are several times as fast then. Nodes carry it as the attribute `tf32`; devices without TF32 ignore it.
  bool tf32 = false;
  // Linear layers, and convolutions of images, compute in 8-bit integers: each row of the input and each row of the
  // weight is rounded to 255 steps of its own scale. They have no gradients then.
  bool int8 = false;
  // Products, convolutions and attention carry the attribute `batch_invariant`: a device that knows it gives each row
  // of x, image or query the bits that it has beside any number of others (He et al., "Defeating nondeterminism in LLM
  // inference", 2025). Others ignore it.
  bool batch_invariant = false;
  // Heads of masked language models in training see so many positions of a sequence: those with labels. 0: all.
  int64_t max_predictions = 0;
  const AdapterSet* adapters = nullptr;          // of weights, in place of their own
  LinearObserver* observer = nullptr;            // sees what linear layers read
  NoisyEmbedding* noise = nullptr;               // on the embeddings of tokens
  std::vector<SparseLookup>* lookups = nullptr;  // receives what models look up in their sparse tables
};

// Each operation in the type of its operands, and nothing else.
inline constexpr Computing kAsGiven{};

}  // namespace transom
