// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/captured_program.h"

#include <algorithm>

#include "runtime/programs/profile.h"

namespace transom {

CapturedProgram::CapturedProgram(std::shared_ptr<const Program> program,
                                 const std::vector<std::shared_ptr<Buffer>>& inputs, const std::vector<bool>& fixed)
    : program_(std::move(program)) {
  if (!program_->whole_) return;  // each replay is a run
  const DeviceProgram& whole = *program_->whole_;
  Device& device = *program_->device_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs_.push_back(fixed[i] ? inputs[i] : device.allocate(inputs[i]->bytes()));
    if (!fixed[i]) own_bytes_ += inputs[i]->bytes();
  }
  outputs_ = whole.output_buffers(inputs_);
  for (size_t o = 0; o < outputs_.size(); ++o)
    if (whole.donor(o) < 0) own_bytes_ += outputs_[o]->bytes();
  own_bytes_ += whole.arena_bytes();
  for (size_t o = 0; o < outputs_.size(); ++o)
    may_be_held_.push_back(whole.donor(o) < 0 || !fixed[static_cast<size_t>(whole.donor(o))]);
  inputs_ = program_->with_folded(inputs_);
  if (whole.arena_bytes()) arena_ = device.allocate(whole.arena_bytes());
  const transom_plugin& table = device.table();
  if (!table.capture_begin || !table.capture_end || !table.capture_replay || !table.capture_destroy) return;
  const auto turn = device.take_turn();
  transom_error error{};
  device.expect_ok(table.capture_begin(device.stream(), &error), error);
  try {
    whole.launch(inputs_, outputs_, arena_.get());
  } catch (...) {
    transom_error ignored{};
    if (table.capture_end(device.stream(), &capture_, &ignored) == TRANSOM_OK) table.capture_destroy(capture_);
    throw;
  }
  device.expect_ok(table.capture_end(device.stream(), &capture_, &error), error);
}

CapturedProgram::~CapturedProgram() {
  if (capture_) program_->device_->table().capture_destroy(capture_);
}

void CapturedProgram::copy(const Buffer& from, const Buffer& to) const {
  if (&from == &to || from.bytes() == 0) return;
  const Device& device = *program_->device_;
  transom_error error{};
  device.expect_ok(
      device.table().copy_on_device(device.stream(), {from.handle(), 0}, {to.handle(), 0}, to.bytes(), &error), error);
}

long CapturedProgram::references_to(const std::shared_ptr<Buffer>& buffer) const {
  return std::count(inputs_.begin(), inputs_.end(), buffer) + std::count(outputs_.begin(), outputs_.end(), buffer);
}

std::vector<std::shared_ptr<Buffer>> CapturedProgram::replay(const std::vector<std::shared_ptr<Buffer>>& inputs,
                                                             const CountReferences& spared) {
  const auto is_held = [&](const std::shared_ptr<Buffer>& output) {
    return output.use_count() >
           references_to(output) + std::count(inputs.begin(), inputs.end(), output) + (spared ? spared(output) : 0);
  };
  bool held = program_->whole_ == nullptr;
  for (size_t o = 0; o < outputs_.size(); ++o) held = held || (may_be_held_[o] && is_held(outputs_[o]));
  if (held) return program_->run(inputs);
  for (const std::shared_ptr<Buffer>& input : inputs) input->expect_contents();
  Device& device = *program_->device_;
  const auto turn = device.take_turn();
  for (size_t i = 0; i < inputs.size(); ++i) {
    copy(*inputs[i], *inputs_[i]);
    inputs_[i]->set_overwritten(false);
  }
  const DeviceProgram& whole = *program_->whole_;
  if (capture_) {
    const ProfiledRun profiled(whole.nodes(), device);
    transom_error error{};
    whole.expect_done(device.table().capture_replay(capture_, device.stream(), &error), error, inputs_);
  } else {
    whole.launch(inputs_, outputs_, arena_.get());  // which reports to a profile by itself
  }
  Buffers all = inputs;  // an output may be what was folded, which stands behind them
  all.insert(all.end(), inputs_.begin() + static_cast<std::ptrdiff_t>(inputs.size()), inputs_.end());
  return program_->results(all, outputs_);
}

size_t CapturedProgram::memory_bytes() const { return own_bytes_; }

}  // namespace transom
