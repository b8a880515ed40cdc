// SPDX-License-Identifier: Apache-2.0
// One function a task, each in a file of its name; task_data.cpp holds the table.
#pragma once

#include "work/train/tasks/task_data.h"

namespace transom {

// run_glue, run_classification: one or two columns of text and a label.
void prepare_text_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_image_classification: pictures in train_dir and validation_dir, or named in files.
void prepare_image_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
constexpr const char* kVideoColumn = "video";  // of a table that names videos
// Videos (animations, folders of frames) in train_dir and validation_dir, or named in files.
void prepare_video_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// train_unconditional of diffusers: pictures, which a network learns to make of noise.
void unconditional_image_defaults(TrainArguments& arguments);
void prepare_unconditional_images(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// train_text_to_image of diffusers: pictures and captions, by which Stable Diffusion draws.
void text_to_image_defaults(TrainArguments& arguments);
void prepare_text_to_image(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// train_controlnet of diffusers: pictures and captions, and pictures by which they are to be drawn.
void controlnet_defaults(TrainArguments& arguments);
void prepare_controlnet(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// train_dreambooth of diffusers: a few pictures of one thing.
void dreambooth_defaults(TrainArguments& arguments);
void prepare_dreambooth(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// textual_inversion of diffusers: a few pictures of one thing, for which a word is learned.
void textual_inversion_defaults(TrainArguments& arguments);
void prepare_textual_inversion(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_mae, run_mim: pictures without labels, of which a model makes up hidden patches.
constexpr const char* kMaskedPictures = "masked-image-modeling";  // of those that are told which are hidden
void masked_picture_defaults(TrainArguments& arguments);
void prepare_masked_pictures(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_semantic_segmentation: pictures, and pictures of the classes of their pixels.
void prepare_semantic_segmentation(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_instance_segmentation: pictures, and the masks and classes of the objects that they show.
void prepare_instance_segmentation(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
constexpr const char* kMaskColumn = "objects.segmentation";  // of rows that list objects
constexpr const char* kObjectMapColumn = "annotation";       // of rows that name a map of them
// run_object_detection: pictures, and the boxes and classes of what they show.
void prepare_object_detection(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_audio_classification: the same with sounds.
void prepare_audio_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// Click logs: a label, numbers, and categories, for DLRM.
void prepare_click_prediction(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_clip: pictures and captions, which are told from those of the other rows of a batch.
void prepare_image_text_contrast(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_speech_recognition_ctc: sounds and what is said in them.
void prepare_speech_recognition(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// Texts, sounds in which they are said, and vectors of the voices, as one fine-tunes SpeechT5.
void prepare_text_to_speech(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_ner: words and a tag for each.
void prepare_token_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_qa: questions, contexts, and where in them the answers are.
bool has_questions(const Dataset& data, const ScriptArguments& script);
void prepare_question_answering(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_seq2seq_qa: the same questions, whose answers are written.
void prepare_written_answers(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_mlm: text, whose tokens are masked anew for every batch.
void prepare_masked_language_modelling(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_clm: text joined into blocks, each token predicted from those before it.
void prepare_causal_language_modelling(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// The same for rows that are tokenised: labels are the tokens themselves, where rows bring none.
TrainingData with_causal_labels(TrainingData data, std::optional<int64_t> pad_token_id);
// Accuracy of the next token, and perplexity.
void score_causal_language_modelling(TaskSetup& setup);
// Nothing but the loss: logits over a vocabulary are let go at once.
void score_loss_only(TaskSetup& setup);
// run_translation, run_summarization: a source text and a target; with span_corruption, run_t5_mlm_flax: plain text.
void prepare_sequence_to_sequence(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// run_swag: a beginning, several endings, and which of them is right.
void prepare_multiple_choice(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);

}  // namespace transom
