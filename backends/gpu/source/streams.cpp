// SPDX-License-Identifier: Apache-2.0
#include "gpu/source/streams.h"

#include <algorithm>

namespace transom::gpu {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

Streams::Streams(KernelText& text, std::string body) : text_(text), body_(std::move(body)) {
  for (size_t k = 0; k < text.operands().size(); ++k) {
    const std::string address = fmt::format("b{}", k);
    for (const bool row : {false, true}) {
      std::string element = address + (row ? "[base + i]" : "[i]");
      if (body_.find(element) == body_.npos) continue;
      streams_.push_back({k, std::move(element), row ? address + " + base" : address});
    }
  }
}

int64_t Streams::lanes() const {
  int64_t largest = 2;
  for (const Stream& stream : streams_) largest = std::max(largest, size_of(text_.type_of_operand(stream.operand)));
  return 16 / largest;
}

std::string Streams::aligned() const {
  std::string addresses;
  for (const Stream& stream : streams_)
    addresses += fmt::format("{}(u64)({})", addresses.empty() ? "" : " | ", stream.begin);
  return fmt::format("(({}) & 15) == 0", addresses);
}

void Streams::write_vectors(int64_t lanes, const std::string& first, const std::string& head) const {
  std::string lane = body_, writes;
  size_t names = 0;
  for (const Stream& stream : streams_) {
    const std::string type = text_.vector_type(text_.type_of_operand(stream.operand), lanes);
    const std::string name = fmt::format("vector{}", names++), place = fmt::format("{} + {}", stream.begin, first);
    if (body_.find(stream.element + " = ") != body_.npos) {
      text_.line("{} {};", type, name);
      writes += fmt::format("VECTOR({}, {}) = {};\n", type, place, name);
    } else {
      text_.line("const {} {} = VECTOR({}, {});", type, name, type, place);
    }
    replace_all(lane, stream.element, name + ".at[lane]");
  }
  text_.line("#pragma unroll\nfor (int lane = 0; lane < {0}; ++lane) {{\nconst idx i = {1} + lane;\n{2}", lanes, first,
             head);
  text_.raw(lane);
  text_.raw("}\n" + writes);
}

}  // namespace transom::gpu
