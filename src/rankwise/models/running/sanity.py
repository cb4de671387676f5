"""Whether a model was fed what it was trained on: numbers that stand beside everything measured on texts.

A model that is run with a wrong tokenizer, without the token that texts begin with, or on texts of a kind it never saw
still gives ranks and needs, and they mean nothing. Three numbers tell: the share of tokens that the tokenizer does not
know, the model's loss beside what guessing costs, and how much of the texts was used.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_UNKNOWN = 0.02
"""Byte-level tokenizers have no unknown tokens; word pieces know all but rare signs of the languages they are for."""


@dataclass(frozen=True, kw_only=True)
class RunSanity:
    """What a run of a model on texts was like. Losses are in nats per token."""

    pieces: int
    """Pieces of text that were read."""
    tokens_each: int
    """Tokens of a piece, special ones included."""
    text_used: float
    """The share of the given texts, or token ids, that the pieces hold; the rest was cut off."""
    unknown_share: float | None
    """The share of tokens that stand for what the tokenizer does not know; None where no token stands for that."""
    objective: str
    """``"causal"``, ``"masked"``, or ``"embedding"``, which has no loss."""
    loss: float | None
    """The model's own: of the next token, or of 15 % hidden tokens; None without a language head or a mask token."""
    loss_pieces: int
    """How many of the pieces the loss was measured on."""
    uniform_loss: float
    """Of a guess among all tokens alike: the logarithm of the vocabulary."""
    unigram_loss: float
    """Of a guess by how often tokens occur in the other places of the same pieces."""

    def sentence(self) -> str:
        """The numbers in one line."""
        told = [f"{self.pieces} pieces of {self.tokens_each} tokens, {self.text_used:.0%} of what was given"]
        if self.unknown_share is not None:
            told.append(f"unknown tokens {self.unknown_share:.1%}")
        if self.loss is not None:
            told.append(
                f"loss {self.loss:.2f} nats per token (guess by frequency {self.unigram_loss:.2f}, uniform guess "
                f"{self.uniform_loss:.2f})"
            )
        return "; ".join(told)

    def warnings(self) -> tuple[str, ...]:
        """What makes the measurement doubtful, each with its threshold and why."""
        found = []
        if self.unknown_share is not None and self.unknown_share > MOST_UNKNOWN:
            found.append(
                f"{self.unknown_share:.1%} of the tokens are unknown to the tokenizer, above {MOST_UNKNOWN:.0%}: all "
                f"of them look alike to the model; these texts are in a language or an alphabet that it was not made "
                f"for, or the tokenizer is another model's"
            )
        if self.loss is not None and self.loss > self.unigram_loss:
            found.append(
                f"the model's loss of {self.loss:.2f} nats per token is above the {self.unigram_loss:.2f} of guessing "
                f"by frequency: it does not read these texts as a trained model reads its own kind, so ranks and needs "
                f"measured on them say little; check the tokenizer and the special tokens"
            )
        return tuple(found)
