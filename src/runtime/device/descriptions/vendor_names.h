// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace transom {

// What to do instead for a name that is a vendor's or a product's and no device's: " ...;", to stand behind "there is
// no device NAME"; empty for other names. Letters of either case.
std::string advice_for_vendor_name(std::string_view name);

}  // namespace transom
