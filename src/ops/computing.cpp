// SPDX-License-Identifier: Apache-2.0
#include "ops/computing.h"

#include <fmt/format.h>

namespace transom {
namespace {

thread_local Computing of_thread;

}  // namespace

const Computing& computing() { return of_thread; }

std::optional<std::string> key_of(const Computing& computing) {
  // A new field does not compile here until it has its place.
  const auto& [dtype, tf32, int8, batch_invariant, max_predictions, adapters, pass, observer, noise, lookups] =
      computing;
  // The pass gives random draws to training alone, of which no trace is kept.
  static_cast<void>(pass);
  if (adapters || observer || noise || lookups) return std::nullopt;
  return fmt::format("{} {}{}{} {}", static_cast<int>(dtype), tf32 ? "t" : "", int8 ? "q" : "",
                     batch_invariant ? "i" : "", max_predictions);
}

ComputingScope::ComputingScope(const Computing& computing) : before_(std::exchange(of_thread, computing)) {}
ComputingScope::~ComputingScope() { of_thread = before_; }

template <typename T>
T set_computing(T Computing::*field, T value) {
  return std::exchange(of_thread.*field, value);
}
template DType set_computing(DType Computing::*, DType);
template bool set_computing(bool Computing::*, bool);
template int64_t set_computing(int64_t Computing::*, int64_t);
template const AdapterSet* set_computing(const AdapterSet* Computing::*, const AdapterSet*);
template ForwardContext* set_computing(ForwardContext* Computing::*, ForwardContext*);
template LinearObserver* set_computing(LinearObserver* Computing::*, LinearObserver*);
template NoisyEmbedding* set_computing(NoisyEmbedding* Computing::*, NoisyEmbedding*);
template CollectLookups* set_computing(CollectLookups* Computing::*, CollectLookups*);

}  // namespace transom
