// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace transom {

// For a process that no launcher started: throws an Error of kind kUsage where the environment says that it should be
// one of several, as in a shell of a Slurm job of several tasks.
void refuse_to_train_alone();

}  // namespace transom
