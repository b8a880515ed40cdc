# SPDX-License-Identifier: Apache-2.0
"""Losses of sentence-transformers on random vectors, and runs of its trainers on a few rows of each form."""

import contextlib
import io
import random
import tempfile

import datasets
import peft
import sentence_transformers as st
import torch
import transformers
from sentence_transformers import losses
from sentence_transformers.cross_encoder import losses as pair_losses
from sentence_transformers.cross_encoder.trainer import CrossEncoderTrainer
from sentence_transformers.cross_encoder.training_args import CrossEncoderTrainingArguments
from sentence_transformers.base import trainer as base_trainer
from sentence_transformers.sentence_transformer import evaluation
from sentence_transformers.sparse_encoder import SparseEncoder, SparseEncoderTrainer, SparseEncoderTrainingArguments
from sentence_transformers.sparse_encoder import losses as sparse_losses
from sentence_transformers.util import cos_sim, dot_score, pairwise_cos_sim, pairwise_dot_score

from common import generator, rounded, write_json, write_lines
from sentence_models import make_hard_negatives, make_models
from sentence_rows import SAID, rows_of

def taught():
    random = generator("taught")
    return [
        {"sentence": said[0], "label": rounded(torch.randn(16, generator=random).tolist(), 6)} for said in SAID
    ]


def margins():
    return [row | {"score": [2.0 * said[3], said[3]]} for row, said in zip(rows_of("anchor", "positive", "negative"), SAID)]


def lists():
    random = generator("lists")
    made = []
    for i, said in enumerate(SAID[:8]):
        count = 3 + i % 3
        made.append(
            {
                "query": said[0],
                "docs": [SAID[(i + 2 * k) % 12][1] for k in range(count)],
                "labels": [float(int(torch.randint(0, 4, (), generator=random))) if k else 3.0 for k in range(count)],
            }
        )
    return made


ROWS = {
    "pairs": rows_of("anchor", "positive"),
    "triplets": rows_of("anchor", "positive", "negative"),
    "negatives": rows_of("anchor", "positive", "negative", "negative_2"),
    "scores": rows_of("anchor:sentence1", "positive:sentence2", "score"),
    "binary": rows_of("anchor:sentence1", "positive:sentence2", "binary:label"),
    "classes": rows_of("anchor:premise", "positive:hypothesis", "label"),
    "single": rows_of("positive:sentence", "label"),
    "taught": taught(),
    "margins": margins(),
    "lists": lists(),
}
BASE = dict(
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    learning_rate=1e-3,
    max_steps=10,
    logging_steps=1,
    seed=42,
    lr_scheduler_type="linear",
)


def of(rows, loss, model="bert", kwargs=None, **more):
    return dict(rows=rows, model=model, arguments=BASE | dict(loss=loss) | (dict(loss_kwargs=kwargs) if kwargs else {}) | more)


MNR = "MultipleNegativesRankingLoss"
RUNS = {
    "mnr": of("pairs", MNR),
    "mnr-hard-negatives": of("negatives", MNR, kwargs=dict(scale=10.0)),
    "mnr-dot": of("triplets", MNR, kwargs=dict(scale=0.5, similarity_fct="dot_score")),
    "mnr-symmetric": of("triplets", "MultipleNegativesSymmetricRankingLoss"),
    "mnr-directions": of(
        "triplets",
        MNR,
        kwargs=dict(
            directions=["query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"],
            hardness_mode="hard_negatives",
            hardness_strength=3.0,
        ),
    ),
    "mnr-cached": of("negatives", "CachedMultipleNegativesRankingLoss", kwargs=dict(mini_batch_size=2)),
    "mnr-uneven": of("pairs", MNR, per_device_train_batch_size=5),
    "mnr-accumulated": of("triplets", MNR, gradient_accumulation_steps=3, max_steps=5),
    "mnr-no-duplicates": of("pairs", MNR, batch_sampler="no_duplicates", per_device_train_batch_size=6, max_steps=8),
    "mnr-prompts": of("triplets", MNR, prompts={"anchor": "query: ", "positive": "text: "}),
    "mnr-lora": of("pairs", MNR, use_peft=True, lora_r=4, lora_alpha=8, lora_dropout=0.0),
    "mnr-evaluated": of("pairs", MNR, eval_strategy="steps", eval_steps=5),
    "dense": of("triplets", MNR, model="dense"),
    "matryoshka": of("pairs", MNR, matryoshka_dims=[16, 8, 4]),
    "matryoshka-cached": of(
        "pairs", "CachedMultipleNegativesRankingLoss", kwargs=dict(mini_batch_size=2), matryoshka_dims=[16, 4], matryoshka_weights=[1.0, 0.5]
    ),
    "cosine": of("scores", "CosineSimilarityLoss", eval_strategy="steps", eval_steps=5),
    "cosent": of("scores", "CoSENTLoss"),
    "angle": of("scores", "AnglELoss"),
    "triplet": of("triplets", "TripletLoss", eval_strategy="steps", eval_steps=5),
    "batch-hard": of("single", "BatchHardTripletLoss"),
    "contrastive": of("binary", "ContrastiveLoss"),
    "online-contrastive": of("binary", "OnlineContrastiveLoss"),
    "mse": of("taught", "MSELoss"),
    "margin-mse": of("margins", "MarginMSELoss"),
    "sets-proportional": of({"nli": "pairs", "sts": "scores"}, {"nli": MNR, "sts": "CoSENTLoss"}),
    "sets-round-robin": of(
        {"nli": "triplets", "sts": "scores"},
        {"nli": MNR, "sts": "CosineSimilarityLoss"},
        multi_dataset_batch_sampler="round_robin",
    ),
}
SPARSE_RUNS = {
    "splade": of(
        "triplets",
        "SpladeLoss",
        "splade",
        kwargs=dict(loss="SparseMultipleNegativesRankingLoss", document_regularizer_weight=3e-2, query_regularizer_weight=5e-2),
    ),
    "splade-margins": of(
        "margins",
        "SpladeLoss",
        "splade",
        kwargs=dict(loss="SparseMarginMSELoss", document_regularizer_weight=1e-2, document_regularizer_threshold=300),
        gradient_accumulation_steps=3,
        max_steps=6,
    ),
}
PAIR_RUNS = {
    "rank-bce": of("binary", "BinaryCrossEntropyLoss", "ranker"),
    "rank-classes": of("classes", "CrossEntropyLoss", "classifier"),
    "rank-mnr": of("triplets", MNR, "ranker", kwargs=dict(num_negatives=None)),
    "rank-mnr-cached": of(
        "triplets",
        "CachedMultipleNegativesRankingLoss",
        "ranker",
        kwargs=dict(num_negatives=None, mini_batch_size=2),
    ),
    "rank-distance": of("lists", "ADRMSELoss", "ranker", kwargs=dict(alpha=2.0)),
    "rank-lambda": of("lists", "LambdaLoss", "ranker"),
    "rank-listnet": of("lists", "ListNetLoss", "ranker"),
    "rank-ranknet": of("lists", "RankNetLoss", "ranker"),
    "rank-listmle": of("lists", "ListMLELoss", "ranker"),
    "rank-margin-mse": of("margins", "MarginMSELoss", "ranker"),
    "rank-mse": of("scores", "MSELoss", "ranker"),
}


def function_named(name):
    return {"cos_sim": cos_sim, "dot_score": dot_score, "pairwise_cos_sim": pairwise_cos_sim, "pairwise_dot_score": pairwise_dot_score}[name]


def loss_of(model, name, arguments):
    kwargs = dict(arguments.get("loss_kwargs", {}))
    if "similarity_fct" in kwargs:
        kwargs["similarity_fct"] = function_named(kwargs["similarity_fct"])
    if name == "SpladeLoss":
        inner = getattr(sparse_losses, kwargs.pop("loss"))(model)
        return sparse_losses.SpladeLoss(model, inner, **kwargs)
    source = losses if isinstance(model, st.SentenceTransformer) else pair_losses
    made = getattr(source, name)(model, **kwargs)
    if "matryoshka_dims" in arguments:
        made = losses.MatryoshkaLoss(
            model, made, arguments["matryoshka_dims"], arguments.get("matryoshka_weights")
        )
    return made


def evaluator_of(name, rows):
    if name == "scores":
        return evaluation.EmbeddingSimilarityEvaluator(
            [row["sentence1"] for row in rows], [row["sentence2"] for row in rows], [row["score"] for row in rows]
        )
    if name == "triplets":
        return evaluation.TripletEvaluator(
            [row["anchor"] for row in rows], [row["positive"] for row in rows], [row["negative"] for row in rows]
        )
    queries = {str(i): row["anchor"] for i, row in enumerate(rows)}
    corpus, relevant = {}, {}
    for row in rows:
        corpus.setdefault(row["positive"], str(len(corpus)))
    texts = dict(zip(corpus.values(), corpus.keys()))
    for i, row in enumerate(rows):
        relevant[str(i)] = {corpus[row["positive"]]}
    return evaluation.InformationRetrievalEvaluator(queries, texts, relevant)


OURS = ("loss", "loss_kwargs", "matryoshka_dims", "matryoshka_weights", "use_peft", "lora_r", "lora_alpha", "lora_dropout")


def history_of(name, case, out, dtype, is_pair):
    arguments = case["arguments"]
    folder = str(out / "models" / case["model"])
    torch.manual_seed(42)
    is_sparse = case["model"] == "splade"
    if is_sparse:
        model = SparseEncoder(folder, device="cpu")
        base_trainer.round = lambda value, digits: value  # terms of losses are logged with 4 digits
    elif is_pair:
        model = st.CrossEncoder(folder, device="cpu", max_length=24)
    else:
        model = st.SentenceTransformer(folder, device="cpu")
    model.to(dtype)
    if arguments.get("use_peft"):
        config = peft.LoraConfig(
            r=arguments["lora_r"],
            lora_alpha=arguments["lora_alpha"],
            lora_dropout=0.0,
            target_modules=["query", "value"],
        )
        model[0].model = peft.get_peft_model(model[0].model, config)
        random = generator("lora")
        with torch.no_grad():
            for key, parameter in sorted(model.named_parameters()):
                if "lora_" in key:
                    parameter.copy_(0.1 * torch.randn(parameter.shape, generator=random))
        adapters = {key: p.detach().clone().float() for key, p in model.named_parameters() if "lora_" in key}
        case["adapters"] = adapters
    if isinstance(case["rows"], dict):
        loss = {key: loss_of(model, kind, {}) for key, kind in arguments["loss"].items()}
        rows = datasets.DatasetDict({key: datasets.Dataset.from_list(ROWS[each]) for key, each in case["rows"].items()})
        evaluated = None
    else:
        loss = loss_of(model, arguments["loss"], arguments)
        rows = datasets.Dataset.from_list(ROWS[case["rows"]])
        evaluated = ROWS[case["rows"]] if "eval_strategy" in arguments else None
    for each in loss.values() if isinstance(loss, dict) else [loss]:
        each.to(dtype)
    with tempfile.TemporaryDirectory() as work:
        given = {key: value for key, value in arguments.items() if key not in OURS}
        given |= dict(output_dir=work, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False)
        kind = (CrossEncoderTrainer, CrossEncoderTrainingArguments) if is_pair else (st.SentenceTransformerTrainer, st.SentenceTransformerTrainingArguments)
        if is_sparse:
            kind = (SparseEncoderTrainer, SparseEncoderTrainingArguments)
        made = kind[0](
            model=model,
            args=kind[1](**given),
            train_dataset=rows,
            eval_dataset=datasets.Dataset.from_list(evaluated) if evaluated else None,
            loss=loss,
            evaluator=evaluator_of(case["rows"], evaluated) if evaluated else None,
        )
        made.remove_callback(transformers.PrinterCallback)
        case["batches"] = watch(made, case["rows"])
        with contextlib.redirect_stdout(io.StringIO()):
            made.train()
    return [
        {
            key: float(value)
            for key, value in record.items()
            if isinstance(value, (int, float)) and not key.endswith(("_runtime", "_per_second", "total_flos"))
        }
        for record in made.state.log_history
    ]


def watch(trainer, names):
    """The rows of each batch that the trainer trains on, as they come; of several sets with the name before them."""
    batches, collate, step = [], trainer.data_collator, trainer.training_step
    sets = names if isinstance(names, dict) else {"": names}

    def row_of(key, features):
        rows = ROWS[sets[key]]
        return next(i for i, row in enumerate(rows) if all(row[name] == features[name] for name in row))

    made = []

    class Watching(type(collate)):
        def __call__(self, features):
            key = features[0].get("dataset_name", "")
            plain = [{k: v for k, v in f.items() if k != "dataset_name"} for f in features]
            batch = super().__call__(features)
            batch["watched"] = torch.tensor([len(made)])
            made.append([key, [row_of(key, f) for f in plain]] if key else [row_of(key, f) for f in plain])
            return batch

    collate.__class__ = Watching

    def watched_step(model, inputs, *args, **kwargs):
        batches.append(made[int(inputs.pop("watched"))])
        return step(model, inputs, *args, **kwargs)

    trainer.training_step = watched_step
    predict = trainer.prediction_step

    def watched_predict(model, inputs, *args, **kwargs):
        inputs.pop("watched")
        return predict(model, inputs, *args, **kwargs)

    trainer.prediction_step = watched_predict
    return batches


def make_run(name, case, out, is_pair):
    folder = out / "runs"
    found = history_of(name, case, out, torch.float32, is_pair)
    exact = history_of(name, case, out, torch.float64, is_pair)
    # How far f32 is from f64: what another program may be off by too.
    bound = 1e-5
    for a, b in zip(found, exact):
        for key in ("loss", "grad_norm"):
            if key in a:
                bound = max(bound, 10 * abs(a[key] - b[key]) / max(1e-3, abs(b[key])))
    about = dict(
        task="text-ranking" if is_pair else "sentence-embedding",
        model=f"../models/{case['model']}",
        rows={key: f"../rows/{each}.jsonl" for key, each in case["rows"].items()} if isinstance(case["rows"], dict) else f"../rows/{case['rows']}.jsonl",
        arguments=case["arguments"],
        batches=case.pop("batches"),
        rtol=rounded(bound, 3),
        log_history=rounded(exact, 9),
    )
    if "adapters" in case:
        about["adapters"] = {key: rounded(value.tolist(), 7) for key, value in case.pop("adapters").items()}
    write_json(folder / f"{name}.json", about)
    return bound


VECTORS = [
    ("MultipleNegativesRankingLoss", 2, None, {}),
    ("MultipleNegativesRankingLoss", 4, None, dict(scale=5.0, similarity_fct="dot_score")),
    ("MultipleNegativesRankingLoss", 3, None, dict(directions=["query_to_doc", "doc_to_query"], partition_mode="per_direction")),
    (
        "MultipleNegativesRankingLoss",
        3,
        None,
        dict(directions=["query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"], hardness_mode="in_batch_negatives", hardness_strength=2.0),
    ),
    ("MultipleNegativesRankingLoss", 4, None, dict(hardness_mode="hard_negatives", hardness_strength=2.0)),
    ("MultipleNegativesRankingLoss", 4, None, dict(hardness_mode="all_negatives", hardness_strength=2.0)),
    ("MultipleNegativesSymmetricRankingLoss", 3, None, {}),
    ("CosineSimilarityLoss", 2, "score", {}),
    ("CoSENTLoss", 2, "score", {}),
    ("CoSENTLoss", 2, "class", dict(scale=3.0)),
    ("AnglELoss", 2, "score", {}),
    ("AnglELoss", 3, None, {}),
    ("AnglELoss", 3, "binary", {}),
    ("SoftmaxLoss", 2, "class", dict(num_labels=3)),
    ("SoftmaxLoss", 2, "class", dict(num_labels=3, concatenation_sent_multiplication=True, concatenation_sent_rep=False)),
    ("TripletLoss", 3, None, {}),
    ("TripletLoss", 3, None, dict(distance_metric="COSINE", triplet_margin=0.3)),
    ("TripletLoss", 3, None, dict(distance_metric="MANHATTAN", triplet_margin=2.0)),
    ("BatchHardTripletLoss", 1, "class", dict(margin=2.0)),
    ("BatchHardTripletLoss", 1, "class", dict(distance_metric="cosine_distance", margin=0.5)),
    ("BatchHardSoftMarginTripletLoss", 1, "class", {}),
    ("BatchSemiHardTripletLoss", 1, "class", dict(margin=2.0)),
    ("BatchAllTripletLoss", 1, "class", dict(margin=2.0)),
    ("ContrastiveLoss", 2, "binary", {}),
    ("ContrastiveLoss", 2, "binary", dict(distance_metric="EUCLIDEAN", margin=4.0, size_average=False)),
    ("ContrastiveLoss", 2, "binary", dict(distance_metric="MANHATTAN", margin=9.0)),
    ("OnlineContrastiveLoss", 2, "binary", {}),
    ("OnlineContrastiveLoss", 2, "binary", dict(distance_metric="EUCLIDEAN", margin=4.0)),
    ("OnlineContrastiveLoss", 2, "ones", {}),
    ("MSELoss", 1, "vector", {}),
    ("MSELoss", 2, "vector", {}),
    ("MarginMSELoss", 3, "margin", {}),
    ("MarginMSELoss", 4, "margins", dict(similarity_fct="pairwise_cos_sim")),
    ("MarginMSELoss", 4, "scores", {}),
]


def vector_losses():
    made = []
    for number, (name, columns, kind, kwargs) in enumerate(VECTORS):
        random = generator(f"vectors-{number}")
        rows, width = 7, 6
        vectors = [torch.randn(rows, width, generator=random, dtype=torch.float64).float().double().requires_grad_() for _ in range(columns)]
        scores = torch.rand(rows, generator=random, dtype=torch.float64).float().double()
        scores[3] = scores[1]  # equal scores
        labels = {
            None: None,
            "score": scores,
            "binary": torch.tensor([1, 0, 0, 1, 1, 0, 1]),
            "ones": torch.ones(rows, dtype=torch.int64),
            "class": torch.tensor([0, 1, 2, 0, 1, 2, 0]),
            "vector": torch.randn(rows, width, generator=random, dtype=torch.float64).float().double(),
            "margin": scores,
            "margins": torch.randn(rows, 2, generator=random, dtype=torch.float64).float().double(),
            "scores": torch.randn(rows, 3, generator=random, dtype=torch.float64).float().double(),
        }[kind]
        given = dict(kwargs)
        if "similarity_fct" in given:
            given["similarity_fct"] = function_named(given["similarity_fct"])
        metrics = {
            "TripletLoss": losses.TripletDistanceMetric,
            "ContrastiveLoss": losses.SiameseDistanceMetric,
            "OnlineContrastiveLoss": losses.SiameseDistanceMetric,
        }
        if "distance_metric" in given:
            if name in metrics:
                enum = metrics[name]
                given["distance_metric"] = getattr(enum, {"COSINE": "COSINE"}.get(given["distance_metric"], given["distance_metric"]))
            else:
                given["distance_metric"] = getattr(losses.BatchHardTripletLossDistanceFunction, given["distance_metric"])
        record = dict(loss=name, kwargs=kwargs, columns=[v.tolist() for v in vectors])
        if labels is not None:
            record["labels"] = labels.tolist()

        class Fake(torch.nn.Module):
            device = "cpu"
            embeddings = None

            def get_embedding_dimension(self):
                return width

            def forward(self, features):
                return {"sentence_embedding": features["vector"]}

        fake = Fake()
        if name == "SoftmaxLoss":
            given["embedding_dimension"] = width
        loss = getattr(losses, name)(fake, **given).double()
        parameters = []
        if name == "SoftmaxLoss":
            with torch.no_grad():
                loss.classifier.weight.copy_(torch.randn(loss.classifier.weight.shape, generator=random).double())
                loss.classifier.bias.copy_(torch.randn(loss.classifier.bias.shape, generator=random).double())
            parameters = [loss.classifier.weight, loss.classifier.bias]
            record["parameters"] = [p.tolist() for p in parameters]
        value = loss([{"vector": v} for v in vectors], labels)
        value.backward()
        record["value"] = value.item()
        record["gradients"] = [v.grad.tolist() for v in vectors] + [p.grad.tolist() for p in parameters]
        made.append(rounded(record, 8))
    return made


def make(out):
    out = out / "sentences"
    for name, rows in ROWS.items():
        write_lines(out / "rows" / f"{name}.jsonl", rows)
    write_lines(out / "vector-losses.jsonl", vector_losses())
    make_models(out)
    make_hard_negatives(out)
    for cases, is_pair in ((RUNS, False), (SPARSE_RUNS, False), (PAIR_RUNS, True)):
        for name, case in cases.items():
            bound = make_run(name, case, out, is_pair)
            print(name, f"{bound:.2g}")
