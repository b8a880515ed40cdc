# SPDX-License-Identifier: Apache-2.0
"""Chats about pictures: a model of SmolVLM-256M's shape with random weights, for Transom as a checkpoint and for
llama.cpp as two GGUF files of the same weights, and requests that hold a picture each. serve_race.py asks for them."""
import base64
import io
import json
import statistics
import subprocess
import threading
import time
import urllib.error
import urllib.request

VOCABULARY = 49280
MARKS = ["<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>", "<image>", "<global-img>",
         *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))]
TEMPLATE = ("<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}: "
            "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
            "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}{{ '<image>' }}{% endif %}{% endfor %}{% endif %}"
            "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")


def make_tokenizer(text):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train([text], trainers.BpeTrainer(vocab_size=8000, special_tokens=MARKS,
                                           initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    described = json.loads(made.to_str())
    words = described["model"]["vocab"]  # not as added tokens, which both sides would look for in every text
    if "ĊĊ" not in words:  # the end of a picture's last row, which llama.cpp looks up
        words["ĊĊ"] = len(words)
        described["model"]["merges"].append(["Ċ", "Ċ"])
    words.update({f"unused{i}": i for i in range(len(words), VOCABULARY)})
    made = Tokenizer.from_str(json.dumps(described))
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|im_start|>", eos_token="<end_of_utterance>",
                                   pad_token="<|im_start|>", chat_template=TEMPLATE)


def make_checkpoint(folder, text, side):
    """SmolVLM-256M: SigLIP-base for tiles of 512 pixels, 64 rows a tile, SmolLM2-135M with an output of its own."""
    import torch
    import transformers

    vision = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
              "image_size": 512, "patch_size": 16, "model_type": "idefics3_vision"}
    words = {"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
             "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5,
             "max_position_embeddings": 8192, "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
             "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "tie_word_embeddings": False}
    torch.manual_seed(0)
    model = transformers.Idefics3ForConditionalGeneration(transformers.Idefics3Config(
        text_config=words, vision_config=vision, scale_factor=4, image_token_id=MARKS.index("<image>"),
        tie_word_embeddings=False))
    with torch.no_grad():  # distinct answers: a new model's are all but equal
        model.lm_head.weight.mul_(8)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer = make_tokenizer(text)
    images = transformers.Idefics3ImageProcessor(size={"longest_edge": side}, max_image_size={"longest_edge": 512})
    transformers.Idefics3Processor(images, tokenizer, image_seq_len=64, chat_template=TEMPLATE).save_pretrained(folder)
    text_config = transformers.LlamaConfig(**words)
    alone = transformers.LlamaForCausalLM(text_config).to(torch.bfloat16)
    alone.model.load_state_dict(model.model.text_model.state_dict())
    alone.lm_head.load_state_dict(model.lm_head.state_dict())
    alone.save_pretrained(folder / "text")
    tokenizer.save_pretrained(folder / "text")


def write_projector(folder, file, side, kind):
    """The tower and what follows it, as llama.cpp's converter lays them out."""
    import gguf
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    writer = gguf.GGUFWriter(file, "clip")
    writer.add_string("general.type", "mmproj")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "idefics3")
    writer.add_bool("clip.use_gelu", True)
    for key, value in {"image_size": 512, "patch_size": 16, "embedding_length": 768, "feed_forward_length": 3072,
                       "block_count": 12, "attention.head_count": 12, "projection_dim": 576,
                       "projector.scale_factor": 4, "preproc_image_size": side}.items():
        writer.add_uint32(f"clip.vision.{key}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    for key in ("image_mean", "image_std"):
        writer.add_array(f"clip.vision.{key}", [0.5, 0.5, 0.5])
    names = {"model.vision_model.embeddings.patch_embedding": "v.patch_embd",
             "model.vision_model.embeddings.position_embedding": "v.position_embd",
             "model.vision_model.post_layernorm": "v.post_ln",
             "model.connector.modality_projection.proj": "mm.model.fc"}
    parts = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.out_proj": "attn_out", "layer_norm1": "ln1", "layer_norm2": "ln2", "mlp.fc1": "ffn_up",
             "mlp.fc2": "ffn_down"}
    for layer in range(12):
        names |= {f"model.vision_model.encoder.layers.{layer}.{theirs}": f"v.blk.{layer}.{short}"
                  for theirs, short in parts.items()}
    for name, tensor in weights.items():
        stem, _, end = name.rpartition(".")
        if stem not in names:
            continue
        array = tensor.float().numpy()
        wide = tensor.dim() < 2 or stem.endswith("position_embedding")
        wanted = gguf.GGMLQuantizationType.F32 if wide else getattr(gguf.GGMLQuantizationType, kind)
        if tensor.dim() == 4 and kind != "F32":
            wanted = gguf.GGMLQuantizationType.F16  # as the converter: what a convolution reads
        writer.add_tensor(f"{names[stem]}.{end}", gguf.quantize(array, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(folder, text, side, kind, transom):
    """The checkpoint, llama.cpp's text in this type and its tower; of 8 bits the tower's products are, too."""
    source = folder / f"smolvlm-256m-{side}"
    if not (source / "text" / "tokenizer.json").exists():
        make_checkpoint(source, text, side)
    words, tower = source / f"text-{kind}.gguf", source / f"tower-{kind}.gguf"
    if not tower.exists():
        subprocess.run([transom, "quantize", source / "text", words, "--format", "gguf", "--type", kind], check=True,
                       stdout=subprocess.DEVNULL)
        write_projector(source, tower, side, kind.upper())
    return source, words, tower


def picture(seed, side):
    """A photograph's stand-in, as a data URL: colours that change slowly, and noise."""
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=numpy.uint8)).resize((side, side), Image.BICUBIC)
    made = numpy.clip(numpy.asarray(coarse) + random.normal(0, 6, (side, side, 3)), 0, 255).astype(numpy.uint8)
    file = io.BytesIO()
    Image.fromarray(made).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def request(seed, side, length, stream=True, **more):
    content = [{"type": "image_url", "image_url": {"url": picture(seed, side)}},
               {"type": "text", "text": "What is in the picture?"}]
    return {"model": "model", "messages": [{"role": "user", "content": content}], "max_tokens": length, "temperature": 0,
            "stream": stream, "ignore_eos": True, **({"stream_options": {"include_usage": True}} if stream else {}), **more}


def open_url(url, body, timeout=600):
    data = json.dumps(body).encode()
    asked = urllib.request.Request(url + "/v1/chat/completions", data, {"Content-Type": "application/json"})
    try:
        return urllib.request.urlopen(asked, timeout=timeout)
    except urllib.error.HTTPError as error:
        raise OSError(f"{url}: {error.code}: {error.read(600).decode(errors='replace')}") from error


def answer(url, body):
    """Seconds to the first token and to the end, and tokens of the prompt and of the answer."""
    begin, first, usage = time.perf_counter(), None, {}
    with open_url(url, body) as stream:
        for line in stream:
            if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            if first is None and any((each.get("delta") or {}).get("content") for each in event.get("choices", [])):
                first = time.perf_counter() - begin
    seconds = time.perf_counter() - begin
    return first or seconds, seconds, usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)


def load(url, clients, each, side, length, seed):
    """So many clients, each with `each` requests one behind the other: pictures a second, and medians of the answers."""
    bodies = [[request(seed + client * 1000 + i, side, length) for i in range(each)] for client in range(clients)]
    found, failures = [], []

    def client(mine):
        try:
            found.extend(answer(url, body) for body in mine)
        except OSError as error:
            failures.append(str(error))

    threads = [threading.Thread(target=client, args=(mine,)) for mine in bodies]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    if failures or any(row[3] != length for row in found):
        raise SystemExit(f"{url}: {failures or [row[2:] for row in found]}")
    return {"pictures": clients * each / seconds, "ttft": 1e3 * statistics.median(row[0] for row in found),
            "prompt": found[0][2]}


def likely(url, side):
    """The first token's likeliest words with their logarithms: the two servers must agree about them."""
    body = request(7, side, 1, False, logprobs=True, top_logprobs=5)
    with open_url(url, body) as reply:
        token = json.load(reply)["choices"][0]["logprobs"]["content"][0]
    return {each["token"]: each["logprob"] for each in token["top_logprobs"]}
