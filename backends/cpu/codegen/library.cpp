// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "cpu/codegen/kernels.h"
#include "cpu/codegen/module/module.h"
#include "cpu/device/processor.h"

namespace transom::cpu::codegen {
namespace {

struct Library {
  transom_codegen_compile_function compile = nullptr;
  std::string error;
};

// Beside this plugin.
std::filesystem::path library_path() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&library_path), &info) || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).parent_path() / "transom-cpu-codegen.so";
}

const Library& library() {
  static const Library opened = [] {
    Library found;
    void* handle = dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char* reason = dlerror();
      found.error = reason ? reason : "the module cannot be opened";
      return found;
    }
    found.compile = reinterpret_cast<transom_codegen_compile_function>(dlsym(handle, TRANSOM_CODEGEN_SYMBOL));
    std::atexit(stop_compiling);  // after the module's own handlers, so that it runs before them
    if (!found.compile) found.error = "the module lacks " TRANSOM_CODEGEN_SYMBOL;
    return found;
  }();
  return opened;
}

}  // namespace

bool generates_code() {
#if defined(TRANSOM_CPU_CODEGEN)
  static const bool present = [] {
    std::error_code ignored;
    return std::filesystem::exists(library_path(), ignored);
  }();
  return present;
#else
  return false;
#endif
}

std::optional<Code> compile_text(const std::string& text, std::string& error) {
  if (!library().compile) {
    error = library().error;
    return std::nullopt;
  }
  Code code;
  transom_codegen_result result{};
  result.user = &code;
  result.code = [](void* user, const void* bytes, size_t count, size_t entry) {
    *static_cast<Code*>(user) = {std::string(static_cast<const char*>(bytes), count), entry};
  };
  char line[256] = "";
  if (library().compile(text.data(), text.size(), &result, line, sizeof line) != 0) {
    error = line;
    return std::nullopt;
  }
  return code;
}

std::string assembly_of(const std::string& text) {
  if (!library().compile) return library().error + "\n";
  std::string assembly;
  transom_codegen_result result{};
  result.user = &assembly;
  result.assembly = [](void* user, const char* lines, size_t count) {
    static_cast<std::string*>(user)->assign(lines, count);
  };
  char line[256] = "";
  if (library().compile(text.data(), text.size(), &result, line, sizeof line) != 0) return std::string(line) + "\n";
  return assembly;
}

std::string describe_generator() {
#if !defined(TRANSOM_CPU_CODEGEN)
  return "kernels interpreted (built without LLVM)";
#else
  if (mode() == Mode::kOff) return "kernels interpreted (TRANSOM_CODEGEN=off)";
  if (!generates_code()) return fmt::format("kernels interpreted (no {})", library_path().filename().string());
  return fmt::format("kernels by LLVM {}, {} lanes", TRANSOM_LLVM_VERSION, vector_width());
#endif
}

std::string kernel_source(const GeneratedKernel& kernel) {
  const std::string text = generate(kernel.recipe());
  const char* wanted = std::getenv("TRANSOM_CODEGEN_ASSEMBLY");
  return wanted && *wanted == '1' ? text + "\n" + assembly_of(text) : text;
}

}  // namespace transom::cpu::codegen
