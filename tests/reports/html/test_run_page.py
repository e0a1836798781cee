"""The page of a run: what it says in which order, what it draws, and that nothing of a target becomes markup."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

from auditkit.model.enums import Evidence, Severity
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.model.runs.fix import Fix, FixRow
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.text import inert
from auditkit.reports.causes import Sources
from auditkit.reports.html import page as page_module
from auditkit.reports.html.page import html_page
from auditkit.reports.html.pictures import pictures_of
from auditkit.reports.html.svg import escaped
from auditkit.reports.run_page import run_page
from tests.layers import words
from tests.reports.exported_runs import ERROR, PASS, RUNS, UNAVAILABLE, result, run_of
from tests.reports.injections import INJECTIONS

_TAGS = words(
    "html head meta title style body a header p h1 h2 h3 h4 ul ol li b dl div dt dd code nav main section article "
    "table caption thead tbody tr th td span wbr details summary figure figcaption svg desc circle line rect text path "
    "g pre fieldset legend label input select option output script"
)
_ATTRIBUTES = words(
    "lang charset http-equiv content name class href id aria-label aria-labelledby aria-describedby aria-hidden role "
    "scope data-column data-severity data-probes hidden value aria-live "
    "open type checked download viewbox cx cy r x y x1 y1 x2 y2 width height d transform text-anchor"
)


def page_of(sources: Sources) -> bytes:
    return html_page(run_page(sources))


class Parsed(HTMLParser):
    """A page as a browser reads it: its tags with their attributes, and its text."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page.decode("utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def check(self) -> None:
        """Fails where there is a tag, an attribute or a link that our templates do not write."""
        for tag, attributes in self.tags:
            assert tag in _TAGS, tag
            assert attributes.keys() <= _ATTRIBUTES, (tag, attributes)
            href = attributes.get("href") or "#"
            assert href.startswith("#") or re.fullmatch(r"data:application/gzip;base64,[\w+/=]+", href), href


def sync_counts(slope: int, constant: int, device: str = "simulated") -> tuple[Measurement, ...]:
    law = {"law": f"{slope}n+{constant}", "constant": float(constant), "exact": True, "device": device}
    points = [Measurement("sync_count", slope * n + constant, "count", {"tensors": n}) for n in (4, 16, 64, 256)]
    return (*points, Measurement("sync_count_law", float(slope), "per tensor", law))


def waiting(slope: int = 1, constant: int = 0, **changes: object) -> ProbeResult:
    counts = sync_counts(slope, constant)
    return result(
        "syncs_grow_with_tensors", measurements=counts, law=f"{slope}n+{constant}", device="simulated",
        evidence=Evidence.SIMULATED, **changes,
    )  # fmt: skip


OVERFLOW = result(
    "norm_overflows_on_finite_grads",
    severity=Severity.P1,
    measurements=tuple(
        Measurement("breaking_magnitude", value, "magnitude", {"dtype": dtype, "elements": elements})
        for dtype, elements, value in (
            ("float32", 4096, 2.88e17), ("float32", 2**20, 1.8e16), ("float16", 4096, 4.0), ("float64", 4096, None),
        )
    ),
)  # fmt: skip


def hostile_run() -> Run:
    """Every text of every result is one of the injections, and so is all that a run says beside them."""
    results = []
    for number, text in enumerate(INJECTIONS):
        case = {"tensors": 4, "elements": 64, "dtype": text, "how": text}
        measured = [
            *sync_counts(2, number),
            Measurement("breaking_magnitude", 4.0, "magnitude", case),
            Measurement(text, text, text, {text or "x": text}),
        ]
        results.append(
            result(
                "syncs_grow_with_tensors", f"m{number}:{text}", message=text, law=text, notes=(text,),
                owner=text, statement=None, location=Location(text, 3, text),
                excerpt=CodeExcerpt(text, 3, (text, text)), measurements=tuple(measured), device="cpu", ticket=text,
                fingerprint=f"syncs_grow_with_tensors/1/m{number}:{text}",
            )
        )  # fmt: skip
        results.append(replace(ERROR, target=text, message=text, fingerprint=f"e{number}"))
    fixes = tuple(
        Fix(
            text,
            text,
            text,
            f"+++ {text}\n+{text}\n",
            (text,),
            (each.fingerprint,),
            (FixRow(text, text, text),),
            text,
            text,
        )
        for text, each in zip(INJECTIONS[::2], results[::4], strict=True)
    )
    candidates = tuple(FoundCandidate(text, text, 3, why_not=text) for text in INJECTIONS)
    environment = replace(
        RUNS["findings"].environment, checkout=INJECTIONS[0], device_name=INJECTIONS[6], torch=INJECTIONS[7]
    )
    return run_of(
        *results, id=INJECTIONS[36], environment=environment, notes=INJECTIONS, fixes=fixes, candidates=candidates,
        no_fix={each.fingerprint: text for text, each in zip(INJECTIONS[1::2], results[2::4], strict=False)},
    )  # fmt: skip


def test_hostile_texts_stay_text() -> None:
    assert len(set(INJECTIONS)) >= 60
    run = hostile_run()
    page = Parsed(page_of(Sources(run, {})))
    page.check()
    shown = "".join(page.texts)
    for text in INJECTIONS:
        assert inert(text) in shown


def test_the_page_says_the_verdict_first_and_what_is_missing() -> None:
    run = run_of(waiting(), OVERFLOW, PASS, UNAVAILABLE, ERROR)
    text = " ".join(" ".join(Parsed(page_of(Sources(run, {}))).texts).split())
    said = [
        "1 finding (1 P1)", "2 checks returned no result, which is not a pass", "no number is from a GPU",
        "waits once per tensor:", "there is no CUDA device on this machine", "which lies in it",
    ]  # fmt: skip
    places = [text.find(each) for each in said]
    assert places == sorted(places), dict(zip(said, places, strict=True))
    assert -1 not in places
    assert "Nothing reproduced" in page_of(Sources(run_of(UNAVAILABLE), {})).decode()


def test_a_picture_says_the_finding_and_has_its_numbers_beside_it() -> None:
    (growth,), (limits,) = pictures_of(waiting()), pictures_of(OVERFLOW)
    assert growth.title == "waits once per tensor: 256 waits at 256 tensors"
    assert growth.evidence == "simulated: CPU values behind a simulated CUDA device"
    assert growth.rows[-2:] == (("256", "256", "simulated"), ("384", "384", "extrapolated"))
    assert pictures_of(waiting(3, 1))[0].title == "3 waits per tensor and 1 more: 769 waits at 256 tensors"
    assert pictures_of(waiting(0, 2))[0].title == "2 waits however many tensors: 2 waits at 256 tensors"
    assert (
        limits.title == "gradients of 4 and more break the result in float16 (4,096 elements); 2 of 3 dtypes affected"
    )
    assert [row[2] for row in limits.rows] == ["2.88e+17", "1.8e+16", "4", "does not break"]
    drawn = ET.fromstring(growth.svg("p1"))
    assert drawn.attrib["role"] == "img"
    assert (drawn.attrib["aria-labelledby"], drawn.attrib["aria-describedby"]) == ("p1-t", "p1-d")
    words = [element.text or "" for element in drawn.iter("text")]
    assert {"tensors [count]", "waits [count]", "extrapolated", f"evidence: {growth.evidence}"} <= {*words}
    # The legend's stand behind the drawing's own.
    lines = {element.attrib["class"]: element.attrib for element in reversed([*drawn.iter("line")])}
    assert (lines["fit"]["x2"], lines["fit"]["y2"]) == (lines["far"]["x1"], lines["far"]["y1"])


def test_the_first_steps_the_filter_and_the_anchors_of_findings() -> None:
    other = replace(waiting(3, 1), target="m:other", fingerprint="x/1/m.py:other", statement=None)
    run = run_of(waiting(), OVERFLOW, replace(other, location=Location("m.py", 9)))
    page = Parsed(page_of(Sources(run, {})))
    words = " ".join(" ".join(page.texts).split())
    assert words.index("What to do first") < words.index("Severity")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len({*ids})
    assert [attributes["href"] for tag, attributes in page.tags if tag == "a" and attributes["href"][1:] not in ids
            and not attributes["href"].startswith("data:")] == []  # fmt: skip
    cards = [attributes for tag, attributes in page.tags if tag == "details" and "data-severity" in attributes]
    assert len(cards) == 2
    probes = {probe for card in cards for probe in (card["data-probes"] or "").split()}
    assert probes == {attributes["value"] for tag, attributes in page.tags if tag == "option"} - {""}
    anchors = {each for each in ids if re.fullmatch(r"f-[0-9a-f]{10}", each or "")}
    assert len(anchors) == 2
    alone = Parsed(page_of(Sources(run_of(OVERFLOW), {})))  # the same finding keeps its anchor
    assert {attributes.get("id") for _, attributes in alone.tags} & anchors
    assert not any(tag == "script" for tag, _ in alone.tags)


def test_code_is_coloured_and_stays_text() -> None:
    lines = ("def f(x):  # <b>", '    return "a" + 1')
    coloured = page_module._coloured(lines)
    assert coloured[0] == (
        '<span class="k">def</span> <span class="f">f</span>(x):  <span class="c"># &lt;b&gt;</span>'
    )
    assert '<span class="k">return</span>' in coloured[1]
    assert '<span class="n">1</span>' in coloured[1]
    assert [re.sub("<[^>]*>", "", each) for each in page_module._coloured(INJECTIONS)] == [
        escaped(each.replace("\n", " ")) for each in INJECTIONS
    ]


def test_the_policy_allows_the_one_style_and_the_run_lies_in_the_page() -> None:
    run = run_of(waiting(), OVERFLOW)
    page = page_of(Sources(run, {}))
    assert page == page_of(Sources(run, {}))
    style = re.search(rb"<style>(.*?)</style>", page, re.DOTALL)
    policy = re.search(rb"style-src 'sha256-([\w+/=]+)'", page)
    assert style
    assert policy
    assert base64.b64decode(policy[1]) == hashlib.sha256(style[1]).digest()
    filtered = page_of(Sources(many(2), {}))
    script = re.search(rb"<script>(.*?)</script>", filtered, re.DOTALL)
    allowed = re.search(rb"script-src 'sha256-([\w+/=]+)'", filtered)
    assert script
    assert allowed
    assert base64.b64decode(allowed[1]) == hashlib.sha256(script[1]).digest()
    packed = re.search(rb"data:application/gzip;base64,([\w+/=]+)", page)
    assert packed
    assert json.loads(gzip.decompress(base64.b64decode(packed[1]))) == json.loads(json.dumps(run.to_json()))


def many(count: int) -> Run:
    """So many findings, each a cause of its own."""
    found = []
    for number in range(count):
        place = Location("m.py", number + 1)
        one = waiting(number % 7, number, target=f"package.module:f{number}", location=place, statement=None)
        found.append(replace(one, fingerprint=f"{one.fingerprint}{number}"))
    return run_of(*found)


def test_size_and_time() -> None:
    assert len(page_of(Sources(many(20), {}))) < 500_000
    start = time.process_time()
    page_of(Sources(many(200), {}))
    assert time.process_time() - start < 10
