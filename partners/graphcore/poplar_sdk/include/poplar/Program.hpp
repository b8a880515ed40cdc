// SPDX-License-Identifier: Apache-2.0
// What the machine does, step by step.
#pragma once

#include <memory>
#include <vector>

#include "poplar/DataStream.hpp"
#include "poplar/DebugContext.hpp"
#include "poplar/Tensor.hpp"

namespace ipu_emulator {
struct Step;
}

namespace poplar {

class ComputeSet {
 public:
  ComputeSet() = default;
  explicit ComputeSet(unsigned id) : id_(id) {}
  unsigned getId() const { return id_; }

 private:
  unsigned id_ = 0;
};

namespace program {

class Program {
 public:
  Program() = default;
  explicit Program(std::shared_ptr<ipu_emulator::Step> step) : step_(std::move(step)) {}
  const std::shared_ptr<ipu_emulator::Step>& step() const { return step_; }

 protected:
  std::shared_ptr<ipu_emulator::Step> step_;
};

class Sequence : public Program {
 public:
  explicit Sequence(const DebugContext& debugContext = {});
  Sequence(std::initializer_list<Program> programs, const DebugContext& debugContext = {});
  void add(const Program& program);
};

class Execute : public Program {
 public:
  explicit Execute(const ComputeSet& cs, const DebugContext& debugContext = {});
};

class Copy : public Program {
 public:
  Copy(const Tensor& from, const Tensor& to, bool dontOutline = false, const DebugContext& debugContext = {});
  Copy(const DataStream& stream, const Tensor& to, bool optimiseMemory = false, const DebugContext& debugContext = {});
  Copy(const Tensor& from, const DataStream& stream, bool optimiseMemory = false,
       const DebugContext& debugContext = {});
  // Of a remote buffer of one row.
  Copy(const RemoteBuffer& from, const Tensor& to, const DebugContext& debugContext = {});
  Copy(const Tensor& from, const RemoteBuffer& to, const DebugContext& debugContext = {});
};

class Repeat : public Program {
 public:
  Repeat(unsigned times, const Program& body, const DebugContext& debugContext = {});
};

class WriteUndef : public Program {
 public:
  explicit WriteUndef(const Tensor& tensor, const DebugContext& debugContext = {});
};

}  // namespace program
}  // namespace poplar
