"""A reduction from beginning to end: choosing, healing, going on after an interruption, judging."""

from dataclasses import replace

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.models.running.model import load_running
from rankwise.reduce.document import Change, CostReport, RecallReport, read_reduction
from rankwise.reduce.options import ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.reduction import Texts, reduce_model
from rankwise.reduce.verdict import verdict, warnings_of
from rankwise.spec.document import write_document
from saved_models import saved, tiny_language_model, tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tiny_language_model("llama"), tmp_path_factory.mktemp("model") / "tiny")


def texts():
    return Texts(MaskedPieces(tokens(8, 16), ("a",)), None, MaskedPieces(tokens(6, 16, seed=2), ("b",)))


def test_the_document_reads_back_equal(folder, tmp_path):
    report = reduce_model(folder, ReductionOptions(keep=0.5, frontier=True), lambda running: texts())
    write_document(report.to_json(), tmp_path / "reduction.json")
    assert read_reduction(tmp_path / "reduction.json").to_json() == report.to_json()
    assert len(report.frontier) == 3 * 4
    chosen = next(point for point in report.frontier if (point.method, point.keep) == ("fisher", 0.5))
    assert chosen.cost.cost == pytest.approx(report.cost.cost)
    assert report.generation.cache_bytes.after < 0.8 * report.generation.cache_bytes.before
    assert report.cache_numbers == Change(before=64, after=32)


def said_by(folder, count):
    """Texts that the model itself draws: there no other model is better, and costs fall with what is kept."""
    model, ids = (
        load_running(folder).model,
        torch.randint(0, 100, (count, 1), generator=torch.Generator().manual_seed(0)),
    )
    ids, generator = ids % model.config.vocab_size, torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _ in range(15):
            chances = torch.softmax(model(input_ids=ids, use_cache=False).logits[:, -1], -1)
            ids = torch.cat([ids, torch.multinomial(chances, 1, generator=generator)], 1)
    return MaskedPieces(ids, ("a",))


def test_the_chosen_share_is_within_the_tolerance_and_the_next_is_not(folder):
    options, own = {"recall": False, "context": 0}, said_by(folder, 256)
    given = Texts(own[:64], own[64:], texts().evaluation)
    chosen = reduce_model(folder, ReductionOptions(tolerance=5.0, **options), lambda running: given)

    def cost(keep):
        same = Texts(own[:64], None, own[64:])
        return reduce_model(folder, ReductionOptions(keep=keep, **options), lambda running: same).cost

    assert cost(chosen.keep).perplexity_percent <= 5
    assert 0.05 < chosen.keep < 0.95
    assert cost(chosen.keep - 0.05).perplexity_percent > 5


def test_healing_comes_closer_to_the_original(folder):
    """On the texts it heals on: random texts have nothing in common that could be learned for others."""
    same = Texts(texts().calibration, None, texts().calibration)
    options = ReductionOptions(keep=0.5, heal_tokens=100 * 128, recall=False, context=0)
    told = []
    report = reduce_model(folder, options, lambda running: same, progress=heard(told, "heal"))
    assert (report.healing.steps, report.healing.tokens) == (100, 100 * 128)
    first, last = (float(what.split()[1]) for what in (told[0][0], told[-1][0]))
    assert last < 0.5 * first
    assert abs(report.cost.cost) < 0.7 * abs(report.healing.before)


def test_minutes_of_healing_become_tokens(folder):
    options = ReductionOptions(keep=0.2, heal=0.01, recall=False, context=0)
    report = reduce_model(folder, options, lambda running: texts())
    assert report.healing.tokens >= report.healing.steps > 1
    with pytest.raises(InvalidInputError, match="--heal MINUTES or --heal-tokens"):
        ReductionOptions(keep=0.2, heal=1.0, heal_tokens=1)


def test_an_interrupted_healing_goes_on_to_the_same_end(folder, tmp_path):
    """On texts of its own, which are not those of calibration."""
    out, options = tmp_path / "out", ReductionOptions(keep=0.2, heal_tokens=30 * 384, recall=False, context=0)
    given = replace(texts(), healing=MaskedPieces(tokens(24, 16, seed=5), ("a",)))
    steps = []

    def interrupt(what, done, total):
        if what.startswith("heal"):
            steps.append(done)
            if len(steps) == 17:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reduce_model(folder, options, lambda running: given, out=out, progress=interrupt)
    steps.clear()
    resumed = reduce_model(folder, options, lambda running: given, out=out, progress=heard(steps, "heal"))
    assert steps[0][1] == 11 * 384  # ten steps had been kept
    straight = reduce_model(folder, options, lambda running: given)
    assert resumed.cost == straight.cost
    assert resumed.healing.tokens == straight.healing.tokens == 30 * 384
    assert straight.cost != reduce_model(folder, options, lambda running: texts()).cost


def heard(kept, beginning):
    return lambda what, done, total: kept.append((what, done)) if what.startswith(beginning) else None


def test_an_interrupted_calibration_goes_on(folder, tmp_path):
    out, options = tmp_path / "out", ReductionOptions(keep=0.5, recall=False, context=0)
    many = Texts(MaskedPieces(tokens(130, 16), ("a",)), None, texts().evaluation)
    asked = []

    def interrupt(what, done, total):
        if what == "calibrate":
            asked.append(done)
            if done == 2 and len(asked) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reduce_model(folder, options, lambda running: many, out=out, progress=interrupt)
    (work,) = tmp_path.glob(".out.work-*")
    kept = {file: file.stat().st_mtime_ns for file in work.rglob("*.safetensors")}
    assert len(kept) == 2
    resumed = reduce_model(folder, options, lambda running: many, out=out)
    assert not work.exists()
    straight = reduce_model(folder, options, lambda running: many)
    assert resumed.cost == straight.cost


def test_an_interrupted_frontier_goes_on_from_its_last_point(folder, tmp_path):
    """Beside the figure, where no model is written; the cut that is asked for is one of the points."""
    options = ReductionOptions(keep=0.5, frontier=True, recall=False, context=0)
    told = []

    def interrupt(what, done, total):
        told.append(what)
        if what == "activations at 75.0%":
            raise KeyboardInterrupt

    def reduce(progress):
        return reduce_model(folder, options, lambda running: texts(), beside=tmp_path / "figure", progress=progress)

    with pytest.raises(KeyboardInterrupt):
        reduce(interrupt)
    assert told.count("fisher at 50.0%") > 0
    done = {what for what in told if "%" in what or what.startswith("measure")} - {"activations at 75.0%"}
    told.clear()
    resumed = reduce(lambda what, done, total: told.append(what))
    assert len(done) == 5
    assert "activations at 75.0%" in told
    assert not {*done, "measure the reduced model"}.intersection(told)
    straight = reduce_model(folder, options, lambda running: texts())
    assert resumed.frontier == straight.frontier
    assert resumed.cost == straight.cost
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_done_is_told(folder):
    with pytest.raises(InvalidInputError, match="expected one of --keep"):
        ReductionOptions(keep=0.5, rank=3)
    with pytest.raises(InvalidInputError, match="expected texts"):
        reduce_model(folder, ReductionOptions(keep=0.5))
    for options, said in (
        ({"rank": 33}, "--rank: expected 1 to 32"),
        ({"keep": 0.01}, r"--keep: expected at least 0\.03"),
    ):
        with pytest.raises(InvalidInputError, match=said):  # before the model runs
            reduce_model(folder, ReductionOptions(**options), lambda running: texts(), progress=never_calibrate)


def never_calibrate(what, done, total):
    assert what == "load the model"


def judged(cost, perplexity, kept, recall=()):
    return verdict(
        objective="causal",
        cost=CostReport(cost=cost, standard_error=0.01, loss=3.0 + cost, perplexity_percent=perplexity),
        original_loss=3.0, cache=Change(before=100, after=kept), parameters=Change(before=100, after=99),
        recall=recall,
    )  # fmt: skip


def test_the_verdict():
    sentence, judgement = judged(0.03, 3.0, 50)
    assert sentence.startswith("Half the KV cache")
    assert "perplexity 20.09 to 20.7" in sentence
    assert judgement == "worth trying"
    assert judged(0.3, 35.0, 25)[1] == "not worth it"
    assert judged(0.1, 10.5, 50)[1] == "a trade"
    assert judged(0.0, 0.0, 90)[1] == "not worth it"
    forgets = (RecallReport(context=256, accuracy=Change(before=0.5, after=0.3)),)
    sentence, judgement = judged(0.03, 3.0, 50, forgets)
    assert "of 256 tokens it copies 30% right, before 50%" in sentence
    assert judgement == "a trade"
    copies = (RecallReport(context=256, accuracy=Change(before=0.5, after=0.48)),)
    assert judged(0.03, 3.0, 50, copies)[1] == "worth trying"
    encoder = CostReport(cost=0.01, standard_error=0.0, neighbours_kept=0.79)
    sentence, judgement = verdict(
        objective="embedding", cost=encoder, original_loss=None, cache=Change(before=0, after=0),
        parameters=Change(before=100, after=98), texts=24,
    )  # fmt: skip
    assert "2.0% of the model's weights saved, 21% of nearest neighbours change (5 of 24, cost 0.0100)" in sentence
    assert judgement == "not worth it"


def test_doubtful_numbers_are_named():
    better = CostReport(cost=-0.02, standard_error=0.001, loss=4.7, perplexity_percent=-2.0)
    said = warnings_of(objective="causal", cost=better, original_loss=4.77, vocabulary=33, records=False)
    assert len(said) == 2
    assert all("--records" in line for line in said)
    fine = CostReport(cost=0.02, standard_error=0.001, loss=1.0, perplexity_percent=2.0)
    assert warnings_of(objective="causal", cost=fine, original_loss=1.0, vocabulary=33, records=True) == ()


def test_copying_is_counted():
    from rankwise.reduce.recall import copy_accuracy

    class Copying:
        def __call__(self, input_ids, use_cache):
            half = input_ids.shape[1] // 2
            ahead = torch.roll(input_ids, -1, 1)
            ahead[0, half + 1 : half + 1 + half // 2] += 1  # half of them wrong
            return type("Output", (), {"logits": torch.nn.functional.one_hot(ahead % 50, 50).float()})

    assert copy_accuracy(Copying(), 50, 64) == pytest.approx(1 - 16 / 31)
