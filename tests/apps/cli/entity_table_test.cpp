// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/output/entity_table.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

TEST(EntityTable, HasALineForEachKind) {
  Metrics metrics = {{"eval_loss", 0.5},
                     {"eval_LOC_precision", 0.25},
                     {"eval_LOC_recall", 0.5},
                     {"eval_LOC_f1", 1.0 / 3},
                     {"eval_LOC_number", 2},
                     {"eval_work_of_art_precision", 1},
                     {"eval_work_of_art_recall", 1},
                     {"eval_work_of_art_f1", 1},
                     {"eval_work_of_art_number", 12},
                     {"eval_overall_precision", 0.75},
                     {"eval_overall_f1", 0.5},
                     {"eval_overall_accuracy", 0.9}};
  EXPECT_EQ(take_entity_table(metrics),
            "kind         precision  recall      f1  number\n"
            "work_of_art     1.0000  1.0000  1.0000      12\n"
            "LOC             0.2500  0.5000  0.3333       2\n");
  EXPECT_EQ(metrics, (Metrics{{"eval_loss", 0.5},
                              {"eval_overall_precision", 0.75},
                              {"eval_overall_f1", 0.5},
                              {"eval_overall_accuracy", 0.9}}));
}

TEST(EntityTable, IsEmptyWithoutKinds) {
  const Metrics before = {{"loss", 1}, {"eval_f1", 0.5}, {"eval_precision", 0.5}, {"learning_rate", 1e-3}};
  Metrics metrics = before;
  EXPECT_EQ(take_entity_table(metrics), "");
  EXPECT_EQ(metrics, before);
}

}  // namespace
}  // namespace transom
