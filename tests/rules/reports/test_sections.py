"""Every probe of the catalogue has its section, and every section has a probe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditkit.probing.hosts.catalog import load_catalog
from auditkit.rules.reports.sections import Section, section_of

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("probe", "section"),
    [
        ("graph_breaks_under_compile", Section.COMPILE),
        ("breaks_cuda_graph_capture", Section.COMPILE),
        ("fails_on_gradients_of_two_devices", Section.DEVICES),
        ("work_runs_off_the_inputs_device", Section.DEVICES),
        ("syncs_grow_with_tensors", Section.FLOW),
        ("sync_in_loop", Section.FLOW),
        ("mutates_gradients", Section.FLOW),
        ("peak_memory_grows_with_params", Section.MEMORY),
        ("materialize_without_collect", Section.INTEGRATION),
        ("used_name_not_exported", Section.INTEGRATION),
        ("fails_on_generator_input", Section.INTEGRATION),
        ("fails_on_missing_grads", Section.INTEGRATION),
        ("private_torch_api_without_fallback", Section.QUALITY),
        ("public_function_untested", Section.TESTS),
        ("norm_overflows_on_finite_grads", Section.NUMERICS),
        ("clip_destroys_gradients", Section.NUMERICS),
    ],
)
def test_section(probe: str, section: Section) -> None:
    assert section_of(CATALOG[probe]) is section


def test_no_section_is_without_a_probe() -> None:
    assert {section_of(probe) for probe in CATALOG.values()} == set(Section)


def test_a_probe_that_says_nothing_of_itself_has_one() -> None:
    nothing = replace(CATALOG["sync_in_loop"], instrument="own", categories=())
    assert section_of(nothing) is Section.QUALITY
    assert section_of(replace(nothing, scope="target")) is Section.INTEGRATION
