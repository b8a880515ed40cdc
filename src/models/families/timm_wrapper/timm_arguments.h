// SPDX-License-Identifier: Apache-2.0
// What every network of timm reads of its configuration: the name of the architecture, and model_args, which change
// what the name says.
#pragma once

#include <optional>
#include <string>

#include "files/config/config.h"
#include "transom/tensor.h"

namespace transom {

struct TimmArguments {
  // timm writes the number of classes and the pooling twice; what stands outside of model_args is what others change.
  explicit TimmArguments(const Config& config);

  std::string where, name;  // the name without its tag: "mobilenetv3_small_100" of mobilenetv3_small_100.lamb_in1k
  Config given;             // model_args
  int64_t num_classes, in_chans;
  double drop_rate, drop_path_rate;

  // How a map [B, C, H, W] becomes a vector: avg, max, avgmax (their mean) or catavgmax (both).
  std::string pooling(const std::string& otherwise) const;
  // The one that the configuration names, whether it is carried out or not.
  std::string named_pooling(const std::string& otherwise) const;
  // act_layer by Transformers' name.
  std::string activation(const std::string& otherwise) const;
  // Refuses arguments that nobody asked for.
  void expect_all_read() const;

 private:
  std::optional<std::string> pooling_;
};

// [B, C, H, W] -> [B, C], or [B, 2 C] of catavgmax.
Tensor timm_pooled(const Tensor& x, const std::string& pooling);
// How many vectors of C numbers that is.
inline int64_t timm_pooled_parts(const std::string& pooling) { return pooling == "catavgmax" ? 2 : 1; }

}  // namespace transom
