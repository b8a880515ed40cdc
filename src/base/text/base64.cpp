// SPDX-License-Identifier: Apache-2.0
#include "base/text/base64.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/error.h"

namespace transom {

std::string from_base64(std::string_view text, std::string_view where) {
  require(text.size() % 4 == 0 && text.size() < (size_t{1} << 28), "{}: expected base64 of less than 256 MiB", where);
  std::string bytes(text.size() / 4 * 3, '\0');
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  require(length >= 0, "{}: expected base64", where);
  const auto padding = static_cast<size_t>(text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0);
  bytes.resize(static_cast<size_t>(length) - std::min(padding, static_cast<size_t>(length)));
  return bytes;
}

std::string to_base64(std::string_view bytes) {
  require(bytes.size() < (size_t{1} << 30), "expected less than 1 GiB for base64, found {} bytes", bytes.size());
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

}  // namespace transom
