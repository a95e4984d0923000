"""A bundle's configuration, held against what its manifest says of the quantization."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Optional, Union

from quantkit.bundle.manifest import Settings
from quantkit.quantization.config import QuantizationConfig
from quantkit.quantization.goal import Goal, MixedPrecision
from quantkit.quantization.ptq_config import PTQConfig, preset

# Asked for, they need not be applied: photographs in place of the user's images shift no channels, and what is applied
# to no image mirrors none.
_OPTIONAL = frozenset({"channel_shift", "mirror"})


def configuration_problem(config: QuantizationConfig, settings: Settings, card_exclude: Sequence[str]) -> Optional[str]:
    """Where a configuration contradicts the manifest's settings; None where it does not.

    Args:
        config: what was asked for.
        settings: what was done.
        card_exclude: the operators that the model card keeps in FP32, to which those of the configuration are added.
    """
    return next(_problems(config, settings, tuple(card_exclude)), None)


def _problems(config: QuantizationConfig, settings: Settings, card_exclude: tuple[str, ...]) -> Iterator[str]:
    pairs = {
        "method": (config.method, settings.method),
        "num_samples": (config.num_samples, settings.samples),
        "exclude": ((*card_exclude, *config.exclude), settings.exclude),
        "dtype": (config.dtype, settings.dtype),
        "never_slower": (_timed_batch(config), settings.speed and settings.speed.batch),
        "goal": (_goal(config.goal), _goal(settings.mixed)),
    }
    for name, (asked, done) in pairs.items():
        if asked != done:
            yield f"its {name} is {asked!r} where the manifest has {done!r}"
    wanted = config.wanted_algorithms
    if wanted is not None:
        asked_for = _techniques(preset(wanted) if isinstance(wanted, str) else wanted)
        applied = _techniques(settings.algorithms)
        if not asked_for - _OPTIONAL <= applied <= asked_for:
            yield f"it asks for {_listed(asked_for)} where the manifest has {_listed(applied)}"


def _goal(stated: Union[Goal, MixedPrecision, None]) -> Optional[tuple[Optional[float], Optional[float]]]:
    return None if stated is None else (stated.max_drop, stated.min_speedup)


def _timed_batch(config: QuantizationConfig) -> Optional[int]:
    return config.speed_batch if config.never_slower else None


def _techniques(algorithms: PTQConfig) -> frozenset[str]:
    return frozenset(name for name, on in asdict(algorithms).items() if on is True)


def _listed(techniques: frozenset[str]) -> str:
    return ", ".join(sorted(techniques)) or "no algorithms"
