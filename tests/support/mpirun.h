// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace transom::test {

// The beginning of a command that starts processes by Open MPI. They keep their files in a directory of this test: the
// common one of the user is made and removed by every run, and of two at a time one may fail.
inline std::string mpirun() {
  struct Folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("transom-mpirun-" + std::to_string(::getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return "OMPI_MCA_orte_tmpdir_base=" + folder.path.string() + " mpirun --allow-run-as-root --oversubscribe";
}

}  // namespace transom::test
