// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adapter_kind.h"

#include <algorithm>

namespace transom {
namespace {

using MakeKind = AdapterKind (*)();

std::vector<MakeKind>& registered_kinds() {
  static std::vector<MakeKind> all;
  return all;
}

}  // namespace

RegisterAdapterKind::RegisterAdapterKind(AdapterKind (*record)()) { registered_kinds().push_back(record); }

const std::vector<AdapterKind>& adapter_kinds() {
  static const std::vector<AdapterKind> kinds = [] {
    std::vector<AdapterKind> all;
    for (const MakeKind make : registered_kinds()) all.push_back(make());
    std::sort(all.begin(), all.end(), [](const AdapterKind& a, const AdapterKind& b) { return a.type < b.type; });
    return all;
  }();
  return kinds;
}

const AdapterKind* find_adapter_kind(std::string_view type) {
  for (const AdapterKind& kind : adapter_kinds())
    if (kind.type == type) return &kind;
  return nullptr;
}

bool adapter_kind_takes(std::string_view type, std::string_view field) {
  const AdapterKind* kind = find_adapter_kind(type);
  return kind && std::find(kind->carried_out.begin(), kind->carried_out.end(), field) != kind->carried_out.end();
}

}  // namespace transom
