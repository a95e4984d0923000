"""A user's program: everything public, as type checkers see it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Optional, Union, assert_type

import numpy as np

import quantkit
from quantkit.bundle import read_bundle


def stages(out: Path) -> None:
    model = quantkit.load_model("resnet50", weights="random", input_shape=(3, 224, 224))
    assert_type(model, quantkit.Model)
    assert_type(model.source, quantkit.Source)
    assert_type(model.graph, quantkit.Graph)
    fused = quantkit.fuse(model, "photos/")
    assert_type(fused, quantkit.FusedModel)
    assert_type(fused.check, quantkit.FusionCheck)
    pixels = np.zeros((4, 224, 224, 3), np.uint8)
    table = quantkit.calibrate(fused, pixels, num_samples=4, method="percentile:99.9")
    assert_type(table, quantkit.CalibrationTable)
    assert_type(table.ranges["data"], quantkit.Range)
    quantkit.write_table(table, out / "table.json")
    assert_type(quantkit.read_table(out / "table.json"), quantkit.CalibrationTable)
    plan = quantkit.plan(fused, table, exclude=["*_dense0*"], dtype="int8")
    assert_type(plan, quantkit.QuantizationPlan)
    assert_type(plan.decisions["stem"], quantkit.Decision)
    assert_type(plan.tensors[quantkit.Tensor("data")], quantkit.TensorQuantization)
    algorithms = quantkit.PTQConfig(rounding=True, bias=True)
    adjusted = quantkit.apply_algorithms(fused, table, plan, [pixels], algorithms)
    assert_type(adjusted, quantkit.AdjustedNetwork)
    assert_type(adjusted.network, quantkit.QuantizedGraph)
    quantized = quantkit.measure_agreement(quantkit.lower(fused, table, adjusted), pixels)
    assert_type(quantized, quantkit.QuantizedModel)
    assert_type(quantized.agreement, Optional[quantkit.Agreement])
    assert_type(quantized.mixed, Optional[quantkit.MixedPrecision])
    assert_type(quantized.speed, Optional[quantkit.SpeedProof])
    latency: quantkit.Latency = quantkit.measure_latency(quantized)
    assert_type(latency.ratio, quantkit.MedianInterval)
    assert_type(quantized.settings, quantkit.Settings)
    in_int8: list[quantkit.Node] = [node for node in quantized.network.graph.nodes if quantized.plan.is_int8(node)]
    print(len(in_int8))


def in_one_call(out: Path) -> None:
    data = quantkit.load_data("photos:train")
    assert_type(data, quantkit.Samples)
    assert_type(next(iter(data)), quantkit.Sample)
    config = quantkit.QuantizationConfig(
        num_samples=100,
        method="entropy",
        exclude=("Pooling",),
        preset="best",
        goal=quantkit.Goal(max_drop=0.3, min_speedup=2.5),
        search_minutes=5,
        never_slower=True,
        speed_batch=16,
    )
    config.write(out / "config.toml")
    assert_type(quantkit.QuantizationConfig.read(out / "config.toml"), quantkit.QuantizationConfig)
    quantized = quantkit.quantize("resnet50", data, config, evaluation_data="photos:test")
    if quantized.speed is not None:
        assert_type(quantized.speed.ratio, quantkit.MedianInterval)
    assert_type(quantized.config, quantkit.QuantizationConfig)
    assert_type(quantized.save(out / "bundle", force=True, formats=("mxnet", "onnx")), Path)
    quantized.to_onnx(out / "net.onnx", opset=17)


def with_a_bundle(bundle: Path) -> None:
    predictor = quantkit.load(bundle, engine="auto", allow_random_weights=True)
    assert_type(predictor, quantkit.Predictor)
    scores = predictor.predict(["cat.jpg", "dog.jpg"])
    assert_type(scores.shape, tuple[int, ...])
    several: quantkit.Images = ["cat.jpg", np.zeros((224, 224, 3), np.uint8)]
    predictor.predict(several)
    assert_type(predictor.classify("cat.jpg", top=3), list[list[tuple[str, float]]])
    piece, states = predictor.step(np.zeros((2, 10), np.int64))
    assert_type(states, quantkit.States)
    print(piece, predictor.step(np.zeros((2, 10), np.int64), states))
    assert_type(predictor.detect("cat.jpg"), list[quantkit.Detections])
    assert_type(predictor.segment(several)[0].shape, tuple[int, ...])
    assert_type(predictor.pose("person.jpg"), list[quantkit.Keypoints])
    with quantkit.load(bundle, instances=quantkit.Instances("2x4", batch=16, window=0.002)) as spread:
        assert_type(spread, quantkit.Predictor)
        for row in spread.stream(several, timeout=2.0):
            assert_type(row.shape, tuple[int, ...])
        awaited: Coroutine[Any, Any, np.ndarray[Any, Any]] = spread.predict_async("cat.jpg", timeout=0.5)
        print(awaited)
    assert_type(predictor.status(), quantkit.RunnerStatus)
    runtime = quantkit.Runtime("intel", blocktime=1, allocator="jemalloc", huge_pages=True)
    quantkit.load(bundle, instances=quantkit.Instances("core", runtime=runtime))
    quantkit.load(bundle, instances=quantkit.Streams(2, batch=4))
    watching = quantkit.load(bundle, monitor=quantkit.Monitor(reference="net-fp32", shadow=100, events="events.jsonl"))
    status = watching.monitor_status()
    assert_type(status, Optional[quantkit.MonitorStatus])
    if status is not None:
        assert_type(status.signals["input.mean"], quantkit.SignalStatus)
        assert_type(status.shadow, quantkit.ShadowStatus)
    goal = quantkit.TuningGoal("throughput", p99=15.0, memory=4 << 30)
    tuned = quantkit.tune([read_bundle(bundle)], goal, minutes=5, images="photos")
    assert_type(tuned, quantkit.Tuned)
    quantkit.write_tuning(tuned, bundle / "deployment")
    deployed = quantkit.load(bundle, deployment=bundle / "deployment/deployment.toml", workers=4)
    assert_type(deployed.classify_stream("photos/a.jpg"), Iterator[list[tuple[str, float]]])
    task: quantkit.TaskName = "detection"
    judged = quantkit.evaluate_task(bundle, "VOC2007:test", task, "ssd.onnx", num_samples=50)
    assert_type(judged, quantkit.TaskEvaluation)
    assert_type(judged.scores["network"], tuple[quantkit.Score, ...])
    assert_type(judged.drops["reference"], quantkit.ScoreDrop)
    with quantkit.profiled() as profiling:
        predictor.predict(several)
    assert_type(profiling, quantkit.Profiling)
    assert_type(profiling.section, quantkit.Section)
    verification = quantkit.verify(bundle)
    assert_type(verification, quantkit.Verification)
    assert_type([check for check in verification.checks if not check.ok], list[quantkit.Check])
    evaluation = quantkit.evaluate(bundle, "photos:test", "resnet50", num_samples=500, skip_bad=3)
    assert_type(evaluation, quantkit.Evaluation)
    assert_type(evaluation.left_out, tuple[quantkit.LeftOut, ...])
    role: quantkit.Role = "network"
    assert_type(evaluation.accuracy[role], quantkit.Accuracy)
    assert_type(evaluation.agreement["network"].outputs, tuple[quantkit.OutputAgreement, ...])
    assert_type(evaluation.comparisons, tuple[quantkit.Comparison, ...])
    assert_type(
        evaluation.comparisons[0].result, Union[quantkit.Paired, quantkit.PairedMeans, quantkit.PerplexityChange]
    )
    assert_type(evaluation.step_accuracy[role], quantkit.StepAccuracy)
    assert_type(evaluation.agreement["network"].steps, tuple[quantkit.StepNoise, ...])
    assert_type(evaluation.agreement["network"].perplexity, Optional[quantkit.PerplexityAgreement])
    assert_type(quantkit.load_model("lm", layout="TNC").vocabulary, Optional[quantkit.Vocabulary])
    kind: quantkit.StatesKind = "inputs"
    assert_type(quantkit.load_model("lm", states=kind).states, tuple[quantkit.HandedState, ...])
    inputs = quantkit.load_model("net.onnx", input_shape={"left": (3, 32, 32), "right": [5]}).joined
    assert_type(inputs, Optional[quantkit.JoinedInputs])
    if inputs is not None:
        assert_type(inputs.inputs, tuple[quantkit.JoinedInput, ...])
    corners: quantkit.BoxCorners = "pixels"
    assert_type(quantkit.load_model("detector.onnx", box_corners=corners).box_corners, quantkit.BoxCorners)
    verdict: quantkit.Verdict = evaluation.comparisons[0].result.verdict
    print(verdict == "ahead")
    assert_type(evaluation.class_scores, quantkit.ClassScores)
    analysis = quantkit.analyze(bundle, "photos:test", "resnet50", num_samples=100)
    assert_type(analysis, quantkit.Analysis)
    assert_type(analysis.worst, tuple[quantkit.LayerError, ...])
    assert_type(analysis.worst[0].own, quantkit.Deviation)
    assert_type(analysis.worst[0].overflow, quantkit.Overflow)
    assert_type(analysis.tensors, tuple[quantkit.TensorUse, ...])
    assert_type(analysis.calibration, quantkit.Audit)
    reduced: quantkit.ReduceRange = "auto"
    lstm: quantkit.LstmForm = "dynamic"
    quantkit.export_onnx(bundle, bundle / "net.onnx", reduce_range=reduced, lstm=lstm)


def training(out: Path) -> None:
    config = quantkit.TrainingConfig(epochs=2, optimizer="adam", augmentation=quantkit.Augmentation(flip=False))
    told: list[quantkit.Epoch] = []
    model = quantkit.load_model("mobilenet0.25")
    trained = quantkit.finetune(model, "train.rec", "val.rec", classes=5, config=config, on_epoch=told.append)
    assert_type(trained, quantkit.FineTuned)
    assert_type(trained.model, quantkit.Model)
    assert_type(trained.epochs[0].validated, Optional[quantkit.Validated])
    assert_type(quantkit.save_trained(trained, out, "mine"), Path)
    quantized = quantkit.quantize(trained.model, "train.rec")
    nearer = quantkit.train_quantized(quantized, "train.rec", "val.rec", distill=False)
    assert_type(nearer, quantkit.TrainedInt8)
    assert_type(nearer.network, quantkit.QuantizedModel)
    assert_type(nearer.network.training, Optional[Mapping[str, Any]])
    machines = quantkit.Machines(2, 0, "10.0.0.1:9000")
    quantkit.finetune(model, "train.rec", instances="core", machines=machines)


def of_any_form(networks: list[quantkit.Evaluated]) -> list[quantkit.Evaluation]:
    return [quantkit.evaluate(network, "photos:test") for network in networks]


def of_presets(dtype: quantkit.TensorDtype, presets: list[quantkit.PresetName]) -> list[quantkit.QuantizationConfig]:
    return [quantkit.QuantizationConfig(dtype=dtype, preset=name) for name in presets]


def search(fused: quantkit.FusedModel, table: quantkit.CalibrationTable, progress: quantkit.Progress) -> None:
    result = quantkit.search_mixed_precision(
        fused, table, quantkit.plan(fused, table), quantkit.Goal(min_speedup=2), "photos:test", progress=progress
    )
    assert_type(result, quantkit.SearchResult)
    assert_type(result.network, quantkit.QuantizedModel)
    assert_type(result.chosen, quantkit.JudgedNetwork)
    assert_type(result.chosen.drop, Optional[quantkit.Drop])
    assert_type(result.layers, tuple[quantkit.Kept, ...])


def benchmarks(out: Path) -> None:
    told: list[str] = []
    tell: quantkit.Tell = told.append
    results = quantkit.run_benchmark("smoke", out / "results", quantkit.Conditions(budget=5), tell=tell)
    assert_type(results, quantkit.Results)
    assert_type(results.run, quantkit.Run)
    assert_type(results.cells, tuple[quantkit.Cell, ...])
    assert_type(quantkit.read_results(out / "results"), quantkit.Results)
    report = quantkit.make_report([results], title="Smoke")
    assert_type(report, quantkit.Report)
    assert_type(quantkit.write_report(report, out / "report"), tuple[Path, ...])


def own_types(suite: quantkit.Suite, data: quantkit.CalibrationData, spec: quantkit.NetworkSpec, out: Path) -> None:
    source: quantkit.DataSource = np.zeros((4, 3, 32, 32), np.float32)
    preprocess = quantkit.Preprocess(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    dataset = quantkit.CalibrationDataset(source, preprocess, (3, 32, 32))
    assert_type(list(dataset.batches(8)), list[quantkit.Batch])
    assert_type(dataset.skipping(2).left_out, tuple[quantkit.LeftOut, ...])
    quantkit.quantize(quantkit.load_model(spec, preprocess=preprocess), dataset.subset(2))
    quantkit.quantize(quantkit.load_model(spec), data)
    assert_type(quantkit.evaluate(quantkit.load_model(spec, preprocess=preprocess), dataset), quantkit.Evaluation)
    assert_type(suite.networks, tuple[quantkit.Subject, ...])
    assert_type(suite.contestants, tuple[quantkit.Contestant, ...])
    quantkit.run_benchmark(suite, out)


def refused() -> None:
    try:
        quantkit.load_model("resnet5", preprocess=quantkit.PreprocessChange(resize=256))
    except quantkit.errors.ModelError as error:
        print(error)
