// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/options/calibration_options.h"

#include <cstdio>
#include <optional>

#include "base/terminal/progress.h"

namespace transom {

std::vector<Option> calibration_options(const CalibrationTargets& targets, const std::string& methods,
                                        const std::string& judged) {
  return {{"--calibration_file", targets.calibration_file, "the text for " + methods},
          {"--calibration_samples", targets.samples, "rows of tokens of that text"},
          {"--calibration_length", targets.length, "tokens of a row"},
          {"--max_memory", targets.max_memory, "GB for a layer's inputs; fewer rows are taken above"},
          {"--validation_file", targets.validation_file,
           "text for the " + judged +
               " before and after (default: rows of the calibration's text that it does not see); static only: "
               "rows or pictures with labels, as transom evaluate reads them"}};
}

std::function<void(int64_t, int64_t, const std::string&)> layer_bar(const std::string& title) {
  const auto bar = std::make_shared<std::optional<Progress>>();
  return [bar, title](int64_t done, int64_t total, const std::string& layer) {
    if (!*bar) bar->emplace(stderr, title, total, "layer");
    (*bar)->update(done, {{"layer", layer}});
  };
}

}  // namespace transom
