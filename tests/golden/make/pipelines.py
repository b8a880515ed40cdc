# SPDX-License-Identifier: Apache-2.0
"""What transformers.pipeline() gives for the models of the other parts, one file a task."""

import shutil

import numpy
import sentence_transformers
import torch
import transformers
from PIL import Image

import detection  # noqa: F401: small backbones
from common import GOLDEN, generator, rounded, write_json
from media import NARROW, PICTURES, read_sound, resampled
from vocabularies import BATCH
from written_pictures import make_asked_and_begun, make_captions

TWO = BATCH[:2]
LAW = {"candidate_labels": ["law", "software", "music"]}
SEEN = {"candidate_labels": ["a cat", "a red square", "noise"], "hypothesis_template": "This is a photo of {}."}
HEARD = {"candidate_labels": ["a dog", "rain on a roof", "noise"], "hypothesis_template": "This is a sound of {}."}
CLASSES = [
    (BATCH[:4], {}),
    (BATCH[:4], {"top_k": None}),
    (BATCH[0], {"top_k": 2}),
    (TWO, {"function_to_apply": "sigmoid", "top_k": None}),
    ({"text": BATCH[0], "text_pair": BATCH[1]}, {"top_k": None}),
]
ENTITIES = [(TWO, {"aggregation_strategy": strategy}) for strategy in ("none", "simple", "first", "average", "max")]
WRITES = [
    (BATCH[1], {"max_new_tokens": 12, "do_sample": False}),
    (BATCH[1], {"max_new_tokens": 12, "do_sample": False, "return_full_text": False}),
    ([BATCH[1], BATCH[3]], {"max_new_tokens": 8, "do_sample": False, "num_beams": 3}),
]
PHRASES = ["she reads a book every day", "we are going to the beach", "the house is old and beautiful"]
# The end of an answer is made to come, as models of random weights do not write it.
DONUT = {"max_new_tokens": 6, "forced_eos_token_id": 365}
SEES = {"max_new_tokens": 10, "generate_kwargs": {"do_sample": False}}


def chat(file, *turns):
    """A picture and a question, and what comes behind."""
    first = [{"type": "image", "path": f"../image/{file}"}, {"type": "text", "text": "What is it?"}]
    later = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in turns]
    return [{"role": "user", "content": first}, *later]


TWO_PICTURES = [
    {
        "role": "user",
        "content": [
            {"type": "image", "path": "../image/alpha.png"},
            {"type": "text", "text": "Are they equal?"},
            {"type": "image", "path": "../image/gradient.png"},
        ],
    }
]
PICTURES_AND_TEXTS = [
    ({"images": "../image/gradient.png", "text": "<image>\nThe licence"}, SEES),
    ({"images": ["../image/gray.png", "../image/alpha.png"], "text": "<image> and <image>: you may"}, SEES),
    ({"images": "../image/gray.png", "text": "<image> You"}, SEES | {"return_full_text": False}),
    ({"text": "The licence"}, SEES),
    (chat("gradient.png"), SEES),
    (chat("gradient.png"), SEES | {"return_full_text": False}),
    (chat("gray.png", ("assistant", "It is")), SEES),
    (chat("gray.png", ("assistant", "A program."), ("user", "And now?")), SEES | {"return_full_text": False}),
    (TWO_PICTURES, {"max_new_tokens": 8, "generate_kwargs": {"num_beams": 3, "num_return_sequences": 2}}),
    (chat("gradient.png"), {"max_new_tokens": 6, "return_tensors": True, "generate_kwargs": {"do_sample": False}}),
]
WANTED = ["the program", "a licence", "you"]
SURE = {"pred_iou_thresh": 0.0, "stability_score_thresh": 0.0, "crops_nms_thresh": 0.6}
FAINT = {"threshold": 0.15}  # of models of random weights
SOUNDS = ("mono_16k.wav", "stereo_44k.wav")

INVOICE = {"image": "../image/gradient.png", "question": "what is free ?"}
# Words with their boxes, among them one that is cut into several tokens, one of two words and one that is none.
PAGE = [
    ["the", [10, 20, 90, 45]],
    ["licence,", [100, 20, 310, 45]],
    ["", [320, 20, 330, 45]],
    ["copy-right", [330, 18, 600, 47]],
    ["of a", [620, 20, 700, 45]],
    ["program", [10, 60, 190, 88]],
    ["2024", [200, 60, 280, 88]],
    ["may", [290, 60, 380, 88]],
    ["be", [10, 940, 60, 1000]],
    ["gänzlich", [70, 940, 240, 1000]],
    ["free", [250, 940, 1000, 1000]],
]

TASKS = {  # file: (case of the model, runs)
    "text-classification": ("bert-sequence-classification", CLASSES),
    "text-classification-multilabel": ("distilbert-sequence-classification", CLASSES),
    "token-classification": ("bert-token-classification", ENTITIES),
    "token-classification-unigram": ("xlm-roberta-token-classification", ENTITIES[:2]),
    "fill-mask": (
        "bert-masked-lm",
        [
            (["The [MASK] of the program.", "You may [MASK] the work."], {}),
            ("The [MASK] of the program.", {"top_k": 3}),
            ("The [MASK] of the [MASK].", {"top_k": 2}),
            ("The [MASK] of the program.", {"targets": ["the", "of"]}),
        ],
    ),
    "fill-mask-bpe": ("roberta-masked-lm", [(["The <mask> of the program.", "You may <mask> the work."], {})]),
    "fill-mask-unigram": ("camembert-masked-lm", [(["The <mask> of the program.", "You may <mask> the work."], {})]),
    "feature-extraction": ("mpnet-model", [(BATCH[1], {}), (TWO, {})]),
    "zero-shot-classification": (
        "electra-sequence-classification",
        [(TWO, LAW), (BATCH[0], LAW | {"multi_label": True, "hypothesis_template": "This text is about {}."})],
    ),
    "image-classification": ("vit-image-classification", [(f"../image/{file}", {"top_k": 3}) for file in PICTURES]),
    "image-classification-conv": (
        "resnet-image-classification",
        [(f"../image/{file}", {"top_k": 3}) for file in PICTURES],
    ),
    "video-classification": (
        "videomae-video-classification",
        [
            ("../video/plain.gif", {}),
            ("../video/plain.gif", {"frame_sampling_rate": 2, "top_k": 2}),
            ("../video/plain.png", {"num_frames": 4, "function_to_apply": "sigmoid"}),
            (["../video/plain.png", "../video/plain.gif"], {"function_to_apply": "none", "top_k": 1}),
        ],
    ),
    "depth-estimation": ("depth-anything", [(f"../image/{file}", {}) for file in PICTURES]),
    "depth-estimation-dpt": ("dpt-depth", [(f"../image/{file}", {}) for file in PICTURES[1:3]]),
    "object-detection": (
        "detr",
        [(f"../image/{file}", {"threshold": 0.25}) for file in PICTURES] + [("../image/gray.png", {})],
    ),
    "object-detection-table": (
        "table-transformer",
        [(f"../image/{file}", {"threshold": 0.2}) for file in PICTURES + NARROW],
    ),
    "object-detection-ranked": ("rt-detr", [(f"../image/{file}", {"threshold": 0.4}) for file in PICTURES + NARROW]),
    "object-detection-tokens": ("yolos", [(f"../image/{file}", {"threshold": 0.25}) for file in PICTURES]),
    "zero-shot-object-detection": (
        "owlvit",
        [(f"../image/{file}", {"candidate_labels": WANTED, "threshold": 0.5, "top_k": 5}) for file in PICTURES[:3]]
        + [("../image/gray.png", {"candidate_labels": WANTED[:1]})],
    ),
    "zero-shot-object-detection-padded": (
        "owlv2",
        [(f"../image/{file}", {"candidate_labels": WANTED, "threshold": 0.5, "top_k": 4}) for file in PICTURES[:3]],
    ),
    "mask-generation": (
        "sam",
        [
            ("../image/gray.png", SURE | {"points_per_crop": 3, "stability_score_thresh": 0.3, "points_per_batch": 4}),
            ("../image/gray.png", SURE | {"points_per_crop": 2, "mask_threshold": 0.1, "stability_score_offset": 0.2}),
            ("../image/gradient.png", SURE | {"points_per_crop": 1, "crops_n_layers": 1, "crop_overlap_ratio": 0.2}),
        ],
    ),
    "image-segmentation": (
        "segformer",
        [(f"../image/{file}", {}) for file in PICTURES[:3] + NARROW] + [("../image/gray.png", {"subtask": "semantic"})],
    ),
    "image-segmentation-dpt": ("dpt-segmentation", [(f"../image/{file}", {}) for file in PICTURES[1:3]]),
    "image-segmentation-objects": (
        "mask2former",
        [("../image/gray.png", FAINT | kwargs) for kwargs in ({}, {"overlap_mask_area_threshold": 0.1}, {"subtask": "instance"})]
        + [("../image/gray.png", {"subtask": "semantic"}), ("../image/gray.png", {})]
        + [("../image/panorama.png", FAINT | kwargs) for kwargs in ({"mask_threshold": 0.1}, {"subtask": "instance"})]
        + [("../image/pixel.png", FAINT | {"subtask": "panoptic"})],
    ),
    "image-feature-extraction": ("vit-image-classification", [(f"../image/{file}", {}) for file in PICTURES[:2]]),
    "zero-shot-image-classification": ("clip", [(f"../image/{file}", SEEN) for file in PICTURES]),
    "zero-shot-image-classification-pairs": ("siglip", [(f"../image/{file}", SEEN) for file in PICTURES[:3]]),
    "audio-classification": (
        "wav2vec2-sequence-classification",
        [(f"../audio/{file}", {"top_k": 4}) for file in SOUNDS],
    ),
    "audio-classification-spectrogram": ("ast-audio-classification", [(f"../audio/{file}", {}) for file in SOUNDS]),
    "zero-shot-audio-classification": ("clap", [(f"../audio/{file}", HEARD) for file in SOUNDS]),
    "automatic-speech-recognition": (
        "wav2vec2-ctc",
        [
            (f"../audio/{file}", kwargs)
            for file in SOUNDS
            for kwargs in ({}, {"return_timestamps": "char"}, {"return_timestamps": "word"})
        ],
    ),
    "automatic-speech-recognition-whisper": (
        "whisper",
        [(f"../audio/{file}", {"generate_kwargs": {"max_new_tokens": 12, "num_beams": 1}}) for file in SOUNDS],
    ),
    "document-question-answering": (
        "donut",
        [
            ({"image": "../image/gradient.png", "question": "what is free ?"}, DONUT),
            ({"image": "../image/alpha.png", "question": "who wrote it"}, DONUT | {"num_beams": 3}),
            ({"image": "../image/gray.png", "question": "may you copy it"}, {"max_new_tokens": 4}),
        ],
    ),
    "document-question-answering-words": (
        "layoutlm-question-answering",
        [
            (asked, {"word_boxes": PAGE} | kwargs)
            for asked, kwargs in (
                (INVOICE, {"max_seq_len": 60}),
                (INVOICE, {"top_k": 4, "max_seq_len": 60}),
                (INVOICE, {"top_k": 3, "max_answer_len": 2, "max_seq_len": 24, "doc_stride": 5}),
                ({"image": "../image/gray.png", "question": "who wrote it"}, {"top_k": 40, "max_seq_len": 60, "handle_impossible_answer": True}),
            )
        ],
    ),
    "image-text-to-text": ("llava", PICTURES_AND_TEXTS),
    "image-text-to-text-blip": (
        "blip-captions",
        [
            ({"images": "../image/gradient.png", "text": "the licence"}, SEES),
            ({"images": "../image/gray.png", "text": "you may"}, SEES | {"return_full_text": False}),
        ],
    ),
    "image-text-to-text-qwen2": ("llava-qwen2", PICTURES_AND_TEXTS[4:8]),
    "image-text-to-text-idefics2": ("idefics2", PICTURES_AND_TEXTS[1:6:2]),
    "text-generation": ("gpt2-lm", WRITES),
    "text-generation-llama": ("llama-lm", WRITES),
}
# Tasks that this version of pipeline() has not: tokenizer, generate() and decode().
TEXTS_OF_TEXTS = {
    "text2text-generation": ("t5", "generated_text", TWO),
    "summarization": ("bart", "summary_text", TWO),
    "translation": ("marian", "translation_text", PHRASES),
}


def pipe_of(task, folder):
    kwargs = {}
    if task == "video-classification":  # which would take a processor of videos, that samples otherwise
        return transformers.VideoClassificationPipeline(
            model=transformers.AutoModelForVideoClassification.from_pretrained(folder).eval(),
            image_processor=transformers.AutoImageProcessor.from_pretrained(folder, backend="pil"),
        )
    if task == "image-text-to-text":
        kwargs["processor"] = transformers.AutoProcessor.from_pretrained(folder, backend="pil")
    elif (folder / "preprocessor_config.json").exists() and any(
        word in task for word in ("image", "document", "depth", "object", "mask-generation")
    ):
        kwargs["image_processor"] = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    return transformers.pipeline(
        task, model=str(folder), device="cpu", model_kwargs={"attn_implementation": "eager"}, **kwargs
    )


def given(inputs, out):
    """Sounds as samples at 16 kHz, pictures open, texts as they are."""
    if isinstance(inputs, list):
        return [given(item, out) for item in inputs]
    if isinstance(inputs, dict):
        return {key: given(value, out) for key, value in inputs.items()}
    if not isinstance(inputs, str) or not inputs.startswith("../"):
        return inputs
    path = out / "pipelines" / inputs
    if path.parent.name == "video":
        return str(path)
    if path.suffix == ".wav":
        samples, rate = read_sound(path)
        return samples if rate == 16000 else resampled(samples, rate, 16000)
    return Image.open(path).convert("RGB")


def written_about(pipe, inputs, opened, kwargs):
    """A chat, or a text with pictures; in results pictures are the paths that they were given by."""
    kwargs = kwargs | {"generate_kwargs": dict(kwargs["generate_kwargs"])}
    made = pipe(text=opened, **kwargs) if isinstance(opened, list) else pipe(**opened, **kwargs)
    for record in made:
        if isinstance(inputs, list):
            record["input_text"] = inputs
        if isinstance(inputs, list) and isinstance(record.get("generated_text"), list):
            record["generated_text"] = [
                given if "path" in str(given) else message
                for given, message in zip(inputs + [None] * len(record["generated_text"]), record["generated_text"])
            ]
    return made


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, numpy.ndarray) and value.dtype == bool:  # a mask
        return {"picture": (value * 255).tolist()}
    if isinstance(value, Image.Image):  # compared to one level
        return {"picture": numpy.asarray(value).tolist()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def answers(folder, question, context, top_k, longest):
    """The best spans: start and end chances over the tokens of the context, their product, start <= end."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    made = tokenizer(question, context, return_offsets_mapping=True, return_tensors="pt")
    offsets, parts = made.pop("offset_mapping")[0].tolist(), made.sequence_ids(0)
    with torch.no_grad():
        logits = model(**made)
    inside = torch.tensor([part == 1 for part in parts])
    start, end = [
        torch.where(inside, scores[0], -10000.0).softmax(0) for scores in (logits.start_logits, logits.end_logits)
    ]
    spans = [
        (float(start[i] * end[j]), offsets[i][0], offsets[j][1])
        for i in range(len(parts))
        for j in range(i, min(i + longest, len(parts)))
        if inside[i] and inside[j]
    ]
    best = sorted(spans, key=lambda span: -span[0])[:top_k]
    return [{"score": score, "start": a, "end": b, "answer": context[a:b]} for score, a, b in best]


def make_ranking(out):
    """CrossEncoder.rank() of sentence-transformers: the BERT that classifies, with one label."""
    folder = out / "cross-encoder" / "model"
    shutil.rmtree(folder, ignore_errors=True)
    source = GOLDEN / "bert-sequence-classification" / "model"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        source, num_labels=1, id2label={0: "LABEL_0"}, label2id={"LABEL_0": 0}, ignore_mismatched_sizes=True
    )
    with torch.no_grad():
        model.classifier.weight.normal_(0, 1, generator=generator("cross-encoder"))
    model.save_pretrained(folder)
    for file in source.glob("*token*"):
        shutil.copy(file, folder)
    ranker = sentence_transformers.CrossEncoder(str(folder), device="cpu")
    runs, documents = [], [BATCH[3], BATCH[1], BATCH[4], BATCH[2]]
    for kwargs in ({}, {"top_k": 2, "return_documents": True}, {"function_to_apply": "none"}):
        asked = {key: value for key, value in kwargs.items() if key != "function_to_apply"}
        raw = {"activation_fn": torch.nn.Identity()} if "function_to_apply" in kwargs else {}
        result = ranker.rank(BATCH[0], documents, **asked, **raw)
        result = [each | {"corpus_id": int(each["corpus_id"]), "score": float(each["score"])} for each in result]
        inputs = {"query": BATCH[0], "documents": documents}
        runs.append({"inputs": inputs, "kwargs": kwargs, "result": rounded(result, 7)})
    write_json(
        out / "pipelines" / "text-ranking.json",
        {
            "task": "text-ranking",
            "model": "../cross-encoder/model",
            "made_by": "sentence_transformers.CrossEncoder.rank()",
            "runs": runs,
        },
    )


def make_task(out, name):
    case, runs = TASKS[name]
    task = next(
        task
        for task in sorted(transformers.pipelines.get_supported_tasks(), key=len, reverse=True)
        if name.startswith(task)
    )
    model = GOLDEN / case / "model"
    pipe = pipe_of(task, model)
    made = []
    for inputs, kwargs in runs:
        shown = out if (out / "image").exists() else GOLDEN
        if task == "image-text-to-text":
            result = written_about(pipe, inputs, given(inputs, shown), kwargs)
        elif "word_boxes" in kwargs:
            result = pipe(**given(inputs, shown), **kwargs)
        elif task == "document-question-answering":
            pipe._generate_kwargs = kwargs  # which it takes where it is made
            result = pipe(given(inputs, shown))
        else:
            result = pipe(given(inputs, shown), **kwargs)
        made.append({"inputs": inputs, "kwargs": kwargs, "result": rounded(plain(result), 7)})
    write_json(
        out / "pipelines" / f"{name}.json",
        {"task": task, "model": f"../{case}/model", "made_by": "transformers.pipeline()", "runs": made},
    )


PROMPTS = (
    {"input_points": [[8, 20]]},
    {"input_points": [[8, 20], [25.5, 4]], "input_labels": [1, 0], "mask_threshold": 0.05},
    {"input_boxes": [[2, 3, 20, 28], [10, 0, 30, 12]]},
    {"input_points": [[15, 15]], "input_boxes": [[2, 3, 20, 28]]},
)


def make_pointed_masks(out):
    """Masks of what is pointed at: the pipeline takes no prompts, SamProcessor and SamModel do."""
    model = GOLDEN / "sam" / "model"
    images = transformers.AutoImageProcessor.from_pretrained(model, backend="pil")
    processor, segmenter = transformers.SamProcessor(images), transformers.SamModel.from_pretrained(model).eval()
    picture, runs = Image.open(GOLDEN / "image" / "gray.png").convert("RGB"), []
    for kwargs in PROMPTS:
        prompts = {key: [value] for key, value in kwargs.items() if key == "input_boxes"}
        prompts |= {key: [[value]] for key, value in kwargs.items() if key in ("input_points", "input_labels")}
        made = processor(picture, return_tensors="pt", **prompts)
        sizes = made.pop("original_sizes"), made.pop("reshaped_input_sizes")
        made = {key: value.float() if value.is_floating_point() else value for key, value in made.items()}
        with torch.no_grad():
            found = segmenter(**made)
        masks = images.post_process_masks(found.pred_masks, *sizes, mask_threshold=kwargs.get("mask_threshold", 0))
        result = {"masks": list(masks[0].flatten(0, 1).numpy()), "scores": found.iou_scores[0].flatten()}
        runs.append({"inputs": "../image/gray.png", "kwargs": kwargs, "result": rounded(plain(result), 7)})
    write_json(
        out / "pipelines" / "mask-generation-pointed.json",
        {
            "task": "mask-generation",
            "model": "../sam/model",
            "made_by": "SamProcessor, SamModel and post_process_masks()",
            "runs": runs,
        },
    )


def make(out):
    folder = out / "pipelines"
    for name in TASKS:
        make_task(out, name)
    for name, (case, key, texts) in TEXTS_OF_TEXTS.items():
        model = GOLDEN / case / "model"
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        writer = transformers.AutoModelForSeq2SeqLM.from_pretrained(model).eval()
        made = []
        for beams in (1, 4):
            kwargs = {"max_new_tokens": 12, "num_beams": beams, "do_sample": False}
            result = []
            for text in texts:
                with torch.no_grad():
                    ids = writer.generate(**tokenizer(text, return_tensors="pt"), **kwargs)[0]
                result.append({key: tokenizer.decode(ids, skip_special_tokens=True), "token_ids": ids.tolist()})
            made.append({"inputs": texts, "kwargs": kwargs, "result": result})
        write_json(
            folder / f"{name}.json",
            {
                "task": name,
                "model": f"../{case}/model",
                "made_by": "tokenizer, generate() and decode(skip_special_tokens=True)",
                "runs": made,
            },
        )
    runs = []
    for question, context in ((BATCH[1], BATCH[0]), ("What is free ?", BATCH[2])):
        result = answers(GOLDEN / "bert-question-answering" / "model", question, context, 3, 15)
        runs.append(
            {
                "inputs": {"question": question, "context": context},
                "kwargs": {"top_k": 3, "max_answer_len": 15, "align_to_words": False},
                "result": rounded(result, 7),
            }
        )
    write_json(
        folder / "question-answering.json",
        {
            "task": "question-answering",
            "model": "../bert-question-answering/model",
            "made_by": "answers() of pipelines.py: this version has no such pipeline",
            "runs": runs,
        },
    )
    make_ranking(out)
    make_captions(out)
    make_asked_and_begun(out)
    make_pointed_masks(out)
