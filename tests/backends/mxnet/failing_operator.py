"""Networks whose INT8 convolutions fail in MXNet, and sound ones, in turns; ends well unless memory is corrupted."""

from __future__ import annotations

from dataclasses import replace

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.errors import EngineError
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned


def main() -> None:
    """Run them."""
    b = Builder()
    graph = b.graph(b.op("elemwise_add", "add", b.conv("conv", DATA, 3, 3), DATA), DATA)
    data = images()
    fused, plan = planned(graph, data)
    sound = int8_graph(QuantizedGraph(fused.graph, plan))
    # Integers without a sign, of a range that needs one.
    nodes = [
        replace(node, attrs={**node.attrs, "out_type": "uint8"}) if "out_type" in node.attrs else node
        for node in sound.nodes
    ]
    failing = replace(sound, nodes=tuple(nodes))
    failures = 0
    for network in (failing, sound) * 20:
        try:
            MxnetSession(network, {"data": data.shape}).run({"data": data})
        except EngineError:
            failures += 1
    print(failures)


if __name__ == "__main__":
    main()
