// SPDX-License-Identifier: Apache-2.0
#include "gpu/lowering/work.h"

#include <algorithm>
#include <iterator>

namespace transom::gpu {

Operand Emitter::scratch(int64_t bytes) {
  const Operand place{Operand::kScratch, 0, scratch_};
  scratch_ += (static_cast<size_t>(bytes) + 255) / 256 * 256;
  scratch_bytes = std::max(scratch_bytes, scratch_);
  return place;
}

void Emitter::launch(const KernelText& text, int64_t groups, std::string label) {
  if (groups <= 0) return;
  if (groups > INT32_MAX)
    backend::fail(TRANSOM_UNSUPPORTED, "{}: expected at most 2^31 groups, found {}", label, groups);
  launches.push_back(
      {text.text(dialect_), static_cast<uint64_t>(groups), text.operands(), text.numbers(), node_, std::move(label)});
}

void Emitter::can_repeat(const KernelText& text, std::vector<Operand> written) {
  if (launches.empty()) return;
  launches.back().repeatable = std::make_shared<const KernelText>(text);
  launches.back().written = std::move(written);
}

bool Emitter::multiply(const ProductShape& shape, const Operand& x, const Operand& y, const Operand* vector,
                       const Operand& out) {
  if (!products_ || !products_->takes(shape)) return false;
  std::vector<Operand> operands = {x, y, out, scratch(static_cast<int64_t>(products_->workspace_bytes()))};
  if (vector) operands.push_back(*vector);
  launches.push_back({"", 1, std::move(operands), {}, node_, products_->name(), shape});
  return true;
}

bool Emitter::convolve(const ConvolutionShape& shape, const Operand& x, const Operand& w, const Operand& y) {
  if (!convolutions_) return false;
  const std::optional<size_t> workspace = convolutions_->workspace_bytes(shape);
  if (!workspace) return false;
  PlannedLaunch launch{"", 1,     {x, w, y, scratch(static_cast<int64_t>(std::max<size_t>(*workspace, 1)))},
                       {}, node_, convolutions_->name()};
  launch.convolution = shape;
  launches.push_back(std::move(launch));
  return true;
}

bool Emitter::attend(const AttentionShape& shape, float scale, std::vector<Operand> operands, const Operand* bias) {
  std::shared_ptr<const AttentionPlan> plan = attentions_ ? attentions_->plan(shape) : nullptr;
  if (!plan) return false;
  operands.push_back(scratch(static_cast<int64_t>(std::max<size_t>(plan->workspace_bytes(), 1))));
  if (bias) operands.push_back(*bias);
  PlannedLaunch launch{"", 1, std::move(operands), {}, node_, attentions_->name()};
  launch.attention = {std::move(plan), scale};
  launches.push_back(std::move(launch));
  return true;
}

void Emitter::make_otherwise(size_t first) {
  const auto begin = launches.begin() + static_cast<std::ptrdiff_t>(first);
  launches[first - 1].otherwise.assign(std::make_move_iterator(begin), std::make_move_iterator(launches.end()));
  launches.resize(first);
}

int64_t groups_for(int64_t count, int64_t a_thread) {
  return std::clamp<int64_t>(divided_up(count, a_thread * kGroup), count > 0 ? 1 : 0, 1 << 14);
}

std::string loop_over(const std::string& name, const std::string& count) {
  return fmt::format("for (idx {0} = GROUP * {2} + THREAD; {0} < {1}; {0} += GROUPS * {2})", name, count, kGroup);
}

}  // namespace transom::gpu
