// SPDX-License-Identifier: Apache-2.0
#include "files/hub/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/error.h"

namespace transom {
namespace {

constexpr size_t kChunk = size_t{1} << 24;

std::string digest_of(const EVP_MD* kind, std::string_view head, std::span<const std::byte> bytes) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  bool fine = context && EVP_DigestInit_ex(context.get(), kind, nullptr) == 1 &&
              EVP_DigestUpdate(context.get(), head.data(), head.size()) == 1;
  for (size_t i = 0; fine && i < bytes.size(); i += kChunk)
    fine = EVP_DigestUpdate(context.get(), bytes.data() + i, std::min(kChunk, bytes.size() - i)) == 1;
  fine = fine && EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  if (!fine) fail(ErrorKind::kInternal, "OpenSSL cannot compute {}", EVP_MD_get0_name(kind));
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace

std::string sha256_of(const fs::path& path) { return digest_of(EVP_sha256(), {}, MappedFile::open(path)->bytes()); }

std::string sha256_of_text(std::string_view text) { return digest_of(EVP_sha256(), text, {}); }

bool is_digest(std::string_view text, size_t digits) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == digits && std::all_of(text.begin(), text.end(), is_digit);
}

std::string git_blob_sha1_of(const fs::path& path) {
  const auto file = MappedFile::open(path);
  std::string head = fmt::format("blob {}", file->bytes().size());
  head += '\0';
  return digest_of(EVP_sha1(), head, file->bytes());
}

}  // namespace transom
