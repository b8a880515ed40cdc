// SPDX-License-Identifier: Apache-2.0
// NCCL, and RCCL, which has the same functions under the same names: opened while the program runs, declared here with
// plain types, so that no header of theirs is needed.
#pragma once

#include <cstddef>

#include "gpu/api/api.h"

namespace transom::gpu {

struct NcclId {
  char internal[128];
};

// Numbers of ncclDataType_t and ncclRedOp_t.
enum NcclType {
  kNcclInt8 = 0,
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclUint32 = 3,
  kNcclInt64 = 4,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBfloat16 = 9
};
enum NcclOperation { kNcclSum = 0, kNcclMax = 2, kNcclMin = 3 };

// clang-format off
// The functions behind "nccl"; all return a result, 0 for success. Communicators and streams are pointers.
#define TRANSOM_NCCL_FUNCTIONS(X) \
  X(GetVersion, (int*)) \
  X(GetUniqueId, (NcclId*)) \
  X(CommInitRank, (void**, int, NcclId, int)) \
  X(CommDestroy, (void*)) \
  X(CommAbort, (void*)) \
  X(CommGetAsyncError, (void*, int*)) \
  X(AllReduce, (const void*, void*, size_t, int, int, void*, void*)) \
  X(AllGather, (const void*, void*, size_t, int, void*, void*)) \
  X(ReduceScatter, (const void*, void*, size_t, int, int, void*, void*)) \
  X(Broadcast, (const void*, void*, size_t, int, int, void*, void*)) \
  X(Send, (const void*, size_t, int, int, void*, void*)) \
  X(Recv, (void*, size_t, int, int, void*, void*)) \
  X(GroupStart, ()) \
  X(GroupEnd, ())
// clang-format on

class Nccl {
 public:
  // That of this plugin's vendor, opened at the first call. Throws TRANSOM_UNAVAILABLE with what was tried.
  static const Nccl& open();

  // Throws a Failure unless the result is 0: TRANSOM_DEVICE_LOST where another rank or the way to it is gone.
  void check(int result, const char* what) const;
  const std::string& path() const { return path_; }

#define X(name, parameters) int(*name) parameters = nullptr;
  TRANSOM_NCCL_FUNCTIONS(X)
#undef X

 private:
  explicit Nccl(const LibraryPlaces& places);
  const char* (*text_of_)(int) = nullptr;
  const char* (*last_error_)(void*) = nullptr;  // null: the library is older than 2.13
  std::string path_;
};

}  // namespace transom::gpu
