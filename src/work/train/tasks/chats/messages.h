// SPDX-License-Identifier: Apache-2.0
// Messages of a chat as they stand in files of training rows.
#pragma once

#include <string>

#include "base/json/json.h"

namespace transom {

// The messages in the form that chat templates read: {"role", "content"}, with {"from", "value"} of ShareGPT renamed
// (human is user, gpt is assistant), and the arguments of tool calls as objects, which files hold as text of JSON.
// `where` names the row in errors. `pictures`: contents may have parts of type image too, or image_url.
Json plain_messages(const Json& messages, const std::string& where, bool pictures = false);

// A part of a content that stands for a picture.
bool is_picture_part(const Json& part);

bool has_assistant_turn(const Json& messages);

// Puts a system text that stands beside the messages in front of them; an empty one is none.
void put_system_text(Json& messages, const std::string& text, const std::string& where);

}  // namespace transom
