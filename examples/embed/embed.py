"""Predicts the samples of a raw file of float32 numbers: embed.py RUN INPUT OUTPUT"""
import sys

import dlc
import numpy

run, source, target = sys.argv[1:]
with dlc.open(run) as net:
    shape = next(iter(net.inputs.values())).shape
    x = numpy.fromfile(source, "float32").reshape(-1, *shape[1:])
    net.predict(x).tofile(target)
