"""ONNX files by hand, field by field, for tests of what no exporter writes."""
import struct


def number(field, value):
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number_of_field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number_of_field << 3 | 2) + varint(len(data)) + data


def tensor(name, dims, numbers=(), **external):
    """Floats; or, with location= and so on, in another file."""
    message = b"".join(number(1, d) for d in dims) + number(2, 1) + field(8, name)
    for key, value in external.items():
        message += field(13, field(1, key) + field(2, str(value)))
    return message + (number(14, 1) if external else field(9, struct.pack(f"<{len(numbers)}f", *numbers)))


def value(name, dims):
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)))


def node(op, inputs, outputs, name="", ints=(), domain=""):
    """ints: attributes of one whole number each, as pairs."""
    message = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs)
    for key, v in ints:
        message += field(5, field(1, key) + number(3, v) + number(20, 2))
    return message + field(3, name) + field(4, op) + (field(7, domain) if domain else b"")


def model(nodes, tensors=(), inputs=(("x", ("N", 4)), ), outputs=(("y", ("N", 4)), ), opset=17):
    graph = b"".join(field(1, n) for n in nodes) + field(2, "g") + b"".join(field(5, t) for t in tensors)
    graph += b"".join(field(11, value(*i)) for i in inputs) + b"".join(field(12, value(*o)) for o in outputs)
    return number(1, 8) + field(7, graph) + field(8, field(1, "") + number(2, opset))
