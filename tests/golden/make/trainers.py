# SPDX-License-Identifier: Apache-2.0
"""What recorded runs of trainers share."""

import transformers

QUIET = dict(  # arguments of trl's trainers: exact, on the CPU, and nothing besides the run
    bf16=False,
    gradient_checkpointing=False,
    use_cpu=True,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
    dataloader_pin_memory=False,
)
OF_MACHINES = ("_runtime", "_per_second", "total_flos")  # ends of names whose numbers are not the same everywhere


def history_of(trainer):
    """Trains, and returns what was logged."""
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return [
        {key: value for key, value in record.items() if not key.endswith(OF_MACHINES)}
        for record in trainer.state.log_history
    ]
