// SPDX-License-Identifier: Apache-2.0
// Which models write texts token by token, as the records of their classes say.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/json/json_fwd.h"
#include "transom/model.h"

namespace transom {

// False where the architecture has no record.
bool predicts_next_token(const Model& model);
// Of the first architecture that a config.json names; false where it names none.
bool predicts_next_token(const Json& config);

}  // namespace transom
