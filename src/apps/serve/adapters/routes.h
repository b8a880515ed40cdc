// SPDX-License-Identifier: Apache-2.0
// LoRA adapters that come and go while a server answers: /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has
// them.
#pragma once

#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

void load_lora_adapter(const std::shared_ptr<Call>& call);
void unload_lora_adapter(const std::shared_ptr<Call>& call);
std::vector<Route> adapter_routes();

}  // namespace transom::serve
