// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/chat_pictures.h"

#include <iterator>

#include "base/error.h"
#include "inputs/data/tables/labelled_files.h"
#include "work/train/tasks/chats/messages.h"
#include "work/train/tasks/chats/row_values.h"

namespace transom {
namespace {

constexpr std::string_view kPlaceInText = "<image>";  // of LLaVA's rows

Json picture_part() { return Json{{"type", "image"}}; }
Json text_part(std::string text) { return Json{{"type", "text"}, {"text", std::move(text)}}; }

// What a picture is called where it is a text, or an object with one: datasets and chats have several names for it.
std::optional<std::string> picture_name(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_object()) return std::nullopt;
  for (const char* field : {"image", "path", "url", "image_url"})
    if (const auto found = json.find(field); found != json.end() && !found->is_null()) return picture_name(*found);
  return std::nullopt;
}

// The text's words "<image>" as parts of their own.
Json parts_of_text(const std::string& text) {
  Json parts = Json::array();
  size_t end = 0;
  for (size_t at = text.find(kPlaceInText); at != text.npos; at = text.find(kPlaceInText, end)) {
    if (at > end) parts.push_back(text_part(text.substr(end, at - end)));
    parts.push_back(picture_part());
    end = at + kPlaceInText.size();
  }
  if (end < text.size()) parts.push_back(text_part(text.substr(end)));
  return parts;
}

// Places in messages whose contents are texts.
void add_places(Json& messages, size_t pictures) {
  bool marked = false;
  for (Json& message : messages) {
    Json& content = message["content"];
    if (!content.is_string() || content.get<std::string>().find(kPlaceInText) == std::string::npos) continue;
    content = parts_of_text(content.get<std::string>());
    marked = true;
  }
  if (marked) return;
  for (Json& message : messages) {
    if (message["role"] != "user" || !message["content"].is_string()) continue;
    Json parts = Json::array();
    for (size_t i = 0; i < pictures; ++i) parts.push_back(picture_part());
    parts.push_back(text_part(message["content"].get<std::string>()));
    message["content"] = std::move(parts);
    return;
  }
}

}  // namespace

PictureColumn::PictureColumn(const Dataset& data) {
  for (const char* name : {"images", "image"}) {
    const auto found = data.find(name);
    if (!found) continue;
    require(!column_, "{}: expected pictures in one column, found images and image", data.name());
    column_ = found, name_ = name;
  }
}

bool PictureColumn::has_any(const Dataset& data) const {
  for (int64_t row = 0; column_ && row < data.size(); ++row)
    if (!pictures(data.row(row), data.where(row)).empty()) return true;
  return false;
}

std::vector<std::string> PictureColumn::pictures(const Row& row, const std::string& where) const {
  if (!column_) return {};
  const Json given = json_of(row[*column_], where + ", column " + name_);
  if (given.is_null()) return {};
  std::vector<std::string> names;
  for (const Json& each : given.is_array() ? given : Json::array({given})) {
    const std::optional<std::string> name = picture_name(each);
    require(name && !name->empty(), "{}, column {}: expected names of files or data: URLs, found {}", where, name_,
            quoted(dump_json(each), 80));
    names.push_back(*name);
  }
  return names;
}

std::vector<std::string> place_pictures(Json& messages, std::vector<std::string> of_row, const std::string& where) {
  if (!of_row.empty()) add_places(messages, of_row.size());
  std::vector<std::string> pictures;
  size_t places = 0, used = 0;  // that no part names a picture for, and those of the row that fill them
  for (Json& message : messages) {
    if (!message["content"].is_array()) continue;
    for (Json& part : message["content"]) {
      if (!is_picture_part(part)) continue;
      if (std::optional<std::string> name = picture_name(part)) pictures.push_back(std::move(*name));
      else if (++places; used < of_row.size()) pictures.push_back(std::move(of_row[used++]));
      part = picture_part();
    }
  }
  if (places != of_row.size())
    fail("{}: {} places for pictures in the messages (parts {{\"type\": \"image\"}}, or <image> in texts), and {} {}",
         where, places, of_row.size(), of_row.size() == 1 ? "picture" : "pictures");
  return pictures;
}

std::vector<std::string> found_pictures(std::vector<std::string> names, const Dataset& data, const std::string& where) {
  for (std::string& name : names) {
    if (name.starts_with("data:")) continue;
    if (name.starts_with("http://") || name.starts_with("https://"))
      fail("{}: pictures are not fetched: expected a file or a data: URL, found {}", where, quoted(name, 200));
    if (name.starts_with("file://")) name = name.substr(7);
    name = file_beside(data, name, where).string();
  }
  return names;
}

}  // namespace transom
