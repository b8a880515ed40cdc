// SPDX-License-Identifier: Apache-2.0
// Which classes of a model the labels of a file are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

struct ClassMatch {
  enum class How {
    kSame,         // each label is the name of a class
    kWithoutCase,  // but for the case of letters
    kNumbers,      // the labels are the numbers of classes
    kInOrder,      // the classes have no names (LABEL_0 ...), and there are as many labels
    kNone          // other names
  };
  How how = How::kNone;
  std::vector<int64_t> ids;  // the class of each label; none for kNone
};

// Labels may be fewer than classes.
ClassMatch match_classes(const std::vector<std::string>& labels, const std::vector<std::string>& classes);

// Whether these are the names that classes have where nobody named them: LABEL_0, LABEL_1 ...
bool are_unnamed(const std::vector<std::string>& classes);

// Some of many names, for messages: "a, b, c and 17 more".
std::string listed_names(const std::vector<std::string>& names, size_t most = 10);

}  // namespace transom
