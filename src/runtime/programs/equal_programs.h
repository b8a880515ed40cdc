// SPDX-License-Identifier: Apache-2.0
// Programs of many graphs at once. The layers of a model, cut at collectives, are equal graphs: each is compiled once,
// however many layers there are.
#pragma once

#include "runtime/programs/device_program.h"

namespace transom {

// What one program is compiled of; see ProgramOptions.
struct ProgramPart {
  Graph graph;                                    // isolated
  std::vector<bool> donated, restorable, frozen;  // by input
  size_t updates_from = 0;                        // the first node that updates what is restorable
};

struct EqualPrograms {
  std::vector<std::unique_ptr<DeviceProgram>> programs;  // one a part
  size_t executables = 0;                                // of the device: as many as there are different parts
};

// Parts share an executable where their graphs have one structure, their inputs the same flags, and the modules that
// their nodes come from differ in numbers alone ("layers.3.mlp" and "layers.4.mlp"). The device then knows the place of
// a node as "layers.*.mlp"; profiles have the place of each part. Throws NotSupported where the device refuses a part.
EqualPrograms compile_programs(const std::shared_ptr<Device>& device, const std::vector<const ProgramPart*>& parts,
                               std::string* description = nullptr);

}  // namespace transom
