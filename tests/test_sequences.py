"""Networks that read sequences, from loading to prediction and evaluation."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.checkpoint import write_checkpoint
from quantkit.backends.mxnet.execute import run as run_graph
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.bundle import read_bundle
from quantkit.data.preprocess import Preprocess
from quantkit.diagnosis.explain import explain_model
from quantkit.diagnosis.layers.page import analysis_json, analysis_page
from quantkit.errors import DataError, ModelError, UserError
from quantkit.evaluation.perplexity import PerplexityChange
from quantkit.ir.graph import Graph, Node
from quantkit.models.preprocess_change import PreprocessChange
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.sequences import FEATURES, STEPS, TOKENS, expected_scores, sequence_network, sequences

PLAIN = quantkit.QuantizationConfig(preset="none")

NETWORK = sequence_network("TN", "inputs")
IDS = sequences(40, tokens=True)
NEXT = np.random.default_rng(8).integers(0, TOKENS, IDS.shape)


@pytest.fixture(scope="module")
def model(engine: None) -> quantkit.Model:
    return load(NETWORK)


def load(graph: Graph) -> quantkit.Model:
    return quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(STEPS,), layout="TN")


def changed() -> Graph:
    """The network with a slightly other last layer, in place of an INT8 form."""
    noise = np.random.default_rng(4).normal(0, 0.3, (TOKENS, 8)).astype(np.float32)
    return replace(NETWORK, params={**NETWORK.params, "dense_weight": NETWORK.params["dense_weight"] + noise})


def cross_entropy(graph: Graph) -> np.ndarray:
    scores = expected_scores(graph, IDS)
    chances = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return -np.log(np.take_along_axis(chances, NEXT[..., None], axis=-1))[..., 0].mean(axis=1)


def test_perplexity_is_that_of_the_network_by_definition(model: quantkit.Model) -> None:
    evaluation = quantkit.evaluate(load(changed()), (IDS, NEXT), reference=model)
    for role, graph in (("network", changed()), ("reference", NETWORK)):
        accuracy = evaluation.step_accuracy[role]  # type: ignore[index]
        assert accuracy.cross_entropy == pytest.approx(cross_entropy(graph).mean(), rel=1e-4)
        assert accuracy.top1 == pytest.approx((expected_scores(graph, IDS).argmax(-1) == NEXT).mean(), abs=0.005)
        assert (accuracy.samples, accuracy.steps, accuracy.scale) == (40, STEPS, "logits")
    by_measure = {each.measure: each.result for each in evaluation.comparisons}
    assert list(by_measure) == ["accuracy", "perplexity"]
    change = by_measure["perplexity"]
    assert isinstance(change, PerplexityChange)
    wanted = 100 * (np.exp(cross_entropy(changed()).mean() - cross_entropy(NETWORK).mean()) - 1)
    assert change.change == pytest.approx(wanted, abs=0.01) and evaluation.loss == change.change
    same = (expected_scores(changed(), IDS).argmax(-1) == expected_scores(NETWORK, IDS).argmax(-1)).mean()
    assert evaluation.agreement["network"].top1 == pytest.approx(same, abs=0.005)
    assert len(evaluation.agreement["network"].steps) == STEPS
    assert json.loads(json.dumps(evaluation.document, allow_nan=False))["step_accuracy"]["scale"] == "logits"


def test_probabilities_at_the_end_give_the_same_perplexity(model: quantkit.Model) -> None:
    softmax = Node("softmax", "softmax", NETWORK.outputs, {"axis": "-1"})
    ended = load(replace(NETWORK, nodes=(*NETWORK.nodes, softmax), outputs=(softmax.output,)))
    first, second = (quantkit.evaluate(each, (IDS, NEXT)).step_accuracy["network"] for each in (model, ended))
    assert (first.scale, second.scale) == ("logits", "probabilities")
    assert first.cross_entropy == pytest.approx(second.cross_entropy, rel=1e-5)


def test_labels_and_scores_have_to_be_of_the_same_thing(model: quantkit.Model) -> None:
    with pytest.raises(DataError, match="scores for every step, and the data have one label for each sample"):
        quantkit.evaluate(model, (IDS, NEXT[:, 0]))
    with pytest.raises(DataError, match=r"label 11 at step 0, but the network has 11 classes"):
        quantkit.evaluate(model, (IDS, np.full_like(NEXT, TOKENS)))
    with pytest.raises(DataError, match="no labels"):
        quantkit.evaluate(model, IDS)


@pytest.mark.usefixtures("int8_engine")
def test_a_bundle_reads_batches_first(model: quantkit.Model, tmp_path: Path) -> None:
    quantized = quantkit.quantize(model, (IDS[:32], NEXT[:32]), PLAIN)
    directory = quantized.save(tmp_path / "int8")
    assert quantkit.verify(directory).ok
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["input"]["layout"] == "NT"
    assert manifest["notes"] == list(read_bundle(directory).model.notes) == list(model.notes) != []
    assert manifest["input"]["vocabulary"] == {"node": "embedding", "size": TOKENS}
    assert len(manifest["agreement"]["steps"]) == STEPS
    fp32 = np.exp(cross_entropy(NETWORK)[:32].mean())
    assert manifest["agreement"]["perplexity"]["reference"] == pytest.approx(fp32, rel=1e-3)
    card = (directory / "card.toml").read_text()
    assert 'layout = "NT"' in card and f"classes = {TOKENS}" in card
    with np.load(directory / "sample.npz") as stored:
        assert len(np.unique(stored["input"])) > 2 and np.isin(stored["input"], range(TOKENS)).all()
    predictor = quantkit.load(directory)
    expected = expected_scores(NETWORK, IDS)
    np.testing.assert_allclose(predictor.predict(IDS), expected, rtol=0, atol=0.2)
    np.testing.assert_array_equal(predictor.predict(IDS[3].astype(np.int32)), predictor.predict(IDS[3:4]))
    with pytest.raises(UserError, match=r"of shape \(6, 11\) for each sample; call predict\(\)$"):
        predictor.classify(IDS)
    with pytest.raises(DataError, match=r"sample 0 is a list, not an array; give .* token ids of shape \(6,\)$"):
        predictor.predict(IDS.tolist())
    with pytest.raises(DataError, match="sample 1 has the token id 11 at step 2"):
        predictor.predict(np.where(np.arange(STEPS) == 2, [[0], [TOKENS]], 0))
    with pytest.raises(DataError, match=r"has shape \(5,\).*pad or cut sequences to 6 steps"):
        predictor.predict([IDS[0], IDS[0, :5]])
    evaluation = quantkit.evaluate(directory, (IDS, NEXT), reference=model)
    assert evaluation.step_accuracy["network"].perplexity == pytest.approx(
        np.exp(cross_entropy(NETWORK).mean()), rel=0.1
    )


def test_sequences_of_features_are_quantized(int8_engine: None) -> None:
    graph = sequence_network("NTC")
    features = sequences(40, tokens=False)
    model = quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(STEPS, FEATURES))
    quantized = quantkit.quantize(model, features, PLAIN)
    assert quantized.agreement is not None and quantized.agreement.steps[-1].step == STEPS
    with pytest.raises(
        DataError, match=r"shape \(6, 4\), but the network reads \(6, 5\); give 5 features at every step"
    ):
        quantkit.quantize(model, features[..., :4], PLAIN)
    with pytest.raises(DataError, match=r"shape \(5, 5\), .*pad or cut sequences to 6 steps"):
        quantkit.quantize(model, features[:, :5], PLAIN)


def test_a_layer_is_explained_by_what_computes_it(model: quantkit.Model) -> None:
    """Exchanges of axes are of the same origin as the layers between them."""
    rows = [row for row in explain_model(model, IDS) if row.operator == "RNN"]
    assert [row.into for row in rows] == ["lstm_fused_0", "lstm_fused"]


def test_images_are_refused(model: quantkit.Model) -> None:
    with pytest.raises(
        DataError, match=r"reads inputs of shape \(6,\) \(layout NT\), no images such as .*--calib-data"
    ):
        quantkit.quantize(model)
    with pytest.raises(DataError, match=r"uint8 of shape .* reads token ids of shape \(6,\): no images"):
        quantkit.quantize(model, np.zeros((4, 8, 8, 3), np.uint8))
    for preprocess in (Preprocess(), PreprocessChange(resize=8, crop=8)):
        with pytest.raises(ModelError, match="no images; leave out the preprocessing"):
            quantkit.load_model(
                symbol_of(NETWORK), params=NETWORK.params, input_shape=(STEPS,), layout="TN", preprocess=preprocess
            )


def test_a_classifier_of_sequences_has_one_label_for_each(engine: None) -> None:
    last = Node("last", "slice_axis", NETWORK.outputs, {"axis": "0", "begin": "-1", "end": "None"})
    row = Node("row", "Reshape", (last.output,), {"shape": f"(-1, {TOKENS})"})
    classifier = load(replace(NETWORK, nodes=(*NETWORK.nodes, last, row), outputs=(row.output,)))
    labels = expected_scores(NETWORK, IDS)[:, -1].argmax(axis=-1)
    assert quantkit.evaluate(classifier, (IDS, labels)).accuracy["network"].top1 == 1
    with pytest.raises(DataError, match="label for every step"):
        quantkit.evaluate(classifier, (IDS, NEXT))


def test_weights_may_be_random(engine: None) -> None:
    random = quantkit.load_model(symbol_of(NETWORK), weights="random", input_shape=(STEPS,), layout="TN")
    scores = quantkit.evaluate(random, (IDS, NEXT)).step_accuracy["network"]
    assert 2.3 < scores.cross_entropy < 4
    flat = random.graph.params["parameters"]
    assert 0.3 < np.abs(flat).max() <= 8**-0.5


@pytest.fixture
def card(engine: None, tmp_path: Path) -> Path:
    with (tmp_path / "lm-symbol.json").open("wb") as symbol, (tmp_path / "lm-0000.params").open("wb") as params:
        write_checkpoint(NETWORK, symbol, params)
    path = tmp_path / "lm.toml"
    path.write_text(
        f'name = "lm"\nsymbol = "lm-symbol.json"\nparams = "lm-0000.params"\ninput_shape = [{STEPS}]\n'
        f'layout = "TN"\nclasses = {TOKENS}\n'
    )
    np.savez(tmp_path / "text.npz", x=IDS, y=NEXT)
    return path


@pytest.mark.usefixtures("int8_engine")
def test_the_command_line(run: Run, card: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.npz"
    told = run("quantize", card, "--calib-data", text, "--preset", "none", "--out", "lm-int8", "--no-latency")
    assert told.exit_code == 0, told.stderr
    assert "lm: reads batches first, as do its outputs; its own layout is TN" in told.stderr
    assert "lm: the initial states 'state', 'cell' are zero" in told.stderr
    assert "at step 6" in told.stdout and "perplexity" in told.stdout
    words = " ".join(told.stdout.split())
    assert "mse, 32 samples of text.npz" in words and "on 32 samples that it was calibrated with" in words
    assert "--data SAMPLES" in words and "predict(samples)" in words and "image" not in words.lower()
    explained = run("explain", "lm-int8")
    assert "note: the initial states 'state', 'cell' are zero" in explained.stdout
    assert len(json.loads(run("explain", "lm-int8", "--json").stdout)["notes"]) == 2
    prefix = tmp_path / "lm"
    options = ["--input-shape", STEPS, "--layout", "TN"]
    shown = run("evaluate", "lm-int8", "--data", text, "--reference", prefix, *options)
    assert shown.exit_code == 0, shown.stderr
    for line in ("samples", "perplexity", "nats a step", "logits at each of 6 steps", "signal to noise"):
        assert line in shown.stdout
    assert "40 of text.npz" in shown.stdout and "images" not in shown.stdout
    refused = run("evaluate", prefix, "--data", text, "--input-shape", STEPS)
    assert refused.exit_code == 2 and "would take the samples of a batch for steps" in refused.stderr


@pytest.mark.usefixtures("int8_engine")
def test_states_are_inputs_on_the_command_line(run: Run, card: Path, tmp_path: Path) -> None:
    text, told = (
        tmp_path / "text.npz",
        "the initial states 'state', 'cell' are inputs, and zero where a sequence begins",
    )
    quantized = run("quantize", card, "--states", "inputs", "--calib-data", text, "--preset", "none", "--no-latency",
                    "--out", "lm-int8")  # fmt: skip
    assert quantized.exit_code == 0, quantized.stderr
    assert f"lm: {told}" in quantized.stderr and "are zero" not in quantized.stderr
    assert "--states inputs" in " ".join(quantized.stdout.split())
    assert f"note: {told}" in " ".join(run("explain", "lm-int8").stdout.split())
    verified = run("verify", "lm-int8")
    assert verified.exit_code == 0, verified.stdout
    shown = run("evaluate", "lm-int8", "--data", text, "--reference", card, "--states", "inputs")
    assert shown.exit_code == 0, shown.stderr
    assert "perplexity" in shown.stdout
    refused = run("evaluate", "lm-int8", "--data", text, "--reference", card)
    assert refused.exit_code == 2 and "outputs" in refused.stderr
    unknown = run("quantize", card, "--states", "one", "--calib-data", text)
    assert unknown.exit_code == 2 and "'one' is not one of 'zero', 'inputs'" in unknown.stderr


@pytest.mark.usefixtures("int8_engine")
def test_a_network_with_states_as_inputs_is_analyzed_from_zero(card: Path, tmp_path: Path) -> None:
    loaded = quantkit.load_model(card, states="inputs")
    directory = quantkit.quantize(loaded, IDS, PLAIN).save(tmp_path / "int8")
    by_name, given = (quantkit.analyze(directory, IDS, reference=each) for each in (card, loaded))
    assert [layer.own for layer in by_name.layers] == [layer.own for layer in given.layers]
    of_zero = quantkit.analyze(quantkit.quantize(quantkit.load_model(card), IDS, PLAIN).save(tmp_path / "zero"), IDS,
                               reference=card)  # fmt: skip
    assert [layer.own.sqnr for layer in given.layers] == pytest.approx([layer.own.sqnr for layer in of_zero.layers])


@pytest.mark.usefixtures("int8_engine")
def test_what_quantize_suggests_next_works_as_printed(run: Run, card: Path, tmp_path: Path) -> None:
    data = tmp_path / "unlabelled.npz"
    np.savez(data, x=IDS)
    given = ["--input-shape", STEPS, "--layout", "TN", "--calib-data", data, "--preset", "none", "--no-latency"]
    told = run("quantize", tmp_path / "lm", *given, "--out", "lm-int8")
    assert told.exit_code == 0, told.stderr
    lines = told.stdout.replace("\n    ", " ").splitlines()
    for verb, text in (("evaluate", "of steps"), ("analyze", "lm-int8-analysis")):
        (line,) = (each for each in lines if each.strip().startswith(f"quantkit {verb}"))
        shown = run(*shlex.split(line)[1:4], data, *shlex.split(line)[5:])
        assert shown.exit_code == 0, shown.stderr
        assert text in shown.stdout and "no class scores" not in shown.stdout


@pytest.mark.usefixtures("int8_engine")
def test_int8_networks_have_class_scores_where_fp32_has(model: quantkit.Model, tmp_path: Path) -> None:
    quantized = quantkit.quantize(model, IDS, PLAIN)
    directory = quantized.save(tmp_path / "int8")
    assert json.loads((directory / "manifest.json").read_text())["step_scores"] is True
    for network in (quantized, directory):
        evaluation = quantkit.evaluate(network, IDS, reference=model)
        assert evaluation.class_scores.yes and evaluation.agreement["network"].top1 is not None
        assert not quantkit.evaluate(network, IDS, reference=model, class_scores=False).class_scores.yes
    agreed = quantkit.analyze(directory, IDS, reference=model).agreement
    assert agreed.top1 == pytest.approx(quantkit.evaluate(directory, IDS, reference=model).agreement["network"].top1)
    assert len(agreed.steps) == STEPS


@pytest.mark.usefixtures("int8_engine")
def test_an_analysis_speaks_of_samples(model: quantkit.Model, tmp_path: Path) -> None:
    directory = quantkit.quantize(model, IDS, PLAIN).save(tmp_path / "int8")
    analysis = quantkit.analyze(directory, IDS, reference=model)
    assert "image" not in " ".join(analysis.findings)
    assert any("32 of the 40 samples were calibrated with" in each for each in analysis.findings)
    assert analysis_json(analysis)["noun"] == "sample" and analysis.calibration.input.constant == 0
    page = re.sub('<img.*?>|data:image[^"]*', "", analysis_page(analysis))
    assert "40 samples" in page and not re.search(r"\bimages\b", page)


def test_a_card_with_a_layout_for_another_shape_is_refused(card: Path) -> None:
    card.write_text(card.read_text().replace('"TN"', '"TNC"'))
    with pytest.raises(ModelError, match="layout TNC does not fit input_shape"):
        quantkit.load_model(card)


def test_gluon_blocks_of_both_layouts(engine: None) -> None:
    from quantkit.backends.mxnet.compat import load_mxnet

    mx = load_mxnet()
    data = sequences(3, tokens=False)
    outputs = []
    for layout in ("NTC", "TNC"):
        block = mx.gluon.rnn.LSTM(4, num_layers=2, layout=layout, input_size=FEATURES, prefix="lstm_")
        block.initialize(mx.init.Constant(0.1))
        model = quantkit.load_model(block, input_shape=(STEPS, FEATURES), layout=layout)
        outputs += run_graph(model.graph, {"data": data})
    assert outputs[0].shape == (3, STEPS, 4)
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=0, atol=1e-6)
