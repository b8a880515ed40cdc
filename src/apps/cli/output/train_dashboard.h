// SPDX-License-Identifier: Apache-2.0
// --dashboard and --dashboard_port of transom train: what is shown of a run while it goes on.
#pragma once

#include <memory>
#include <string>

#include "transom/fine_tuning.h"

namespace transom {

class TrainDashboard {
 public:
  // Does nothing where neither is asked for, and in all processes but the first.
  explicit TrainDashboard(const TrainArguments& arguments);
  // Takes the screen away; the page is told how the run ended.
  ~TrainDashboard();
  TrainDashboard(const TrainDashboard&) = delete;
  TrainDashboard& operator=(const TrainDashboard&) = delete;

  // Adds its callback, and the losses of each update to what is called already.
  void add_to(FineTuneOptions& options);
  // Whether the terminal is taken, so that nobody else prints on it.
  bool draws() const;
  // How the run ended; without it, it failed.
  void finish(bool stopped);

 private:
  struct Views;
  std::unique_ptr<Views> views_;
};

}  // namespace transom
