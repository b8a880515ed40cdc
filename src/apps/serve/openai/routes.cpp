// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/routes.h"

namespace transom::serve {

std::vector<Route> openai_routes() {
  return {
      {"GET", "/v1/models", list_models},
      {"GET", "/v1/models/", show_model, ErrorForm::kOpenAi, Route::kPrefix},
      {"POST", "/v1/embeddings", embeddings},
      {"POST", "/embeddings", embeddings},
      {"POST", "/v1/chat/completions", chat_completions, ErrorForm::kOpenAi, Route::kMedia},
      {"POST", "/v1/completions", completions},
      {"POST", "/v1/responses", responses, ErrorForm::kOpenAi, Route::kMedia},
      {"POST", "/v1/images/generations", image_generations},
      {"POST", "/v1/images/edits", image_edits, ErrorForm::kOpenAi, Route::kMedia},
      {"POST", "/v1/images/variations", image_variations, ErrorForm::kOpenAi, Route::kMedia},
      {"POST", "/v1/audio/transcriptions", transcriptions, ErrorForm::kOpenAi, Route::kMedia},
      {"POST", "/v1/audio/translations", translations, ErrorForm::kOpenAi, Route::kMedia},
      {"POST", "/v1/audio/speech", speech},
  };
}

}  // namespace transom::serve
