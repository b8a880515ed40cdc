// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/descriptions/vendor_names.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/device/descriptions/descriptions.h"

namespace transom {
namespace {

struct Vendor {
  std::string_view names;  // words, each behind a space
  const char* advice;
};

constexpr Vendor kVendors[] = {
    {" v70 alveo xilinx vitis versal dpu",
     ": the Alveo V70 runs files that AMD's compiler makes of ONNX; install Vitis AI 3.5 and its V70 image, and give "
     "it "
     "what 'transom export MODEL DIR --format onnx --opset 18 --quantization xint8' writes;"},
    {" npu xdna ryzenai ryzen-ai ryzen_ai amdxdna",
     ": Ryzen AI's NPU runs ONNX files through AMD's execution provider; install the Ryzen AI software, and give it "
     "what "
     "'transom export MODEL DIR --format onnx --opset 18 --quantization a8w8' writes;"},
    {" radeon amd hip amdgpu instinct mi210 mi250 mi250x mi300 mi300x mi325x",
     ": AMD's Radeon and Instinct cards are 'rocm', with AMD's driver and ROCm (packages hip-runtime-amd, hiprtc, "
     "hipblaslt), or 'opencl', with an OpenCL driver alone (package rocm-opencl-runtime or mesa-opencl-icd);"},
    {" nvidia geforce a100 h100 h200", ": NVIDIA's GPUs are 'cuda';"},
    {" gpu", ": say whose: 'cuda' (NVIDIA), 'rocm' (AMD) or 'opencl';"}};

// What a plugin's description says.
std::string advice_of_plugins(const std::string& word) {
  for (const auto& description : device_descriptions())
    if (std::find(description->names.begin(), description->names.end(), word) != description->names.end())
      return fmt::format(": {} is {}'{}';", description->title,
                         description->library.empty() ? "the device of another plugin, " : "", description->device);
  return {};
}

}  // namespace

std::string advice_for_vendor_name(std::string_view name) {
  std::string word = " " + std::string(name.substr(0, name.find(':')));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c | 32) : c; });
  if (word.size() == 1) return {};
  for (const Vendor& vendor : kVendors) {
    const size_t at = vendor.names.find(word), end = at + word.size();
    if (at != vendor.names.npos && (end == vendor.names.size() || vendor.names[end] == ' ')) return vendor.advice;
  }
  return advice_of_plugins(word.substr(1));
}

}  // namespace transom
