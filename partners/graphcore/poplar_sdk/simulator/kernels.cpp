// SPDX-License-Identifier: Apache-2.0
#include "simulator/kernels.h"

#include <map>

namespace ipu_emulator {
namespace {

std::map<std::string, MakeKernel, std::less<>>& all_kernels() {
  static std::map<std::string, MakeKernel, std::less<>> all;
  return all;
}

}  // namespace

RegisterKernel::RegisterKernel(const char* name, MakeKernel make) { all_kernels()[name] = make; }

std::function<void(Memory&)> kernel_of(const Step& step) {
  const auto found = all_kernels().find(step.kernel);
  if (found == all_kernels().end()) Reader::refuse("a kernel of the libraries, found \"" + step.kernel + "\"");
  Reader parameters(step.parameters);
  auto run = found->second(step, parameters);
  Reader::expect(parameters.left() == 0, "no more parameters of a kernel");
  return run;
}

void expect_tensors(const Step& step, size_t reads, size_t writes, size_t updates) {
  if (step.reads.size() != reads || step.writes.size() != writes || step.updates.size() != updates)
    Reader::refuse("as many tensors as the kernel \"" + step.kernel + "\" has");
}

}  // namespace ipu_emulator
