// SPDX-License-Identifier: Apache-2.0
#include "models/shared/mixtures/fused_experts.h"

#include <charconv>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "models/shared/mixtures/mixture_of_experts.h"
#include "transom/ops.h"

namespace transom {

namespace {

// Whether the module whose path ends at `end` is called by a number: a block.
bool is_block(const std::string& path, size_t end) {
  const size_t dot = path.rfind('.', end - 1), begin = dot == path.npos ? 0 : dot + 1;
  return begin < end && path.find_first_not_of("0123456789", begin) >= end;
}

}  // namespace

std::optional<FusedExpert> fused_expert(const std::string& parameter) {
  constexpr std::string_view kExperts = ".experts.", kWeight = ".weight", kBias = ".bias";
  const size_t at = parameter.find(kExperts);
  FusedExpert place{.tensor = {}, .is_bias = parameter.ends_with(kBias), .biases = {}};
  const std::string_view ending = place.is_bias ? kBias : kWeight;
  if (at == parameter.npos || !parameter.ends_with(ending)) return std::nullopt;
  const char *const begin = parameter.data() + at + kExperts.size(), *const end = parameter.data() + parameter.size();
  const auto [after, error] = std::from_chars(begin, end, place.expert);
  if (error != std::errc() || after == end || *after != '.' || end - after - 1 < static_cast<ptrdiff_t>(ending.size()))
    return std::nullopt;
  const std::string_view module(after + 1, static_cast<size_t>(end - after - 1) - ending.size());
  const ExpertNames& granite = granite_expert_names();
  if (!place.is_bias && (module == granite.gate || module == granite.up || module == granite.down)) {
    const bool joined = module != granite.down;
    place.tensor = parameter.substr(0, at) + (joined ? ".input_linear.weight" : ".output_linear.weight");
    place.part = module == granite.up ? 1 : 0, place.parts = joined ? 2 : 1, place.always = true;
    return place;
  }
  const std::string experts = parameter.substr(0, at + kExperts.size());
  const std::string tail = place.is_bias ? "_bias" : "";
  if (at > 0 && !place.is_bias && is_block(parameter, at)) place.always = true;
  else place.biases = experts + "down_proj_bias";
  for (const ExpertNames* names : {&mixtral_expert_names(), &gated_expert_names()}) {
    if (module == names->down) {
      place.tensor = experts + "down_proj" + tail;
      return place;
    }
    if (module != names->gate && module != names->up) continue;
    place.tensor = experts + "gate_up_proj" + tail;
    place.part = module == names->up ? 1 : 0;
    place.parts = 2;
    return place;
  }
  return std::nullopt;
}

TensorView view_of_expert(const TensorView& all, const FusedExpert& place, const std::string& where) {
  if (all.shape.size() != 3 || all.shape[1] % place.parts != 0)
    fail("{}: expected [experts, {}rows, columns], found {} axes", where, place.parts == 2 ? "2 x " : "",
         all.shape.size());
  if (place.expert < 0 || place.expert >= all.shape[0])
    fail("{}: holds {} experts; config.json describes a model of more", where, all.shape[0]);
  const size_t bytes = all.bytes.size() / static_cast<size_t>(all.shape[0] * place.parts);
  TensorView view = all;
  view.shape = {all.shape[1] / place.parts, all.shape[2]};
  view.bytes = all.bytes.subspan(static_cast<size_t>(place.expert * place.parts + place.part) * bytes, bytes);
  return view;
}

TensorView turned_back(const TensorView& all, const FusedExpert& place, const std::string& where) {
  const size_t rank = place.is_bias ? 2 : 3;
  if (all.shape.size() != rank || all.shape.back() % place.parts != 0)
    fail("{}: expected [experts, {}{}rows], found {} axes", where, place.is_bias ? "" : "columns, ",
         place.parts == 2 ? "2 x " : "", all.shape.size());
  if (place.expert < 0 || place.expert >= all.shape[0])
    fail("{}: holds {} experts; config.json describes a model of more", where, all.shape[0]);
  const int64_t columns = place.is_bias ? 1 : all.shape[1], rows = all.shape.back() / place.parts;
  const size_t size = size_of(all.dtype);
  const auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows * columns) * size);
  const std::byte* from = all.bytes.data() + static_cast<size_t>(place.expert * columns * all.shape.back()) * size;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t at = column * all.shape.back() + row * place.parts + place.part;
      std::memcpy(bytes->data() + static_cast<size_t>(row * columns + column) * size,
                  from + static_cast<size_t>(at) * size, size);
    }
  TensorView view{.dtype = all.dtype, .shape = {rows}, .bytes = *bytes, .owner = bytes};
  if (!place.is_bias) view.shape.push_back(columns);
  return view;
}

namespace {

// The parts of one tensor of a file: those of an expert one behind the other.
using PartsOfTensor = std::map<int64_t, Tensor>;

Tensor joined_parts(const PartsOfTensor& parts, const FusedExpert& place) {
  std::vector<Tensor> experts;
  if (place.always) {
    for (auto part = parts.begin(); part != parts.end();) {
      std::vector<Tensor> rows;
      for (int64_t i = 0; i < place.parts; ++i, ++part) rows.push_back(part->second);
      experts.push_back(unsqueeze(rows.size() == 1 ? rows[0] : concatenate(rows, 0), 0));
    }
    return experts.size() == 1 ? experts[0] : concatenate(experts, 0);
  }
  for (auto part = parts.begin(); part != parts.end();) {
    std::vector<Tensor> beside;  // the parts of an expert take turns
    for (int64_t i = 0; i < place.parts; ++i, ++part) beside.push_back(unsqueeze(part->second, 1));
    const Tensor all = place.parts == 1 ? beside[0] : concatenate(beside, 1);  // [rows, parts, columns]
    const int64_t rows = all.dim(0) * all.dim(1);
    experts.push_back(place.is_bias ? reshape(all, {1, rows})
                                    : unsqueeze(permute(reshape(all, {rows, all.dim(2)}), {1, 0}), 0));
  }
  return experts.size() == 1 ? experts[0] : concatenate(experts, 0);
}

}  // namespace

NamedTensors::Items with_joined_experts(NamedTensors::Items tensors) {
  std::set<std::string> biased;  // by the tensor of their biases
  bool any = false;
  for (const auto& [name, tensor] : tensors)
    if (const auto place = fused_expert(name)) {
      if (place->is_bias) biased.insert(place->biases);
      any = any || place->is_bias || place->always;
    }
  if (!any) return tensors;
  const auto is_joined = [&](const std::optional<FusedExpert>& place) {
    return place && (place->always || biased.contains(place->biases));
  };
  std::map<std::string, PartsOfTensor> parts;
  for (const auto& [name, tensor] : tensors)
    if (const auto place = fused_expert(name); is_joined(place))
      parts[place->tensor].emplace(place->expert * place->parts + place->part, tensor);
  NamedTensors::Items result;
  for (auto& [name, tensor] : tensors) {
    const auto place = fused_expert(name);
    if (!is_joined(place)) {
      result.emplace_back(std::move(name), std::move(tensor));
      continue;
    }
    const auto found = parts.find(place->tensor);
    if (found == parts.end()) continue;  // it has been written
    const auto count = static_cast<int64_t>(found->second.size());
    if (found->second.rbegin()->first + 1 != count || count % place->parts != 0)
      fail("{}: {} of the weights of its experts are there, and not all", place->tensor, count);
    result.emplace_back(place->tensor, joined_parts(found->second, *place));
    parts.erase(found);
  }
  return result;
}

}  // namespace transom
