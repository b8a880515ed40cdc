// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/generation/chat_images.h"

#include "apps/serve/api/known_fields.h"
#include "apps/serve/inference/media.h"
#include "base/error.h"
#include "inputs/images/image_extents.h"

namespace transom::serve {
namespace {

// A text among the fields, or that of an object in one of them: {"image_url": {"url": "data:..."}}.
std::string text_in(const Json& part, const char* name, const char* inner) {
  const auto found = part.find(name);
  if (found == part.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  const auto text = found->is_object() ? found->find(inner) : found->end();
  return found->is_object() && text != found->end() && text->is_string() ? text->get<std::string>() : "";
}

// A data: URL, or base64. A part is one picture.
std::string source_of(const Json& part, const std::string& where) {
  std::string source;
  const char* first = nullptr;
  for (const auto& [name, inner] : {std::pair("image_url", "url"), std::pair("source", "data"), std::pair("url", ""),
                                    std::pair("image", ""), std::pair("base64", "")}) {
    std::string text = text_in(part, name, inner);
    if (text.empty()) continue;
    if (first) refuse_field(where, "{}: a part has one picture, found {} and {}", where, quoted(first), quoted(name));
    source = std::move(text), first = name;
  }
  for (const char* name : {"file_id", "file", "image_embeds", "video_url", "text"})
    if (const auto found = part.find(name); found != part.end() && !found->is_null() && !found->empty())
      refuse_field(where, "{}: {} of a picture is not supported by this server", where, quoted(name));
  return source;
}

}  // namespace

bool is_image_part(std::string_view type) { return type == "image_url" || type == "input_image" || type == "image"; }

int64_t count_image_parts(const Json& messages) {
  int64_t count = 0;
  for (const Json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    for (const Json& part : *content)
      if (is_image_part(text_in(part, "type", ""))) ++count;
  }
  return count;
}

Json ChatImages::take(const Json& part, const std::string& where) {
  if (!model_.images) refuse_field(where, "{}: pictures are not supported by this model, which reads texts", where);
  if (static_cast<int64_t>(taken_.size()) >= options_.most_images)
    refuse_field(where, "{}: one picture more than the {} that a request may have", where, options_.most_images);
  const std::string source = source_of(part, where);
  if (source.empty())
    refuse_field(where,
                 "{}: expected {{\"type\": \"image_url\", \"image_url\": {{\"url\": \"data:image/png;base64,...\"}}}}",
                 where);
  const std::string bytes = media_bytes(source, where.c_str());
  const std::span<const std::byte> file = std::as_bytes(std::span(bytes));
  const int64_t most = options_.most_image_pixels;
  if (const auto extents = image_extents(file))
    if (const auto [width, height] = *extents; width > 0 && height > 0 && (width > most || height > most / width))
      refuse_field(where, "{}: a picture of {} x {} pixels; at most {} are taken", where, width, height, most);
  try {
    taken_.push_back(model_.images->prepared(decode_image(file, where), together_));
  } catch (const Error& error) {
    refuse_field(where, "{}", error.what());
  }
  return {{"type", "image"}};
}

}  // namespace transom::serve
