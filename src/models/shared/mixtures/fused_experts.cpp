// SPDX-License-Identifier: Apache-2.0
#include "models/shared/mixtures/fused_experts.h"

#include <charconv>

#include "base/error.h"
#include "models/shared/mixtures/mixture_of_experts.h"

namespace transom {

std::optional<FusedExpert> fused_expert(const std::string& parameter) {
  constexpr std::string_view kExperts = ".experts.", kWeight = ".weight";
  const size_t at = parameter.find(kExperts);
  if (at == parameter.npos || !parameter.ends_with(kWeight)) return std::nullopt;
  const char *const begin = parameter.data() + at + kExperts.size(), *const end = parameter.data() + parameter.size();
  FusedExpert place;
  const auto [after, error] = std::from_chars(begin, end, place.expert);
  if (error != std::errc() || after == end || *after != '.' || end - after - 1 < static_cast<ptrdiff_t>(kWeight.size()))
    return std::nullopt;
  const std::string_view module(after + 1, static_cast<size_t>(end - after - 1) - kWeight.size());
  const std::string experts = parameter.substr(0, at + kExperts.size());
  for (const ExpertNames* names : {&mixtral_expert_names(), &gated_expert_names()}) {
    if (module == names->down) {
      place.tensor = experts + "down_proj";
      return place;
    }
    if (module != names->gate && module != names->up) continue;
    place.tensor = experts + "gate_up_proj";
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

}  // namespace transom
