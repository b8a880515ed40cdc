// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace poplar {

// The base of all that the library throws.
struct poplar_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A rule of graphs was broken: an unmapped element, two vertices of a compute set that touch the same element ...
struct graph_error : poplar_error {
  using poplar_error::poplar_error;
};
struct tensor_error : graph_error {
  using graph_error::graph_error;
};
struct invalid_tile_mapping : graph_error {
  using graph_error::graph_error;
};
struct invalid_option : poplar_error {
  using poplar_error::poplar_error;
};
struct stream_connection_error : poplar_error {
  using poplar_error::poplar_error;
};
// A replica, or the machine, does not answer any more.
struct unrecoverable_runtime_error : poplar_error {
  using poplar_error::poplar_error;
};
// A tile's memory is exhausted.
struct graph_memory_allocation_error : poplar_error {
  using poplar_error::poplar_error;
};

}  // namespace poplar
