// SPDX-License-Identifier: Apache-2.0
// What published figures say of a job beyond the rates that were fitted on them. A fit of a few rates leaves errors
// that figures of the same device, model and software share; they are predicted from those of near figures by Gaussian
// process regression (Rasmussen and Williams, 2006, chapter 2; in geostatistics: simple kriging).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/plan/plan.h"

namespace transom {

// A job with what decides how alike another one is.
struct PublishedFigure {
  std::string id, task, family, hardware, model, software, dtype, options;
  double parameters = 0, devices = 1, batch = 1;  // samples of all devices
  double sequence = 128, output = 100;            // tokens
  int maturity = 0;                               // of class Maturity
  double ratio = 1;                               // predicted / published by the shipped rates alone
  double left_out_ratio = 1;                      // the same by rates and figures that had not seen its group
  double promised = 0;                            // deviation of log(left_out_ratio) that was predicted; 0: unknown
  bool counted = true;                            // false: stands in the list for its error alone
};

// Describes a plan before any correction.
PublishedFigure figure_of(const Plan& plan, const DeviceModel& device);

struct FigureCorrection {
  double log_ratio = 0;                              // expected log(predicted / published) of the rates alone
  double deviation = 0;                              // of what remains
  std::vector<std::pair<std::string, double>> from;  // ids of the figures that count most, and their own ratios
};

// Immutable after construction; any thread may ask.
class PublishedFigures {
 public:
  PublishedFigures() = default;
  explicit PublishedFigures(std::vector<PublishedFigure> figures);
  FigureCorrection correction_of(const PublishedFigure& asked) const;
  std::span<const PublishedFigure> figures() const { return figures_; }

 private:
  struct Family {
    std::string name;
    std::vector<size_t> members;   // in figures_
    std::vector<double> factor;    // lower triangle of the covariance's Cholesky factor, row by row
    std::vector<double> solution;  // covariance^-1 x log ratios
  };
  std::vector<PublishedFigure> figures_;
  std::vector<Family> families_;
};

// Those of share/transom/plan/past_errors.json, read once. Errors: the file is missing or damaged.
const PublishedFigures& shipped_figures();
PublishedFigures read_published_figures(std::string_view text, std::string_view where);
std::string published_figures_json(std::span<const PublishedFigure> figures);

// Divides the times of the plan by what the figures expect, and says so in its assumptions.
void correct(Plan& plan, const DeviceModel& device, const PublishedFigures& figures);

}  // namespace transom
