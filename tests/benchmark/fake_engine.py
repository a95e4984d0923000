"""An engine that is none: its network multiplies by the number in its file. Tests put it beside the worker.

After every run a thread of its own looks for work in a loop, for as many seconds as SPIN in the environment says.
"""

import os
import threading
import time

import numpy


def facts():
    return {"version": "1.2.3", "library": __name__, "features": ["F"], "int8": True}


def convolution(data, weight):
    windows = numpy.stack([data[:, :, y : y + 6, x : x + 6] for y in range(3) for x in range(3)])
    return numpy.einsum("kncyx,fck->nfyx", windows, weight.reshape(4, 3, 9))


def spin(end):
    while time.monotonic() < end:
        pass


class Network:
    def __init__(self, files, threads):
        with open(files["factor"]) as file:
            self._factor = float(file.read())
        self.settings = {"threads": threads}
        self._runs = 0

    def bind(self, name, data):
        self._name, self._data = name, data

    def run(self):
        print("noise on standard output", flush=True)
        self._runs += 1
        self._out = self._factor * self._data
        seconds = float(os.environ.get("SPIN", "0"))
        if seconds:
            threading.Thread(target=spin, args=(time.monotonic() + seconds,), daemon=True).start()

    def outputs(self):
        return [self._out, numpy.array([self._runs])]

    def kernels(self):
        return {"int8": 3, "of": 4}
