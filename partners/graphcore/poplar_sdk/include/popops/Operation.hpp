// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace popops {
enum class Operation { ADD, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD };
}
