/* SPDX-License-Identifier: Apache-2.0
 *
 * Transom from C, and from every language that calls C: pipelines, vectors of texts, generated text, and training.
 * The header is C99 and holds no types of C++, so that programs of any compiler link with libtransom.so. Functions of
 * this header stay; new ones are added, and TRANSOM_C_VERSION counts them.
 *
 *   transom_failure error;
 *   transom_pipeline* classify = NULL;
 *   char* json = NULL;
 *   if (transom_pipeline_load("text-classification", "MODEL", NULL, &classify, &error) != TRANSOM_CODE_OK ||
 *       transom_pipeline_run(classify, "What a film!", "{\"top_k\": 2}", &json, &error) != TRANSOM_CODE_OK)
 *     fprintf(stderr, "%s\n", error.message);
 *   else
 *     puts(json);
 *   transom_free(json);
 *   transom_pipeline_free(classify);
 *
 * Texts are UTF-8 and end with a zero. What a function gives through a pointer of type char** or float** belongs to the
 * caller, who gives it to transom_free. Where a function fails, these pointers are null. Options are JSON objects; NULL
 * means none, and unknown names are refused. A handle may be used by several threads at once, and is freed by one when
 * no other uses it. Freeing NULL does nothing.
 */
#ifndef TRANSOM_TRANSOM_C_H
#define TRANSOM_TRANSOM_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRANSOM_C_VERSION 1

/* What went wrong. The numbers never change. */
typedef enum transom_code {
  TRANSOM_CODE_OK = 0,
  TRANSOM_CODE_USAGE = 1,         /* the call itself is wrong: an unknown option, a missing argument */
  TRANSOM_CODE_INPUT = 2,         /* a file, a field or a value is not what it must be */
  TRANSOM_CODE_DEVICE = 3,        /* a device failed in another way than those below, or there is none */
  TRANSOM_CODE_OUT_OF_MEMORY = 4, /* memory of the host or of a device is exhausted */
  TRANSOM_CODE_UNSUPPORTED = 5,   /* valid, but not carried out by this version or this device */
  TRANSOM_CODE_DEVICE_LOST = 6,   /* the device is gone with all that was on it */
  TRANSOM_CODE_INTERRUPTED = 7,   /* a callback asked to stop */
  TRANSOM_CODE_INTERNAL = 8       /* a defect of Transom */
} transom_code;

/* Every function that can fail returns the status, and writes it here with one line that says what was expected, what
 * was found, and where. Lines that are longer are cut. The pointer may be NULL. */
typedef struct transom_failure {
  transom_code status;
  char message[1020];
} transom_failure;

/* The largest TRANSOM_C_VERSION whose functions the library has. */
int32_t transom_c_version(void);
/* "0.1.0". Belongs to the library. */
const char* transom_version(void);
/* "input", "out_of_memory" ...; "unknown" for other numbers. Belongs to the library. */
const char* transom_code_name(transom_code status);
/* Frees what a function of this header gave. */
void transom_free(void* memory);

/* ---- devices */

/* The device that models are loaded on: "cpu", "cuda:1" ... Without it, TRANSOM_CODE_DEVICE or the best one. To be
 * called before anything is loaded. */
transom_code transom_set_device(const char* name, transom_failure* error);

/* ---- pipelines: any task of Transformers' pipeline() */

typedef struct transom_pipeline transom_pipeline;

/* task: "text-classification", "feature-extraction", "image-to-text" ... model: a directory, a file, or an id of the
 * Hugging Face Hub. options: {"device", "dtype", "quantization", "activations", "batch_size", "revision", "token"}. */
transom_code transom_pipeline_load(const char* task, const char* model, const char* options,
                                   transom_pipeline** pipeline, transom_failure* error);
/* The result for a text (or the path of a picture or a sound) as the JSON of what Transformers' pipeline returns.
 * parameters: its keyword arguments, {"top_k": 3}. */
transom_code transom_pipeline_run(const transom_pipeline* pipeline, const char* input, const char* parameters,
                                  char** json, transom_failure* error);
/* The same for an input that is JSON: {"question": ..., "context": ...}. */
transom_code transom_pipeline_run_json(const transom_pipeline* pipeline, const char* input, const char* parameters,
                                       char** json, transom_failure* error);
/* Vectors of texts by a pipeline of the task feature-extraction, pooled and normalised as the model's
 * sentence-transformers files say: f32 [count, width], row by row. */
transom_code transom_embed(const transom_pipeline* pipeline, const char* const* texts, size_t count, float** vectors,
                           size_t* width, transom_failure* error);
void transom_pipeline_free(transom_pipeline* pipeline);

/* ---- generation */

typedef struct transom_generator transom_generator;

/* Receives text as it is written: whole characters, not ended by a zero. Anything but 0 stops the generation, whose
 * function then gives TRANSOM_CODE_INTERRUPTED. It is called on the thread that asked. */
typedef int32_t (*transom_text_callback)(void* user, const char* text, size_t bytes);

/* model: as above, with a tokenizer. options: as above, without batch_size. */
transom_code transom_generator_load(const char* model, const char* options, transom_generator** generator,
                                    transom_failure* error);
/* Goes on from a prompt. config: fields of Transformers' GenerationConfig, {"max_new_tokens": 64, "do_sample": true,
 * "seed": 1}; what it leaves out is as the model's generation_config.json says. text: what was written, without the
 * prompt; may be NULL. callback: may be NULL; not with num_beams or num_return_sequences above 1. */
transom_code transom_generate(const transom_generator* generator, const char* prompt, const char* config,
                              transom_text_callback callback, void* user, char** text, transom_failure* error);
/* The assistant's next message. messages: [{"role": "user", "content": "Hello"}, ...], written as the chat template of
 * the model says. */
transom_code transom_chat(const transom_generator* generator, const char* messages, const char* config,
                          transom_text_callback callback, void* user, char** text, transom_failure* error);
void transom_generator_free(transom_generator* generator);

/* ---- training */

/* One update of a run: its number, of how many, and its numbers. */
typedef struct transom_step {
  int64_t step, max_steps;
  double loss, gradient_norm, learning_rate;
} transom_step;

/* Anything but 0 ends the run after this update, with a checkpoint; the function then gives TRANSOM_CODE_INTERRUPTED.
 */
typedef int32_t (*transom_step_callback)(void* user, const transom_step* step);

/* What `transom train` does. arguments: those of its command line as an object, {"model_name_or_path": ...,
 * "train_file": ..., "output_dir": ...}. metrics: of the parts of the run, {"train": {...}, "evaluation": {...},
 * "prediction": {...}}; may be NULL. callback: may be NULL. */
transom_code transom_train(const char* arguments, transom_step_callback callback, void* user, char** metrics,
                           transom_failure* error);

#ifdef __cplusplus
}
#endif

#endif
