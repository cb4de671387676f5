"""The page as text: self-contained, data that stays data, and the same bytes for the same store."""

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rankwise.audit.report import read_report
from rankwise.choose import read_choice
from rankwise.cli import main
from rankwise.errors import InvalidInputError, MissingExtraError, SpecError
from rankwise.need.document import read_need
from rankwise.reduce.document import read_reduction
from rankwise.report import no_names
from rankwise.report.html import PageContent, build_page, script_json
from rankwise.report.store_data import CURVE_POINTS, read_store_data
from rankwise.spec import MatchSpec, RunSpec, from_plain, plain
from rankwise.sweep.store import open_store
from report_documents import need_document, reduction_document
from report_stores import HOSTILE, MACHINE, VERSIONS, theorem_runs, trade_off_runs, write_store
from saved_models import saved_byte_model

NO_CLAIM = "How much rank, and how many heads?"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    runs = trade_off_runs()
    odd = [replace(runs[at], seed=90 + at, tags=(name,)) for at, name in enumerate(HOSTILE[:2])]
    return write_store(
        tmp_path_factory.mktemp("report") / "store", runs, failed=[(odd[0], HOSTILE[1])], diverged=[(odd[1], "inf")]
    )


def block(page, name):
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)[1])


def test_the_page_holds_every_run_of_the_store(store):
    from rankwise.sweep.store import read_store

    content = PageContent(store=read_store_data(store, lambda spec: {"zero": 1.0}))
    page = build_page(content)
    data = block(page, "data-store")
    with read_store(store) as reader:
        rows = list(reader.rows())
    assert [run["id"] for run in data["runs"]] == [row.run_id for row in rows]
    for run, row in zip(data["runs"], rows, strict=True):
        assert run["status"] == row.status
        if row.result is not None:
            assert run["result"]["error"] == row.result["error"]
            assert run["curve"]["steps"] == row.result["curve"]["steps"]
        spec = data["common"] | run["spec"]
        assert spec["model.rank"] == row.spec["model"]["rank"]
        assert spec["seed"] == row.spec["seed"]
    assert data["settings"][0]["levels"] == [{"name": "zero", "error": 1.0}]
    assert build_page(content) == page


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else(store):
    page = build_page(PageContent(store=read_store_data(store)))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    script, style = (
        re.search(r"<script>(.*?)</script>", page, re.S)[1],
        re.search(r"<style>(.*?)</style>", page, re.S)[1],
    )
    for kind, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert page.count("<script>") == 1


def test_hostile_text_stays_inside_its_data(store):
    page = build_page(PageContent(store=read_store_data(store)))
    assert HOSTILE[0] not in page
    assert "<img" not in page
    reasons = [run["reason"] for run in block(page, "data-store")["runs"]]
    assert HOSTILE[1] in reasons
    assert script_json({"a": "</script>&\u2028"}) == '{"a":"\\u003c/script\\u003e\\u0026\\u2028"}'
    with pytest.raises(InvalidInputError, match="finite"):
        script_json([float("nan")])


def test_a_page_names_no_host_no_user_and_no_home(tmp_path):
    home = Path.home()
    (run,) = trade_off_runs(seeds=1, layers=(1,))[:1]
    named = replace(run, tags=(f"{home}/data/x.npy", "/Users/bob/y"))
    write_store(tmp_path / "store", [named])
    with open_store(tmp_path / "store") as store, store.transaction():
        other = replace(run, seed=5)
        unreadable = plain(other) | {"tags": ["x" * 20_000, "\u202egnp.exe"]}
        store.add([(other.id, json.dumps(unreadable))])
        store.begin(other.id, VERSIONS, MACHINE)
        log = f'File "/home/alice/train.py", line 1\nFile "{home}/lib.py" in C:\\Users\\carol\\z'
        store.fail(other.id, "failed", f"{home}/weights is full", log, 1.0)
    page = build_page(PageContent(store=read_store_data(tmp_path / "store")))
    assert str(home) not in page.replace("~", "")
    for name in ("alice", "bob", "carol", "name-of-the-host", "x" * 300, "\u202e"):
        assert name not in page
    for kept in ("~/data/x.npy", "~/weights is full", "~/train.py", "cpu"):
        assert kept in page


def test_commands_and_names_of_files_on_a_page_name_no_home(tmp_path, monkeypatch, capsys):
    """The page of a model in somebody's home, whose file names turn the direction of text."""
    home = tmp_path / "of" / "alice"
    monkeypatch.setenv("HOME", str(home))
    model = saved_byte_model(home / "models" / "\u202em\u2066")
    (text := home / "\u200ft.txt").write_text("the cat sat on the mat. " * 100)
    page = tmp_path / "p.html"
    assert main(["audit", str(model), "--text", str(text), "--length", "32", "--page", str(page)]) == 0
    told, shown = capsys.readouterr().out, page.read_text()
    assert "rankwise reduce" in shown
    assert "~/models/" in shown
    assert "alice" not in shown
    for mark in "\u202e\u2066\u200f":
        assert mark not in told
        assert mark not in shown
        assert f"\\u{ord(mark):04x}" not in shown


def test_whatever_a_document_names_a_page_has_room_for_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("USER", "bob")
    monkeypatch.setenv("LOGNAME", "bob")
    no_names._user.cache_clear()
    document = need_document()
    document["source"] |= {"model": "x" * 4000, "text": ["/scratch/bob/corpus.txt"]}
    (tmp_path / "n.json").write_text(json.dumps(document))
    assert main(["report", "--need", str(tmp_path / "n.json"), "-o", str(tmp_path / "p.html")]) == 0
    page = (tmp_path / "p.html").read_text()
    assert "x" * 90 in page
    assert "x" * 201 not in page
    assert "bob" not in page
    assert "/scratch/~/corpus.txt" in page
    no_names._user.cache_clear()


def test_long_curves_are_thinned_and_say_so(tmp_path):
    runs = trade_off_runs(seeds=1, layers=(1,))[:1]
    data = read_store_data(write_store(tmp_path / "store", runs, epochs=1000))
    (run,) = data.document["runs"]
    assert run["thinned"]
    assert len(run["curve"]["steps"]) == CURVE_POINTS == len(run["curve"]["validation"])
    assert run["curve"]["steps"][-1] == 200


def test_a_page_needs_no_torch(store):
    import subprocess

    code = (
        "import sys; from pathlib import Path; from rankwise.report.html import *;"
        "from rankwise.report.store_data import read_store_data;"
        f"build_page(PageContent(store=read_store_data(Path({str(store)!r})))); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0


def test_the_command_writes_the_page_and_prints_its_path_last(store, tmp_path, capsys):
    path = tmp_path / "new" / "page.html"
    assert main(["report", str(store), "-o", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(path)
    assert "best linear" in path.read_text()  # the trivial predictors were estimated
    assert main(["report", str(store), "-o", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["bytes"] == path.stat().st_size
    assert answer["figures"][0]["value"].endswith("×")


def test_open_asks_the_browser(store, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = tmp_path / "page.html"
    assert main(["report", str(store), "-o", str(path), "--open"]) == 0
    assert opened == [path.as_uri()]


def test_mistakes_are_told(store, tmp_path, capsys):
    assert main(["report"]) == 2
    assert "expected a store, --audit, --need, --reduce, --choose or --watch" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 2
    assert "expected a store" in capsys.readouterr().err
    assert main(["report", str(store), "-o", str(tmp_path / "page.txt")]) == 2
    assert "ends in .html" in capsys.readouterr().err
    other = tmp_path / "other.json"
    other.write_text('{"format": "rankwise-need/1"}')
    for option in ("audit", "reduce"):
        assert main(["report", f"--{option}", str(other)]) == 2
        assert "got 'rankwise-need/1'" in capsys.readouterr().err
    with pytest.raises(InvalidInputError, match="no such file"):
        read_need(tmp_path / "missing.json")


@pytest.mark.parametrize("place", ["verdict", "cache_numbers.after", "cost.standard_error", "frontier.method"])
def test_a_reduction_without_what_the_page_shows_is_refused(place, tmp_path, capsys):
    """Each place is taken out in turn, then holds what it should not."""
    *parents, last = place.split(".")
    for change in (lambda holder: holder.pop(last), lambda holder: holder.update({last: True})):
        document = reduction_document()
        holder = document
        for key in parents:
            holder = holder[key][0] if isinstance(holder[key], list) else holder[key]
        change(holder)
        file = tmp_path / "reduction.json"
        file.write_text(json.dumps(document))
        assert main(["report", "--reduce", str(file), "-o", str(tmp_path / "page.html")]) == 2
        assert last in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_documents_that_commands_wrote_are_read(tmp_path):
    results = Path(__file__).parents[2] / "results"
    for name in ("need-glove", "need-minilm"):
        written = json.loads((results / f"{name}.json").read_text())
        assert read_need(results / f"{name}.json").to_json()["measurements"] == written["measurements"]
    for name in ("audit-minilm", "audit-smollm2"):
        assert read_report(results / f"{name}.json").heads
    for name in ("reduce-minilm",):
        report = read_reduction(results / f"{name}.json")
        assert report.to_json() == json.loads((results / f"{name}.json").read_text())
    for name in ("choose-parameters", "choose-cache"):
        assert read_choice(results / f"{name}.json").to_json() == json.loads((results / f"{name}.json").read_text())
    file = tmp_path / "reduction.json"
    file.write_text(json.dumps(reduction_document()))
    page = build_page(PageContent(reduction=read_reduction(file)))
    assert "worth trying" in page
    assert "cached numbers per token" in page
    kept = results / "reduce-smollm2.json"
    healed, healing = build_page(PageContent(reduction=read_reduction(kept))), json.loads(kept.read_text())["healing"]
    told = f"trained on {healing['tokens']:,} tokens; before that the cost was {healing['before']:.4f}."
    assert f"its factors were {told}" in healed


def test_the_first_sentence_of_a_page_says_what_to_do():
    results = Path(__file__).parents[2] / "results"
    need, cut = read_need(results / "need-minilm.json"), read_reduction(results / "reduce-minilm.json")
    for content, said in (
        (PageContent(reduction=cut), "Leave this model as it is. Measured on 256 held-out pieces"),
        (PageContent(need=need), "It is no reason to change a trained model"),
        (PageContent(need=read_need(results / "need-glove.json")), "Give a head that must find the nearest of 16"),
    ):
        page = build_page(content)
        assert said in re.search(r"</h1>\s*<p class=.lede.>(.*?)</p>", page, re.S)[1]
    assert block(build_page(PageContent(need=need)), "data-shape") == {
        "dim": 384, "rank": 32, "heads": 12, "kv_heads": 12
    }  # fmt: skip


def test_a_need_without_what_the_page_shows_is_refused(tmp_path, capsys):
    file = tmp_path / "need.json"
    for change, said in (
        (lambda document: document["settings"].pop("candidates"), "settings.candidates: missing"),
        (lambda document: document["measurements"][1].pop("notes"), "measurements[1].notes: missing, expected a list"),
        (
            lambda document: document["measurements"][0]["curves"].update(best=None),
            "curves.best: expected a list",
        ),
    ):
        document = need_document()
        change(document)
        file.write_text(json.dumps(document))
        assert main(["report", "--need", str(file), "-o", str(tmp_path / "page.html")]) == 2
        assert said in capsys.readouterr().err


def test_without_jinja2_the_install_line_is_named(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankwise\[report\]'"):
        build_page(PageContent())


def test_an_empty_store_and_one_of_the_theorem_are_pages_too(tmp_path):
    empty = build_page(PageContent(store=read_store_data(write_store(tmp_path / "empty", []))))
    assert "None yet." in empty
    theorem = build_page(PageContent(store=read_store_data(write_store(tmp_path / "theorem", theorem_runs()))))
    assert "0 of 9" in theorem or "of 9" in theorem


def test_runs_of_an_older_version_are_shown_though_their_specs_no_longer_read(tmp_path, capsys):
    def older(run):
        table = plain(run) | {"protocol": "wide"}
        table["model"] |= {"residual": run.model.residual != "none", "output_map": False, "head_init": "farthest"}
        table["optim"] |= {"ema": 0.9, "threshold": 0.0, "schedule": "linear"}
        return table

    runs = trade_off_runs(seeds=1) + theorem_runs()
    with pytest.raises(SpecError, match="model"):
        from_plain(RunSpec, older(runs[0]))
    store, path = write_store(tmp_path / "store", runs, spec_of=older), tmp_path / "page.html"
    assert main(["results", "--store", str(store), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["status"], row["spec"]["model"]["head_init"]) for row in rows] == [("done", "farthest")] * len(runs)
    assert main(["report", str(store), "-o", str(path)]) == 0
    data = block(path.read_text(), "data-store")
    assert len(data["runs"]) == len(runs)
    assert data["settings"] == [], "listed with their results, but not drawn as if this version had made them"


@pytest.mark.parametrize(("half", "claimed"), [(0.9, True), (0.3, False), (0.1, False), (0.0, False)])
def test_the_title_claims_only_what_the_runs_show(tmp_path, monkeypatch, half, claimed):
    def result_of(run, epochs):
        return {"error": half if run.model.rank == 4 else 0.3, "curve": {}}

    monkeypatch.setattr("report_stores.result_of", result_of)
    page = build_page(PageContent(store=read_store_data(write_store(tmp_path / "store", trade_off_runs(seeds=1)))))
    title = re.search(r"<title>(.*?) · rankwise</title>", page)[1]
    assert title == ("Half rank errs at least 3 times as much as full rank with 1 layer" if claimed else NO_CLAIM)


def test_the_footer_names_the_errors_that_are_there(store, tmp_path):
    run = trade_off_runs(seeds=1)[0]
    match = replace(run, task=MatchSpec(name="match2", points=4), model=replace(run.model, residual="learned"))

    def footer(content):
        return re.search(r"<footer>(.*?)</footer>", build_page(content), re.S)[1]

    answered, squared = "share of positions answered wrongly", "squared error per query"
    mixed = footer(PageContent(store=read_store_data(write_store(tmp_path / "mixed", [match, run]))))
    assert f"Errors ({answered}; {squared}) are" in mixed
    assert f"Errors ({squared}) are" in footer(PageContent(store=read_store_data(store)))
    assert "Errors" not in footer(PageContent())


def test_probed_runs_have_a_part_of_their_own(store, tmp_path):
    assert 'id="attention-body"' not in build_page(PageContent(store=read_store_data(store)))
    run = replace(trade_off_runs()[-1], probe=8)
    page = build_page(PageContent(store=read_store_data(write_store(tmp_path / "probed", [run]))))
    assert 'id="attention-body"' in page
    (kept,) = block(page, "data-store")["runs"]
    assert "attention.hardmax" not in kept["result"]
    attention = kept["attention"]
    assert (attention["tokens"], attention["steps"]) == (16, [0, 50, 100, 150, 200])
    heads = run.model.heads
    assert attention["ranks"]["hardmax"][4][2] == pytest.approx([8 + (heads - 1) / 8, 8, 8 + (heads - 1) / 4])


@pytest.mark.parametrize(
    "table",
    [
        "ranks",
        {},
        {"tokens": 4, "steps": [0]},
        {"tokens": None, "steps": [0], "hardmax": [[[1.0]]]},
        {"tokens": 4, "steps": [0, 1], "hardmax": [[[1.0]]]},
        {"tokens": 4, "steps": [0], "hardmax": [[[]]]},
        {"tokens": 4, "steps": [0], "hardmax": [[["<b>"]]]},
        {"tokens": 4, "steps": [0], "hardmax": 3},
    ],
)
def test_ranks_in_no_known_form_are_left_out(table):
    from rankwise.report.store_data import _attention

    assert _attention(table) is None
