// SPDX-License-Identifier: Apache-2.0
// Memory for what is read from end to end again and again.
#pragma once

#include <cstddef>
#include <memory>

namespace transom {

// So many zeros, from the start of a page; in huge pages where they fill one and the system has them: small ones cost a
// third of the speed of reading, and more when they are cleared. Memory is taken when it is first written. Throws an
// Error where there is none.
std::shared_ptr<std::byte> huge_pages(size_t bytes);

}  // namespace transom
