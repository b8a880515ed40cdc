// SPDX-License-Identifier: Apache-2.0
#include "tools/certify/certify.h"
#include "base/files/paths.h"

#include <chrono>
#include <cstdio>

#include "apps/cli/command.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"

namespace transom {
namespace {

struct CertifyOptions {
  std::string device, output, verify, level;
  std::vector<std::string> models, operations;
  int64_t seed = 0, prompts = 1000;
  bool json = false, stop = false;
};

int verify(const std::string& file) {
  const Json report = certify::verify_report(file);
  const std::string verdict = report["verdict"].get<std::string>();
  std::puts(fmt::format("{}: unchanged, verdict {}", file, quoted(verdict)).c_str());
  return verdict == "pass" ? 0 : 1;
}

// Said before the work, not after it.
void expect_folder(const fs::path& folder) {
  fs::path known = absolute_path(folder);
  while (!path_exists(known) && known.has_relative_path()) known = known.parent_path();
  if (!directory_exists(known))
    fail("--output: cannot make the directory {}: {} is a file", folder.string(), known.string());
}

int run_certify(const CertifyOptions& o) {
  if (!o.verify.empty()) return verify(o.verify);
  if (o.seed < 0) fail(ErrorKind::kUsage, "--seed: expected at least 0, found {}", o.seed);
  if (!o.output.empty()) expect_folder(o.output);
  if (!o.operations.empty() && !o.output.empty())
    fail(ErrorKind::kUsage, "--operation: a certificate is of all operations; leave out --output");
  if (o.prompts < 1) fail(ErrorKind::kUsage, "--prompts: expected at least 1, found {}", o.prompts);
  certify::Options options{.device = o.device,
                           .operations = o.operations,
                           .models = o.models,
                           .prompts = o.prompts,
                           .stop_at_first_failure = o.stop};
  std::string_view rest = o.level;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    options.levels.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // A device cannot prepare for shapes that nobody knows beforehand.
  options.seed =
      o.seed > 0 ? static_cast<uint64_t>(o.seed)
                 : static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) >> 20 & 0xFFFFFF;
  const certify::Report report = certify::certify(options);
  const Json json = certify::to_json(report);
  if (!o.output.empty()) {
    const fs::path folder = o.output;
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail("--output: cannot make the directory {}: {}", folder.string(), error.message());
    write_file(folder / "certificate.json", dump_json(json, 2) + "\n");
    write_file(folder / "certificate.html", certify::to_html(report));
  }
  if (o.json) {
    std::puts(dump_json(json, 2).c_str());
  } else {
    std::fputs(certify::to_text(report).c_str(), stdout);
    std::puts(fmt::format("\n{} ({}{}), seed {}: {}", report.device.name, report.device.description,
                          report.device.emulated ? ", emulated" : "", report.seed, report.passed() ? "pass" : "FAIL")
                  .c_str());
  }
  if (report.passed()) return 0;
  const certify::Row* first = report.first_failure();
  std::fputs(fmt::format("transom: {}\n", first ? fmt::format("{}: {} {}: {}", report.device.name, first->subject,
                                                              first->variant, first->note)
                                                : "nothing was tried that the device supports")
                 .c_str(),
             stderr);
  return 1;
}

}  // namespace

Command certify_command() {
  static CertifyOptions options;
  Command command{.name = "certify",
                  .help =
                      "Show that a device computes the right thing: operations, models, behaviour; and that what is "
                      "sampled is what is trained",
                  .examples =
                      "  transom certify --device cpu --output certificate\n"
                      "  transom certify --device cuda --level operations,behaviour --json\n"
                      "  transom certify --level on-policy --model SmolLM2-135M --prompts 100\n"
                      "  transom certify --verify certificate/certificate.json"};
  command.options = {
      {"--device", &options.device, "cpu, cuda:1 ... (default: TRANSOM_DEVICE, else the best found)"},
      {"--operation", &options.operations, "names of operations to try (default: all)"},
      {kModelPlace, &options.models, "directories of checkpoints (default: small models of its own)"},
      {"--level", &options.level,
       "operations, models, behaviour, with commas (default: these); on-policy: the engine's log "
       "probabilities are those of a training pass, to the bit"},
      {"--prompts", &options.prompts, "prompts that level on-policy samples from each model in each setting"},
      {"--seed", &options.seed, "seed of shapes and values (0: a new one)"},
      {"--json", &options.json, "the report on standard output"},
      {"--output", &options.output, "directory for certificate.json and certificate.html"},
      {"--stop_at_first_failure", &options.stop, "do not go on after something is wrong"},
      {"--verify", &options.verify, "check that a certificate.json was not modified"}};
  command.run = [] { return run_certify(options); };
  return command;
}

}  // namespace transom
