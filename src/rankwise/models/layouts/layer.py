"""One attention layer, whatever the architecture: where its matrices lie, and what they are.

A ``LayerRef`` says where; ``load_layer`` reads. Heads are cut the same way for every model: with x the query's input
and y the key's (x itself in self-attention),

    score_h(x, y) = scale * <q_h x + q_bias_h, k_g y + k_bias_g>,    g = h // (heads / kv_heads)
    output(x)     = sum_h o_h^T sum_y softmax_y(score_h(x, y)) (v_g y + v_bias_g) + o_bias

Legend: H heads, G kv_heads, R rank, V value_rank, D dim of the query's input and of the output, C dim of the key's
input, E coordinates that q, k, v act on (D or C; the latent's size where ``query_down`` / ``key_down`` come first).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.models.files.rounding import rerounded as with_rounding
from rankwise.models.files.tensor_file import RealArray
from rankwise.models.layouts.rope import Rope
from rankwise.models.tensor_source import TensorSource

MaskKind = Literal["full", "causal", "window"]


@dataclass(frozen=True, eq=False)
class TensorSlice:
    """Some rows (``axis`` 0) or columns (``axis`` 1) of a stored tensor, arranged as ``index`` [H, R].

    ``take`` gives the block as [H, R, E] ([H, R] of a vector); ``put`` gives a copy of the stored tensor with the block
    replaced: two inverse views of one piece of a file, also of fused and transposed ones.
    """

    tensor: str
    index: Int[np.ndarray, "..."]
    axis: int = 0

    def take(self, stored: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        along = np.moveaxis(stored, self.axis, 0)
        flat = self.index.ravel()
        if len(flat) and np.array_equal(flat, np.arange(flat[0], flat[0] + len(flat))):
            block = along[flat[0] : flat[0] + len(flat)]  # a view: nothing is copied
            return block.reshape(*self.index.shape, *along.shape[1:])
        return along[self.index]

    def put(self, stored: Float[np.ndarray, "..."], block: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        expected = (*self.index.shape, *np.delete(stored.shape, self.axis))
        if block.shape != expected:
            raise ShapeError(f"{self.tensor}: expected a block {list(expected)}, got {list(block.shape)}")
        changed = stored.copy()
        np.moveaxis(changed, self.axis, 0)[self.index] = block
        return changed


@dataclass(frozen=True)
class NormRef:
    """A norm in front of a projection; ``unit_offset``: the stored weight is the gain minus one (Gemma)."""

    kind: Literal["rms", "layer"]
    gain: str | None
    bias: str | None = None
    unit_offset: bool = False


@dataclass(frozen=True)
class Norm:
    """The loaded norm: ``gain * x / size(x) + bias``."""

    kind: Literal["rms", "layer"]
    gain: Float[np.ndarray, " E"]
    bias: Float[np.ndarray, " E"] | None

    def of_heads(self, x: Float[np.ndarray, "H N R"], eps: float) -> Float[np.ndarray, "H N R"]:
        """QK-norm of every head's vectors; a gain of all heads together normalises over all of them."""
        together = len(self.gain) != x.shape[-1]
        axes = (0, 2) if together else (2,)
        if self.kind == "layer":
            x = x - x.mean(axes, keepdims=True)
        x = x / np.sqrt(np.square(x).mean(axes, keepdims=True) + eps) * self.head_gain(x.shape[-1])[:, None]
        return x if self.bias is None else x + self.bias.reshape(-1, 1, x.shape[-1])

    def head_gain(self, rank: int) -> Float[np.ndarray, "H R"]:
        """The gain of every head, or one row for all."""
        return self.gain.reshape(-1, rank)


@dataclass(frozen=True)
class LatentRef:
    """MLA: what lies between the input and the per-head matrices. ``rope`` shared key coordinates bypass the norm."""

    query_down: str | None
    query_size: int | None
    query_norm: NormRef | None
    key_down: str
    key_size: int
    key_norm: NormRef
    rope: int


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerRef:
    """Where one attention layer lies in a model, and every number that is not a weight."""

    part: str
    """``"encoder"``, ``"decoder"``, ``"cross"`` (decoder to encoder); ``"layer"`` where tensors are named by hand."""
    layer: int
    """Its number within the part."""
    dim: int
    """D, of the query's input and of the output."""
    context_dim: int
    """C, of the key's input."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Heads of keys and values."""
    rank: int
    """R, coordinates of each head's queries and keys."""
    value_rank: int
    """V, coordinates of each head's values."""
    scale: float
    """What a product of query and key is multiplied by."""
    mask: MaskKind
    """Which keys a query sees."""
    q: TensorSlice
    """Where the queries' weights are."""
    k: TensorSlice
    """Where the keys' weights are."""
    v: TensorSlice | None
    """None, as is ``o``, where only queries and keys are known."""
    o: TensorSlice | None
    """Where the output's weights are."""
    q_bias: TensorSlice | None = None
    """This and the other biases: None where the layer has none."""
    k_bias: TensorSlice | None = None
    """Bias of the keys."""
    v_bias: TensorSlice | None = None
    """Bias of the values."""
    o_bias: str | None = None
    """Bias of the output."""
    window: int | None = None
    """A query sees keys at distances below it: those before under the mask ``"window"``, on both sides under
    ``"full"``; None: at any distance."""
    rope: Rope | None = None
    """None without rotary positions."""
    query_norm: NormRef | None = None
    """The norm whose output the queries see; None where none comes first, or none is known."""
    key_norm: NormRef | None = None
    """The same for keys and values; equal to ``query_norm`` in self-attention."""
    q_head_norm: NormRef | None = None
    """QK-norm: each head's query and key are normalised, so that the weights bound the rank and do not give it."""
    k_head_norm: NormRef | None = None
    """Norm of each head's keys."""
    latent: LatentRef | None = None
    """None for any attention but MLA."""
    softcap: float | None = None
    """Scores s become ``softcap * tanh(s / softcap)``; None: they stay."""
    score_bias: str | None = None
    """What is added to the scores and is no product of q and k: ``"relative"`` (T5), ``"alibi"``, ``"relative key"``
    (BERT: the query times a vector of the distance); None: nothing."""
    other_positions: bool = False
    """Whether positions turn queries and keys in a way that is not modelled: then only distance 0 is known."""
    gated: bool = False
    """Whether the tensor of the queries also holds gates of the output, which are left out."""
    notes: tuple[str, ...] = ()
    """What a reader of the layer's numbers should know."""

    @property
    def name(self) -> str:
        """``"decoder 3"``."""
        return f"{self.part} {self.layer}"

    @property
    def group(self) -> int:
        """Query heads per key head."""
        return self.heads // self.kv_heads

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of all tensors ``load_layer`` reads."""
        blocks = (self.q, self.k, self.v, self.o, self.q_bias, self.k_bias, self.v_bias)
        names = [block.tensor for block in blocks if block is not None]
        norms = [self.query_norm, self.key_norm, self.q_head_norm, self.k_head_norm]
        if self.latent is not None:
            names += [name for name in (self.latent.query_down, self.latent.key_down) if name is not None]
            norms += [self.latent.query_norm, self.latent.key_norm]
        names += [name for norm in norms if norm for name in (norm.gain, norm.bias) if name is not None]
        names += [self.o_bias] if self.o_bias else []
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerWeights:
    """The matrices of one layer as the file has them, or, after ``folded()``, with gains multiplied in."""

    ref: LayerRef
    """Where they were read from."""
    q: Float[np.ndarray, "H R Eq"]
    """Weights of the queries."""
    k: Float[np.ndarray, "G R Ek"]
    """Weights of the keys."""
    v: Float[np.ndarray, "G V Ek"] | None
    """None, as is ``o``, where only queries and keys are known."""
    o: Float[np.ndarray, "H V D"] | None
    """Weights of the output."""
    q_bias: Float[np.ndarray, "H R"] | None = None
    """This and the other biases: None where there are none."""
    k_bias: Float[np.ndarray, "G R"] | None = None
    """Bias of the keys."""
    v_bias: Float[np.ndarray, "G V"] | None = None
    """Bias of the values."""
    o_bias: Float[np.ndarray, " D"] | None = None
    """Bias of the output."""
    query_down: Float[np.ndarray, "Eq D"] | None = None
    """From the query's input to the latent that ``q`` acts on; None: ``q`` acts on the input."""
    key_down: Float[np.ndarray, "Ek C"] | None = None
    """From the key's input to the latent and the shared rotary key; None: ``k`` and ``v`` act on the input."""
    query_norm: Norm | None = None
    """This and the other norms: None where there are none, and after ``folded()``."""
    key_norm: Norm | None = None
    """Norm before keys and values."""
    query_latent_norm: Norm | None = None
    """Norm of the queries' latent."""
    key_latent_norm: Norm | None = None
    """Its gain has the latent's coordinates only; the rope coordinates behind them are not normalised."""
    q_head_norm: Norm | None = None
    """Norm of each head's queries."""
    k_head_norm: Norm | None = None
    """Norm of each head's keys."""
    folded_in: tuple[str, ...] = field(default=())
    """What ``folded()`` multiplied in, in words."""

    def folded(self) -> LayerWeights:
        """The same layer acting on normalised inputs: gains of norms multiplied into what follows them.

        LayerNorm's shift becomes a bias of q, k and v. Gains of QK-norm scale the rows of q and k and their
        biases, those of the latents their columns. What was done is told in ``folded_in``. A norm behind the attention
        (BERT) is no norm of ``ref``: gain and shift of the one before stay in the inputs.
        """
        done: list[str] = []
        q, k, v = self.q, self.k, self.v
        q_bias, k_bias, v_bias = self.q_bias, self.k_bias, self.v_bias
        query_down, key_down = self.query_down, self.key_down
        if self.query_latent_norm is not None:
            q = q * self.query_latent_norm.gain
            done.append("gain of the query latent's norm")
        if self.key_latent_norm is not None:
            gain = np.ones(k.shape[-1], dtype=k.dtype)
            gain[: len(self.key_latent_norm.gain)] = self.key_latent_norm.gain
            k, v = k * gain, None if v is None else v * gain
            done.append("gain of the key latent's norm")
        if self.query_norm is not None:
            if query_down is not None:
                query_down = query_down * self.query_norm.gain
            else:
                q_bias = _shifted(q_bias, q, self.query_norm)
                q = q * self.query_norm.gain
            done.append(f"gain of the {self.query_norm.kind} norm before the queries")
        if self.key_norm is not None:
            if key_down is not None:
                key_down = key_down * self.key_norm.gain
            else:
                k_bias = _shifted(k_bias, k, self.key_norm)
                k = k * self.key_norm.gain
                if v is not None:
                    v_bias = _shifted(v_bias, v, self.key_norm)
                    v = v * self.key_norm.gain
            done.append(f"gain of the {self.key_norm.kind} norm before keys and values")
        for norm in (self.query_norm, self.key_norm):
            if norm is not None and norm.bias is not None:
                done.append("shift of the norm, as a bias")
        if self.q_head_norm is not None and self.k_head_norm is not None:
            q, q_bias = _behind(self.q_head_norm, q, q_bias)
            k, k_bias = _behind(self.k_head_norm, k, k_bias)
            done.append("gains of QK-norm")
        return replace(
            self,
            q=q, k=k, v=v, q_bias=q_bias, k_bias=k_bias, v_bias=v_bias, query_down=query_down, key_down=key_down,
            query_norm=None, key_norm=None, query_latent_norm=None, key_latent_norm=None,
            q_head_norm=None, k_head_norm=None,
            folded_in=self.folded_in + tuple(dict.fromkeys(done)),
        )  # fmt: skip


def load_layer(source: TensorSource, ref: LayerRef, *, rerounded: int | None = None) -> LayerWeights:
    """Read one layer: nothing of other layers is touched, fused tensors are read once.

    - rerounded: add one more rounding error of the type that each tensor is stored in, drawn by this number
    """
    stored: dict[str, RealArray] = {}

    def read(name: str) -> RealArray:
        if name not in stored:
            tensor = source.read(name)
            if not np.isfinite(tensor).all():
                raise InvalidInputError(
                    f"{source.origin}: {name}: expected finite numbers, got infinite or NaN entries"
                )
            stored[name] = tensor if rerounded is None else with_rounding(tensor, source.info(name), rerounded)
        return stored[name]

    def block(where: TensorSlice | None) -> RealArray | None:
        return None if where is None else where.take(read(where.tensor))

    def norm(where: NormRef | None) -> Norm | None:
        if where is None or where.gain is None:
            return None
        gain = read(where.gain)
        bias = read(where.bias) if where.bias is not None else None
        return Norm(where.kind, gain + 1 if where.unit_offset else gain, bias)

    latent = ref.latent
    arrays: dict[str, Any] = {name: block(getattr(ref, name)) for name in ("q", "k", "v", "o")}
    arrays |= {name: block(getattr(ref, name)) for name in ("q_bias", "k_bias", "v_bias")}
    arrays["o_bias"] = read(ref.o_bias) if ref.o_bias is not None else None
    if latent is not None:
        arrays["k"], arrays["v"] = _beside_rope(arrays["k"], arrays["v"], latent.rope)
        arrays["query_down"] = read(latent.query_down) if latent.query_down is not None else None
        arrays["key_down"] = read(latent.key_down)
        arrays["query_latent_norm"], arrays["key_latent_norm"] = norm(latent.query_norm), norm(latent.key_norm)
    return LayerWeights(
        ref=ref,
        query_norm=norm(ref.query_norm),
        key_norm=norm(ref.key_norm),
        q_head_norm=norm(ref.q_head_norm),
        k_head_norm=norm(ref.k_head_norm),
        **arrays,
    )


def _shifted(bias: RealArray | None, weight: RealArray, norm: Norm) -> RealArray | None:
    """``bias + weight @ shift``: what the norm's own bias adds behind the projection."""
    if norm.bias is None:
        return bias
    moved: RealArray = weight @ norm.bias
    return moved if bias is None else bias + moved


def _behind(norm: Norm, weight: RealArray, bias: RealArray | None) -> tuple[RealArray, RealArray | None]:
    """Rows and bias of a projection with the gain and shift of the QK-norm behind it."""
    gain = norm.head_gain(weight.shape[1])
    moved = None if bias is None else bias * gain
    if norm.bias is not None:
        shift = np.broadcast_to(norm.bias.reshape(-1, weight.shape[1]), weight.shape[:2])
        moved = shift if moved is None else moved + shift
    return weight * gain[:, :, None], moved


def _beside_rope(k: RealArray, v: RealArray, rope: int) -> tuple[RealArray, RealArray]:
    """Keys [H, nope, L] and values [H, V, L] of a latent, on the coordinates latent + shared rotary key [L + rope]."""
    heads, nope, size = k.shape
    keys = np.zeros((heads, nope + rope, size + rope), dtype=k.dtype)
    keys[:, :nope, :size] = k
    keys[:, nope:, size:] = np.eye(rope)
    return keys, np.pad(v, ((0, 0), (0, 0), (0, rope)))
