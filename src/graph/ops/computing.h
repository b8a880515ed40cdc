// SPDX-License-Identifier: Apache-2.0
// How operations and traces follow what they compute under (transom/computing.h).
#pragma once

#include <optional>
#include <string>

#include "graph/ir/attributes.h"
#include "transom/ops.h"

namespace transom {

// A key of what is traced under it, by which a trace may be kept; nothing where it refers to objects of its caller:
// then a trace is for this once. `kept`: adapters that outlive the trace, which stand in the key by their place.
std::optional<std::string> key_of(const Computing& computing, const AdapterSet* kept = nullptr);

// What a pass computes under of a model that has `own` where it is `asked` for more: switches are on that either has, a
// type of 16 bits of `own` stays, and of all else counts what is asked for, if anything is.
Computing joined(const Computing& own, const Computing& asked);

// For matrix products: x in the type that they compute in, where that is of 16 bits and x is f32.
Tensor autocast_low(const Tensor& x, const Computing& computing);
// For softmax, norms and losses: x in f32, where it is of the 16 bits that products compute in.
Tensor autocast_full(const Tensor& x, const Computing& computing);

// The attributes of nodes that say so: see Computing.
inline constexpr const char *kTf32 = "tf32", *kBatchInvariant = "batch_invariant";
// Sets the first for a product of operands of this type, the second for any.
void allow_tf32(Attributes& attributes, DType dtype, const Computing& computing);
void keep_rows_apart(Attributes& attributes, const Computing& computing);

}  // namespace transom
