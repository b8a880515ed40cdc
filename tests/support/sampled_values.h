// SPDX-License-Identifier: Apache-2.0
// What golden files keep of large tensors. Partners' tests, which stand apart from the tree, read them too.
#pragma once

#include "../../partners/common/testing/sampled_values.h"
