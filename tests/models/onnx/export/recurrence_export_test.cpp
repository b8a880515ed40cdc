// SPDX-License-Identifier: Apache-2.0
// Models with states of texts as files: one Scan a recurrence, checked by our own importer at lengths that were not
// traced.
#include <gtest/gtest.h>

#include "models/onnx/export/check_export.h"
#include "models/onnx/export/export_model.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom::onnx {
namespace {

class RecurrenceExport : public testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<transom::Model> model() {
    return transom::Model::from_pretrained((test::golden_folder() / GetParam() / "model").string());
  }
};

TEST_P(RecurrenceExport, FilesGiveTheModelsAnswersAtOtherLengths) {
  const test::TemporaryFolder folder;
  for (const int64_t opset : {18, 23}) {
    size_t checked = 0;
    const auto written = export_model(*model(), folder.path(), {.opset = opset, .check = [&](const ExportCheck& check) {
                                                                  ++checked;
                                                                  EXPECT_LT(check.difference, 1e-4) << check.output;
                                                                }});
    EXPECT_EQ(checked, 1u);
    EXPECT_NE(read_file(written.at(0)).find("num_scan_inputs"), std::string::npos);
  }
}

TEST_P(RecurrenceExport, StatesHaveNoNamesAmongPasts) {
  const test::TemporaryFolder folder;
  const std::string message = test::message_of([&] { export_model(*model(), folder.path(), {.with_past = true}); });
  EXPECT_NE(message.find("keep a state of the text"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Families, RecurrenceExport,
                         testing::Values("mamba-lm", "mamba2-other-lm", "jamba-lm", "qwen3-next-lm"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace transom::onnx
