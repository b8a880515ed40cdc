// SPDX-License-Identifier: Apache-2.0
// What the library holds: the architectures of the registry, their tasks, and the cases that were tried on them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

// A checkpoint with the outputs and gradients that Transformers has for it, and whether ours were within its tolerances
// when scripts/record-cases last ran.
struct RecordedCase {
  std::string_view architecture, name;
  bool passed;
};
std::span<const RecordedCase> recorded_cases();  // recorded_cases.cpp, which that script writes

struct CatalogueRow {
  std::string model_type, architecture;
  std::vector<std::string> tasks;  // names of pipelines; none for bare bodies
  std::vector<RecordedCase> cases;
};

// One row an architecture, in the order of the registry.
std::vector<CatalogueRow> catalogue();
// "499 architectures of 151 model types".
std::string catalogue_size();
// The same as a page of Markdown: docs/models/README.md.
std::string catalogue_page();

}  // namespace transom
