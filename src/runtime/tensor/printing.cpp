// SPDX-License-Identifier: Apache-2.0
// Tensors as text, in the form of NumPy's arrays.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "transom/tensor.h"

namespace transom {
namespace {

constexpr int64_t kWholeElements = 1000;  // tensors with more show the ends of their axes
constexpr int64_t kShownEnds = 3;

std::string text_of_element(double value, DType dtype) {
  if (dtype == DType::kBool) return value != 0 ? "true" : "false";
  if (is_floating(dtype)) return fmt::format("{:.6g}", value);
  return fmt::format("{:.0f}", value);
}

class ArrayText {
 public:
  explicit ArrayText(const Tensor& tensor)
      : type_(tensor.type()), shortened_(tensor.size() > kWholeElements), values_(texts_of(tensor)) {
    for (const std::string& value : values_) width_ = std::max(width_, value.size());
  }

  std::string operator()() const {
    if (type_.shape.empty()) return values_[0];
    size_t place = 0;
    return text_of_axis(0, place);
  }

 private:
  // The indices of an axis that are shown; -1 stands for those that are not.
  static std::vector<int64_t> shown_of(int64_t extent, bool shortened) {
    std::vector<int64_t> shown;
    for (int64_t i = 0; i < extent; ++i) {
      if (shortened && extent > 2 * kShownEnds && i >= kShownEnds && i < extent - kShownEnds) {
        if (i == kShownEnds) shown.push_back(-1);
      } else {
        shown.push_back(i);
      }
    }
    return shown;
  }

  // The elements that are shown, in order.
  static std::vector<std::string> texts_of(const Tensor& tensor) {
    std::vector<int64_t> places{0};
    for (const int64_t extent : tensor.shape()) {
      std::vector<int64_t> next;
      for (const int64_t place : places)
        for (const int64_t i : shown_of(extent, tensor.size() > kWholeElements))
          if (i >= 0) next.push_back(place * extent + i);
      places = std::move(next);
    }
    std::vector<std::string> texts;
    const bool wide = tensor.dtype() == DType::kInt64;  // more digits than double has
    const std::vector<int64_t> integers = wide ? tensor.to_vector<int64_t>() : std::vector<int64_t>();
    const std::vector<double> numbers = wide ? std::vector<double>() : tensor.to_vector<double>();
    for (const int64_t place : places) {
      const auto i = static_cast<size_t>(place);
      texts.push_back(wide ? std::to_string(integers[i]) : text_of_element(numbers[i], tensor.dtype()));
    }
    return texts;
  }

  std::string text_of_axis(size_t axis, size_t& place) const {
    const bool last = axis + 1 == type_.shape.size();
    // One empty line between matrices, two between what holds matrices, as NumPy has it.
    const std::string between =
        last ? ", " : "," + std::string(type_.shape.size() - axis - 1, '\n') + std::string(axis + 1, ' ');
    std::string text = "[";
    bool first = true;
    for (const int64_t i : shown_of(type_.shape[axis], shortened_)) {
      if (!first) text += between;
      first = false;
      if (i < 0) text += "...";
      else text += last ? fmt::format("{:>{}}", values_[place++], width_) : text_of_axis(axis + 1, place);
    }
    return text + "]";
  }

  Type type_;
  bool shortened_;
  std::vector<std::string> values_;
  size_t width_ = 0;
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return ArrayText(tensor)() + " " + to_string(tensor.type());
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace transom
