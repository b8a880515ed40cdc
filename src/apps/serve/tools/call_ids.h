// SPDX-License-Identifier: Apache-2.0
// The ids of calls, in the form that the chat template of the model takes.
#pragma once

#include <string>

#include "base/json/json.h"
#include "transom/tokenizer.h"

namespace transom::serve {

struct CallIds {
  enum Form {
    kAny,                // call_ and letters, as OpenAI's are
    kNineCharacters,     // letters and digits: Mistral's templates refuse others
    kFunctionAndNumber,  // functions.NAME:NUMBER, which Kimi's templates write to the model
  } form = kAny;
  int64_t known = 0;  // calls of the conversation so far

  // Of the call `number` of an answer. What the model wrote itself stays where the form is that of the model.
  std::string make(const std::string& function, int64_t number, const std::string& written) const;
};

// By what the template makes of a call.
CallIds::Form call_id_form(const Tokenizer& tokenizer, const ChatOptions& options);
// Ids of another form, which clients send or leave out, are replaced, those of calls and of their results alike.
// Returns the ids that the next answer goes on with.
CallIds fit_call_ids(Json& messages, CallIds::Form form);

}  // namespace transom::serve
