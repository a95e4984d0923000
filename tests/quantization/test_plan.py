from __future__ import annotations

from dataclasses import replace

import pytest

from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.errors import ModelError, UserError
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.planning import calibration_targets, make_plan
from tests.networks import DATA, Builder, residual_v1, residual_v2

pytestmark = pytest.mark.usefixtures("engine")


def table_of(fused: Fused, **special: Range) -> CalibrationTable:
    """A range for every tensor: [0, 4] after a ReLU, [-4, 4] elsewhere, or as given."""
    ranges = {
        str(tensor): Range(0.0, 4.0) if "relu" in tensor.node else Range(-4.0, 4.0)
        for tensor in calibration_targets(fused.graph)
    }
    return CalibrationTable("minmax", 1, "made up", {**ranges, **special}, "0" * 64, "0" * 64)


def fused(graph: Graph) -> Fused:
    return fuse(graph, (3, 16, 16))


def test_all_layers_of_a_residual_network_are_int8() -> None:
    network = fused(residual_v1(signed_shortcut=True))
    plan = make_plan(network, table_of(network))
    assert {name: d.precision for name, d in plan.decisions.items()} == {
        **dict.fromkeys(["relu0", "relu1", "bn2", "relu2", "dense"], "int8"),
        **dict.fromkeys(["pool", "flatten"], "fp32"),
    }
    assert all(decision.reason for decision in plan.decisions.values() if decision.precision == "fp32")
    assert plan.tensors[Tensor("relu0")].dtype == "uint8"
    assert plan.tensors[Tensor("bn2")].dtype == "int8"
    assert plan.tensors[DATA].dtype == "int8"


def test_a_non_negative_input_is_unsigned_unless_told_otherwise() -> None:
    network = fused(residual_v1())
    table = table_of(network, data=Range(0.0, 1.0))
    assert make_plan(network, table).tensors[DATA].dtype == "uint8"
    assert make_plan(network, table, dtype="int8").tensors[DATA].dtype == "int8"


def test_uint8_is_refused_for_negative_values() -> None:
    network = fused(residual_v1())
    with pytest.raises(UserError, match="'data'"):
        make_plan(network, table_of(network), dtype="uint8")


@pytest.mark.parametrize("pattern", ["conv1", "bn1", "relu1", "*v1", "relu[1]"])
def test_exclusion_by_any_original_name(pattern: str) -> None:
    network = fused(residual_v1())
    plan = make_plan(network, table_of(network), exclude=[pattern])
    assert plan.decisions["relu1"].precision == "fp32"
    assert repr(pattern) in plan.decisions["relu1"].reason
    assert plan.decisions["relu0"].precision == "int8"


def test_exclusion_by_operator_type() -> None:
    network = fused(residual_v1())
    plan = make_plan(network, table_of(network), exclude=["Convolution"])
    assert {d.precision for d in plan.decisions.values() if d.operator.startswith("Convolution")} == {"fp32"}
    assert plan.decisions["dense"].precision == "int8"


def test_an_exclusion_that_matches_nothing_is_an_error_with_the_nearest_names() -> None:
    network = fused(residual_v1())
    with pytest.raises(UserError, match=r"'cnov1'.*conv1"):
        make_plan(network, table_of(network), exclude=["cnov1"])


def test_a_table_of_another_network_is_refused() -> None:
    network = fused(residual_v1())
    table = replace(table_of(network), ranges={"data": Range(-1.0, 1.0)})
    with pytest.raises(ModelError, match="another network"):
        make_plan(network, table)


@pytest.mark.parametrize("dead", ["relu1", "relu0"])
def test_tensors_that_are_always_zero_stay_fp32(dead: str) -> None:
    network = fused(residual_v1())
    plan = make_plan(network, table_of(network, **{dead: Range(0.0, 0.0)}))
    assert "0 in every sample" in plan.decisions[dead].reason


def test_preactivation_batch_norms_are_int8_but_the_input_one() -> None:
    network = fused(residual_v2())
    plan = make_plan(network, table_of(network))
    assert [name for name, d in plan.decisions.items() if d.precision == "fp32"] == ["bn0", "pool", "flatten"]


def test_unknown_operators_and_their_neighbours() -> None:
    b = Builder()
    odd = b.op("sin", "sin", b.relu("relu", b.conv("conv", DATA, 3, 8)))
    network = fused(b.graph(b.conv("last", odd, 8, 8)))
    plan = make_plan(network, table_of(network))
    assert [d.precision for d in plan.decisions.values()] == ["int8", "fp32", "int8"]
    assert plan.decisions["sin"].reason == "sin has no INT8 kernel"
