// SPDX-License-Identifier: Apache-2.0
// A subcommand: what it takes and what it does. main.cpp reads the command line for all of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/terminal/command_line.h"
#include "transom/hub.h"

namespace transom {

struct LoadOptions;  // transom/model.h

// Headings of --help.
inline constexpr const char *kTaskGroup = "Task", *kGenerationGroup = "Generation", *kModelGroup = "Model",
                            *kDeviceGroup = "Device";

struct Command {
  std::string name, help;
  std::string examples;  // shown below --help
  std::vector<Option> options;
  std::function<int()> run;  // the exit status
  // Takes all words behind the name itself instead of `options`.
  std::function<int(const std::vector<std::string>&)> run_words;
};

// One maker for each subcommand.
Command bench_command();
Command bench_serve_command();
Command certify_command();
Command chat_command();
Command convert_command();
Command devices_command();
Command evaluate_command();
Command explain_command();
Command export_command();
Command forward_command();
Command generate_command();
Command health_command();
Command list_command();
Command merge_command();
Command models_command();
Command plan_command();
Command preprocess_command();
Command prune_command();
Command pull_command();
Command quantize_command();
Command remove_command();
Command route_command();
// With the options of the task that is among `words`.
Command run_command(const std::vector<std::string>& words);
Command serve_command();
Command spawn_command();
Command tokenize_command();
Command trace_command();
Command train_command();

// Options that several commands share.
struct DeviceOptions {
  std::string device, mode;  // empty: the best that is found; lazy, or what its environment says
  void add_to(Command& command);
  void apply() const;  // chooses device and mode; refuses unknown ones
};

// The precision of the model that is loaded.
struct PrecisionOptions {
  std::string dtype = "float32", quantization = "none";
  std::string activations = "int8";  // of products with compressed weights; a command may have another default
  void add_to(Command& command);
  void apply_to(LoadOptions& load) const;  // refuses unknown ones
};
inline constexpr const char* kDtypeHelp =
    "type of the weights and of matrix products: float32, bfloat16 (bf16), float16 (fp16), or auto: the checkpoint's";
inline constexpr const char* kQuantizationHelp = "none, or int8: linear layers in 8-bit integers";

// Where models come from that are named by an id, by the names of Transformers.
struct ModelOptions {
  std::string revision = "main";
  std::optional<std::string> token, cache_dir;
  bool local_files_only = false;
  void add_to(Command& command);
  HubOptions hub() const;
};
// A bar on standard error for each file that is downloaded.
std::function<void(const std::string& file, int64_t done, int64_t total)> download_bars();

// How every command takes its model: at its place, or by either flag.
inline constexpr const char *kModelPlace = "model,--model,-m", *kModelFlag = "--model,-m";
// What --model and --tokenizer say in their help.
inline constexpr const char* kModelHelp = "directory of a checkpoint, a .gguf file, or an id of the Hugging Face Hub";

}  // namespace transom
