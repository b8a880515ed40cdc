// SPDX-License-Identifier: Apache-2.0
// IPUConfig of Optimum Graphcore: ipu_config.json as its users have it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace transom::ipu {

struct IpuConfig {
  std::vector<int64_t> layers_per_ipu = {1};  // of encoders and decoders, by IPU; -1: what is left, evenly
  uint32_t ipus_per_replica = 1;
  uint32_t replication_factor = 1;  // processes that train together, each with one replica; the host starts them
  bool replicated_tensor_sharding = false;  // each of them keeps a part of the optimizer's state; the host cuts it
  bool optimizer_state_offchip = false;     // the state is in streaming memory but while it is updated
  uint32_t gradient_accumulation_steps = 1;
  std::vector<double> matmul_proportion = {0.6};  // by IPU; one for all
  bool enable_half_partials = false;
  bool stochastic_rounding = false;             // of what becomes f16
  uint32_t seed = 42;                           // of its noise
  uint32_t embedding_serialization_factor = 1;  // parts in which products with the embeddings' table are computed
  std::string executable_cache_dir;             // of programs that were compiled; empty: they are not kept
};

// Reads a file of at most 1 MiB. Throws Failure(TRANSOM_UNAVAILABLE) with the file and the field for what is no such
// configuration.
IpuConfig read_ipu_config(const std::string& file);
// The text of one; `where` is for errors.
IpuConfig parse_ipu_config(const std::string& text, const std::string& where);
// That of the file (or of ipu_config.json in the folder) that TRANSOM_IPU_CONFIG names, else one IPU.
const IpuConfig& ipu_config();

}  // namespace transom::ipu
