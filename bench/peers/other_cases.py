# SPDX-License-Identifier: Apache-2.0
"""Cases beside BERT, GPT-2, ViT and ResNet: networks of other shapes, and integers whose scales are found beforehand."""
import functools
import json
import os

ALL = ("torch", "compile", "onnxruntime", "openvino")


def save_once(path, make):
    """The model that `make` gives, with random weights from one seed, as a checkpoint of Transformers."""
    if not os.path.exists(os.path.join(path, "model.safetensors")):
        import torch

        torch.manual_seed(0)
        make().save_pretrained(path)
    return path


def make_efficientnet(folder):
    def make():
        import torch
        import transformers

        model = transformers.EfficientNetForImageClassification(transformers.EfficientNetConfig(
            num_labels=1000, image_size=224, width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280,
            dropout_rate=0.2))
        # As ResNet begins, and norms that have seen images. With the small weights of a new EfficientNet the numbers of
        # its later layers are subnormal, which processors multiply some fifty times slower: no trained model has them.
        for module in model.modules():
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight)
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = None  # the mean of all batches
        with torch.no_grad():
            model.train()(pixel_values=torch.rand(8, 3, 224, 224))
        return model.eval()

    return save_once(os.path.join(folder, "efficientnet-b0"), make)


def make_clip(folder):
    def make():
        import transformers

        return transformers.CLIPModel(transformers.CLIPConfig(text_config={"eos_token_id": 49407}))

    return save_once(os.path.join(folder, "clip"), make)


def make_wav2vec2(folder):
    def make():
        import transformers

        return transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config())

    return save_once(os.path.join(folder, "wav2vec2-base"), make)


def make_whisper(folder):
    def make():
        import transformers

        return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
            vocab_size=51865, d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
            decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536, num_mel_bins=80))

    return save_once(os.path.join(folder, "whisper-tiny"), make)


def make_dlrm(folder):
    """26 tables of 100,000 rows, vectors of 64: the small configuration of the paper's public benchmark."""
    path = os.path.join(folder, "dlrm")
    if not os.path.exists(os.path.join(path, "model.safetensors")):
        import torch
        from safetensors.torch import save_file

        import dlrm_model

        torch.manual_seed(0)
        os.makedirs(path, exist_ok=True)
        config = {"model_type": "dlrm", "architectures": ["DLRM_Net"], "arch_sparse_feature_size": 64,
                  "arch_embedding_size": [100000] * 26, "arch_mlp_bot": [13, 512, 256, 64],
                  "arch_mlp_top": [512, 256, 1], "arch_interaction_op": "dot", "arch_interaction_itself": False,
                  "sigmoid_bot": -1, "sigmoid_top": 2, "loss_function": "bce", "loss_threshold": 0.0}
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        save_file(dlrm_model.DLRM(config).state_dict(), os.path.join(path, "model.safetensors"))
    return path


def make_tensors(folder, name, make):
    path = os.path.join(folder, f"{name}.safetensors")
    if not os.path.exists(path):
        import torch
        from safetensors.torch import save_file

        generator = torch.Generator().manual_seed(0)
        save_file({key: value.contiguous() for key, value in make(torch, generator).items()}, path)
    return path


def clip_inputs(rows):
    def make(torch, generator):
        ids = torch.randint(1000, 49000, (rows, 77), generator=generator)
        ids[:, -1] = 49407  # what is behind the last token is what the tower gives
        return {"input_ids": ids, "attention_mask": torch.ones(rows, 77, dtype=torch.long),
                "pixel_values": torch.rand(rows, 3, 224, 224, generator=generator)}

    return make


def sound(torch, generator):
    return {"input_values": torch.randn(1, 80000, generator=generator)}  # 5 seconds


def bands(torch, generator):
    return {"input_features": torch.randn(1, 80, 3000, generator=generator),  # 30 seconds
            "decoder_input_ids": torch.tensor([[50258, 50259, 50359, 50363]])}


def clicks(rows):
    def make(torch, generator):
        inputs = {"dense_x": torch.rand(rows, 13, generator=generator), "lS_o": torch.arange(rows).repeat(26, 1)}
        for table in range(26):
            inputs[f"lS_i.{table}"] = torch.randint(0, 100000, (rows,), generator=generator)
        return inputs

    return make


PRECISIONS = (("", "float32", "f32", ALL), ("-int8", "int8", "int8", ("torch", "onnxruntime", "openvino")))


def other_cases(folder, case_class, make_images):
    later = functools.partial  # files are made when their case is raced
    images = lambda rows: later(make_images, folder, rows)  # noqa: E731
    tensors = lambda *named: later(make_tensors, folder, *named)  # noqa: E731
    kinds = []  # name, title, model, inputs, runs
    for rows, runs in ((1, 8), (8, 3)):
        kinds.append((f"efficientnet-{rows}", f"EfficientNet-B0 inference {rows}x224x224", make_efficientnet, images(rows), runs))
        kinds.append((f"clip-{rows}", f"CLIP ViT-B/32, {rows} images and texts of 77,", make_clip,
                      tensors(f"clip-{rows}", clip_inputs(rows)), runs))
    kinds.append(("wav2vec2", "wav2vec2-base, 5 seconds,", make_wav2vec2, tensors("sound", sound), 3))
    kinds.append(("whisper", "Whisper-tiny, one pass over 30 seconds,", make_whisper, tensors("bands", bands), 3))
    for rows in (128, 2048):
        kinds.append((f"dlrm-{rows}", f"DLRM, 26 tables, {rows} rows,", make_dlrm, tensors(f"clicks-{rows}", clicks(rows)), 8))
    return [case_class(name + suffix, f"{title} {short}", later(model, folder), inputs, "forward", dtype, peers, runs)
            for suffix, dtype, short, peers in PRECISIONS for name, title, model, inputs, runs in kinds]


def static_cases(case_class, models):
    """8-bit weights and inputs with scales from calibration, which sees `eight`: (name, title, model, one, eight)."""
    cases = []
    for name, title, model, one, eight in models:
        for rows, inputs, runs in ((1, one, 8), (8, eight, 3)):
            cases.append(case_class(f"{name}-{rows}-static", f"{title} inference {rows} rows, static int8", model, inputs,
                                    "forward", "static", ("onnxruntime", "openvino"), runs, eight))
    return cases
