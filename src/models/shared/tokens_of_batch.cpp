// SPDX-License-Identifier: Apache-2.0
#include "models/shared/tokens_of_batch.h"

#include "base/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

// What has a number, or a row of numbers, for each place of a row.
bool is_of_tokens(std::string_view name) {
  return name == "attention_mask" || name == "input_ids" || name == "inputs_embeds" || name == "token_type_ids" ||
         name == "position_ids";
}

}  // namespace

TokensOfBatch::TokensOfBatch(const NamedTensors& inputs) : places_(inputs.find("token_places")) {
  if (!places_.defined()) {
    inputs_ = inputs;
    return;
  }
  if (places_.rank() != 1 || !is_integer(places_.dtype()))
    fail("token_places: expected whole numbers [tokens], found {}", to_string(places_.type()));
  const Tensor ids = inputs.find("input_ids"), &given = ids.defined() ? ids : inputs.at("inputs_embeds");
  if (given.rank() < 2) fail("input_ids: expected [batch, length], found {}", to_string(given.shape()));
  batch_ = given.dim(0), length_ = given.dim(1);
  const Shape numbers{1, places_.dim(0)};
  if (inputs.at("seq_idx").shape() != numbers)
    fail("seq_idx: expected {}, as many as token_places, found {}", to_string(numbers),
         to_string(inputs.at("seq_idx").shape()));
  if (const Tensor mask = inputs.find("attention_mask"); mask.defined() && mask.rank() != 2)
    fail("attention_mask: expected [batch, length] with token_places, found {}", to_string(mask.shape()));
  for (const auto& [name, tensor] : inputs.items()) {
    if (name == "token_places") continue;
    inputs_.set(name, is_of_tokens(name) ? taken(tensor) : tensor);
  }
}

Tensor TokensOfBatch::taken(const Tensor& x) const {
  if (!places_.defined()) return x;
  Shape full = x.shape();
  full[0] = batch_;  // positions may be the same for all rows
  if (full.size() < 2 || full[1] != length_)
    fail("expected numbers of {} tokens with token_places, found {}", to_string({batch_, length_}),
         to_string(x.shape()));
  Shape flat(full.begin() + 1, full.end());
  flat[0] = batch_ * length_;
  return unsqueeze(gather(reshape(broadcast_to(x, full), flat), places_, 0), 0);
}

Tensor TokensOfBatch::in_place(const Tensor& x) const {
  if (!places_.defined()) return x;
  const int64_t width = x.dim(2);
  const Tensor whole = scatter_add(zeros({batch_ * length_, width}, x.dtype()), places_, squeeze(x, 0), 0);
  return reshape(whole, {batch_, length_, width});
}

}  // namespace transom
