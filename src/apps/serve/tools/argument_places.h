// SPDX-License-Identifier: Apache-2.0
// Arguments of calls as objects in an answer. Json would round the long numbers in them, so that a name stands in their
// place until the answer is a text.
#pragma once

#include <string>
#include <vector>

#include "base/json/json.h"

namespace transom::serve {

class ArgumentPlaces {
 public:
  ArgumentPlaces();
  // What stands in the Json for the arguments of that number.
  std::string operator[](size_t i) const;
  // The answer as text; it holds the places 0, 1 ... of so many arguments, in this order.
  std::string filled(const Json& answer, const std::vector<std::string>& arguments) const;

 private:
  const std::string secret_;  // which no text holds
};

// The arguments of a call as JSON, though a limit has cut them: what is whole of them, closed. "{}" where nothing is.
std::string completed_arguments(const std::string& arguments);

}  // namespace transom::serve
