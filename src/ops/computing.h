// SPDX-License-Identifier: Apache-2.0
// What operations and layers compute under, as one object.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "transom/dtype.h"

namespace transom {

class CollectLookups;  // nn/sparse_lookups.h
struct ForwardContext;
class LinearObserver;  // nn/linear_observer.h
struct LowRankAdapter;
class NoisyEmbedding;  // nn/noisy_embedding.h
struct Parameter;

// Adapters by the parameters of their weights.
using AdapterSet = std::map<const Parameter*, LowRankAdapter>;

// Pointers are not owned, and null where there is none.
struct Computing {
  DType dtype = DType::kFloat32;         // of matrix products and convolutions, see Autocast (ops.h)
  bool tf32 = false;                     // see AllowTf32 (ops.h)
  bool int8 = false;                     // of linear layers, see QuantizedLinear (ops.h)
  bool batch_invariant = false;          // see ops/batch_invariance.h
  int64_t max_predictions = 0;           // see nn/labelled_positions.h
  const AdapterSet* adapters = nullptr;  // in place of the weights' own, see nn/lora.h
  ForwardContext* pass = nullptr;        // whose random draws the dropout of adapters takes, see nn/lora.h
  LinearObserver* observer = nullptr;
  NoisyEmbedding* noise = nullptr;
  CollectLookups* lookups = nullptr;
};

// That of the calling thread. All that operations and layers read of their thread is in it.
const Computing& computing();

// A key of what was traced under it, by which a trace may be kept; nothing where it refers to objects of its caller:
// then a trace is for this once.
std::optional<std::string> key_of(const Computing& computing);

// Gives the calling thread's Computing another one, whole, while it lives.
class ComputingScope {
 public:
  explicit ComputingScope(const Computing& computing);
  ~ComputingScope();
  ComputingScope(const ComputingScope&) = delete;
  ComputingScope& operator=(const ComputingScope&) = delete;

 private:
  Computing before_;
};

// Sets one field of the calling thread's Computing and gives what it was. For the classes that set it while they live;
// each sets it back.
template <typename T>
T set_computing(T Computing::*field, T value);

}  // namespace transom
