// SPDX-License-Identifier: Apache-2.0
// Random small models of several families, and random ways to spread their training over processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace transom {

struct RandomLayout {
  std::string config;              // of the model
  uint64_t seed = 3;               // of its weights
  std::string task, rows;          // and what it learns from, JSON lines
  int64_t ranks = 1, batch = 1;    // processes, and rows of one of them
  int64_t whole_batch = 1;         // of one process that trains alone
  std::vector<std::string> words;  // of both trainings
  std::vector<std::string> layout;
  std::string device = "cpu", backend = "gloo";

  std::string describe() const;
};

// Of ten updates with accumulation and clipping, each logged.
std::vector<std::string> words_of_ten_updates(const std::string& task);

// The same for the same seed.
RandomLayout random_layout(uint64_t seed);

// The greatest relative difference of losses, gradient norms and rates between one process and several, which it runs
// below `folder`. Throws an Error with what they said where one of them fails.
double difference_of_curves(const RandomLayout& layout, const std::filesystem::path& folder);

// That difference, and how large it may be: `rounding`, or more where the model amplifies it. Then one process trains
// with its rows one by one as well, whose sums are the same in another order, and four times what that changes is
// allowed.
struct CurveDifference {
  double found, allowed;
};
CurveDifference difference_within(const RandomLayout& layout, const std::filesystem::path& folder, double rounding);

}  // namespace transom
