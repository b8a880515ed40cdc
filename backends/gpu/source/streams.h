// SPDX-License-Identifier: Apache-2.0
// Elements that a kernel walks in order move in vectors of up to 16 bytes: fewer instructions for the same memory.
#pragma once

#include <string>
#include <vector>

#include "gpu/source/kernel_text.h"

namespace transom::gpu {

// What a body that computes element i reads and writes at its own place: "b0[i]", or "b0[base + i]" of a row.
class Streams {
 public:
  Streams(KernelText& text, std::string body);
  bool empty() const { return streams_.empty(); }
  // How many neighbours 16 bytes hold of the largest type, 8 at most.
  int64_t lanes() const;
  // A condition: all addresses, those of the row where it is one, are multiples of 16.
  std::string aligned() const;
  // Writes the body for the `lanes` elements from `first` on, an expression that is a multiple of `lanes`; `head`:
  // statements that the body needs, which know `lane` and i.
  void write_vectors(int64_t lanes, const std::string& first, const std::string& head = "") const;
  const std::string& body() const { return body_; }

 private:
  struct Stream {
    size_t operand;
    std::string element, begin;  // "b0[base + i]", "b0 + base"
  };
  KernelText& text_;
  std::string body_;
  std::vector<Stream> streams_;
};

}  // namespace transom::gpu
