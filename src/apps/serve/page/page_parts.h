// SPDX-License-Identifier: Apache-2.0
// The parts of the page: files beside this one, which cmake/TransomEmbed.cmake puts into the library.
#pragma once

#include <string_view>

namespace transom::serve {

extern const std::string_view kPageMarkup;      // page.html: the body
extern const std::string_view kPageStyle;       // page.css
extern const std::string_view kPageScript;      // tasks.js: the models, the forms of tasks
extern const std::string_view kPageMarkdown;    // markdown.js: how answers are shown
extern const std::string_view kPageHistory;     // history.js: earlier conversations
extern const std::string_view kPageChatScript;  // chat.js: the chat, behind the others

}  // namespace transom::serve
