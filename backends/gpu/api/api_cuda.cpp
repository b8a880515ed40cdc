// SPDX-License-Identifier: Apache-2.0
// NVIDIA: the driver's interface, NVRTC for kernels, cuBLASLt for products, NCCL for collectives. Libraries are found
// by their names, beside them in the places where the toolkit and the packages of pip put them.
#include <cstdlib>
#include <filesystem>

#include "gpu/api/driver.h"

namespace transom::gpu {
namespace {

// `names` in order, then each of them in the folders. `packages`: of pip, as folders below site-packages.
std::vector<std::string> library_files(const std::vector<std::string>& names,
                                       const std::vector<std::string>& packages) {
  namespace fs = std::filesystem;
  std::vector<std::string> files = names;
  std::vector<fs::path> folders;
  const auto add = [&](const char* variable, const char* below) {
    if (const char* value = std::getenv(variable); value && *value) folders.push_back(fs::path(value) / below);
  };
  add("CUDA_HOME", "lib64"), add("CUDA_PATH", "lib64");
  folders.push_back("/usr/local/cuda/lib64");
  add("CONDA_PREFIX", "lib");
  std::vector<fs::path> roots;  // of Pythons, whose torch brings all of NVIDIA's libraries
  for (const auto& [variable, below] : {std::pair{"VIRTUAL_ENV", ""}, {"CONDA_PREFIX", ""}, {"HOME", ".local"}})
    if (const char* value = std::getenv(variable); value && *value) roots.push_back(fs::path(value) / below);
  roots.insert(roots.end(), {"/usr/local", "/usr"});
  for (const fs::path& root : roots) {
    std::error_code error;
    for (fs::directory_iterator next(root / "lib", error), end; !error && next != end; next.increment(error)) {
      if (!next->path().filename().string().starts_with("python3")) continue;
      std::error_code missing;
      for (const char* kind : {"site-packages", "dist-packages"})
        for (const std::string& package : packages)
          if (const fs::path folder = next->path() / kind / package; fs::is_directory(folder, missing))
            folders.push_back(folder);
    }
  }
  for (const fs::path& folder : folders)
    for (const std::string& name : names) files.push_back((folder / name).string());
  return files;
}

}  // namespace

Runtime& runtime() {
  static DriverRuntime cuda(
      {.name = "cuda",
       .prefix = "CUDA",
       .dialect = Dialect::kCuda,
       .cuda = true,
       .driver_files = {"libcuda.so.1"},
       // Of the newest toolkit first; each serves all drivers of its major version.
       .compiler_files = library_files({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"},
                                       {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}),
       .products_files =
           library_files({"libcublasLt.so.13", "libcublasLt.so.12"}, {"nvidia/cu13/lib", "nvidia/cublas/lib"}),
       .driver_variable = "TRANSOM_CUDA_LIBRARY",
       .compiler_variable = "TRANSOM_NVRTC_LIBRARY",
       .products_variable = "TRANSOM_CUBLASLT_LIBRARY",
       .cure = "install NVIDIA's driver, and for kernels: pip install nvidia-cuda-nvrtc nvidia-cublas",
       .collectives = {library_files({"libnccl.so.2", "libnccl.so"}, {"nvidia/nccl/lib"}), "TRANSOM_NCCL_LIBRARY",
                       "for several GPUs: pip install nvidia-nccl-cu13"},
       .convolutions = {library_files({"libcudnn.so.9", "libcudnn.so.8"}, {"nvidia/cudnn/lib"}),
                        "TRANSOM_CUDNN_LIBRARY", "for fast convolutions and attention: pip install nvidia-cudnn-cu13"},
       .attribute_units = 16,
       .attribute_wave = 10,
       .attribute_integrated = 18,
       .emulated = [](const SharedLibrary& driver) { return driver.find("transomEmulatedDriver") != nullptr; }});
  return cuda;
}

}  // namespace transom::gpu
