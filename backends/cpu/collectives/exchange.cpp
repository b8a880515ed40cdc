// SPDX-License-Identifier: Apache-2.0
#include "cpu/collectives/exchange.h"

#include <stdexcept>

#include "cpu/device/threads.h"

namespace transom::cpu {

std::vector<Bytes> exchange_over_host(const unsigned char* id, uint32_t rank, const std::vector<Bytes>& parts) {
  if (!the_host.exchange) throw std::runtime_error("expected a host of version 1.5, which carries ids between ranks");
  std::vector<transom_bytes> mine;
  for (const Bytes& part : parts) mine.push_back({part.data(), part.size()});
  std::vector<Bytes> column(parts.size());
  const auto take = [](void* context, uint32_t from, const void* data, size_t bytes) {
    auto& all = *static_cast<std::vector<Bytes>*>(context);
    const char* begin = static_cast<const char*>(data);
    if (from < all.size() && bytes > 0) all[from].assign(begin, begin + bytes);
  };
  transom_error error{};
  if (the_host.exchange(id, rank, static_cast<uint32_t>(parts.size()), mine.data(), take, &column, &error) !=
      TRANSOM_OK)
    throw std::runtime_error(error.text);
  return column;
}

}  // namespace transom::cpu
