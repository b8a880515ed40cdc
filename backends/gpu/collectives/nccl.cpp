// SPDX-License-Identifier: Apache-2.0
#include "gpu/collectives/nccl.h"

#include <cstdlib>

#include "gpu/api/shared_library.h"

namespace transom::gpu {

const Nccl& Nccl::open() {
  static const Nccl& nccl = *new Nccl(*runtime().collectives());  // its threads outlive all that end
  return nccl;
}

Nccl::Nccl(const LibraryPlaces& places) {
  const SharedLibrary library = SharedLibrary::open(places.files, places.variable, places.cure);
  path_ = library.path();
#define X(name, parameters) name = reinterpret_cast<decltype(name)>(library.expect("nccl" #name));
  TRANSOM_NCCL_FUNCTIONS(X)
#undef X
  text_of_ = reinterpret_cast<decltype(text_of_)>(library.expect("ncclGetErrorString"));
  last_error_ = reinterpret_cast<decltype(last_error_)>(library.find("ncclGetLastError"));
  // Sums have the same bits at every repeat: around a ring the order is fixed, in a switch it may not be. The library
  // reads this when its first group is made.
  ::setenv("NCCL_ALGO", "Ring", 0);
}

void Nccl::check(int result, const char* what) const {
  if (result == 0) return;
  constexpr int kSystem = 2, kInvalidArgument = 4, kRemote = 6;
  const char* more = last_error_ ? last_error_(nullptr) : "";
  const transom_status status = result == kSystem || result == kRemote ? TRANSOM_DEVICE_LOST
                                : result == kInvalidArgument           ? TRANSOM_INVALID_ARGUMENT
                                                                       : TRANSOM_INTERNAL;
  fail(status, "{}: {} ({}){}{}", what, text_of_(result), result, more && *more ? ": " : "", more ? more : "");
}

}  // namespace transom::gpu
