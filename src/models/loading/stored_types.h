// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace transom {

// While it lives on this thread, weights of linear layers and tables of the vocabulary that a checkpoint holds in a
// shorter float type than the model computes in are loaded as they lie in the file, and cast to f32 where they are
// read: a server's start neither writes nor keeps a copy of them that is twice as long. For models that are only
// computed with, in lazy mode, on a device that reads weights through casts: whoever else evaluates such a weight by
// itself gets numbers that are not frozen.
class KeepStoredTypes {
 public:
  KeepStoredTypes();
  ~KeepStoredTypes();
  KeepStoredTypes(const KeepStoredTypes&) = delete;
  KeepStoredTypes& operator=(const KeepStoredTypes&) = delete;
  static bool active();
};

}  // namespace transom
