// SPDX-License-Identifier: Apache-2.0
// A program that was compiled, to be loaded or kept.
#pragma once

#include <iosfwd>
#include <memory>
#include <utility>

namespace ipu_emulator {
struct Compiled;
}

namespace poplar {

class Executable {
 public:
  explicit Executable(std::shared_ptr<const ipu_emulator::Compiled> compiled) : compiled_(std::move(compiled)) {}

  // Its bytes, the same for the same program. Throws poplar_error where they cannot be written.
  void serialize(std::ostream& out) const;
  // Reads to the end of the stream. Throws poplar_error for what is not the executable of a program, whole; that its
  // program is the one that the caller wants is the caller's to know.
  static Executable deserialize(std::istream& in);

  const std::shared_ptr<const ipu_emulator::Compiled>& compiled() const { return compiled_; }

 private:
  std::shared_ptr<const ipu_emulator::Compiled> compiled_;
};

}  // namespace poplar
