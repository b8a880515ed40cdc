// SPDX-License-Identifier: Apache-2.0
// AMD: the HIP runtime, hipRTC for kernels, which is part of the runtime up to 6.x, hipBLASLt for products, RCCL for
// collectives.
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
       .products_files = {"libhipblaslt.so", "libhipblaslt.so.1", "libhipblaslt.so.0", "/opt/rocm/lib/libhipblaslt.so"},
       .driver_variable = "TRANSOM_HIP_LIBRARY",
       .compiler_variable = "TRANSOM_HIPRTC_LIBRARY",
       .products_variable = "TRANSOM_HIPBLASLT_LIBRARY",
       .cure = "install AMD's driver and ROCm (packages hip-runtime-amd, hiprtc, hipblaslt)",
       .collectives = {{"librccl.so.1", "librccl.so", "/opt/rocm/lib/librccl.so.1", "/opt/rocm/lib/librccl.so"},
                       "TRANSOM_RCCL_LIBRARY",
                       "for several GPUs: install ROCm's package rccl"},
       .convolutions = {{"libMIOpen.so.1", "libMIOpen.so", "/opt/rocm/lib/libMIOpen.so.1"},
                        "TRANSOM_MIOPEN_LIBRARY",
                        "for fast convolutions: install ROCm's package miopen-hip"},
       .attribute_units = 63,
       .attribute_wave = 87,
       .attribute_integrated = 16,
       .emulated = [](const SharedLibrary& driver) { return driver.find("transomEmulatedDriver") != nullptr; }});
  return rocm;
}

}  // namespace transom::gpu
