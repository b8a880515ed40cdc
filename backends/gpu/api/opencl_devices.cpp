// SPDX-License-Identifier: Apache-2.0
#include "gpu/api/opencl_devices.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "gpu/api/shared_library.h"

namespace transom::gpu::cl {
namespace {

Functions opened() {
  const SharedLibrary library = SharedLibrary::open({"libOpenCL.so.1"}, "TRANSOM_OPENCL_LIBRARY",
                                                    "install a driver with OpenCL and the package ocl-icd-libopencl1");
  Functions call;
#define X(result, name, parameters) call.name = reinterpret_cast<decltype(call.name)>(library.expect("cl" #name));
  TRANSOM_OPENCL_FUNCTIONS(X)
#undef X
  return call;
}

std::string text_info(Device device, DeviceInfo key) {
  return text_of([&](auto... to) { return functions().GetDeviceInfo(device, key, to...); });
}

}  // namespace

const Functions& functions() {
  static const Functions call = opened();
  return call;
}

void refuse(Int status, const char* what) {
  switch (status) {
    case kAllocationFailed:
    case kOutOfHostMemory:
    case kOutOfResources:
      fail(TRANSOM_OUT_OF_MEMORY, "out of device memory: {} (OpenCL status {})", what, status);
    case kDeviceNotFound:
    case kNoPlatform:
      fail(TRANSOM_UNAVAILABLE, "no OpenCL device: {} (OpenCL status {})", what, status);
    default:
      fail(TRANSOM_INTERNAL, "{} failed with OpenCL status {}", what, status);
  }
}

std::vector<Found> find_devices(std::string& left_out) {
  const Functions& call = functions();
  Uint count = 0;
  const Int status = call.GetPlatformIDs(0, nullptr, &count);
  if (status == kNoPlatform || (status == kSuccess && count == 0))
    fail(TRANSOM_UNAVAILABLE,
         "expected an OpenCL driver, found none in /etc/OpenCL/vendors; install the one of the device, or "
         "pocl-opencl-icd for the processor");
  check(status, "clGetPlatformIDs");
  std::vector<Platform> platforms(count);
  CL(GetPlatformIDs, count, platforms.data(), nullptr);
  std::vector<Found> found;
  for (const Platform platform : platforms) {
    char name[256] = "";
    call.GetPlatformInfo(platform, kPlatformName, sizeof name - 1, name, nullptr);
    Uint devices_count = 0;
    if (call.GetDeviceIDs(platform, kTypeAll, 0, nullptr, &devices_count) != kSuccess) continue;
    std::vector<Device> devices(devices_count);
    if (call.GetDeviceIDs(platform, kTypeAll, devices_count, devices.data(), nullptr) != kSuccess) continue;
    for (const Device device : devices) {
      if (info<size_t>(device, kDeviceMaxGroup) < kGroup)
        left_out += "; " + text_info(device, kDeviceName) + " has groups of less than 256 work-items";
      else found.push_back({device, name});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    const auto rank = [](const Found& one) { return (info<Bits>(one.device, kDeviceType) & kTypeGpu) == 0; };
    return rank(a) < rank(b);
  });
  return found;
}

Facts facts_of(const Found& found) {
  Facts facts;
  facts.name = text_info(found.device, kDeviceName);
  facts.architecture = text_info(found.device, kDeviceVersion);
  facts.driver = found.platform + " " + text_info(found.device, kDriverVersion);
  facts.memory_bytes = info<uint64_t>(found.device, kDeviceGlobalMemory);
  facts.group_memory = info<uint64_t>(found.device, kDeviceLocalMemory);
  facts.largest_buffer = info<uint64_t>(found.device, kDeviceMaxAllocation);
  facts.compute_units = info<uint32_t>(found.device, kDeviceComputeUnits);
  facts.argument_bytes = info<size_t>(found.device, kDeviceMaxParameter, 1024);
  facts.host_memory = info<Uint>(found.device, kDeviceHostMemory, 1) != 0;
  facts.emulated = facts.name.starts_with("emulated");  // emulators/opencl
  facts.float64 = text_info(found.device, kDeviceExtensions).find("cl_khr_fp64") != std::string::npos;
  return facts;
}

bool shares_memory(Device device) {
  const char* chosen = std::getenv("TRANSOM_OPENCL_MEMORY");
  if (chosen && std::string_view(chosen) == "objects") return false;
  return info<Bits>(device, kDeviceSvm) & kSvmCoarse;
}

}  // namespace transom::gpu::cl
