// SPDX-License-Identifier: Apache-2.0
#include "models/loading/weights/unread_tensors.h"

#include <algorithm>

#include "base/error.h"

namespace transom {
namespace {

// Up to the number of its layer, or else the module: "model.layers.3." of "model.layers.3.mlp.up_proj.bias".
std::string_view place_of(std::string_view name) {
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
    const size_t end = name.find_first_not_of("0123456789", dot + 1);
    if (end != dot + 1 && end != name.npos && name[end] == '.') return name.substr(0, end + 1);
  }
  return name.substr(0, name.rfind('.') + 1);
}

// Of a layer or module of which other tensors are read.
bool is_of_a_part(const std::string& name, const std::set<std::string>& used) {
  const std::string_view place = place_of(name);
  const auto next = used.lower_bound(std::string(place));
  return !place.empty() && next != used.end() && next->starts_with(place);
}

// Zeros are what programs write that give each layer a bias; they change nothing.
bool is_zero(const TensorView& view) {
  return std::all_of(view.bytes.begin(), view.bytes.end(), [](std::byte each) { return each == std::byte{}; });
}

bool is_bias_of_used(const Checkpoint& checkpoint, const std::string& name, const std::set<std::string>& used) {
  constexpr std::string_view kBias = ".bias";
  if (!name.ends_with(kBias)) return false;
  const std::string weight = name.substr(0, name.size() - kBias.size()) + ".weight";
  const TensorView* const bias = checkpoint.find(name);
  return used.contains(weight) && bias && !is_zero(*bias);
}

}  // namespace

bool is_computed_buffer(std::string_view name) {
  for (const std::string_view end : {"position_ids", "token_type_ids", ".attn.bias", ".attn.masked_bias",
                                     ".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq"})
    if (name.ends_with(end)) return true;
  return false;
}

void expect_nothing_left_out(const Checkpoint& checkpoint, const std::vector<std::string>& unread,
                             const std::set<std::string>& used, std::string_view model_type) {
  for (const std::string& name : unread) {
    if (checkpoint.is_all_read() && is_of_a_part(name, used))
      fail(ErrorKind::kUnsupported, "{}: tensor {} is no part of {}, which would compute without it",
           checkpoint.where(), quoted(name), model_type);
    if (is_bias_of_used(checkpoint, name, used))
      fail(ErrorKind::kUnsupported,
           "{}: tensor {} is not zero, and the model that config.json describes ({}) would compute without it; "
           "expected a key that gives these layers a bias (such as attention_bias or mlp_bias), or no such tensor",
           checkpoint.where(), quoted(name), model_type);
  }
}

}  // namespace transom
