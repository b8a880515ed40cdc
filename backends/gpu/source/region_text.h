// SPDX-License-Identifier: Apache-2.0
// A region of element-wise primitives as text. Every value is a function of a place: of one shape the place is the
// same, a broadcast turns it into a place of the smaller shape, a reshape leaves it as it is, since tensors are
// row-major.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gpu/lowering/work.h"

namespace transom::gpu {

// A graph of element-wise primitives, broadcasts, reshapes, constants, iota and random_bits.
struct Region {
  struct Member {
    Node node;
    std::vector<size_t> inputs;
    size_t output;
  };
  std::vector<Type> types;
  std::vector<Member> members;
  std::vector<size_t> inputs, outputs;

  explicit Region(const transom_graph& graph);
  explicit Region(const Node& node);  // of one node alone

  // The member that makes a value; null for inputs.
  const Member* maker(size_t value) const;
};

class RegionText {
 public:
  // Input i of the region is operands[i]. `overriding`: names that stand for values that are computed already.
  RegionText(KernelText& text, const Region& region, const std::vector<Operand>& operands)
      : text_(text), region_(region), operands_(operands) {}

  // Writes the statements for the value at a place (the name of an index), and gives the name of the result. What was
  // written before in the same block is used again.
  std::string at(size_t value, const std::string& place);
  // A new block begins: names of the last one are no longer known.
  void forget() { names_.clear(), places_.clear(); }
  // The value has this name wherever it is asked for at this place.
  void name(size_t value, const std::string& place, std::string name) { names_[{value, place}] = std::move(name); }

 private:
  std::string computed(size_t value, const std::string& place);
  std::string place_in_small(const Shape& small, const Shape& large, const std::string& place);
  std::string index_along(const Shape& shape, size_t axis, const std::string& place);

  KernelText& text_;
  const Region& region_;
  const std::vector<Operand>& operands_;
  std::map<std::pair<size_t, std::string>, std::string> names_;
  std::map<std::string, std::string> places_;
};

}  // namespace transom::gpu
