// SPDX-License-Identifier: Apache-2.0
// Whole numbers beyond 64 bits on their way through a chat template, whose numbers have no more: others stand in for
// them until the text is there.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transom::serve {

class LongNumbers {
 public:
  // JSON with stand-ins of 18 digits, drawn so that no text holds them by chance.
  std::string shortened(std::string_view json);
  // The text with the digits that they stand for.
  std::string restored(std::string text) const;

 private:
  std::vector<std::pair<std::string, std::string>> known_;  // stand-in, digits
};

}  // namespace transom::serve
