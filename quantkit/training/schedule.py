"""The learning rate from step to step, as MXNet's own schedulers have it."""

from __future__ import annotations

from typing import Any

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.training.config import TrainingConfig

# Shares of the epochs after which ``step`` divides the rate by ten.
_DROPS, _DROP = (0.5, 0.75), 0.1


def rate_schedule(config: TrainingConfig, steps_per_epoch: int) -> Any:
    """An MXNet ``LRScheduler`` for the optimizer of a training.

    Args:
        config: the training.
        steps_per_epoch: the number of batches in an epoch.
    """
    schedulers = load_mxnet().lr_scheduler
    total = config.epochs * steps_per_epoch
    warmup = int(min(config.warmup_epochs * steps_per_epoch, total // 2))
    common = {"base_lr": config.peak_rate, "warmup_steps": warmup}
    if config.schedule == "cosine":
        # One more than there are, so that the last one still learns.
        return schedulers.CosineScheduler(total + 1, **common)
    drops = [round(share * total) for share in _DROPS] if config.schedule == "step" else []
    # A drop that the warm-up reaches comes right after it; one beyond the end never does.
    places = sorted({max(drop, warmup + 1) for drop in drops}) or [total + 1]
    return schedulers.MultiFactorScheduler(places, factor=_DROP, **common)
