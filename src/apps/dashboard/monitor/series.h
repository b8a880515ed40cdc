// SPDX-License-Identifier: Apache-2.0
// Values of a run over its updates ("loss", "eval_accuracy"), in bounded memory however long the run is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace transom::dashboard {

struct Point {
  int64_t step = 0;
  double value = 0;     // finite
  uint64_t number = 0;  // counts the points of all series of a run, so that a reader can ask for what is new
};

class Series {
 public:
  explicit Series(std::string name, size_t most = 8192) : name_(std::move(name)), most_(most) {}

  // A step that comes again replaces its value. When there are `most` points, every second one is dropped, and from
  // then on half as many are taken.
  void add(int64_t step, double value, uint64_t number);

  const std::string& name() const { return name_; }
  const std::vector<Point>& points() const { return points_; }

 private:
  std::string name_;
  size_t most_;
  std::vector<Point> points_;
  uint64_t seen_ = 0, stride_ = 1;
  bool last_is_extra_ = false;  // the newest value, which the stride would leave out
};

}  // namespace transom::dashboard
