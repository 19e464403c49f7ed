"""Small networks of Keras and of JAX (flax), which their exporters write as ONNX files: the list of onnx_library.py
--list others.

EXPORTS: names, and functions of a folder that write KIND.onnx there, the input x0.npy, and truth.npy, the outputs in
evaluation mode. Keras runs on torch, and its exporter is PyTorch's; that of JAX is jax2onnx.
"""
import os

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch")
EXPORTS = {}


def keras_model(*shape, tokens=0):
    def add(make):
        def export(folder):
            import keras
            keras.utils.set_random_seed(1)
            model = make(keras, keras.layers)
            rng = np.random.default_rng(2)
            model.set_weights([w + 0.1 * rng.standard_normal(w.shape).astype("f4") if w.dtype == np.float32 else w
                               for w in model.get_weights()])
            size = (2, *shape)
            x = rng.integers(0, tokens, size) if tokens else rng.standard_normal(size).astype("f4")
            np.save(folder / "truth.npy", keras.ops.convert_to_numpy(model(x, training=False)))
            model.export(folder / "keras.onnx", format="onnx", verbose=False)
            np.save(folder / "x0.npy", x)
        EXPORTS[f"keras.{make.__name__}"] = export
        return make
    return add


def jax_model(*shape):
    def add(make):
        def export(folder):
            import jax2onnx
            from flax import nnx
            model = make(nnx, nnx.Rngs(1))
            if hasattr(model, "eval"):
                model.eval()
            x = np.random.default_rng(2).standard_normal((2, *shape)).astype("f4")
            np.save(folder / "truth.npy", np.asarray(model(x)))
            jax2onnx.to_onnx(model, [("N", *shape)], return_mode="file", output_path=str(folder / "jax.onnx"))
            np.save(folder / "x0.npy", x)
        EXPORTS[f"jax.{make.__name__}"] = export
        return make
    return add


# ---- Keras ----

@keras_model(6)
def dense(keras, la):
    return keras.Sequential([keras.Input((6,)), la.Dense(16, activation="gelu"), la.BatchNormalization(),
                             la.Dense(16, activation="elu"), la.Dropout(0.2), la.Dense(3, activation="softmax")])


@keras_model(16, 16, 3)
def images(keras, la):
    return keras.Sequential([keras.Input((16, 16, 3)), la.Conv2D(8, 3, padding="same", use_bias=False),
                             la.BatchNormalization(), la.ReLU(), la.MaxPooling2D(), la.Conv2D(16, 3, strides=2),
                             la.LeakyReLU(), la.GlobalAveragePooling2D(), la.Dense(4)])


@keras_model(16, 16, 3)
def separable(keras, la):
    return keras.Sequential([keras.Input((16, 16, 3)), la.SeparableConv2D(8, 3, padding="same", activation="swish"),
                             la.DepthwiseConv2D(3, strides=2, padding="same"),
                             la.AveragePooling2D(), la.Flatten(), la.Dense(4, activation="tanh")])


@keras_model(16, 16, 2)
def unet(keras, la):
    x = keras.Input((16, 16, 2))
    a = la.Conv2D(4, 3, padding="same", activation="relu")(x)
    b = la.Conv2D(8, 3, padding="same", activation="relu")(la.MaxPooling2D()(a))
    c = la.UpSampling2D()(la.GroupNormalization(2)(b))
    d = la.Conv2DTranspose(4, 2, strides=2)(b)
    return keras.Model(x, la.Conv2D(1, 1)(la.Concatenate()([a, c, d])))


@keras_model(9, 5)
def series(keras, la):
    return keras.Sequential([keras.Input((9, 5)), la.Conv1D(8, 3, padding="causal", activation="relu"),
                             la.SpatialDropout1D(0.1), la.MaxPooling1D(), la.Dense(4), la.GlobalMaxPooling1D()])


@keras_model(6, 4)
def recurrent(keras, la):
    return keras.Sequential([keras.Input((6, 4)), la.Bidirectional(la.LSTM(5, return_sequences=True)), la.GRU(4),
                             la.Dense(2)])


@keras_model(7, tokens=11)
def tokens(keras, la):
    x = keras.Input((7,), dtype="int64")
    h = la.Embedding(11, 8)(x)
    h = la.BatchNormalization()(h + la.MultiHeadAttention(2, 4)(h, h))  # its LayerNormalization is not exported
    h = h + la.Dense(8)(la.Dense(16, activation="gelu")(h))
    return keras.Model(x, la.Dense(3)(la.GlobalAveragePooling1D()(h)))


@keras_model(32, 32, 3)
def mobilenet(keras, la):
    return keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=5,
                                          classifier_activation=None)


# ---- JAX ----

@jax_model(6)
def mlp(nnx, rngs):
    return nnx.Sequential(nnx.Linear(6, 16, rngs=rngs), nnx.gelu, nnx.LayerNorm(16, rngs=rngs),
                          nnx.Linear(16, 16, rngs=rngs), nnx.silu, nnx.Linear(16, 3, rngs=rngs), nnx.softmax)


@jax_model(16, 16, 3)
def convolutions(nnx, rngs):
    return nnx.Sequential(nnx.Conv(3, 8, (3, 3), rngs=rngs), nnx.BatchNorm(8, rngs=rngs), nnx.relu,
                          lambda x: nnx.max_pool(x, window_shape=(2, 2), strides=(2, 2)),
                          nnx.Conv(8, 8, (3, 3), strides=2, rngs=rngs), nnx.GroupNorm(8, 2, rngs=rngs),
                          nnx.tanh, lambda x: x.mean((1, 2)), nnx.Linear(8, 4, rngs=rngs))


@jax_model(7, 8)
def attention(nnx, rngs):
    class Block(nnx.Module):
        def __init__(self):
            self.norm, self.out = nnx.LayerNorm(8, rngs=rngs), nnx.Linear(8, 8, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)

        def __call__(self, x):
            x = x + self.attention(self.norm(x))
            return x + nnx.gelu(self.out(x))
    return nnx.Sequential(Block(), Block())


@jax_model(8, 8, 2)
def transposed(nnx, rngs):
    return nnx.Sequential(nnx.Conv(2, 8, (3, 3), padding="VALID", rngs=rngs), nnx.elu,
                          nnx.ConvTranspose(8, 4, (2, 2), strides=(2, 2), rngs=rngs), nnx.leaky_relu,
                          nnx.Conv(4, 4, (3, 3), feature_group_count=4, rngs=rngs))


@jax_model(6, 8)
def mixer(nnx, rngs):
    class Mixer(nnx.Module):
        def __init__(self):
            self.a, self.b = nnx.Linear(6, 6, rngs=rngs), nnx.Linear(8, 8, rngs=rngs)
            self.norm = nnx.RMSNorm(8, rngs=rngs)

        def __call__(self, x):
            y = nnx.gelu(self.a(self.norm(x).transpose(0, 2, 1))).transpose(0, 2, 1)
            return x + y * nnx.sigmoid(self.b(x)) - x.max(axis=1, keepdims=True)
    return Mixer()
