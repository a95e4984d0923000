"""From facts about a machine to findings about INT8 on it, with remedies: a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from quantkit.host.cpu import VNNI
from quantkit.host.facts import EngineBuild, Facts
from quantkit.host.threads import default_threads, recommended_threads

Level = Literal["ok", "warn", "fail"]

PYTHON = (3, 11)
_NEWEST_PYTHON = (3, 13)

# The engines that run bundles without MXNet, by extra.
_ONNX_ENGINES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}

# Those of VNNI's instructions that are newer than MKL-DNN 1.
_UNKNOWN_TO_MKLDNN_1 = ("AMX-INT8", "AVX-VNNI")

_ARCHITECTURES = ("x86_64", "AMD64")

# MXNet's kernels have no reduced range, so it cannot be the advice.
_WITHOUT_VNNI = (
    "in MXNet, find the layers that saturate with `quantkit analyze`, and keep them in FP32 with `quantkit quantize "
    "--exclude`; for ONNX Runtime and OpenVINO, `quantkit export --reduce-range auto`; or run on a processor with VNNI"
)
_NEWER_ENGINE = "pip install 'quantkit[onednn]' in another environment: its oneDNN uses it"

# What messages advise where MXNet is to run LSTM layers in INT8; ``instructions`` holds why.
_FOR_LSTM_LAYERS = "DNNL_MAX_CPU_ISA=AVX512_CORE"

# These pin threads or shape their waiting in Intel's OpenMP; other KMP_ names are set by libraries.
_INTEL_OPENMP = ("KMP_AFFINITY", "KMP_BLOCKTIME", "KMP_HW_SUBSET")

# An idle system's daemons take less than half a core.
_BUSY_CORES = 0.5


@dataclass(frozen=True)
class Finding:
    """The result of one check: ``warn`` makes results slower or less exact, ``fail`` keeps quantkit from working.

    ``topic`` is a short name that is stable between versions; ``remedy`` is empty if all is well.
    """

    topic: str
    level: Level
    what: str
    remedy: str = ""


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """Check everything, in the order in which a user would fix it."""
    return tuple(finding for check in _CHECKS for finding in check(facts))


def _is_mkldnn_1(engine: EngineBuild) -> bool:
    """Whether MKL-DNN 1.0 is inside; later versions of mxnet have oneDNN."""
    return engine.version.startswith("1.6.")


def _python(facts: Facts) -> Iterator[Finding]:
    version, minor = ".".join(map(str, facts.python)), facts.python[:2]
    wanted = ".".join(map(str, PYTHON))
    if minor < PYTHON:
        yield Finding("python", "fail", f"Python {version} is too old", f"use Python {wanted}")
    elif minor > _NEWEST_PYTHON:
        yield Finding("python", "warn", f"Python {version} is newer than the tested versions", f"use Python {wanted}")
    elif minor > PYTHON and facts.engine.distribution:
        what = f"Python {version}: MXNet's wheels were made for older ones"
        yield Finding("python", "warn", what, f"use Python {wanted} where MXNet runs")
    else:
        yield Finding("python", "ok", f"Python {version}")


def _numpy(facts: Facts) -> Iterator[Finding]:
    if facts.engine.distribution and int(facts.numpy.split(".")[0]) >= 2:
        yield Finding("numpy", "fail", f"NumPy {facts.numpy}: mxnet needs NumPy 1", "pip install 'numpy<2'")
    else:
        yield Finding("numpy", "ok", f"NumPy {facts.numpy}")


def _libgomp(facts: Facts) -> Iterator[Finding]:
    if facts.engine.distribution and not facts.threads.libgomp:
        yield Finding(
            "libgomp", "fail", "the GNU OpenMP library libgomp.so.1 cannot be loaded; mxnet needs it",
            "install it with the system's package manager (Debian, Ubuntu: apt-get install libgomp1)",
        )  # fmt: skip


def _engine(facts: Facts) -> Iterator[Finding]:
    engine = facts.engine
    others = [title for extra, title in _ONNX_ENGINES.items() if not facts.extras[extra]]
    if not engine.distribution and others:
        what = f"mxnet is not installed: bundles with an ONNX file run in {' and '.join(others)}, nothing is quantized"
        yield Finding("engine", "warn", what, engine.remedy)
        return
    if engine.problem:
        yield Finding("engine", "fail", engine.problem, engine.remedy)
        return
    name = f"{engine.distribution or 'mxnet'} {engine.version}"
    if engine.int8_obstacle:
        what, _, remedy = engine.int8_obstacle.partition("; ")
        yield Finding("engine", "fail", what, remedy)
    else:
        yield Finding("engine", "ok", f"{name} with {len(engine.int8_operators)} INT8 operators")


def _gluoncv(facts: Facts) -> Iterator[Finding]:
    if not facts.engine.distribution:
        return
    if facts.gluoncv is None:
        extra = "mkl" if _is_mkldnn_1(facts.engine) else "onednn"
        yield Finding(
            "gluoncv", "warn", "gluoncv is not installed: networks can be loaded by file, but not by name",
            f"pip install 'quantkit[{extra}]'",
        )  # fmt: skip
    else:
        yield Finding("gluoncv", "ok", f"gluoncv {facts.gluoncv}".rstrip())


def _extras(facts: Facts) -> Iterator[Finding]:
    present = [extra for extra, missing in facts.extras.items() if not missing]
    absent = [f"{extra} (without {', '.join(missing)})" for extra, missing in facts.extras.items() if missing]
    said = f"; not installed: {', '.join(absent)}" if absent else ""
    yield Finding("extras", "ok", f"installed: {', '.join(present) or 'none'}{said}")


def _onnx_engines(facts: Facts) -> Iterator[Finding]:
    for name, version in facts.onnx_engines.items():
        yield Finding(name, "ok", f"{name} {version} runs bundles that hold an ONNX file")


def _home(facts: Facts) -> Iterator[Finding]:
    if not facts.home.writable:
        yield Finding(
            "home", "fail", f"downloads cannot be kept: {facts.home.path} cannot be written",
            "set QUANTKIT_HOME to a folder that you may write to",
        )  # fmt: skip
    else:
        yield Finding("home", "ok", f"downloads are kept in {facts.home.path}")


def _isa(facts: Facts) -> Iterator[Finding]:
    isa, old = facts.cpu.isa, _is_mkldnn_1(facts.engine)
    name = facts.cpu.model or "this processor"
    if facts.cpu.architecture not in _ARCHITECTURES:
        what = f"{name} has the architecture {facts.cpu.architecture}: MXNet's wheels and quantkit are for x86-64"
        yield Finding("isa", "fail", what, "use a machine with an x86-64 processor")
        return
    used = [name for name in VNNI if name in isa and not (old and name in _UNKNOWN_TO_MKLDNN_1)]
    unused = [name for name in VNNI if name in isa and name not in used]
    also = f" ({' and '.join(unused)}: not used by MKL-DNN 1)" if unused else ""
    if used:
        yield Finding("isa", "ok", f"{facts.cpu.model}: {', '.join(used)}{also}")
        return
    yield Finding(
        "isa", "warn",
        f"{name} has no VNNI that the engine uses{also}: INT8 is little faster than FP32, and the sum "
        "of two products of unsigned activations and full-range weights can saturate at 16 bits",
        _NEWER_ENGINE if unused else _WITHOUT_VNNI,
    )  # fmt: skip


def _threads(facts: Facts) -> Iterator[Finding]:
    threads, wanted, cpu = facts.threads, recommended_threads(facts.cpu, facts.limits), facts.cpu
    remedy = f"set OMP_NUM_THREADS={wanted}"
    given = threads.environment.get("OMP_NUM_THREADS")
    if given is not None and threads.asked is None:
        yield Finding("threads", "warn", f"OMP_NUM_THREADS={given!r} is not a number of threads", remedy)
    elif threads.asked is None:
        taken = default_threads(cpu)
        text = f"OMP_NUM_THREADS is unset: quantkit takes {wanted}"
        if taken == wanted:
            yield Finding("threads", "ok", f"{text}, as MXNet by itself does")
        else:
            alone = f"MXNet by itself takes {taken} (half of the {len(cpu.usable)} usable hardware threads)"
            yield Finding("threads", "ok", f"{text}; {alone}: for a program without quantkit {remedy}")
    elif threads.asked > len(cpu.usable):
        what = f"OMP_NUM_THREADS={threads.asked}, but this process may run on {len(cpu.usable)} hardware threads"
        yield Finding("threads", "warn", f"{what}; waiting threads will spin in each other's way", remedy)
    elif threads.asked > wanted:
        what = f"OMP_NUM_THREADS={threads.asked}, more than the {wanted} that cores and quota can keep running"
        yield Finding("threads", "warn", what, remedy)
    else:
        yield Finding("threads", "ok", f"OMP_NUM_THREADS={threads.asked} on {cpu.usable_cores} usable cores")


def _pinning(facts: Facts) -> Iterator[Finding]:
    ignored = [name for name in _INTEL_OPENMP if name in facts.threads.environment]
    if ignored and not facts.threads.intel_openmp:
        yield Finding(
            "pinning", "warn",
            f"{', '.join(ignored)} set, but mxnet uses GNU's OpenMP, which does not read it",
            "pin with OMP_PROC_BIND=close OMP_PLACES=cores, or preload Intel's libiomp5 (LD_PRELOAD)",
        )  # fmt: skip


def _quota(facts: Facts) -> Iterator[Finding]:
    if facts.limits.unreadable:
        yield Finding(
            "quota", "warn", f"whether a control group limits processor time is unknown: {facts.limits.unreadable} "
            "cannot be read",
            "ask the container's administrator for its quota, and set OMP_NUM_THREADS to no more cores than that",
        )  # fmt: skip
    quota, usable = facts.limits.cpu_quota, len(facts.cpu.usable)
    if quota is not None and quota < usable:
        yield Finding(
            "quota", "warn",
            f"the control group allows {quota:g} cores' time on {usable} usable hardware threads: "
            "spinning threads use it up and all are stopped until the next period",
            f"raise the quota, or set OMP_NUM_THREADS={recommended_threads(facts.cpu, facts.limits)}",
        )  # fmt: skip


def _load(facts: Facts) -> Iterator[Finding]:
    load = facts.load
    if load is None:
        yield Finding(
            "load", "warn", "the system does not show how busy the processor is (/proc/stat)",
            "check from outside the container whether others use its cores before you trust a timing",
        )  # fmt: skip
        return
    if load.busy < _BUSY_CORES:
        yield Finding("load", "ok", f"{load.busy:.1f} of {len(facts.cpu.usable)} usable hardware threads busy")
        return
    stolen = f", {load.stolen:.1f} of them taken by the hypervisor" if load.stolen >= 0.05 else ""
    yield Finding(
        "load", "warn",
        f"others keep {load.busy:.1f} of {len(facts.cpu.usable)} usable hardware threads busy{stolen}: libgomp's "
        "threads spin while they wait for each other, so INT8 can fall to a fraction of its speed; timings are invalid",
        "stop the other work or give this process exclusive cores (taskset, numactl)",
    )  # fmt: skip


def _variables(facts: Facts) -> Iterator[Finding]:
    for name, value in facts.threads.environment.items():
        setting, remedy = f"{name}={value}", f"unset {name}"
        if name == "MXNET_MKLDNN_ENABLED" and value == "0":
            what = f"{setting}: quantkit ignores it; plain MXNet cannot run INT8 networks with it"
        elif name == "MXNET_SUBGRAPH_BACKEND" or name.startswith("MXNET_DISABLE_MKLDNN_"):
            what = f"{setting}: quantkit ignores it; plain MXNet changes how it fuses FP32 networks"
        elif setting == _FOR_LSTM_LAYERS and not _is_mkldnn_1(facts.engine):
            what = f"{setting}: LSTM layers can run in INT8, and other INT8 layers do without VNNI"
            remedy = f"keep it for networks with LSTM layers in INT8, and unset {name} for others"
        elif name == "DNNL_MAX_CPU_ISA" and not _is_mkldnn_1(facts.engine):
            what = f"{setting}: quantkit obeys it; the engine may use slower kernels than the processor allows"
        elif name in ("MKLDNN_VERBOSE", "DNNL_VERBOSE") and value != "0":
            what = f"{setting}: the engine writes to standard output, which spoils timings and --json"
        else:
            continue
        yield Finding("environment", "warn", what, remedy)


_CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _python, _numpy, _libgomp, _engine, _gluoncv, _onnx_engines, _extras, _home, _isa, _threads, _pinning, _quota,
    _load, _variables,
)  # fmt: skip
