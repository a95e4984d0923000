"""Verifying bundles: are the files unchanged, and does the network compute the stored outputs here?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from quantkit.backends.mxnet.checkpoint import stored_names
from quantkit.backends.mxnet.execute import run
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.engine import present_engine
from quantkit.bundle.file_names import PARAMS, SYMBOL
from quantkit.bundle.manifest import Manifest
from quantkit.bundle.manifest_file import read_manifest
from quantkit.bundle.read import file_problem, open_bundle
from quantkit.bundle.replaced import reading_whole
from quantkit.errors import BundleError, EngineError
from quantkit.files.bundles import MANIFEST
from quantkit.files.temporary import is_temporary
from quantkit.formats.mxnet.params import read_params
from quantkit.fusion.numeric_check import relative_difference
from quantkit.ir.operators import scores_kind
from quantkit.models.vocabulary import inputs_with_vocabularies

# Relative to the output's largest value. FP32 sums in another order differ by about 1e-6 of it, more in networks that
# amplify rounding, which the check of the fusion has measured. INT8 sums are exact.
FLOAT_TOLERANCE = 1e-4

# Another engine may round a few values to the neighbouring integer. One step of an 8-bit output is the resolution of
# INT8.
INT8_TOLERANCE = 1 / 127

_SHOWN = {"built-in": "a built-in image", "generated": "noise", "own": "one of the samples it was made with"}

_OTHER_ISA = (
    "without VNNI, INT8 products are added in 16 bits and can saturate: "
    "`quantkit analyze` tells in which layers, to be kept in FP32 with `quantkit quantize --exclude`"
)


@dataclass(frozen=True)
class Check:
    """One check: its name, whether it succeeded, and in ``why`` the reason for either."""

    name: str
    ok: bool
    why: str


@dataclass(frozen=True)
class Verification:
    """All checks of a bundle, in the order in which they were made."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check succeeded."""
        return all(check.ok for check in self.checks)


def verify_bundle(directory: Union[str, Path]) -> Verification:
    """Check a bundle: its manifest, every file's hash, that there are no other files, its signature, its stored sample.

    The quantized network, from which files for other engines are written, must also lower to the symbol again, and the
    configuration say what the manifest does.

    If a file was changed, the network is not run. Failed checks are in the result; they raise nothing.

    Raises:
        EngineMissing: no engine is installed.
    """
    return reading_whole(Path(directory), lambda: _verified(Path(directory)))


def _verified(directory: Path) -> Verification:
    files = verify_files(directory)
    checks = list(files.checks)
    if not files.ok:
        stopped = Check("network", False, "not run: the files are not those that were written")
        return Verification((*checks, stopped)) if checks[0].ok else files
    try:
        bundle = open_bundle(directory, read_manifest(directory))
        checks.append(_signature(bundle))
        if checks[-1].ok:
            checks += [*_configuration(bundle), _quantization(bundle), *_sample(bundle)]
    except (BundleError, EngineError) as error:
        checks.append(Check("network", False, str(error)))
    return Verification(tuple(checks))


def verify_files(directory: Path) -> Verification:
    """Make the checks that need no engine: the manifest, every file's hash, and that there are no other files."""
    try:
        manifest = read_manifest(directory)
    except BundleError as error:
        return Verification((Check("manifest", False, str(error)),))
    what = f"{manifest.kind} bundle of {manifest.name!r}, quantkit {manifest.quantkit}"
    return Verification((Check("manifest", True, what), *_files(directory, manifest)))


def _files(directory: Path, manifest: Manifest) -> Iterator[Check]:
    for name, entry in sorted(manifest.files.items()):
        problem = file_problem(directory / name, entry)
        yield Check(f"file {name}", problem is None, problem or f"{entry.size} bytes, SHA-256 {entry.sha256[:12]}...")
    unlisted = sorted(
        {path.name for path in directory.iterdir() if not is_temporary(path.name)} - {MANIFEST, *manifest.files}
    )
    yield Check(
        "no other files", not unlisted, f"not in the manifest: {', '.join(unlisted)}" if unlisted else "none found"
    )


def _signature(bundle: Bundle) -> Check:
    """Compare the symbol with the parameters file and the manifest's outputs; reading it has checked the input."""
    graph, manifest = bundle.graph, bundle.manifest
    problems = []
    if extra := sorted(set(stored_names(graph).values()) ^ set(read_params(bundle.directory / PARAMS))):
        problems.append(f"{PARAMS} and {SYMBOL} do not agree on {extra[0]!r}")
    names = [str(tensor) for tensor in graph.outputs]
    if names != [output.name for output in manifest.outputs]:
        problems.append(f"{SYMBOL} puts out {names}, the manifest says {[output.name for output in manifest.outputs]}")
    else:
        for tensor, output in zip(graph.outputs, manifest.outputs):
            if (kind := scores_kind(graph, tensor)) != output.scores:
                problems.append(f"{output.name!r} ends in {kind or 'no scores'}, the manifest says {output.scores}")
    if bundle.joined and inputs_with_vocabularies(graph, bundle.joined.shapes) != bundle.joined:
        problems.append("the vocabularies of its inputs are not those that the manifest says")
    several = bundle.joined.shapes if bundle.joined else {manifest.input.name: manifest.input.shape}
    inputs = (f"input {name!r} float32 ({', '.join(map(str, ('N', *shape)))})" for name, shape in several.items())
    states = "".join(f", state {state.input!r}" for state in manifest.states)
    why = "; ".join(problems) or f"{', '.join(inputs)}{states}, {len(graph.params)} parameters"
    return Check("signature", not problems, why)


def _configuration(bundle: Bundle) -> Iterator[Check]:
    """Compare the configuration of an INT8 bundle with the manifest's settings."""
    try:
        config = bundle.config
    except BundleError as error:
        yield Check("configuration", False, str(error))
        return
    if config is not None:
        yield Check("configuration", True, repr(config))


def _quantization(bundle: Bundle) -> Check:
    """Compare the fused network and its plan, from which other engines' files are written, with what MXNet runs."""
    try:
        layers = len(bundle.network.int8_weighted)
    except BundleError as error:
        return Check("quantization", False, str(error))
    return Check("quantization", True, f"{layers} layers in INT8, lowered again to the same symbol")


def _sample(bundle: Bundle) -> Iterator[Check]:
    """Compare the stored outputs with those computed here, by the largest deviation over the largest value."""
    sample, manifest = bundle.sample, bundle.manifest
    computed = run(bundle.graph, {manifest.input.name: sample.input})
    there, here = manifest.engine, present_engine()
    alike = manifest.kind == "fp32" or (there.mxnet, there.isa) == (here.mxnet, here.isa)
    tolerance = max(FLOAT_TOLERANCE, manifest.fusion.allowed) if alike else INT8_TOLERANCE
    places = (
        f"{_shown(manifest)}, stored by mxnet {there.mxnet} ({there.isa}), computed by mxnet {here.mxnet} ({here.isa})"
    )
    for output, expected, actual in zip(manifest.outputs, sample.outputs, computed):
        difference = relative_difference(expected, actual) if expected.shape == actual.shape else float("inf")
        ok = difference <= tolerance
        size = f"{difference:.2g}" if alike else f"{difference:.2g} ({difference / INT8_TOLERANCE:.2g} steps of 8 bits)"
        advice = "" if ok or alike or there.isa == here.isa else f"; {_OTHER_ISA}"
        why = f"{places}: deviates by {size} of the largest value, {tolerance:.2g} is allowed{advice}"
        yield Check(f"sample {output.name}", ok, why)


def _shown(manifest: Manifest) -> str:
    """What the stored sample is, in words."""
    if manifest.sample is not None:
        return _SHOWN[manifest.sample]
    return "an image" if manifest.settings is None else f"an image of {manifest.settings.data}"
