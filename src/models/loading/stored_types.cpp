// SPDX-License-Identifier: Apache-2.0
#include "models/loading/stored_types.h"

#include "transom/device.h"
#include "transom/tensor.h"

namespace transom {
namespace {

thread_local int scopes = 0;

}  // namespace

KeepStoredTypes::KeepStoredTypes() { ++scopes; }
KeepStoredTypes::~KeepStoredTypes() { --scopes; }
bool KeepStoredTypes::active() { return scopes > 0 && mode() != Mode::kEager && device_name().starts_with("cpu"); }

}  // namespace transom
