// SPDX-License-Identifier: Apache-2.0
// Any bytes as the file of published figures: what is read corrects a job that it tells of.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "tools/plan/machines/published_figures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  try {
    const auto figures = read_published_figures({reinterpret_cast<const char*>(data), size}, "figures.json");
    if (figures.figures().empty()) return 0;
    const FigureCorrection correction = figures.correction_of(figures.figures()[0]);
    if (!(correction.log_ratio == correction.log_ratio) || !(correction.deviation >= 0)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
