// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/server/key_check.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "apps/serve/http/message.h"
#include "base/error.h"

namespace transom::serve {

KeyCheck::KeyCheck(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key.empty()) fail(ErrorKind::kUsage, "--api_key: expected a key that is not empty");
    digests_.push_back(digest_of(key));
  }
}

KeyCheck::Digest KeyCheck::digest_of(std::string_view key) {
  Digest digest{};
  unsigned int size = 0;
  if (EVP_Digest(key.data(), key.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    fail(ErrorKind::kInternal, "SHA-256 is not available");
  return digest;
}

std::optional<size_t> KeyCheck::find(std::string_view key) const {
  const Digest given = digest_of(key);
  std::optional<size_t> found;
  for (size_t i = 0; i < digests_.size(); ++i)
    if (CRYPTO_memcmp(digests_[i].data(), given.data(), given.size()) == 0) found = i;
  return found;
}

std::string KeyCheck::name_of(size_t key) const { return fmt::format("{:02x}", fmt::join(digests_.at(key), "")); }

std::optional<size_t> KeyCheck::find_in_header(const std::string* authorization) const {
  std::string_view text = authorization ? std::string_view(*authorization) : std::string_view();
  const bool bearer = text.size() > 7 && lower_case(text.substr(0, 7)) == "bearer ";
  const std::optional<size_t> known = find(bearer ? trimmed(text.substr(7)) : text);
  return bearer ? known : std::nullopt;
}

std::optional<size_t> KeyCheck::find_in(const HttpRequest& head) const {
  const std::optional<size_t> known = find_in_header(head.header("authorization"));
  const std::string* own = head.header("x-api-key");
  const std::optional<size_t> other = find(own ? std::string_view(*own) : std::string_view());
  return known || !own ? known : other;
}

}  // namespace transom::serve
