"""Clients that others have written for the protocol."""

from __future__ import annotations

from urllib.parse import urlsplit

import numpy as np

from quantkit.deployment.serving.models import Models
from tests.deployment.serving.test_server import file_of
from tests.requirements import requires


def test_tritons_client(server: str, models: Models, pixels: np.ndarray) -> None:
    requires("tritonclient")
    import tritonclient.http as triton

    predictor = models["digits"]["2"].predictor
    name = predictor.manifest.outputs[0].name
    expected = predictor.predict(pixels)
    with triton.InferenceServerClient(urlsplit(server).netloc) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("digits", "1")
        assert client.get_server_metadata()["name"] == "quantkit"
        assert client.get_model_metadata("digits")["outputs"][0]["name"] == name
        for as_bytes in (True, False):
            given = triton.InferInput("data", pixels.shape, "UINT8")
            given.set_data_from_numpy(pixels, as_bytes)
            asked = triton.InferRequestedOutput(name, as_bytes)
            found = client.infer("digits", [given], outputs=[asked], request_id="7")
            assert found.get_response()["id"] == "7"
            np.testing.assert_allclose(found.as_numpy(name), expected, rtol=1e-4, atol=1e-5)
        files = triton.InferInput("data", [2], "BYTES")
        files.set_data_from_numpy(np.array([file_of(each) for each in pixels], object))
        found = client.infer("digits", [files], outputs=[triton.InferRequestedOutput(name, class_count=1)])
        best = [int(text.split(b":")[1]) for (text,) in found.as_numpy(name)]
        assert best == expected.argmax(axis=1).tolist()
        given = triton.InferInput("data", (1, 4), "FP32")
        given.set_data_from_numpy(np.zeros((1, 4), np.float32))
        try:
            client.infer("digits", [given])
        except triton.InferenceServerException as error:
            assert error.status() == "400"
            assert "[1, 4]" in error.message()
        else:
            raise AssertionError("a wrong shape was answered")
