// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "support/temporary_folder.h"

namespace transom::test {

// The beginning of a command that starts processes by Open MPI. They keep their files in a directory of this test: the
// common one of the user is made and removed by every run, and of two at a time one may fail.
inline std::string mpirun() {
  static const TemporaryFolder folder;
  return "OMPI_MCA_orte_tmpdir_base=" + folder.string() + " mpirun --allow-run-as-root --oversubscribe";
}

}  // namespace transom::test
