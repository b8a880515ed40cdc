// SPDX-License-Identifier: Apache-2.0
#include "common/error.h"
#include "ipu/lowering/lowering.h"

namespace transom::ipu {

void lower_convolution(Lowering&, Work& work) {
  backend::fail(TRANSOM_UNSUPPORTED, "{}: convolutions are the host's", work.node.place());
}

}  // namespace transom::ipu
