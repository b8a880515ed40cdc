// SPDX-License-Identifier: Apache-2.0
// The pictures of rows that hold chats, as TRL and LLaVA have them: columns images (a list) or image, and pictures that
// parts of contents name themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "transom/dataset.h"

namespace transom {

// Pictures are named by their files, beside the table or as they stand, or by "data:" URLs.
class PictureColumn {
 public:
  PictureColumn() = default;
  // Finds the column; refuses a file that has both.
  explicit PictureColumn(const Dataset& data);
  bool is_there() const { return column_.has_value(); }
  bool has_any(const Dataset& data) const;  // in some row
  std::string name() const { return column_ ? name_ : ""; }
  // Those of a row, as it names them.
  std::vector<std::string> pictures(const Row& row, const std::string& where) const;

 private:
  std::optional<size_t> column_;
  std::string name_;
};

// Gives the pictures of a row their places in its messages, and takes out what parts name: then each place is a part
// {"type": "image"}, and the result has their pictures in order. Where contents are texts, the places are its words
// "<image>" if there are any, and else in front of the first message of the user, as TRL puts them.
std::vector<std::string> place_pictures(Json& messages, std::vector<std::string> of_row, const std::string& where);

// Where the pictures lie: files that are there, or the URLs. Nothing is fetched.
std::vector<std::string> found_pictures(std::vector<std::string> names, const Dataset& data, const std::string& where);

}  // namespace transom
