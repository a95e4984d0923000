"""What was measured on, and what to be wary of."""

from __future__ import annotations

from dataclasses import replace

from quantkit.benchmark.build import Build
from quantkit.benchmark.results.results import Agreement, Contestant, Kernels, Network, Results
from quantkit.report.compose import document
from quantkit.report.page.markdown import markdown
from quantkit.report.setup import grouped_warnings, host, kernels, ranges
from quantkit.report.study.accuracy import graded
from quantkit.report.study.summary import summarize
from tests.report.synthetic import BUILDS, INT8, NATIVE, results


def test_warnings_alike_are_drawn_together() -> None:
    given = results(batches=(1, 8), contestants=(NATIVE, INT8))
    texts = ("slow 0.25 of 4", "slow 0.5 of 4", "slow 10 of 4", "other")
    cells = tuple(replace(cell, warnings=(text,)) for cell, text in zip(given.cells, texts))
    (study,) = summarize([Results(given.run, cells)])
    assert grouped_warnings(study) == ("slow 0.25 to 10 of 4 (3 cells)", "other (1 cell)")


def test_processors_are_drawn_together() -> None:
    assert ranges((3, 0, 1, 2, 8, 10, 11)) == "0-3,8,10-11"


def test_other_engines_stand_beside_mxnet() -> None:
    builds = (*BUILDS, Build("openvino", "/p", "3.11", "1.26.4", "2026.4.1", "/l", ("INT8",), True, "openvino"))
    exported, nncf = Contestant("OpenVINO", "openvino", "int8", "node"), Contestant("NNCF", "openvino", "nncf", "node")
    given = results(("net",), (1,), (NATIVE, INT8, exported, nncf), {"INT8": 9.0, "OpenVINO": 8.0, "NNCF": 8.0})
    told = {
        "native": {},
        "INT8": {},
        "OpenVINO": {"kernels": Kernels(53, 54), "agreement": Agreement("quantkit", 1e-3, 1 / 127)},
        "NNCF": {
            "agreement": Agreement("native", 0.06, None), "environment": {},
            "engine": {"openvino": "2026.4.1", "libraries": ["libtbb.so.12"], "settings": {"NUM_STREAMS": 1}},
        },
    }  # fmt: skip
    cells = [replace(each, **told[each.contestant.name]) for each in given.cells]
    network = Network("net", "trained", 10**9, accuracy={"cosine": 0.99})
    found = summarize([Results(replace(given.run, builds=builds, networks=(network,)), tuple(cells))])[0]
    text = markdown(document([found]))
    assert "| openvino | OpenVINO 2026.4.1 |" in text
    assert "| onednn | MXNet 1.9.1 |" in text
    assert "Convolutions, dense and recurrent layers in INT8" in text
    assert "| net | 1 | 53 of 54 |" in text
    assert "| NUM\\_STREAMS=1 | libtbb.so.12 |" in text.replace("NUM_STREAMS", "NUM\\_STREAMS").replace("\\\\", "\\")
    assert "0.06 from native, not judged" in text
    # The accuracy is that of MXNet's INT8, though others run INT8, too.
    (row,) = graded(found)
    assert row.row is not None and row.row.contestant == "INT8"
    assert found.challengers.index("NNCF") == 2
    assert "nncf" in text


def test_core_to_core_latency_is_a_fact_of_the_machine_where_it_was_measured() -> None:
    given = results()
    assert not any("core-to-core" in fact for fact, _ in host(summarize([given])[0]).rows)
    cells = tuple(
        replace(
            cell, rounds=tuple(replace(turn, core_to_core=apart) for turn, apart in zip(cell.rounds, (100, 130, 430)))
        )
        for cell in given.cells
    )
    facts = host(summarize([replace(given, cells=cells)])[0]).rows
    assert facts[-1] == ("core-to-core latency, 0 to 7 and back, ns", "100 to 430, median 130")


def test_layers_in_int8_are_shown_where_engines_tell_them() -> None:
    silent = summarize([results(("net",), (1,), (NATIVE, INT8))])[0]
    assert not kernels(silent)
