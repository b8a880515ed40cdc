// SPDX-License-Identifier: Apache-2.0
#include "work/train/log/loss_log.h"

#include <cmath>

#include "runtime/device/device.h"
#include "runtime/tensor/evaluate.h"
#include "transom/tensor.h"

namespace transom {
namespace {

// So far the host may be ahead of the device; a loss that is no number is found after so many updates at the latest.
constexpr size_t kMostWaiting = 64;

bool computes_on_host() { return default_device()->has(TRANSOM_DEVICE_HOST_MEMORY); }

}  // namespace

void LossLog::begin(int64_t step, OnStep not_finite, OnStep report) {
  *this = LossLog();
  not_finite_ = std::move(not_finite);
  report_ = std::move(report);
  recorded_ = step;
}

void LossLog::add(const TrainStep::Result& result, int64_t step, double learning_rate) {
  const bool reads = report_ || waiting_.size() + 1 >= kMostWaiting || computes_on_host();
  // Who replays a step finds its results in the same memory each time, and would keep the next one from it.
  const bool copies = !reads && mode() == Mode::kGraph;
  waiting_.push_back({copies ? TrainStep::Result{copy_on_device(result.loss), copy_on_device(result.gradient_norm),
                                                 result.measures.defined() ? copy_on_device(result.measures) : Tensor()}
                             : result,
                      step, learning_rate});
  if (reads) read();
}

void LossLog::read() {
  const std::vector<Waiting> now = std::exchange(waiting_, {});
  for (const Waiting& each : now) {
    const double loss = each.result.loss.item<float>();
    last_norm_ = each.result.gradient_norm.item<float>();
    const StepReport report{each.step, loss, last_norm_, each.learning_rate};
    if (!std::isfinite(loss) || !std::isfinite(last_norm_)) not_finite_(report);
    finite_ += std::isfinite(loss);
    const double counted = std::isfinite(loss) ? loss : sum_ / static_cast<double>(each.step - recorded_);
    sum_ += counted;
    total_ += counted;
    if (each.result.measures.defined()) measures_.add(each.result.measures.to_vector<float>());
    if (report_) report_(report);
  }
}

std::optional<double> LossLog::mean_loss(int64_t step) const {
  if (finite_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(step - recorded_);
}

void LossLog::next_record(int64_t step) {
  measures_.clear();
  recorded_ = step;
  sum_ = 0;
  finite_ = 0;
}

}  // namespace transom
