// SPDX-License-Identifier: Apache-2.0
// Any bytes as the index of a TensorFlow checkpoint. The CRC of a block is made right first, so that what lies in it is
// read too.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/numbers/crc32c.h"
#include "files/foreign/parameter_names.h"
#include "files/foreign/tensorflow/tensor_bundle.h"
#include "transom/error.h"

namespace {

// For blocks as they lie where nothing has moved: at the offsets that the seed has.
void seal(std::vector<std::byte>& bytes, size_t begin, size_t end) {
  if (end + 4 > bytes.size() || begin >= end) return;
  const uint32_t crc = transom::masked_crc32c(std::span(bytes).subspan(begin, end - begin));
  std::memcpy(bytes.data() + end, &crc, 4);
}

void read_bundle(const std::vector<std::byte>& bytes) {
  using namespace transom;
  try {
    for (const auto& [name, entry] : parse_bundle_index(bytes, "fuzz.index").entries)
      for (const GoogleModel model :
           {GoogleModel::kBert, GoogleModel::kAlbert, GoogleModel::kElectra, GoogleModel::kMeshT5})
        name_of_google_variable(name, model);
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto all = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(all.begin(), all.end());
  read_bundle(bytes);
  constexpr size_t kTrailer = 5, kFooter = 48, kIndexBlock = 15, kMetaBlock = 8;
  if (size < kFooter + kIndexBlock + kMetaBlock + 3 * kTrailer) return 0;
  const size_t index_end = size - kFooter, index_begin = index_end - kIndexBlock - kTrailer,
               data_end = index_begin - kMetaBlock - kTrailer;
  seal(bytes, 0, data_end - kTrailer + 1);
  seal(bytes, index_begin, index_end - kTrailer + 1);
  read_bundle(bytes);
  return 0;
}
