// SPDX-License-Identifier: Apache-2.0
// LoftQ (Li et al., 2024): matrices beside codes of a weight begin as what rounding it to these took away.
#pragma once

#include "models/loading/adapters/adapter_making.h"

namespace transom {

struct CorrectionOfCodes {
  std::vector<float> a, b;  // [rank, in], [out, rank]
};
// The best of this rank for the weight that base_model_name_or_path holds, divided by `scaling`. Refuses weights that
// are no codes, and more than one iteration: the codes stay as they are.
CorrectionOfCodes correction_of_codes(AdapterMaking& making, const AdaptedWeight& target, int64_t rank, double scaling);

}  // namespace transom
