// SPDX-License-Identifier: Apache-2.0
// The handles of cuDNN, which convolutions and graphs share.
#pragma once

namespace emulator {

bool is_cudnn_handle(void* handle);
void* stream_of_cudnn_handle(void* handle);  // of one that lives; null where none was set

}  // namespace emulator
