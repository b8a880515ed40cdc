// SPDX-License-Identifier: Apache-2.0
// The record of a task: everything that any edge asks about it (command line, server and its page, Python, C++, JSON,
// files). Each file of a task ends with its record, which registers itself; nothing else names the task.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transom/model.h"
#include "work/pipelines/parameters.h"

namespace transom {

class Pipeline;

// What an input is: which alternative of TaskInput, and how people and requests give it.
enum class InputKind {
  kText,
  kQuestion,   // a question, and the context that answers it
  kSentences,  // a source sentence and those that it is compared with
  kImage,
  kAudio,
  kVideo,
};

// Whether it is a file whose bytes a request brings.
inline bool is_media(InputKind kind) {
  return kind == InputKind::kImage || kind == InputKind::kAudio || kind == InputKind::kVideo;
}

// Which alternative of TaskResult a task gives, in their order.
enum class ResultKind {
  kClasses,
  kEntities,
  kAnswers,
  kFilledMasks,
  kVectors,
  kSimilarities,
  kMatches,  // kSimilarities with top_k
  kTranscription,
  kTexts,
  kObjects,
  kSegments,
  kDepth,
  kPictures,
  kSound,
  kVideo,
};
static_assert(static_cast<size_t>(ResultKind::kVideo) + 1 == std::variant_size_v<TaskResult>);

// How the input of a call came, which Transformers' results tell.
struct CallForm {
  bool alone = true;  // by itself, rather than as an item of a list
  bool plain = true;  // as a text or a path, rather than as an object
};

// Where Transformers writes results of one kind differently from task to task.
struct JsonForm {
  enum class Classes {
    kLabelFirst,  // [{"label", "score"}]
    kScoreFirst,  // [{"score", "label"}]
    kLists,       // {"sequence", "labels", "scores"}
  };
  Classes classes = Classes::kLabelFirst;
  std::string_view written = "generated";  // of texts: [{"<written>_text"}], [{"<written>_token_ids"}]
  // Whether a list of one item is that item; null: never.
  bool (*unwraps)(const TaskOptions& options, const CallForm& form) = nullptr;
  bool joins_one = false;    // a list of one input gives what the input alone gives
  bool tells_input = false;  // each text is told with what it was written about: "input_text"
};

struct TaskRecord {
  std::string_view name;
  std::string_view alias = {};
  // Of a task that has variants by name (translation_en_to_fr): whether the name is one of them.
  bool (*is_variant)(std::string_view name) = nullptr;
  std::string_view example;  // a command line behind `transom run NAME --model MODEL`
  InputKind input = InputKind::kText;
  bool takes_chats = false;   // messages in place of a text
  bool takes_images = false;  // pictures beside a text, or in the messages
  // Of kText: how the text is called, by flags, in JSON and on the server's page.
  std::string_view text_name = "text";
  // Of kSentences: how the one and the others are called, by flags, in JSON and on the server's page.
  std::string_view one_name = "source_sentence", others_name = "sentences";
  ResultKind result;
  JsonForm json = {};
  TaskParameters (*parameters)();
  // `task` is the name by which it was asked for.
  std::unique_ptr<Pipeline> (*load)(const std::string& directory, const LoadOptions& options, const std::string& task);
  std::string_view head = {};  // the task whose head the model needs; empty: that of this name
};

// All of them, by their names.
const std::vector<const TaskRecord*>& task_records();
// Whether its input is a text about pictures, rather than one that may have some.
inline bool asks_about_pictures(const TaskRecord& task) { return task.takes_images && !task.takes_chats; }
// By name, alias or the name of a variant; null: there is none.
const TaskRecord* find_task(std::string_view name);
// Refuses unknown tasks with the known ones.
const TaskRecord& need_task(std::string_view name);
// The name of a task that may be given by its alias; that of a variant stays what it is.
std::string canonical_task(const std::string& name);

struct RegisterTask {
  explicit RegisterTask(const TaskRecord& record);
};

}  // namespace transom
