// SPDX-License-Identifier: Apache-2.0
// The parts of the page; each is text of its language.
#pragma once

namespace transom::serve {

extern const char* const kPageMarkup;  // the body
extern const char* const kPageStyle;
extern const char* const kPageScript;      // the models, the forms of tasks
extern const char* const kPageChatScript;  // the chat; behind the other

}  // namespace transom::serve
