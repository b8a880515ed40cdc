// SPDX-License-Identifier: Apache-2.0
// What checkpoints of sharded runs are compared by: the weights of two files, and the rest of a curve that was resumed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"

namespace transom {

inline void expect_same_weights(const std::filesystem::path& left_file, const std::filesystem::path& right_file) {
  const SafetensorsFile left = SafetensorsFile::open(left_file), right = SafetensorsFile::open(right_file);
  ASSERT_EQ(left.tensors().size(), right.tensors().size());
  for (const auto& [name, view] : left.tensors()) {
    const TensorView* other = right.find(name);
    ASSERT_TRUE(other) << name;
    EXPECT_EQ(view.shape, other->shape) << name;
    EXPECT_TRUE(std::ranges::equal(view.bytes, other->bytes)) << name;
  }
}

// `rest`: the last three steps of the six of `whole`, taken by a run that was resumed.
inline void expect_the_rest(const std::vector<Json>& whole, const std::vector<Json>& rest, const std::string& name) {
  ASSERT_EQ(whole.size(), 6u) << name;
  ASSERT_EQ(rest.size(), 3u) << name;
  for (size_t i = 0; i < rest.size(); ++i)
    for (const char* number : {"step", "loss", "grad_norm", "learning_rate"}) {
      const double expected = whole[3 + i].at(number).get<double>();
      EXPECT_NEAR(rest[i].at(number).get<double>(), expected, 2e-6 * (1 + std::abs(expected))) << name << number;
    }
}

}  // namespace transom
