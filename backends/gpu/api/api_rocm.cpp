// SPDX-License-Identifier: Apache-2.0
// AMD: the HIP runtime, and hipRTC for kernels, which is part of the runtime up to 6.x.
#include "gpu/api/driver.h"

namespace transom::gpu {

Runtime& runtime() {
  static DriverRuntime rocm(
      {.name = "rocm",
       .prefix = "HIP",
       .dialect = Dialect::kHip,
       .cuda = false,
       .driver_files = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                        "/opt/rocm/lib/libamdhip64.so"},
       .compiler_files = {"libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "/opt/rocm/lib/libhiprtc.so",
                          "libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.5"},
       .driver_variable = "TRANSOM_HIP_LIBRARY",
       .compiler_variable = "TRANSOM_HIPRTC_LIBRARY",
       .cure = "install AMD's driver and ROCm (packages hip-runtime-amd, hiprtc)",
       .attribute_units = 63,
       .attribute_wave = 87,
       .emulated = [](const SharedLibrary& driver) { return driver.find("transomEmulatedDriver") != nullptr; }});
  return rocm;
}

}  // namespace transom::gpu
