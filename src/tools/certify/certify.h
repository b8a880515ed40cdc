// SPDX-License-Identifier: Apache-2.0
// Whether a device computes the right thing: its operations against the float64 of their records, models against the
// reference device, what the plugin interface promises, and whether what is sampled is what is trained.
#pragma once

#include <functional>

#include "tools/certify/report.h"

namespace transom::certify {

struct Options {
  std::string device;                   // empty: the best found
  std::vector<std::string> levels;      // of "operations", "models", "behaviour", "on-policy"; empty: all but the last
  std::vector<std::string> operations;  // those that level "operations" tries; empty: all
  std::vector<std::string> models;      // directories; empty: small ones made from configurations
  int64_t prompts = 1000;               // that level "on-policy" samples of each model in each setting
  uint64_t seed = 1;
  bool stop_at_first_failure = false;
  std::function<void(const Row&)> observe;  // each row as it is done
};

// Throws an Error if the device cannot be opened; what is wrong with it is in the report.
Report certify(const Options& options);

// A level each: they add rows until one says to stop.
class Recorder {
 public:
  Recorder(Report& report, const Options& options) : report_(report), options_(options) {}
  void add(Row row);
  bool stopped() const { return options_.stop_at_first_failure && report_.first_failure(); }
  Report& report() { return report_; }
  const Options& options() const { return options_; }

 private:
  Report& report_;
  const Options& options_;
};
void certify_operations(Recorder& recorder);
void certify_models(Recorder& recorder);
void certify_behaviour(Recorder& recorder);
void certify_on_policy(Recorder& recorder);

}  // namespace transom::certify
