// SPDX-License-Identifier: Apache-2.0
// The graph of the plugin interface in C++ form: types, and a node with its attributes, which outlives the graph.
#pragma once

#include "hpu/device/error.h"
#include "transom/plugin/node.h"

namespace transom::hpu {

using backend::dtype_name;
using backend::element_size;
using backend::is_floating;
using backend::Node;
using backend::product;
using backend::Shape;
using backend::to_string;
using backend::Type;
using backend::type_of;

}  // namespace transom::hpu
