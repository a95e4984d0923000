"""The search for a deployment, over contestants whose speeds are known."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest
from PIL import Image

from quantkit.bundle import Bundle
from quantkit.deployment.deployment_file import this_host
from quantkit.deployment.streams import Streams
from quantkit.deployment.tuning import candidates, contestant, decoding, finals, halving, rounds, search, trials
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.outcome import deployment_of, tuning_document
from quantkit.deployment.tuning.page import decoding_rows, verdict
from quantkit.deployment.tuning.point import FILES, Load, Point
from quantkit.deployment.tuning.search import tune
from quantkit.deployment.tuning.tuned import Tuned
from quantkit.deployment.tuning.write import write_tuning
from quantkit.errors import DataError, InstanceError, QuantkitError, UserError

Speed = Callable[[Contestant, Load], float]

STREAMS = Streams(2, batch=4)
THROUGHPUT = TuningGoal()


class Machine:
    """What runs here, how fast, in how many bytes, and with which p99 in ms: that of callers, unless told otherwise."""

    def __init__(self, speed: Speed) -> None:
        self.speed = speed
        self.memory: Callable[[Contestant], int] = lambda contestant: 1000
        self.p99: Speed = lambda contestant, load: float(load.callers)
        self.started: list[Contestant] = []
        self.interrupt_at: Optional[int] = None
        # Images per second by the number of threads that decode them; files are damaged for others.
        self.decoding: Mapping[int, float] = {}

    def running(self, contestant: Contestant) -> Running:
        self.started.append(contestant)
        if self.interrupt_at == len(self.started):
            raise KeyboardInterrupt
        return Running(self, contestant)


class Running:
    parallel = 1

    def __init__(self, machine: Machine, contestant: Contestant) -> None:
        self.machine, self.contestant, self.measured = machine, contestant, 0

    def measure(self, load: Load, seconds: float) -> Point:
        self.measured += 1
        # Readings differ, as real ones do.
        rate = self.machine.speed(self.contestant, load) * (1 + 0.001 * (self.measured % 3))
        return Point(load, rate, 1e3 / rate, self.machine.p99(self.contestant, load), 10)

    def decode(self, workers: int, seconds: float) -> Point:
        if workers not in self.machine.decoding:
            raise DataError("a.png is damaged")
        return Point(FILES, self.machine.decoding[workers], 1.0, 1.0, 10)

    def memory(self) -> int:
        return self.machine.memory(self.contestant)

    def close(self) -> None:
        pass

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch, bundle: Bundle) -> Iterator[Callable[[Speed], Machine]]:
    """Makes a machine with one way to run beside the default, and one engine by itself."""

    def made(speed: Speed) -> Machine:
        machine = Machine(speed)
        for module in (trials, rounds, contestant, decoding):
            monkeypatch.setattr(module, "Running", machine.running)
        usual, other = Contestant(bundle, "mxnet"), Contestant(bundle, "openvino", STREAMS)
        # What a search can do within its budget is not for the speed of this machine to say.
        monkeypatch.setattr(search, "monotonic", lambda: 0.0)
        monkeypatch.setattr(search, "default", lambda bundles: usual)
        monkeypatch.setattr(halving, "structures", lambda bundles, goal: [usual, other])
        monkeypatch.setattr(finals, "own", lambda best: [Contestant(bundle, "openvino", own="THROUGHPUT")])
        return machine

    yield made


def tuned(bundle: Bundle, goal: TuningGoal = THROUGHPUT, **options: Any) -> Tuned:
    return tune([bundle], goal, 0.001, **options)


def by_engine(mxnet: float, openvino: float) -> Speed:
    return lambda contestant, load: mxnet if contestant.engine == "mxnet" else openvino


def test_the_best_is_chosen_with_what_it_brings(on: Any, bundle: Bundle) -> None:
    on(by_engine(100, 150))
    found = tuned(bundle)
    assert found.winner.contestant.engine == "openvino" and found.winner.contestant.spread == STREAMS
    assert [each.contestant.own for each in found.finalists] == [None, None, "THROUGHPUT"]
    over = found.over(found.finalists[0])
    assert over.value == pytest.approx(1.5, rel=0.01) and over.low > 1
    deployment = deployment_of(found, this_host())
    assert deployment.spread == STREAMS and deployment.bundle.sha256 == bundle.sha256
    assert deployment.evidence["MXNet, in one process"][0] == pytest.approx(1.5, rel=0.01)
    document = tuning_document(found, this_host(), "quantkit tune")
    assert document["winner"] == "OpenVINO, 2 streams, batch 4" and len(document["finalists"]) == 3


@pytest.mark.parametrize("speed", [by_engine(100, 100), by_engine(100, 80)])
def test_the_default_stays_where_nothing_is_better_beyond_doubt(on: Any, bundle: Bundle, speed: Speed) -> None:
    on(speed)
    assert tuned(bundle).winner.contestant.engine == "mxnet"


def test_what_is_better_only_at_first_does_not_win(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.speed = lambda contestant, load: (
        100.0 if contestant.engine == "mxnet" or len(machine.started) > 3 else 150.0
    )
    assert tuned(bundle).winner.contestant.engine == "mxnet"


def test_latency_under_load_is_bounded(on: Any, bundle: Bundle) -> None:
    on(lambda contestant, load: 100.0 * load.callers)
    found = tuned(bundle, TuningGoal(p99=10.0))
    assert {each.points[0].load for each in found.finalists} == {Load(1, 8)}
    with pytest.raises(UserError, match="nothing that was tried keeps the bounds"):
        tuned(bundle, TuningGoal(p99=0.5))


def test_of_requests_at_random_times_the_latency_counts(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 100))
    machine.p99 = lambda contestant, load: 20.0 if contestant.engine == "mxnet" else 10.0
    found = tuned(bundle, TuningGoal(rate=500.0))
    assert found.winner.contestant.engine == "openvino"
    assert found.over(found.finalists[0]).value == pytest.approx(2)
    assert {each.points[0].load.rate for each in found.finalists} == {500.0}
    assert "times as short a p99 as the default, MXNet, in one process." in verdict(found)
    with pytest.raises(UserError, match="nothing that was tried keeps the bounds"):
        tuned(bundle, TuningGoal(rate=500.0, p99=5.0))
    with pytest.raises(UserError, match=r"too few come in 0\.001 minutes to tell their p99; allow at least 25 minutes"):
        tuned(bundle, TuningGoal(rate=1.0))


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    folder = tmp_path / "photographs"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    return folder


@pytest.fixture
def four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "worker_threads", lambda: 4)


@pytest.mark.parametrize(
    ("rates", "workers"),
    [
        ({4: 100, 8: 120, 2: 90, 1: 50}, 8),
        ({4: 100, 8: 110, 2: 120, 1: 50}, 2),
        ({4: 100, 8: 100, 2: 90, 1: 50}, None),
    ],
)
@pytest.mark.usefixtures("four_threads")
def test_so_many_threads_decode_as_are_fastest_while_the_winner_runs(
    on: Any, bundle: Bundle, photographs: Path, rates: Mapping[int, float], workers: Optional[int]
) -> None:
    on(by_engine(100, 150)).decoding = rates
    found = tuned(bundle, images=photographs)
    assert [each.workers for each in found.decoded] == [4, 8, 2, 1]
    assert found.workers == workers == deployment_of(found, this_host()).workers
    told = {row[0]: row[-1] for row in decoding_rows(found)}
    assert told == {str(number): "yes" if number == (workers or 4) else "no" for number in rates}
    document = tuning_document(found, this_host(), "")
    assert document["workers"] == workers
    assert all(len(each["rounds"]) >= 4 for each in document["decoding"]) and len(document["decoding"]) == 4


@pytest.mark.usefixtures("four_threads")
def test_files_that_cannot_be_decoded_leave_the_winner(on: Any, bundle: Bundle, photographs: Path) -> None:
    on(by_engine(100, 150)).decoding = {4: 100}
    told: list[str] = []
    found = tuned(bundle, images=photographs, tell=told.append)
    assert found.workers is None and found.winner.contestant.engine == "openvino"
    assert found.undecoded == "a.png is damaged" == tuning_document(found, this_host(), "")["decoding_problem"]
    assert "the threads that decode could not be compared: a.png is damaged" in told


def test_images_are_looked_at_before_anything_is_measured(
    on: Any, bundle: Bundle, photographs: Path, tmp_path: Path
) -> None:
    machine = on(by_engine(100, 150))
    with pytest.raises(DataError, match="there is no image"):
        tuned(bundle, images=tmp_path / "none")
    with pytest.raises(UserError, match=r"does not say how image files become its network's input; leave images"):
        tuned(replace(bundle, preprocess=None), images=photographs)
    (photographs / "b.png").write_text("damaged")
    with pytest.raises(DataError, match=r"b\.png"):
        tuned(bundle, images=photographs)
    assert not machine.started


def test_memory_is_bounded(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.memory = lambda contestant: 2000
    with pytest.raises(UserError, match="nothing that was tried keeps the bounds"):
        tuned(bundle, TuningGoal(memory=1999))
    assert tuned(bundle, TuningGoal(memory=2000)).winner.contestant.engine == "openvino"


def test_a_default_that_breaks_a_bound_gives_way_to_what_keeps_it(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 90))
    machine.memory = lambda contestant: 2000 if contestant.engine == "mxnet" else 1000
    found = tuned(bundle, TuningGoal(memory=1500))
    assert found.winner.contestant.engine == "openvino"
    assert verdict(found).endswith("The default, MXNet, in one process, breaks the bounds of the goal.")
    machine.p99 = lambda contestant, load: 50.0 if contestant.engine == "mxnet" else 1.0
    assert tuned(bundle, TuningGoal(p99=10.0)).winner.contestant.engine == "openvino"


def test_what_takes_too_much_memory_is_left_out(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.memory = lambda contestant: 1000 if contestant.engine == "mxnet" else 2000
    found = tuned(bundle, TuningGoal(memory=1500))
    assert found.winner.contestant.engine == "mxnet"
    assert "it takes more memory than the goal allows" in [trial.problem for trial in found.trials]


def test_what_breaks_the_bound_at_last_does_not_win(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))

    def p99(contestant: Contestant, load: Load) -> float:
        return 20.0 if contestant.engine == "openvino" and len(machine.started) > 5 else 1.0

    machine.p99 = p99
    assert tuned(bundle, TuningGoal(p99=10.0)).winner.contestant.engine == "mxnet"


def test_settings_are_changed_one_at_a_time_and_kept_if_they_help(on: Any, bundle: Bundle) -> None:
    def speed(contestant: Contestant, load: Load) -> float:
        spread = contestant.spread
        return 100.0 if spread is None else 100.0 + 10 * min(spread.batch, 64)

    on(speed)
    found = tune([bundle], TuningGoal(), 1.0)
    assert [(each.name, each.kept) for each in found.settings][:2] == [("batch 2", False), ("batch 8", True)]
    assert found.winner.contestant.spread == Streams(2, batch=64)


def test_a_setting_that_was_lost_at_first_is_tried_again(
    on: Any, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = replace(STREAMS, batch=8)

    def speed(contestant: Contestant, load: Load) -> float:
        if contestant.spread == wide and len(machine.started) == 3:
            raise InstanceError("killed", "it was killed")
        return {None: 100.0, STREAMS: 150.0, wide: 200.0}.get(contestant.spread, 50.0)

    machine = on(speed)
    tried = [Contestant(bundle, "openvino", each) for each in (STREAMS, wide)]
    monkeypatch.setattr(halving, "structures", lambda bundles, goal: tried)
    found = tune([bundle], THROUGHPUT, 1.0)
    assert found.winner.contestant.spread == wide
    assert not any(trial.problem for trial in found.trials)
    assert len({trial.contestant.key for trial in found.trials}) == len(found.trials)


def test_what_fails_is_left_out_with_its_reason(on: Any, bundle: Bundle) -> None:
    def speed(contestant: Contestant, load: Load) -> float:
        if contestant.engine == "openvino" and contestant.own is None:
            raise InstanceError("crashed", "it ended with exit code 3")
        return 100.0

    on(speed)
    found = tuned(bundle)
    assert found.winner.contestant.engine == "mxnet"
    assert [trial.problem for trial in found.trials if trial.problem] == ["it ended with exit code 3"]


def failing(machine: Machine, engine: str, after: int) -> Speed:
    """An engine whose processes end once so many were started."""

    def speed(contestant: Contestant, load: Load) -> float:
        if contestant.engine == engine and len(machine.started) > after:
            raise InstanceError("crashed", "it ended")
        return by_engine(100, 150)(contestant, load)

    return speed


def test_what_fails_later_is_left_out_too(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.speed = failing(machine, "openvino", after=2)
    assert tuned(bundle).winner.contestant.engine == "mxnet"


def test_a_default_that_fails_is_told(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.speed = failing(machine, "mxnet", after=4)
    with pytest.raises(QuantkitError, match="MXNet, in one process does not run: it ended"):
        tuned(bundle)


def test_a_default_that_is_lost_is_started_again(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    lost: list[int] = []

    def speed(contestant: Contestant, load: Load) -> float:
        # Right after the other one was measured for the first time.
        if contestant.engine == "mxnet" and len(machine.started) == 2 and not lost:
            lost.append(1)
            raise InstanceError("killed", "it was killed")
        return by_engine(100, 150)(contestant, load)

    machine.speed = speed
    found = tuned(bundle)
    assert lost and found.winner.contestant.engine == "openvino"
    assert not any(trial.problem for trial in found.trials)
    assert [each.engine for each in machine.started[:3]] == ["mxnet", "openvino", "mxnet"]


def test_bundles_are_of_one_network(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    source = replace(bundle.manifest.source, sha256="0" * 64)
    other = replace(bundle, manifest=replace(bundle.manifest, source=source))
    with pytest.raises(UserError, match="is of another network than"):
        tune([bundle, other], THROUGHPUT, 0.001)
    assert not machine.started


def test_an_interrupted_search_goes_on(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.interrupt_at = 3
    with pytest.raises(KeyboardInterrupt):
        tuned(bundle)
    told: list[str] = []
    machine.interrupt_at = None
    machine.started.clear()
    tuned(bundle, tell=told.append)
    assert told[0] == "going on with 1 trial of an earlier search"
    # The default is measured anew, the other was tried; then the two take turns.
    assert [each.engine for each in machine.started[:3]] == ["mxnet", "openvino", "mxnet"]


def test_a_search_whose_result_cannot_be_written_goes_on(
    on: Any, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    on(by_engine(100, 150))
    found = tuned(bundle)
    with monkeypatch.context() as patch, pytest.raises(QuantkitError, match="No space left on device"):
        patch.setattr(Path, "write_text", full)
        write_tuning(found, tmp_path / "out")
    told: list[str] = []
    write_tuning(tuned(bundle, tell=told.append), tmp_path / "out")
    assert told[0].startswith("going on with ")
    assert not [*(tmp_path / "home/searches").glob("*.jsonl")]


def test_retuning_forgets_an_interrupted_search(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.interrupt_at = 3
    with pytest.raises(KeyboardInterrupt):
        tuned(bundle)
    told: list[str] = []
    machine.interrupt_at = None
    tuned(bundle, tell=told.append, again=True)
    assert not [line for line in told if "earlier" in line]


def test_the_time_for_structures_ends(on: Any, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    on(by_engine(100, 150))
    now = iter(range(10**6))
    told: list[str] = []
    monkeypatch.setattr(search, "monotonic", lambda: float(next(now)))
    tune([bundle], TuningGoal(), 0.01, tell=told.append)
    assert any("the others are not tried" in line for line in told)


def test_a_process_that_was_lost_is_tried_again(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))

    def speed(contestant: Contestant, load: Load) -> float:
        if contestant.engine == "openvino":
            if len(machine.started) == 2:
                raise InstanceError("killed", "it was killed")
            machine.interrupt_at = len(machine.started) + 1
        return 100.0

    machine.speed = speed
    with pytest.raises(KeyboardInterrupt):
        tuned(bundle)
    machine.interrupt_at, machine.speed = None, by_engine(100, 150)
    assert tuned(bundle).winner.contestant.engine == "openvino"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"measure": "speed"}, "choose throughput or latency"),
        ({"p99": 0}, "p99 is 0; give a number above zero"),
        ({"memory": float("inf")}, "memory is inf"),
        ({"p99": 5.0, "measure": "latency"}, "leave one of them out"),
        ({"rate": 5.0, "measure": "latency"}, "leave one of them out"),
        ({"rate": -1}, "rate is -1; give a number above zero"),
        ({"rate": 1e9}, "give at most 100000 images/s"),
    ],
)
def test_goals_that_cannot_be(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        TuningGoal(**values)


def test_latency_is_that_of_one_image_alone(bundle: Bundle) -> None:
    goal = TuningGoal("latency")
    assert [*candidates.loads(Contestant(bundle, "mxnet"), goal, 4)] == [(Load(1, 1),)]
    slow, fast = (Point(Load(1, 1), rate, p50, 9.0, 10) for rate, p50 in ((100.0, 8.0), (50.0, 7.0)))
    assert goal.best([slow, fast]) == fast
