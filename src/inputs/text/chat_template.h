// SPDX-License-Identifier: Apache-2.0
// Chat templates: Jinja programs that a checkpoint brings along to write a conversation as the text its model knows.
#pragma once

#include <map>
#include <string>

#include "base/json/json_fwd.h"
#include "transom/tokenizer.h"

namespace transom::text {

// By name; the one without a name is "default".
using ChatTemplates = std::map<std::string, std::string, std::less<>>;

// Those of the field chat_template: one template, or a list of named ones. `where` names the configuration in errors.
ChatTemplates read_chat_templates(const Json& config, const std::string& where);

// The template of that name, or the template that `options` holds itself; without either that of tools, then "default".
const std::string& choose_chat_template(const ChatTemplates& templates, const ChatOptions& options);

// As Transformers' apply_chat_template. `special_tokens` are {"bos_token": "<s>", ...}, which the template sees. Errors
// name the template's line.
ChatText render_chat(const std::string& source, std::string_view messages, const ChatOptions& options,
                     const std::map<std::string, std::string>& special_tokens);

}  // namespace transom::text
