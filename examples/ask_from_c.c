/* SPDX-License-Identifier: Apache-2.0
 * A pipeline from C: ask_from_c TASK MODEL TEXT... */
#include <stdio.h>

#include "transom/transom_c.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: example_ask_from_c TASK MODEL TEXT...\n");
    return 2;
  }
  transom_failure error = {TRANSOM_CODE_OK, ""};
  transom_pipeline* pipeline = NULL;
  if (transom_pipeline_load(argv[1], argv[2], "{\"dtype\": \"auto\"}", &pipeline, &error) == TRANSOM_CODE_OK) {
    for (int i = 3; i < argc; ++i) {
      char* json = NULL;
      if (transom_pipeline_run(pipeline, argv[i], NULL, &json, &error) != TRANSOM_CODE_OK) break;
      puts(json);
      transom_free(json);
    }
    transom_pipeline_free(pipeline);
  }
  if (error.status != TRANSOM_CODE_OK) fprintf(stderr, "%s: %s\n", transom_code_name(error.status), error.message);
  return error.status != TRANSOM_CODE_OK;
}
