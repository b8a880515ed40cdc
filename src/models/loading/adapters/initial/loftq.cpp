// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/initial/loftq.h"

#include <cmath>

#include "base/error.h"
#include "models/loading/adapters/initial/decompositions.h"

namespace transom {

CorrectionOfCodes correction_of_codes(AdapterMaking& making, const AdaptedWeight& target, int64_t rank,
                                      double scaling) {
  const AdapterConfig& config = making.config;
  if (!target.weight->packed)
    fail(ErrorKind::kUsage,
         "{}: init_lora_weights = \"loftq\": expected weights as codes (--load_in_4bit), {} is plain", config.where(),
         target.weight->name);
  const int64_t iterations = config.fields().get_object("loftq_config").get_int("loftq_iter", 1);
  if (iterations != 1)
    fail(ErrorKind::kUnsupported, "{}: loftq_iter = {} is not carried out; only 1 is: further ones change the codes",
         config.where(), iterations);
  if (rank > std::min(target.in, target.out))
    fail("{}: r: expected at most {} for {} with init_lora_weights = \"loftq\", found {}", config.where(),
         std::min(target.in, target.out), target.weight->name, rank);
  const std::shared_ptr<Parameter> whole = making.plain_weight(target.weight->name);
  const Tensor lost = wide_rows(*whole) - wide_rows(*target.weight);
  PartOfSvd part = part_of_svd(lost.to_vector<float>(), target.out, target.in, rank);
  for (int64_t k = 0; k < rank; ++k) {
    const auto root = static_cast<float>(std::sqrt(part.values[static_cast<size_t>(k)] / scaling));
    for (int64_t i = 0; i < target.in; ++i) part.right[static_cast<size_t>(k * target.in + i)] *= root;
    for (int64_t o = 0; o < target.out; ++o) part.left[static_cast<size_t>(o * rank + k)] *= root;
  }
  return {std::move(part.right), std::move(part.left)};
}

}  // namespace transom
